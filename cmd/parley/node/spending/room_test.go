package spending_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/catalog"
	"parley/actors/core/collection/collectiontest"
	"parley/cmd/parley/node/spending"
	"parley/proto/directorypb"
)

// BenchmarkRoom creates an agent, and deletes it, in a tenant that has as many quota policies as it may.
func BenchmarkRoom(b *testing.B) {
	ctx, records, made := context.Background(), &collectiontest.Records{}, 0
	for i := range 200 {
		policy := &directorypb.QuotaPolicy{
			Id: fmt.Sprint("qp_", i), TenantId: "t", Scope: "user", ScopeId: fmt.Sprint("usr_", i), Domain: "agent", Enabled: true,
			Limits: []byte(`{"rateLimit":{"requests":{"perMinute":60,"perDay":9000}},"quotas":{"maxAgents":9},"budget":{"dailySpendLimit":5}}`),
		}
		value, err := proto.Marshal(policy)
		require.NoError(b, err)
		_, err = records.Put(ctx, catalog.QuotaPolicies, catalog.Key("t", policy.GetId()), 0, value)
		require.NoError(b, err)
	}
	agents := catalog.New(records, catalog.Env{
		NewID: func(kind string) string { made++; return fmt.Sprint(kind, "_", made) }, Now: time.Now, Random: func([]byte) {},
		Policies: spending.NewPolicies(records).Of,
	})
	caller, name := catalog.Caller{TenantID: "t", ProjectID: "p", UserID: "usr"}, "Helper"
	for b.Loop() {
		agent, err := agents.CreateAgent(ctx, caller, catalog.AgentInput{Name: &name, Config: []byte(`{"modelKey":"m"}`)})
		require.NoError(b, err)
		require.NoError(b, agents.DeleteAgent(ctx, caller, agent.GetKey()))
	}
}

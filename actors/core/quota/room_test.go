package quota_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/collection"
	"parley/actors/core/collection/collectiontest"
	"parley/actors/core/failure"
	"parley/actors/core/quota"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// said is an enabled policy of a tenant.
func said(id, project, scope, domain string, priority int64, limits string) *directorypb.QuotaPolicy {
	policy := &directorypb.QuotaPolicy{
		Id: id, TenantId: "t", ProjectId: project, Scope: scope, Domain: domain, Priority: priority, Enabled: true, Limits: []byte(limits),
	}
	if scope != quota.Tenant {
		policy.ScopeId = "x"
	}
	return policy
}

// TestMostOf: which policy's quota is in force for a thing.
func TestMostOf(t *testing.T) {
	const limited = `{"quotas":{"maxModels":3}}`
	off := said("off", "", "tenant", "global", 900, limited)
	off.Enabled = false
	for name, c := range map[string]struct {
		policies []*directorypb.QuotaPolicy
		thing    quota.Thing
		from     string
		most     int64
	}{
		"none":                           {nil, quota.Thing{}, "", -1},
		"off":                            {[]*directorypb.QuotaPolicy{off}, quota.Thing{}, "", -1},
		"says another":                   {[]*directorypb.QuotaPolicy{said("a", "", "tenant", "global", 1, `{"quotas":{"maxAgents":3}}`)}, quota.Thing{}, "", -1},
		"of the tenant":                  {[]*directorypb.QuotaPolicy{said("a", "", "tenant", "global", 1, limited)}, quota.Thing{ProjectID: "p"}, "a", 3},
		"of the project":                 {[]*directorypb.QuotaPolicy{said("a", "p", "tenant", "global", 1, limited)}, quota.Thing{ProjectID: "p"}, "a", 3},
		"of another project":             {[]*directorypb.QuotaPolicy{said("a", "q", "tenant", "global", 1, limited)}, quota.Thing{ProjectID: "p"}, "", -1},
		"of a project, a thing of none":  {[]*directorypb.QuotaPolicy{said("a", "q", "tenant", "global", 1, limited)}, quota.Thing{}, "a", 3},
		"of the domain":                  {[]*directorypb.QuotaPolicy{said("a", "", "tenant", "llm", 1, limited)}, quota.Thing{Domain: "llm"}, "a", 3},
		"of another domain":              {[]*directorypb.QuotaPolicy{said("a", "", "tenant", "llm", 1, limited)}, quota.Thing{Domain: "tts"}, "", -1},
		"of a domain, a thing of none":   {[]*directorypb.QuotaPolicy{said("a", "", "tenant", "file", 1, limited)}, quota.Thing{}, "a", 3},
		"of the user":                    {[]*directorypb.QuotaPolicy{said("a", "", "user", "global", 1, limited)}, quota.Thing{UserID: "x"}, "a", 3},
		"of another user":                {[]*directorypb.QuotaPolicy{said("a", "", "user", "global", 1, limited)}, quota.Thing{UserID: "y"}, "", -1},
		"of the provider":                {[]*directorypb.QuotaPolicy{said("a", "", "provider", "global", 1, limited)}, quota.Thing{Provider: "x"}, "a", 3},
		"of a token":                     {[]*directorypb.QuotaPolicy{said("a", "", "token", "global", 1, limited)}, quota.Thing{UserID: "x", Provider: "x"}, "", -1},
		"of a model":                     {[]*directorypb.QuotaPolicy{said("a", "", "resource", "global", 1, limited)}, quota.Thing{UserID: "x", Provider: "x"}, "", -1},
		"the later one, though higher":   {[]*directorypb.QuotaPolicy{said("a", "", "tenant", "global", 1, limited), said("b", "", "user", "llm", 2, `{"quotas":{"maxModels":9}}`)}, quota.Thing{UserID: "x"}, "b", 9},
		"the later one lifts it":         {[]*directorypb.QuotaPolicy{said("a", "", "tenant", "global", 1, limited), said("b", "", "tenant", "global", 2, `{"quotas":{"maxModels":-1}}`)}, quota.Thing{}, "", -1},
		"the earlier one lifts nothing":  {[]*directorypb.QuotaPolicy{said("b", "", "tenant", "global", 1, `{"quotas":{"maxModels":-1}}`), said("a", "", "tenant", "global", 2, limited)}, quota.Thing{}, "a", 3},
		"the later one says another one": {[]*directorypb.QuotaPolicy{said("a", "", "tenant", "global", 1, limited), said("b", "", "tenant", "global", 2, `{"quotas":{"maxAgents":0}}`)}, quota.Thing{}, "a", 3},
	} {
		most, from := quota.MostOf(quota.Read(c.policies), quota.MaxModels, c.thing)
		require.Equal(t, c.most, most, name)
		if c.from == "" {
			require.Nil(t, from, name)
		} else {
			require.Equal(t, c.from, from.GetId(), name)
		}
	}
}

// TestRoom: what a quota counts, and that many who make one at once on several nodes get as many as it says. What is there stays, what
// goes makes room.
func TestRoom(t *testing.T) {
	store := &collectiontest.Records{}
	node := func() quota.Kept[*directorypb.Agent] {
		return quota.Kept[*directorypb.Agent]{
			Records: collection.Proto(store, collection.Declaration[*directorypb.Agent]{
				Name: "agents", Noun: "agent", Created: (*directorypb.Agent).GetCreatedAt,
				Key:   func(a *directorypb.Agent) string { return a.GetProjectId() + "/" + a.GetKey() },
				Scope: func(*directorypb.Agent) string { return "agents/t" },
				Terms: func(*directorypb.Agent) []string { return []string{"tenant"} },
			}),
			What: "agents", Quota: quota.MaxAgents, Term: "tenant",
			Of: func(a *directorypb.Agent) quota.Thing {
				return quota.Thing{ProjectID: a.GetProjectId(), UserID: a.GetCreatedBy()}
			},
		}
	}
	nodes := []quota.Kept[*directorypb.Agent]{node(), node()}
	make1 := func(at int, policies []*quota.Policy, project, key, user string) error {
		agent := &directorypb.Agent{ProjectId: project, Key: key, CreatedBy: user}
		kept := nodes[at%len(nodes)]
		return kept.Records.Create(context.WithoutCancel(t.Context()), agent, func() error { return kept.Room(policies, agent) })
	}
	for i := range 4 {
		require.NoError(t, make1(0, nil, "q", fmt.Sprint(i), "x"), "no policy")
	}
	policies := quota.Read([]*directorypb.QuotaPolicy{said("a", "p", "tenant", "global", 100, `{"quotas":{"maxAgents":5}}`)})
	require.NoError(t, make1(0, policies, "q", "more", "y"), "another project")
	outcomes := make([]error, 30)
	var calls sync.WaitGroup
	for i := range outcomes {
		calls.Go(func() { outcomes[i] = make1(i, policies, "p", fmt.Sprint(i), "x") })
	}
	calls.Wait()
	made, last := 0, ""
	for i, err := range outcomes {
		if err == nil {
			made, last = made+1, fmt.Sprint(i)
			continue
		}
		refused, is := errors.AsType[*failure.Failure](err)
		require.True(t, is, err)
		require.Equal(t, []any{failurepb.Code_QUOTA_REACHED, "QUOTA_REACHED: agents limit reached (5/5)"}, []any{refused.Code, refused.Error()})
	}
	require.Equal(t, 5, made)
	require.NoError(t, nodes[0].Records.Delete(t.Context(), "p/"+last, nil))
	require.NoError(t, make1(1, policies, "p", "again", "x"))
	require.ErrorContains(t, make1(0, policies, "p", "full", "x"), "(5/5)")

	lower := quota.Read([]*directorypb.QuotaPolicy{said("a", "", "user", "global", 100, `{"quotas":{"maxAgents":2}}`)})
	require.ErrorContains(t, make1(0, lower, "r", "x", "x"), "(9/2)", "those beyond it stay, of all projects")
	require.NoError(t, make1(0, lower, "r", "y", "y"), "another's")
	require.ErrorContains(t, make1(0, quota.Read([]*directorypb.QuotaPolicy{said("a", "", "tenant", "global", 100, `{"quotas":{"maxAgents":0}}`)}), "r", "z", "y"), "(11/0)")
}

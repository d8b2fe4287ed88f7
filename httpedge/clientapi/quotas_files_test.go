package clientapi_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/allowance"
	"parley/actors/core/quota"
	"parley/actors/machine"
	"parley/cmd/parley/node/spending"
	"parley/httpedge/clientapi"
	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/allowancepb"
	"parley/proto/directorypb"
)

// ledger is the quota policies of tenant t with a door of a node, over the rules of allowances.
type ledger struct {
	*spending.Door

	mu       sync.Mutex
	policies []*quota.Policy
	state    proto.Message
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	c := &ledger{}
	c.open(t, endpointtest.Entities{}, c.of)
	return c
}

// open opens the door, whose allowance is among other entities.
func (c *ledger) open(t *testing.T, entities endpointtest.Entities, policies func(string) []*quota.Policy) {
	t.Helper()
	rules, ids := allowance.New().Machine, new(endpointtest.IDs)
	endpointtest.On(entities, func(context.Context, *allowancepb.UsedQuery) (*allowancepb.UsedReply, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		state, _ := c.state.(*allowancepb.State)
		return &allowancepb.UsedReply{State: state}, nil
	})
	endpointtest.On(entities, func(_ context.Context, command *allowancepb.Command) (*allowancepb.Reply, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		decision, refused := rules.Decide(c.state, command, machine.Env{Now: time.Now()})
		if refused != nil {
			return nil, refused
		}
		c.state = rules.Evolve(c.state, decision.Events)
		reply, _ := decision.Reply.(*allowancepb.Reply)
		return reply, nil
	})
	c.Door = spending.New(spending.Config{
		Entities: entities, Policies: policies, Logger: slog.New(slog.DiscardHandler), NewID: ids.NewID, IDFrom: ids.NewIDFrom,
	})
	t.Cleanup(func() { c.Stop(context.WithoutCancel(t.Context())) })
}

func (c *ledger) of(string) []*quota.Policy {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.policies
}

// limit makes a policy the only one.
func (c *ledger) limit(domain, limits string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = nil
	c.policies = quota.Read([]*directorypb.QuotaPolicy{{Id: "qp_1", TenantId: "t", Scope: quota.Tenant, Domain: domain, Enabled: true, Limits: []byte(limits)}})
}

// TestQuotasOfFiles: how large a file may be, how many may come at once, and how many and how much in a time, however they come. Who is
// refused has stored nothing, and takes nothing of what is left.
func TestQuotasOfFiles(t *testing.T) {
	c := newLedger(t)
	k := serveSessionsWith(t, clientapi.DefaultConfig(), func(parts *clientapi.Parts) { parts.FileDoor, parts.Policies = c, c.of })
	session := func() string {
		made := k.do("ann", "POST", "/agents/sessions", `{"agent":"helper"}`)
		require.Equal(t, 201, made.status, "%s", made.raw)
		return fmt.Sprintf("/agents/sessions/%s/files", k.decode(made.raw)["id"])
	}
	coded := func(size int) string { return base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a", size))) }
	ways := map[string]func(path string, size int) *heard{
		"json": func(path string, size int) *heard {
			return k.do("ann", "POST", path, fmt.Sprintf(`{"file":{"name":"a.txt","content":%q}}`, coded(size)))
		},
		"bytes": func(path string, size int) *heard {
			return k.do("ann", "POST", path+"?name=a.txt", strings.Repeat("a", size), "Content-Type", "text/plain")
		},
		"form": func(path string, size int) *heard {
			form := "--x\r\nContent-Disposition: form-data; name=file; filename=a.txt\r\n\r\n" + strings.Repeat("a", size) + "\r\n--x--"
			return k.do("ann", "POST", path, form, "Content-Type", "multipart/form-data; boundary=x")
		},
	}
	refused := func(got *heard, message string) {
		t.Helper()
		require.Equal(t, 429, got.status, "%s", got.raw)
		told := k.decode(got.raw)
		require.Equal(t, []any{message, "rate_limited"}, []any{told["error"], told["code"]})
	}

	c.limit(quota.File, `{"perRequest":{"maxFileSize":10,"maxFilesPerRequest":1}}`)
	for name, send := range ways {
		path, before := session(), k.files.Len()
		refused(send(path, 11), "File size (11) exceeds limit (10)")
		require.Equal(t, before, k.files.Len(), name)
		require.Equal(t, 201, send(path, 10).status, name)
	}
	ask := func(sizes ...int) *heard {
		var parts []string
		for _, size := range sizes {
			parts = append(parts, fmt.Sprintf(`{"type":"input_file","filename":"a.txt","file_data":%q}`, coded(size)))
		}
		return k.do("ann", "POST", "/agents/responses", fmt.Sprintf(`{"model":"helper","background":true,"input":[{"role":"user","content":[%s]}]}`, strings.Join(parts, ",")))
	}
	before := k.files.Len()
	refused(ask(1, 1), "Files (2) exceeds limit (1)")
	refused(ask(11), "File size (11) exceeds limit (10)")
	require.Equal(t, before, k.files.Len())
	require.Equal(t, 202, ask(10).status)

	c.limit(quota.Global, `{"rateLimit":{"files":{"perMonth":5},"storage":{"perMonth":30},"requests":{"perMonth":20}}}`)
	path := session()
	require.Equal(t, 415, k.do("ann", "POST", path+"?name=a", "\x89PNG\r\n\x1a\n", "Content-Type", "image/png").status, "it is not counted")
	require.Equal(t, 201, ways["json"](path, 20).status)
	for _, send := range ways {
		refused(send(path, 11), "Rate limit exceeded for storage perMonth (31/30)")
	}
	refused(ask(5, 6), "Rate limit exceeded for storage perMonth (31/30)")
	require.Equal(t, 202, ask(2, 2).status)
	require.Equal(t, 201, ways["form"](path, 6).status)
	refused(ways["bytes"](session(), 1), "Rate limit exceeded for storage perMonth (31/30)")

	c.limit(quota.File, `{"rateLimit":{"files":{"perMonth":4}}}`)
	var mu sync.Mutex
	stored := 0
	var uploads sync.WaitGroup
	for range 4 {
		path := session()
		for _, send := range ways {
			uploads.Go(func() {
				if send(path, 1).status == 201 {
					mu.Lock()
					defer mu.Unlock()
					stored++
				}
			})
		}
	}
	uploads.Wait()
	require.Equal(t, 4, stored)
	refused(ask(1), "Rate limit exceeded for files perMonth (5/4)")
}

package permission_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/access"
	"parley/actors/core/feature"
	rules "parley/actors/core/permission"
	"parley/httpedge/endpoint"
	"parley/httpedge/permission"
	"parley/proto/decisionpb"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var discard = slog.New(slog.DiscardHandler) // no state

type route struct{ method, path string }

func (r route) Method() string { return r.method }
func (r route) Path() string   { return r.path }

var create = route{"POST", "/webhooks"} // no state

func caller(role, user string, scope map[string]string) endpoint.Caller {
	return endpoint.Caller{TenantID: "t", ProjectID: "p", UserID: user, Grant: access.NewGrant(
		&directorypb.Token{Id: "tok_" + user, Scoped: scope != nil, Scope: scope}, &directorypb.User{Id: user, Role: role},
		&directorypb.Tenant{Id: "t"}, &directorypb.Project{Id: "p"},
	)}
}

// kept is the shards, as far as decisions are concerned.
type kept struct {
	mu       sync.Mutex
	batches  []*decisionpb.Command
	failing  int           // so many writes fail
	hold     chan struct{} // nil = writes do not wait
	minted   int
	attempts int
}

func (k *kept) Ask(ctx context.Context, id string, command proto.Message) (proto.Message, error) {
	if k.hold != nil {
		select {
		case <-k.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.attempts++; k.failing > 0 {
		k.failing--
		return nil, errors.New("no owner")
	}
	record, ok := command.(*decisionpb.Command)
	if !ok || record.GetId() != id {
		return nil, fmt.Errorf("%T to %s", command, id)
	}
	k.batches = append(k.batches, record)
	return &decisionpb.Reply{}, nil
}

func (*kept) Read(context.Context, proto.Message) (proto.Message, error) {
	return nil, errors.New("no reads")
}

func (k *kept) newID(kind string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.minted++
	return fmt.Sprintf("%s_%021d", kind, k.minted)
}

func (k *kept) all() []*decisionpb.Decision {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []*decisionpb.Decision
	for _, b := range k.batches {
		all = append(all, b.GetRecord().GetDecisions()...)
	}
	return all
}

func newLog(k *kept, gate *feature.Gate) (*permission.Log, *prometheus.Registry) {
	registry := prometheus.NewPedanticRegistry()
	return permission.NewLog(permission.LogParts{
		Entities: k, NewID: k.newID, Features: gate, Keep: time.Hour, Logger: discard, Registerer: registry,
	}), registry
}

func engine(tb testing.TB, config permission.Config, log *permission.Log) *permission.Engine {
	tb.Helper()
	e, err := permission.New(config, log, discard, nil)
	require.NoError(tb, err)
	tb.Cleanup(e.Stop)
	return e
}

func TestRefusalIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{failing: 2}
		log, _ := newLog(k, nil)
		e := engine(t, permission.Config{}, log)
		require.Nil(t, e.Check(t.Context(), caller("owner", "ann", nil), access.Webhooks, access.Admin, create))
		now := time.Now().UnixMilli()
		refused := e.Check(t.Context(), caller("user", "bob", nil), access.Webhooks, access.Admin, create)
		require.Equal(t, failurepb.Code_FORBIDDEN, refused.Code)
		require.Equal(t, "Forbidden: webhooks requires admin permission", refused.DefaultText())
		require.Equal(t, map[string]any{
			"reason": "The user, whose role is user, does not hold webhooks:admin", "decisionId": "dec_000000000000000000001-0",
		}, refused.Details)
		synctest.Wait()
		require.Empty(t, k.all(), "the first attempt failed")
		time.Sleep(time.Minute) // virtual
		require.Equal(t, []*decisionpb.Decision{{
			Id: "dec_000000000000000000001-0", DecidedAt: now, LastAt: now, Count: 1, TenantId: "t", ProjectId: "p", UserId: "bob",
			TokenId: "tok_bob", Service: "webhooks", Level: "admin", Route: "POST /webhooks", Reason: "owner_level",
			Text: "The user, whose role is user, does not hold webhooks:admin",
		}}, k.all())
		require.Equal(t, 3, k.attempts)
		require.Equal(t, time.Hour.Milliseconds(), k.batches[0].GetRecord().GetKeepMs())
		log.Stop(t.Context())
	})
}

// A flood is one write a second, of a bounded size, and one tenant leaves room for others; every request is refused.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{}
		log, registry := newLog(k, nil)
		e := engine(t, permission.Config{}, log)
		refuse := func(c endpoint.Caller) string {
			refused := e.Check(t.Context(), c, access.Webhooks, access.Read, create)
			require.NotNil(t, refused)
			id, _ := refused.Details["decisionId"].(string)
			return id
		}
		refuse(caller("user", "first", nil))
		synctest.Wait() // written at once; the next batch waits for a second
		for i := range 10_000 {
			require.NotEmpty(t, refuse(caller("user", fmt.Sprint("u", i%500), nil)))
		}
		other := caller("user", "other", nil)
		other.TenantID = "t2"
		id := refuse(other)
		require.Equal(t, id, refuse(other), "equal refusals are one decision")
		time.Sleep(10 * time.Second) // virtual
		synctest.Wait()
		require.Len(t, k.batches, 2)
		all := k.all()
		require.Len(t, all, 1+rules.MaxBatch/2+1)
		last := all[len(all)-1]
		require.Equal(t, []any{id, "t2", uint32(2)}, []any{last.GetId(), last.GetTenantId(), last.GetCount()})
		require.Equal(t, uint32(20), all[1].GetCount())
		require.Equal(t, 10_000-20*rules.MaxBatch/2, lost(t, registry))
		log.Stop(t.Context())
	})
}

func lost(t *testing.T, registry *prometheus.Registry) int {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	return int(families[0].GetMetric()[0].GetCounter().GetValue())
}

// What is in memory when the node stops is written; while an older node is in the cluster nothing is.
func TestStopWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, level := range []feature.Level{feature.Newest, feature.Base} {
			k := &kept{}
			log, registry := newLog(k, feature.NewGate(level))
			e := engine(t, permission.Config{}, log)
			for i := range 3 {
				require.NotNil(t, e.Check(t.Context(), caller("user", fmt.Sprint(i), nil), access.Webhooks, access.Read, create))
			}
			log.Stop(t.Context())
			if level == feature.Newest {
				require.Len(t, k.all(), 3)
			} else {
				require.Empty(t, k.all())
				require.Equal(t, 3, lost(t, registry))
			}
		}
	})
}

// A shard that does not answer holds up the log, and no request.
func TestSlowShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{hold: make(chan struct{})}
		log, registry := newLog(k, nil)
		e := engine(t, permission.Config{}, log)
		for i := range 3 * rules.MaxBatch {
			c := caller("user", fmt.Sprint(i), nil)
			c.TenantID = fmt.Sprint(i % 8)
			require.NotNil(t, e.Check(t.Context(), c, access.Webhooks, access.Read, create))
			if i == 0 {
				synctest.Wait()
			}
		}
		time.Sleep(time.Hour) // virtual: both batches are given up
		require.Empty(t, k.all())
		require.Equal(t, 3*rules.MaxBatch, lost(t, registry))
		log.Stop(t.Context())
	})
}

// Without the engine a refusal is no decision, and project admins manage webhooks.
func TestOff(t *testing.T) {
	e := engine(t, permission.Config{Policy: rules.Off}, nil)
	require.Nil(t, e.Check(t.Context(), caller("project_admin", "ann", nil), access.Webhooks, access.Admin, create))
	refused := e.Check(t.Context(), caller("user", "bob", nil), access.Webhooks, access.Read, create)
	require.Equal(t, failurepb.Code_FORBIDDEN, refused.Code)
	require.Empty(t, refused.Details)
}

// other is an external engine that the test runs.
func other(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, asked map[string]any)) permission.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var asked map[string]any
		if err != nil || json.Unmarshal(body, &asked) != nil || r.URL.Path != "/pdp/access/v1/evaluation" || r.Method != http.MethodPost {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		answer(w, r, asked)
	}))
	t.Cleanup(server.Close)
	return permission.Config{Policy: rules.External, URL: server.URL + "/pdp/", Token: "sesame", Timeout: 10 * time.Second}
}

func TestExternalDecides(t *testing.T) {
	k := &kept{}
	log, _ := newLog(k, nil)
	defer log.Stop(t.Context())
	var mu sync.Mutex
	var asked []map[string]any
	config := other(t, func(w http.ResponseWriter, r *http.Request, a map[string]any) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, a)
		subject, _ := a["subject"].(map[string]any)
		if r.Header.Get("Authorization") != "Bearer sesame" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if subject["id"] == "bob" {
			_, _ = w.Write([]byte(`{"decision":true}`))
			return
		}
		_, _ = w.Write([]byte(`{"decision":false,"context":{"reason_user":{"403":"ask\nyour boss"}}}`))
	})
	e := engine(t, config, log)
	require.Nil(t, e.Check(t.Context(), caller("user", "bob", nil), access.Webhooks, access.Admin, create), "whatever the role says")
	require.Equal(t, []map[string]any{{
		"subject":  map[string]any{"type": "user", "id": "bob", "properties": map[string]any{"role": "user", "tenantId": "t", "tokenId": "tok_bob"}},
		"action":   map[string]any{"name": "admin"},
		"resource": map[string]any{"type": "webhooks", "id": "p", "properties": map[string]any{"tenantId": "t", "projectId": "p"}},
		"context":  map[string]any{"route": "POST /webhooks"},
	}}, asked)
	refused := e.Check(t.Context(), caller("owner", "ann", nil), access.Webhooks, access.Read, create)
	require.Equal(t, failurepb.Code_FORBIDDEN, refused.Code)
	require.Equal(t, "ask your boss", refused.Details["reason"])
	require.NotEmpty(t, refused.Details["decisionId"])
	allowed, err := e.Allows(t.Context(), caller("owner", "ann", nil), access.Webhooks, access.Admin)
	require.NoError(t, err)
	require.False(t, allowed)
	// A scope binds whatever the engine would say, so it is not asked.
	refused = e.Check(t.Context(), caller("owner", "bob", map[string]string{"agents": "admin"}), access.Webhooks, access.Read, create)
	require.Equal(t, "The token's scope does not include webhooks:read", refused.Details["reason"])
	require.Len(t, asked, 3)
}

// Whatever is no decision refuses, and says that it could not be decided.
func TestExternalCannotDecide(t *testing.T) {
	release := make(chan struct{})
	for name, answer := range map[string]func(w http.ResponseWriter){
		"500": func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		"403": func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) },
		"201": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte(`{"decision":true}`))
		},
		"nothing":     func(http.ResponseWriter) {},
		"no_json":     func(w http.ResponseWriter) { _, _ = w.Write([]byte(`true`)) },
		"no_decision": func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"context":{}}`)) },
		"null":        func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"decision":null}`)) },
		"text":        func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"decision":"true"}`)) },
		"number":      func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"decision":1}`)) },
		"too_large": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"decision":true,"x":"` + strings.Repeat("x", 65<<10) + `"}`))
		},
		"two_objects": func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"decision":true}{"decision":true}`)) },
		"redirect": func(w http.ResponseWriter) {
			w.Header().Set("Location", "/allow")
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
		"cut_off": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(`{"decision":true}`))
		},
		"never": func(http.ResponseWriter) { <-release },
		"never_closed": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"decision":true}`))
			_ = http.NewResponseController(w).Flush()
			<-release
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := other(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) { answer(w) })
			if strings.HasPrefix(name, "never") {
				config.Timeout = 50 * time.Millisecond
				t.Cleanup(func() { release <- struct{}{} }) // before the server is closed
			}
			e := engine(t, config, nil)
			refused := e.Check(t.Context(), caller("owner", "ann", nil), access.Webhooks, access.Read, create)
			require.NotNil(t, refused)
			require.Equal(t, failurepb.Code_AUTHORIZATION_UNAVAILABLE, refused.Code)
			if !strings.HasPrefix(name, "never") {
				_, err := e.Allows(t.Context(), caller("owner", "ann", nil), access.Webhooks, access.Admin)
				require.Error(t, err)
			}
		})
	}
	t.Run("refused_connection", func(t *testing.T) {
		e := engine(t, permission.Config{Policy: rules.External, URL: "http://127.0.0.1:1"}, nil)
		refused := e.Check(t.Context(), caller("owner", "ann", nil), access.Agents, access.Read, create)
		require.Equal(t, failurepb.Code_AUTHORIZATION_UNAVAILABLE, refused.Code)
	})
	_, err := permission.New(permission.Config{Policy: rules.External}, nil, discard, nil)
	require.Error(t, err)
}

// As many questions as allowed hang, and the next one is refused in time.
func TestExternalIsFull(t *testing.T) {
	release := make(chan struct{})
	config := other(t, func(http.ResponseWriter, *http.Request, map[string]any) { <-release })
	config.MaxConcurrent, config.Timeout = 2, 100*time.Millisecond
	e := engine(t, config, nil)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			refused := e.Check(t.Context(), caller("owner", "ann", nil), access.Agents, access.Read, create)
			if refused == nil || refused.Code != failurepb.Code_AUTHORIZATION_UNAVAILABLE {
				t.Error(refused)
			}
		})
	}
	workers.Wait()
	close(release)
}

func TestCheckDoesNotAllocate(t *testing.T) {
	e, ctx, ann := engine(t, permission.Config{}, nil), t.Context(), caller("admin", "ann", nil)
	where := permission.Where(&create)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if e.Check(ctx, ann, access.Webhooks, access.Admin, where) != nil {
			t.Error("refused")
		}
	}))
}

func BenchmarkCheck(b *testing.B) {
	e, ctx, ann := engine(b, permission.Config{}, nil), b.Context(), caller("admin", "ann", map[string]string{"webhooks": "admin"})
	where := permission.Where(&create)
	b.ReportAllocs()
	for b.Loop() {
		if e.Check(ctx, ann, access.Webhooks, access.Admin, where) != nil {
			b.Fatal("refused")
		}
	}
}

// TestRoutesThatAreNoText: a path of raw bytes is kept as far as it is a text, and costs no other decision of its batch.
func TestRoutesThatAreNoText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{}
		log, _ := newLog(k, nil)
		e := engine(t, permission.Config{}, log)
		for _, path := range []string{"/conversations/\xff", "/" + strings.Repeat("é", 300)} {
			require.NotNil(t, e.Check(t.Context(), caller("user", "bob", nil), access.Webhooks, access.Admin, route{"GET", path}))
		}
		time.Sleep(time.Minute) // virtual
		all := k.all()
		require.Len(t, all, 2)
		for _, d := range all {
			_, err := proto.Marshal(d)
			require.NoError(t, err, d.GetRoute())
			require.LessOrEqual(t, len(d.GetRoute()), 256)
		}
		require.Equal(t, "GET /conversations/?", all[0].GetRoute())
		log.Stop(t.Context())
	})
}

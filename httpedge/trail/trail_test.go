package trail_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/access"
	"parley/actors/core/audit"
	"parley/actors/core/failure"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/httpedge/trail"
	"parley/proto/auditpb"
	"parley/proto/directorypb"
)

// sent is a request of a browser or program.
type sent struct{ endpoint.Request }

func (sent) Header(string) string { return "agent" }
func (sent) RemoteIP() string     { return "192.0.2.1" }

// chain is the chains of all tenants, with the owner that a test gives it.
type chain struct {
	mu     sync.Mutex
	writes []*auditpb.Write
	answer func(n int, w *auditpb.Write) (*auditpb.Reply, error) // n counts from 0; nil = all is taken
}

func (c *chain) took() []*auditpb.Write {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.writes)
}

func (c *chain) rows() (all []*auditpb.Row) {
	for _, w := range c.took() {
		all = append(all, w.GetRows()...)
	}
	return all
}

func newTrail(c *chain) *trail.Trail {
	entities := endpointtest.Entities{}
	endpointtest.On(entities, func(_ context.Context, command *auditpb.Command) (*auditpb.Reply, error) {
		c.mu.Lock()
		n := len(c.writes)
		c.writes = append(c.writes, proto.CloneOf(command.GetWrite()))
		c.mu.Unlock()
		if c.answer == nil {
			return &auditpb.Reply{}, nil
		}
		return c.answer(n, command.GetWrite())
	})
	var ids sync.Mutex
	made := 0
	return trail.New(trail.Parts{
		Entities: entities, Chain: func(tenantID string) string { return "audit_" + tenantID }, Keep: time.Hour, Rows: 1000,
		NewID: func(kind string) string {
			ids.Lock()
			defer ids.Unlock()
			made++
			return fmt.Sprint(kind, "_", made)
		},
		Logger: slog.New(slog.DiscardHandler),
	})
}

// asked is a request of a tenant's user.
func asked(tenantID, userID string) *endpoint.Audited {
	grant := access.NewGrant(&directorypb.Token{TenantId: tenantID, UserId: userID}, &directorypb.User{Id: userID, TenantId: tenantID, Role: access.RoleOwner},
		&directorypb.Tenant{Id: tenantID}, nil)
	return &endpoint.Audited{
		Caller: endpoint.Caller{TenantID: tenantID, UserID: userID, Grant: grant}, Route: &endpoint.Route{Method: http.MethodPost, Path: "/groups", Access: "members:admin"},
		Prefix: "/api", Path: "/api/groups", Request: sent{}, Until: time.Now().Add(time.Minute),
	}
}

var errAway = errors.New("the owner is away")

// TestNothingIsChangedUnwritten: a request is refused, and its handler so never run, when it cannot be written down that it began: the
// chain's owner is away or does not answer, or too much is under way.
func TestNothingIsChangedUnwritten(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(n int, w *auditpb.Write) (*auditpb.Reply, error)
		reason failure.Reason
	}{
		"away": {func(int, *auditpb.Write) (*auditpb.Reply, error) { return nil, errAway }, failure.AuditUnavailable},
		"full": {func(_ int, w *auditpb.Write) (*auditpb.Reply, error) {
			return &auditpb.Reply{Refused: []string{w.GetBegun()[0].GetRow().GetId()}}, nil
		}, failure.AuditBusy},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kept := &chain{answer: c.answer}
				trail := newTrail(kept)
				_, refused := trail.Begin(t.Context(), asked("acme", "usr_1"))
				require.NotNil(t, refused)
				require.Equal(t, c.reason, refused.Reason)
				for _, w := range kept.took()[1:] {
					require.Equal(t, kept.took()[0].GetBatch(), w.GetBatch(), "the same batch again: it is taken once")
				}
				trail.Stop(t.Context())
			})
		})
	}
	t.Run("stopped", func(t *testing.T) {
		trail := newTrail(&chain{})
		trail.Stop(t.Context())
		_, refused := trail.Begin(t.Context(), asked("acme", "usr_1"))
		require.Equal(t, failure.AuditBusy, refused.Reason)
	})
	t.Run("the_request_ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			trail := newTrail(&chain{answer: func(int, *auditpb.Write) (*auditpb.Reply, error) { <-release; return &auditpb.Reply{}, nil }})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, refused := trail.Begin(ctx, asked("acme", "usr_1"))
			require.Equal(t, failure.AuditUnavailable, refused.Reason)
			close(release)
			trail.Stop(t.Context())
		})
	})
}

// TestManyAtOnce: what comes while a batch is written waits in one queue of its tenant, which is bounded; other tenants do not wait.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		kept := &chain{answer: func(_ int, w *auditpb.Write) (*auditpb.Reply, error) {
			if w.GetTenantId() == "acme" {
				<-release
			}
			return &auditpb.Reply{}, nil
		}}
		trail := newTrail(kept)
		const many = 2000
		var wg sync.WaitGroup
		var mu sync.Mutex
		counts := map[failure.Reason]int{}
		for range many {
			wg.Go(func() {
				_, refused := trail.Begin(t.Context(), asked("acme", "usr_1"))
				mu.Lock()
				defer mu.Unlock()
				if refused == nil {
					counts[""]++
				} else {
					counts[refused.Reason]++
				}
			})
		}
		synctest.Wait()
		_, refused := trail.Begin(t.Context(), asked("other", "usr_2"))
		require.Nil(t, refused)
		close(release)
		wg.Wait()
		require.Equal(t, many, counts[""]+counts[failure.AuditBusy])
		require.Positive(t, counts[failure.AuditBusy], "the queue is bounded")
		require.Greater(t, counts[""], 1000)
		begun := 0
		for _, w := range kept.took() {
			require.LessOrEqual(t, len(w.GetBegun()), audit.MaxBatch)
			if w.GetTenantId() == "acme" {
				begun += len(w.GetBegun())
			}
		}
		require.Equal(t, counts[""], begun)
		trail.Stop(t.Context())
	})
}

// TestOutcomes: the outcome ends what began; one that cannot be written leaves it open, and holds up no later one.
func TestOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &chain{}
		trail := newTrail(kept)
		first, refused := trail.Begin(t.Context(), asked("acme", "usr_1"))
		require.Nil(t, refused)
		second, refused := trail.Begin(t.Context(), asked("acme", "usr_1"))
		require.Nil(t, refused)
		away := 3
		kept.mu.Lock()
		kept.answer = func(int, *auditpb.Write) (*auditpb.Reply, error) {
			if away--; away >= 0 {
				return nil, errAway
			}
			return &auditpb.Reply{}, nil
		}
		kept.mu.Unlock()
		first.End(t.Context(), audit.Success, 201, &audit.Notes{})
		second.End(t.Context(), audit.Failure, 409, &audit.Notes{})
		written := kept.took()
		last := written[len(written)-1]
		require.Len(t, last.GetRows(), 1)
		require.Equal(t, []any{audit.Failure, uint32(409), "user", "usr_1", "groups"}, []any{
			last.GetRows()[0].GetOutcome(), last.GetRows()[0].GetStatusCode(), last.GetRows()[0].GetActorType(), last.GetRows()[0].GetActorUserId(), last.GetRows()[0].GetResourceType(),
		})
		require.Equal(t, written[1].GetBegun()[0].GetRow().GetId(), last.GetRows()[0].GetId(), "it ends the request that began")
		require.Greater(t, last.GetBatch(), written[2].GetBatch())
		trail.Stop(t.Context())
	})
}

// TestRefusalsAreGathered: whoever is refused ten thousand times in a second makes one row, however they are refused few, and none of
// them waits.
func TestRefusalsAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &chain{}
		trail := newTrail(kept)
		for range 10_000 {
			trail.Denied(asked("acme", "usr_1"), http.StatusForbidden)
		}
		for i := range 10_000 {
			trail.Denied(asked("flood", fmt.Sprint("usr_", i)), http.StatusForbidden)
		}
		trail.Denied(asked("quiet", "usr_1"), http.StatusForbidden)
		require.Empty(t, kept.took(), "nobody waits")
		time.Sleep(5 * time.Second) // virtual
		synctest.Wait()
		of := map[string]int{}
		for _, row := range kept.rows() {
			of[row.GetTenantId()]++
			if row.GetTenantId() == "acme" {
				require.Equal(t, uint32(10_000), row.GetCount())
				require.Equal(t, audit.Denied, row.GetOutcome())
			}
		}
		require.Equal(t, 1, of["acme"])
		require.Equal(t, 1, of["quiet"], "another tenant's flood leaves room")
		require.LessOrEqual(t, of["flood"], 64)
		trail.Stop(t.Context())
	})
}

// TestPublicRequests: of somebody who is not signed in only what became of it is known, and for whom; a failure is written without a
// wait, so that its time does not tell that there is such an account.
func TestPublicRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &chain{answer: func(int, *auditpb.Write) (*auditpb.Reply, error) {
			time.Sleep(time.Second)
			return &auditpb.Reply{}, nil
		}} // virtual
		trail := newTrail(kept)
		public := asked("", "")
		public.Caller = endpoint.Caller{}
		for _, outcome := range []string{audit.Failure, audit.Success} {
			began, refused := trail.Begin(t.Context(), public)
			require.Nil(t, refused)
			notes := &audit.Notes{}
			audit.ActsFor(audit.With(t.Context(), notes), audit.Actor{TenantID: "acme", UserID: "usr_1", Email: strings.Repeat("e", 1000), Role: "owner"})
			at := time.Now()
			began.End(t.Context(), outcome, 401, notes)
			if outcome == audit.Failure {
				require.Zero(t, time.Since(at))
			} else {
				require.Positive(t, time.Since(at))
			}
		}
		began, _ := trail.Begin(t.Context(), public)
		began.End(t.Context(), audit.Failure, 401, &audit.Notes{}) // of nobody: it belongs to no trail
		trail.Stop(t.Context())
		require.Len(t, kept.rows(), 2)
		require.Equal(t, "acme", kept.rows()[0].GetTenantId())
		require.Len(t, kept.rows()[0].GetActorEmail(), 256)
	})
}

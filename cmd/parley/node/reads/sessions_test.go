package reads

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley/actors/conversation"
	"parley/actors/kit"
	"parley/persistence"
	"parley/proto/conversationpb"
	"parley/proto/logpb"
)

// drawSession draws a conversation in any of the statuses.
func drawSession(t *rapid.T, id string) *conversationpb.State {
	letter := rapid.SampledFrom([]string{"a", "b"})
	s := &conversationpb.State{
		Id: id, TenantId: "t", ProjectId: letter.Draw(t, "project"), UserId: rapid.SampledFrom([]string{"", "ada", "bob"}).Draw(t, "user"),
		AgentId: letter.Draw(t, "agent"), CreatedAt: rapid.Int64Range(1, 20).Draw(t, "created"),
		Title: rapid.SampledFrom([]string{"", "Refund order 7", "a refund", "İade"}).Draw(t, "title"),
	}
	switch rapid.IntRange(0, 4).Draw(t, "status") {
	case 0:
		s.Lease = &conversationpb.Lease{RunId: "run_x"}
	case 1:
		s.Status = conversationpb.Status_WAITING
	case 2:
		s.Continuable, s.StopReason = true, conversationpb.StopReason_BUDGET_REACHED
		s.Budget = &conversationpb.Budget{OnReach: conversationpb.OnReachPause}
	}
	return s
}

// keep writes a session with the rows that the rules write for it.
func keepSession(ctx context.Context, t require.TestingT, store *persistence.Store, group uint32, s *conversationpb.State) {
	head, err := proto.Marshal(s)
	require.NoError(t, err)
	project := conversation.SessionList{TenantID: s.GetTenantId(), ProjectID: s.GetProjectId()}
	agent, user, status := project, project, project
	agent.AgentID = s.GetAgentId()
	user.ByUser, user.UserID = true, s.GetUserId()
	status.Status = s.RuntimeStatus()
	a := &logpb.Append{Id: s.GetId(), Create: true, Head: head, Events: [][]byte{{}}}
	for _, list := range []conversation.SessionList{project, agent, user, status} {
		if list.Status != conversationpb.RuntimeIdle {
			a.Listings = append(a.Listings, &logpb.Listing{List: list.Name(), Score: s.GetCreatedAt(), Member: s.GetId()})
		}
	}
	result, err := store.Append(ctx, group, a)
	require.NoError(t, err)
	require.Equal(t, logpb.Outcome_APPLIED, result.GetOutcome())
}

func drawQuery(t *rapid.T) *conversationpb.SessionsQuery {
	return &conversationpb.SessionsQuery{
		TenantId: "t", ProjectId: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "of project"),
		Anybody: rapid.Bool().Draw(t, "anybody"), UserId: rapid.SampledFrom([]string{"", "ada"}).Draw(t, "of user"),
		AgentId: rapid.SampledFrom([]string{"", "a"}).Draw(t, "of agent"),
		Status: rapid.SampledFrom([]string{
			"", conversationpb.RuntimeIdle, conversationpb.RuntimeRunning, conversationpb.RuntimeRequiresAction, conversationpb.RuntimeBudgetPaused,
		}).Draw(t, "of status"),
		Limit: rapid.Int64Range(1, 12).Draw(t, "limit"), Title: rapid.SampledFrom([]string{"", "", "REFUND", "7", "iad"}).Draw(t, "of title"),
		ByUser: rapid.Bool().Draw(t, "by user"), ForUser: rapid.SampledFrom([]string{"", "ada", "bob"}).Draw(t, "for user"),
	}
}

// selected says whether a session is what a query asks for.
func selected(query *conversationpb.SessionsQuery, s *conversationpb.State) bool {
	return s.GetTenantId() == query.GetTenantId() && s.GetProjectId() == query.GetProjectId() &&
		(query.GetAnybody() || s.GetUserId() == query.GetUserId()) &&
		(query.GetAgentId() == "" || s.GetAgentId() == query.GetAgentId()) &&
		(query.GetStatus() == "" || s.RuntimeStatus() == query.GetStatus()) && (!query.GetByUser() || s.GetUserId() == query.GetForUser()) &&
		strings.Contains(strings.ToLower(s.GetTitle()), strings.ToLower(query.GetTitle()))
}

// listSessions answers a query from a store that owns all shards.
func listSessions(ctx context.Context, store *persistence.Store, query *conversationpb.SessionsQuery) (*conversationpb.SessionsReply, error) {
	kinds, err := NewEntities([]kit.Entity{{Queries: conversation.Queries()}})
	if err != nil {
		return nil, err
	}
	answer, err := kinds.queries[nameOf(query)].FromLists(ctx, localRows{store}, query)
	reply, _ := answer.(*conversationpb.SessionsReply)
	return reply, err
}

// newStore is a store of its own of four shards.
func newStore(t *testing.T) *persistence.Store {
	t.Helper()
	store, err := persistence.Open(t.Context(), persistence.Options{Dir: t.TempDir(), Shards: 4})
	require.NoError(t, err)
	t.Cleanup(store.Stop)
	store.Start()
	require.NoError(t, store.WaitReady(t.Context()))
	return store
}

// TestSessionsArePaged: the pages put together are what there is, in order and once each, however it is asked for; what
// is made meanwhile moves nothing.
func TestSessionsArePaged(t *testing.T) {
	store := newStore(t)
	tries := 0
	rapid.Check(t, func(rt *rapid.T) {
		tries++
		var all []*conversationpb.State
		add := func(n int) {
			for range n {
				s := drawSession(rt, fmt.Sprintf("conv_%d_%03d", tries, len(all)))
				s.TenantId = fmt.Sprint("t", tries)
				keepSession(t.Context(), rt, store, uint32(len(all)%4+1), s)
				all = append(all, s)
			}
		}
		add(rapid.IntRange(0, 60).Draw(rt, "sessions"))
		query := drawQuery(rt)
		query.TenantId = fmt.Sprint("t", tries)
		var want []string
		for _, s := range slices.SortedFunc(slices.Values(all), func(a, b *conversationpb.State) int {
			return -cmp.Or(cmp.Compare(a.GetCreatedAt(), b.GetCreatedAt()), cmp.Compare(a.GetId(), b.GetId()))
		}) {
			if selected(query, s) {
				want = append(want, s.GetId())
			}
		}
		old := len(all)
		var got []string
		for {
			page, err := listSessions(t.Context(), store, query)
			require.NoError(rt, err)
			require.LessOrEqual(rt, len(page.Sessions), int(query.Limit))
			for _, s := range page.Sessions {
				if i := slices.IndexFunc(all, func(other *conversationpb.State) bool { return other.GetId() == s.GetId() }); i < old {
					got = append(got, s.GetId())
				}
			}
			if page.Next == nil {
				break
			}
			query.After = page.Next
			add(rapid.IntRange(0, 1).Draw(rt, "more"))
		}
		require.Equal(rt, want, got)
	})
}

// TestSessionsAreSoughtInRounds: of a list that holds almost nothing of what is asked for a page comes back short, and says
// where to go on.
func TestSessionsAreSoughtInRounds(t *testing.T) {
	store := newStore(t)
	const sessions = 2500
	for i := range sessions {
		s := &conversationpb.State{Id: fmt.Sprintf("conv_%05d", i), TenantId: "t", ProjectId: "p", AgentId: "a", CreatedAt: int64(i + 1)}
		if i > 0 {
			s.Lease = &conversationpb.Lease{}
		}
		keepSession(t.Context(), t, store, uint32(i%4+1), s)
	}
	query := &conversationpb.SessionsQuery{TenantId: "t", ProjectId: "p", Anybody: true, Status: conversationpb.RuntimeIdle, Limit: 10}
	pages := 0
	for {
		page, err := listSessions(t.Context(), store, query)
		require.NoError(t, err)
		if pages++; page.Next == nil {
			require.Len(t, page.Sessions, 1)
			break
		}
		require.Empty(t, page.Sessions)
		query.After = page.Next
	}
	require.Equal(t, 5, pages, "20+40+80+160+320 a page")
	page, err := listSessions(t.Context(), store, &conversationpb.SessionsQuery{TenantId: "t", ProjectId: "p", Anybody: true})
	require.NoError(t, err)
	require.Empty(t, page.Sessions)
}

// TestSessionsAreCounted: by the statuses that have lists, everybody's and one user's.
func TestSessionsAreCounted(t *testing.T) {
	store := newStore(t)
	tries := 0
	rapid.Check(t, func(rt *rapid.T) {
		tries++
		query := &conversationpb.SessionCountsQuery{
			TenantId: fmt.Sprint("t", tries), ProjectId: "a", Anybody: rapid.Bool().Draw(rt, "anybody"), UserId: "ada",
		}
		want := map[string]int64{}
		for i := range rapid.IntRange(0, 40).Draw(rt, "sessions") {
			s := drawSession(rt, fmt.Sprintf("conv_%d_%03d", tries, i))
			s.TenantId = query.GetTenantId()
			keepSession(t.Context(), rt, store, uint32(i%4+1), s)
			if s.GetProjectId() == "a" && (query.GetAnybody() || s.GetUserId() == "ada") {
				want[s.RuntimeStatus()]++
			}
		}
		kinds, err := NewEntities([]kit.Entity{{Queries: conversation.Queries()}})
		require.NoError(rt, err)
		answer, err := kinds.queries[nameOf(query)].FromLists(t.Context(), localRows{store}, query)
		require.NoError(rt, err)
		reply, _ := answer.(*conversationpb.SessionCountsReply)
		require.Len(rt, reply.GetCounts(), 3)
		for _, count := range reply.GetCounts() {
			require.Equal(rt, want[count.GetStatus()], count.GetCount(), count.GetStatus())
			require.False(rt, count.GetMore())
		}
	})
}

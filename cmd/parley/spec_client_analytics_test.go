package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// used is what a breakdown has for a group: requests by its id.
func used(t *testing.T, b apiCaller, groupBy, key string) map[string]float64 {
	t.Helper()
	counted := map[string]float64{}
	got := b.done(t, "GET", "/analytics/usage?group_by="+groupBy, nil)
	for _, row := range got.at("breakdown").list() {
		counted[row.text(key)] = row.number("requests")
	}
	var sum float64
	for _, n := range counted {
		sum += n
	}
	require.InDelta(t, sum, got.number("totals", "requests"), 0)
	return counted
}

// TestClientAnalytics: what a project used is in its analytics and in no other's, by each group, and no turn and no call that was
// answered is lost when the process is killed.
func TestClientAnalytics(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the binary and runs processes")
	}
	p := newProcess(t, floorConfig)
	p.start()
	n, other := newTenant(t, p, "ON_PREMISE"), newTenant(t, p, "ON_PREMISE")
	n.scripted(t)
	gateway := newTenant(t, p, "ON_PREMISE")
	gateway.scripted(t)
	id, member := n.user(t, "user", nil)
	agent := n.newAgent(t, object1{"name": "Teller", "config": object1{"modelKey": "scripted"}})
	before := time.Now().UTC()
	n.done(t, "POST", "/agents/responses", object1{"model": agent, "input": "hi"})
	session := member.done(t, "POST", "/agents/responses", object1{"model": agent, "input": "hi"}).text("session_id")
	const calls = 5
	for range calls {
		gateway.done(t, "POST", "/chat/completions", object1{"model": "scripted", "messages": []object1{{"role": "user", "content": "hi"}}})
	}
	p.kill()
	p.start()

	require.Eventually(t, func() bool { return used(t, gateway.apiCaller, "user", "user_id")[gateway.owner] > 0 }, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, map[string]float64{gateway.owner: calls}, used(t, gateway.apiCaller, "user", "user_id"), "of calls that belong to no conversation")
	require.Equal(t, map[string]float64{n.owner: 1, id: 1}, used(t, n.apiCaller, "user", "user_id"))
	require.Equal(t, map[string]float64{"agents": 2}, used(t, n.apiCaller, "service", "service"))
	require.Equal(t, map[string]float64{agent: 2}, used(t, n.apiCaller, "agent", "agent_key"))
	require.Len(t, used(t, n.apiCaller, "token", "api_token_id"), 2)
	day := before.Format(time.DateOnly)
	whole := n.done(t, "GET", "/analytics/usage?from="+day+"&interval=hour", nil)
	require.InDelta(t, 2, whole.number("totals", "calls"), 0)
	require.Equal(t, []string{"scripted"}, texts(whole.at("by_model").list(), "model_key"))
	require.NotEmpty(t, whole.at("timeseries").list())
	tomorrow := before.Add(48 * time.Hour).Format(time.DateOnly)
	require.InDelta(t, 0, n.done(t, "GET", "/analytics/usage?from="+tomorrow, nil).number("totals", "calls"), 0)
	require.InDelta(t, 2, n.done(t, "GET", "/analytics/usage?model=scripted", nil).number("totals", "calls"), 0)
	require.InDelta(t, 0, n.done(t, "GET", "/analytics/usage?model=else", nil).number("totals", "calls"), 0)

	overview := n.done(t, "GET", "/analytics/overview?from="+day, nil)
	require.InDelta(t, 2, overview.number("stats", "tracing", "totalSessions"), 0)
	require.InDelta(t, whole.number("totals", "total_tokens"), overview.number("stats", "tracing", "totalTokens"), 0)
	require.Equal(t, session, texts(overview.at("recent_sessions").list(), "sessionId")[0], "the newest is first")
	require.InDelta(t, 0, n.done(t, "GET", "/analytics/overview?from="+tomorrow, nil).number("stats", "tracing", "totalSessions"), 0)

	require.Empty(t, used(t, other.apiCaller, "user", "user_id"))
	require.InDelta(t, 0, other.done(t, "GET", "/analytics/overview", nil).number("stats", "tracing", "totalSessions"), 0)
	elsewhere := n.done(t, "POST", "/projects", object1{"name": "Elsewhere"}).text("project", "id")
	there := apiCaller{p, operate(t, p, "POST", "/tokens", object1{"userId": n.owner, "label": "there", "projectId": elsewhere}).text("token")}
	require.Empty(t, used(t, there, "user", "user_id"), "another project of the same tenant")
}

// analyticsAtEveryNode: every node of a cluster has the sums of all.
func analyticsAtEveryNode(t *testing.T, members []*process) {
	t.Helper()
	n := newTenant(t, members[0], "ON_PREMISE")
	n.scripted(t)
	agent := n.newAgent(t, object1{"name": "Teller", "config": object1{"modelKey": "scripted"}})
	const turns = 9
	for i := range turns {
		order := object1{"model": agent, "input": "hi"}
		require.Eventually(t, func() bool { return n.at(members[i%3]).ask(t, "POST", "/agents/responses", order).status == 200 },
			30*time.Second, 10*time.Millisecond)
	}
	for _, p := range members {
		b := n.at(p)
		require.Equal(t, map[string]float64{n.owner: turns}, used(t, b, "user", "user_id"))
		overview := b.done(t, "GET", "/analytics/overview", nil)
		require.InDelta(t, turns, overview.number("stats", "tracing", "totalSessions"), 0)
		require.Len(t, overview.at("recent_sessions").list(), turns)
	}
}

// TestDashboardOverview: whoever is signed in has the same numbers, and who they are.
func TestDashboardOverview(t *testing.T) {
	t.Parallel()
	p := shared.of(t, accountsConfig)
	owner, email, _ := company(t, p)
	session := turnOf(t, owner, furnish(t, owner))
	got := owner.done(t, "GET", "/dashboard", nil)
	require.Equal(t, []string{session}, texts(got.at("recentSessions").list(), "sessionId"))
	require.Equal(t, []string{session}, texts(got.at("recentActivity").list(), "id"))
	require.Equal(t, []string{email, "FREE"}, []string{got.text("user", "email"), got.text("user", "licenseType")})
	same := owner.done(t, "GET", consoleAPI+"/analytics/overview", nil)
	require.Equal(t, same.at("stats").v, got.at("stats").v)
	require.Equal(t, same.at("daily").v, got.at("daily").v)
	require.Equal(t, 401, newVisitor(t, p).call(t, "GET", "/dashboard", nil).status)
}

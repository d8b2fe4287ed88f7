package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestClientSessionCreate: POST /agents/sessions.
func TestClientSessionCreate(t *testing.T) {
	t.Parallel()
	n := onFloor(t)
	fresh := fields{
		"agent": exactly(n.agents["quick"]), "title": exactly(nil), "metadata": exactly(object1{}), "runtime_status": exactly("idle"),
		"stop_reason": exactly(nil), "pending_actions": exactly([]any{}), "last_event_seq": exactly(0), "budget": exactly(nil), "spent_usd": exactly(0),
	}
	t.Run("only_an_agent", func(t *testing.T) {
		a := n.post(t, "/agents/sessions", object1{"agent": n.agents["quick"]})
		made := a.fits(201, sessionShape(fresh))
		require.Equal(t, made.v, n.read(t, made.text("id")).v)
		require.Empty(t, n.done(t, "GET", "/agents/sessions/"+made.text("id")+"/messages", nil).at("data").list(), "nothing ran")
	})
	t.Run("everything", func(t *testing.T) {
		pairs := object1{"a": "", strings.Repeat("ü", 64): strings.Repeat("é", 512)}
		for i := range 14 {
			pairs[fmt.Sprint("k", i)] = "v"
		}
		title := strings.Repeat("ä", 200)
		made := n.post(t, "/agents/sessions", object1{
			"agent": n.agents["quick"], "title": title, "metadata": pairs, "budget": object1{"max_cost_usd": 0.5},
			"runtime_context": object1{"headers": object1{"X-Key": "very-secret-value"}, "metadata": object1{"seat": "very-secret-seat"}},
			"nonsense":        1,
		})
		session := made.fits(201, sessionShape(fresh.with(fields{
			"title": exactly(title), "metadata": exactly(pairs), "budget": exactly(object1{"max_cost_usd": 0.5, "on_reach": "pause"}),
		})))
		require.Equal(t, session.v, n.read(t, session.text("id")).v)
		for _, text := range []string{made.text, n.get(t, "/agents/sessions/"+session.text("id")).text, n.get(t, "/agents/sessions").text} {
			require.NotContains(t, text, "very-secret", "runtime_context is never returned")
		}
		user := n.p.ask(t, "GET", "/conversations/"+session.text("id"), nil, "Authorization", "Bearer "+n.token).fits(200, anyObject)
		require.Equal(t, n.owner, user.text("conversation", "userId"), "the session owner is the token's owner")
	})
	t.Run("null_means_nothing", func(t *testing.T) {
		n.post(t, "/agents/sessions", object1{"agent": n.agents["quick"], "title": nil, "metadata": nil, "budget": nil, "runtime_context": nil}).
			fits(201, sessionShape(fresh))
	})
	t.Run("agent_default_budget", func(t *testing.T) {
		n.post(t, "/agents/sessions", object1{"agent": n.agents["bound"]}).
			fits(201, sessionShape(fields{"budget": exactly(object1{"max_cost_usd": 0.03, "on_reach": "stop"})}))
	})
	pairs := func(count int) object1 {
		all := object1{}
		for i := range count {
			all[fmt.Sprint("k", i)] = "v"
		}
		return all
	}
	agent := n.agents["quick"]
	n.agent(t, "idle one", object1{"modelKey": "quick"}, nil)
	n.done(t, "PATCH", "/agents/"+n.agents["idle one"], object1{"status": "inactive"})
	for name, c := range map[string]struct {
		body   any
		status int
		code   string
	}{
		"no_agent":              {object1{}, 400, "invalid_request"},
		"empty_agent":           {object1{"agent": ""}, 400, "invalid_request"},
		"agent_of_another_type": {object1{"agent": 7}, 400, "invalid_request"},
		"no_json":               {"{", 400, "invalid_request"},
		"no_object":             {"[]", 400, "invalid_request"},
		"no_body":               {nil, 400, "invalid_request"},
		"unknown_agent":         {object1{"agent": "nobody"}, 404, "agent_not_found"},
		"agent_not_active":      {object1{"agent": n.agents["idle one"]}, 400, "agent_not_active"},
		"title_201":             {object1{"agent": agent, "title": strings.Repeat("ä", 201)}, 400, "invalid_request"},
		"title_number":          {object1{"agent": agent, "title": 1}, 400, "invalid_request"},
		"metadata_17_pairs":     {object1{"agent": agent, "metadata": pairs(17)}, 400, "invalid_metadata"},
		"metadata_key_65":       {object1{"agent": agent, "metadata": object1{strings.Repeat("k", 65): "v"}}, 400, "invalid_metadata"},
		"metadata_empty_key":    {object1{"agent": agent, "metadata": object1{"": "v"}}, 400, "invalid_metadata"},
		"metadata_value_513":    {object1{"agent": agent, "metadata": object1{"k": strings.Repeat("v", 513)}}, 400, "invalid_metadata"},
		"metadata_number":       {object1{"agent": agent, "metadata": object1{"k": 1}}, 400, "invalid_metadata"},
		"metadata_null_value":   {object1{"agent": agent, "metadata": object1{"k": nil}}, 400, "invalid_metadata"},
		"metadata_list":         {object1{"agent": agent, "metadata": []any{}}, 400, "invalid_metadata"},
		"budget_number":         {object1{"agent": agent, "budget": 3}, 400, "invalid_budget"},
		"budget_empty":          {object1{"agent": agent, "budget": object1{}}, 400, "invalid_budget"},
		"budget_zero":           {object1{"agent": agent, "budget": object1{"max_cost_usd": 0}}, 400, "invalid_budget"},
		"budget_negative":       {object1{"agent": agent, "budget": object1{"max_cost_usd": -1}}, 400, "invalid_budget"},
		"budget_text":           {object1{"agent": agent, "budget": object1{"max_cost_usd": "1"}}, 400, "invalid_budget"},
		"budget_on_reach":       {object1{"agent": agent, "budget": object1{"max_cost_usd": 1, "on_reach": "explode"}}, 400, "invalid_budget"},
		"bound_raised":          {object1{"agent": n.agents["bound"], "budget": object1{"max_cost_usd": 0.031}}, 403, "budget_override_forbidden"},
		"bound_removed":         {object1{"agent": n.agents["bound"], "budget": nil}, 403, "budget_override_forbidden"},
	} {
		t.Run(name, func(t *testing.T) { n.post(t, "/agents/sessions", c.body).coded(c.status, c.code) })
	}
	t.Run("agent_of_another_project", func(t *testing.T) {
		other := newTenant(t, n.p, "ON_PREMISE")
		other.post(t, "/agents/sessions", object1{"agent": agent}).coded(404, "agent_not_found")
	})
}

// TestClientSessionList: GET /agents/sessions.
func TestClientSessionList(t *testing.T) {
	t.Parallel()
	n := onFloor(t)
	list := func(t *testing.T, query string) tree {
		t.Helper()
		return n.get(t, "/agents/sessions"+query).fits(200, object(fields{
			"object": exactly("list"), "data": listOf(anyObject), "has_more": boolean, "next_cursor": either(exactly(nil), nonEmpty),
		}))
	}
	empty := list(t, "")
	require.Equal(t, []any{}, empty.at("data").v)
	require.Nil(t, empty.at("next_cursor").v)
	var made, talkers []string // newest first, also of one millisecond
	var order []tree
	for i := range 45 {
		order = append(order, n.read(t, n.session(t, []string{"quick", "talker", "worker"}[i%3], nil)))
	}
	slices.Reverse(order)
	for _, session := range order {
		made = append(made, session.text("id"))
		if session.text("agent") == n.agents["talker"] {
			talkers = append(talkers, session.text("id"))
		}
	}
	t.Run("twenty_newest_created_first", func(t *testing.T) {
		page := list(t, "")
		require.Equal(t, made[:20], texts(page.at("data").list(), "id"))
		require.True(t, page.flag("has_more"))
	})
	t.Run("row_is_a_summary", func(t *testing.T) {
		at := slices.IndexFunc(order, func(s tree) bool { return s.text("agent") == n.agents["quick"] })
		id := made[at]
		n.respond(t, "quick", "hello there", object1{"session_id": id}).fits(200, anyObject)
		session := n.read(t, id)
		rows := list(t, "?limit=100").at("data").list()
		require.NoError(t, exactly(summary(session, 2))(rows[at].v))
		require.Equal(t, made, texts(rows, "id"), "order is of creation, whatever changes")
	})
	t.Run("pages_do_not_shift", func(t *testing.T) {
		var seen, later []string
		query := "?limit=7"
		for {
			page := list(t, query)
			seen = append(seen, texts(page.at("data").list(), "id")...)
			require.Equal(t, page.flag("has_more"), page.at("next_cursor").v != nil)
			if !page.flag("has_more") {
				break
			}
			later = append(later, n.session(t, "quick", nil)) // created while paging
			query = "?limit=7&after=" + page.text("next_cursor")
		}
		require.Equal(t, made, seen)
		for _, id := range later {
			n.remove(t, id).fits(200, anyObject)
		}
	})
	t.Run("the_last_row_read_may_be_gone", func(t *testing.T) {
		gone := n.session(t, "quick", nil)
		page := list(t, "?limit=1")
		require.Equal(t, gone, page.at("data").list()[0].text("id"))
		n.remove(t, gone).fits(200, anyObject)
		require.Equal(t, made[:5], texts(list(t, "?limit=5&after="+page.text("next_cursor")).at("data").list(), "id"))
	})
	t.Run("of_an_agent", func(t *testing.T) {
		page := list(t, "?limit=10&agent="+n.agents["talker"])
		rest := list(t, "?limit=10&agent="+n.agents["talker"]+"&after="+page.text("next_cursor"))
		require.Equal(t, talkers, append(texts(page.at("data").list(), "id"), texts(rest.at("data").list(), "id")...))
		require.False(t, rest.flag("has_more"))
		require.Empty(t, list(t, "?agent=nobody").at("data").list())
	})
	t.Run("of_a_status", func(t *testing.T) {
		held, paused, asked := n.session(t, "worker", nil), n.session(t, "talker", object1{"budget": object1{"max_cost_usd": 0.02}}), n.session(t, "worker", nil)
		n.respond(t, "talker", "go", object1{"session_id": paused}).fits(200, anyObject)
		n.respond(t, "worker", script(calls(wipe("list-1"))), object1{"session_id": asked}).fits(200, anyObject)
		run := n.run(t, "worker", script(part{Text: "x", Hold: "list"}), object1{"session_id": held})
		n.becomes(t, held, "running")
		for status, want := range map[string][]string{"running": {held}, "budget_paused": {paused}, "requires_action": {asked}, "idle": made} {
			require.Equal(t, want, texts(list(t, "?limit=100&status="+status).at("data").list(), "id"), status)
		}
		require.Equal(t, []string{asked}, texts(list(t, "?status=requires_action&agent="+n.agents["worker"]).at("data").list(), "id"))
		require.Empty(t, list(t, "?status=requires_action&agent="+n.agents["talker"]).at("data").list())
		close(n.shop.gate("list"))
		require.Equal(t, "succeeded", n.wait(t, run.text("id")).text("status"))
		require.Equal(t, append([]string{held}, made...), texts(list(t, "?limit=100&status=idle").at("data").list(), "id"))
		require.Empty(t, list(t, "?status=running").at("data").list())
	})
	cursor := list(t, "?limit=1").text("next_cursor")
	for name, c := range map[string]struct{ query, code string }{
		"limit_0": {"limit=0", "invalid_limit"}, "limit_101": {"limit=101", "invalid_limit"}, "limit_text": {"limit=x", "invalid_limit"},
		"limit_fraction": {"limit=1.5", "invalid_limit"}, "limit_negative": {"limit=-1", "invalid_limit"},
		"status_unknown": {"status=sleeping", "invalid_status"}, "status_upper_case": {"status=IDLE", "invalid_status"},
		"cursor_made_up": {"after=x", "invalid_cursor"}, "cursor_is_an_id": {"after=" + made[0], "invalid_cursor"},
		"cursor_changed": {"after=" + cursor[:len(cursor)-1] + "!", "invalid_cursor"}, "cursor_cut": {"after=" + cursor[:len(cursor)-4], "invalid_cursor"},
		"cursor_too_long": {"after=" + strings.Repeat("A", 1000), "invalid_cursor"},
	} {
		t.Run(name, func(t *testing.T) { n.get(t, "/agents/sessions?"+c.query).coded(400, c.code) })
	}
	t.Run("limit_100", func(t *testing.T) { list(t, "?limit=100") })
	t.Run("cursor_of_another_project", func(t *testing.T) {
		newTenant(t, n.p, "ON_PREMISE").get(t, "/agents/sessions?after="+cursor).coded(400, "invalid_cursor")
	})
}

// TestClientSessionAccess: a session of another project is not there, nor is that of another user to who is not trusted.
func TestClientSessionAccess(t *testing.T) {
	t.Parallel()
	n := onFloor(t)
	_, ann := n.user(t, "user", nil)
	_, bob := n.user(t, "user", nil)
	_, chief := n.user(t, "project_admin", nil)
	other := newTenant(t, n.p, "ON_PREMISE")
	id := ann.done(t, "POST", "/agents/sessions", object1{"agent": n.agents["worker"]}).text("id")
	paused := ann.post(t, "/agents/responses", n.order("worker", script(calls(wipe("acc-1"))), object1{"session_id": id})).fits(200, anyObject)
	action := paused.at("pending_actions").list()[0].text("id")
	run := ann.post(t, "/agents/responses", n.order("quick", "hi", object1{"background": true})).fits(202, anyObject)
	ids := func(b apiCaller) []string {
		return texts(b.done(t, "GET", "/agents/sessions", nil).at("data").list(), "id")
	}
	for name, b := range map[string]apiCaller{"another_user": bob, "another_tenant": other.apiCaller} {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, ids(b))
			for _, c := range []struct {
				method, path string
				body         any
			}{
				{"GET", "", nil},
				{"PATCH", "", object1{"budget": nil}},
				{"DELETE", "", nil},
				{"GET", "/messages", nil},
				{"GET", "/events", nil},
				{"GET", "/events/stream", nil},
				{"POST", "/actions/" + action, object1{"resolution": allow}},
				{"POST", "/cancel", nil},
				{"GET", "/files", nil},
				{"POST", "/files", object1{"file": object1{"name": "a", "content": "aGk="}}},
				{"GET", "/files/file_AAAAAAAAAAAAAAAAAAAAA/content", nil},
				{"DELETE", "/files/file_AAAAAAAAAAAAAAAAAAAAA", nil},
			} {
				b.ask(t, c.method, "/agents/sessions/"+id+c.path, c.body).denied(404, "session_not_found", "Session not found")
			}
			for _, path := range []string{"GET ", "POST /cancel", "GET /wait"} {
				method, rest, _ := strings.Cut(path, " ")
				b.ask(t, method, "/agents/runs/"+run.text("id")+rest, nil).denied(404, "run_not_found", "Run not found")
			}
			if name == "another_user" {
				for field, text := range map[string]string{
					"session_id": "Session not found", "conversation": "Session not found", "previous_response_id": "previous_response_id does not match a valid conversation",
				} {
					order := n.order("worker", "hi", object1{field: id})
					if field == "previous_response_id" {
						order[field] = "resp_" + id
					}
					b.post(t, "/agents/responses", order).denied(404, "session_not_found", text)
				}
			}
		})
	}
	require.Contains(t, ids(ann), id)
	require.Len(t, ids(ann), 2)
	t.Run("who_administers_sees_all", func(t *testing.T) {
		for _, b := range []apiCaller{chief, n.apiCaller} {
			require.Len(t, ids(b), 2)
			b.read(t, id)
			b.get(t, "/agents/runs/"+run.text("id")).fits(200, runShape(nil))
		}
		chief.post(t, "/agents/sessions/"+id+"/actions/"+action, object1{"resolution": deny}).fits(200, responseShape(nil))
	})
	t.Run("no_such_session", func(t *testing.T) {
		for _, id := range []string{"conv_AAAAAAAAAAAAAAAAAAAAA", "x", "run_AAAAAAAAAAAAAAAAAAAAA", strings.Repeat("x", 300)} {
			n.get(t, "/agents/sessions/"+id).coded(404, "session_not_found")
		}
	})
}

// TestClientSessionDelete: DELETE /agents/sessions/{id}.
func TestClientSessionDelete(t *testing.T) {
	t.Parallel()
	n := onFloor(t)
	t.Run("everything_goes", func(t *testing.T) {
		id := n.session(t, "worker", nil)
		file := n.done(t, "POST", "/agents/sessions/"+id+"/files", object1{"file": object1{"name": "a.txt", "content": "aGk="}}).text("id")
		paused := n.respond(t, "worker", script(calls(wipe("del-1"))), object1{"session_id": id}).fits(200, anyObject)
		action := paused.at("pending_actions").list()[0].text("id")
		require.NoError(t, exactly(object1{"id": id, "object": "agent.session", "deleted": true})(n.remove(t, id).fits(200, anyObject).v))
		for path, method := range map[string]string{"": "GET", "/events": "GET", "/messages": "GET", "/files": "GET", "/files/" + file + "/content": "GET", "/cancel": "POST"} {
			n.ask(t, method, "/agents/sessions/"+id+path, nil).coded(404, "session_not_found")
		}
		n.post(t, "/agents/sessions/"+id+"/actions/"+action, object1{"resolution": allow}).coded(404, "session_not_found")
		n.remove(t, id).coded(404, "session_not_found")
		require.Empty(t, n.done(t, "GET", "/agents/sessions", nil).at("data").list())
		require.Empty(t, n.shop.uses("wipe", "del-1"))
	})
	t.Run("not_while_a_run_is_active", func(t *testing.T) {
		ids := []string{n.session(t, "worker", nil), n.session(t, "worker", nil), n.session(t, "worker", nil)}
		var runs []string
		for _, id := range ids { // two run, one waits for its place
			runs = append(runs, n.run(t, "worker", script(part{Text: "x", Hold: "del"}), object1{"session_id": id}).text("id"))
		}
		n.becomes(t, ids[1], "running")
		for i, id := range ids {
			n.remove(t, id).coded(409, "agent_run_conflict")
			n.change(t, id, object1{"budget": object1{"max_cost_usd": 1}}).coded(409, "agent_run_conflict")
			n.respond(t, "worker", "hi", object1{"session_id": id}).coded(409, "agent_run_conflict")
			require.Nil(t, n.read(t, id).at("budget").v, "nothing changed")
			n.get(t, "/agents/runs/"+runs[i]).fits(200, runShape(nil))
		}
		require.Equal(t, "queued", n.get(t, "/agents/runs/"+runs[2]).fits(200, anyObject).text("status"))
		close(n.shop.gate("del"))
		for i, id := range ids {
			require.Equal(t, "succeeded", n.wait(t, runs[i]).text("status"))
			require.Eventually(t, func() bool { return n.remove(t, id).status == 200 }, waitLong, waitStep)
		}
	})
	t.Run("not_while_a_turn_is_running", func(t *testing.T) {
		id := n.session(t, "worker", nil)
		came := n.p.asking(t, "POST", n.url("/agents/responses"), n.order("worker", script(part{Text: "x", Hold: "del2"}), object1{"session_id": id}),
			"Authorization", "Bearer "+n.token)
		n.becomes(t, id, "running")
		n.remove(t, id).coded(409, "agent_run_conflict")
		n.respond(t, "worker", "hi", object1{"session_id": id}).coded(409, "agent_run_conflict")
		close(n.shop.gate("del2"))
		came().fits(200, responseShape(fields{"status": exactly("completed")}))
		n.remove(t, id).fits(200, anyObject)
	})
}

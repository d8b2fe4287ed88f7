package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestClientSessionBudget: budgets of sessions, what reaching them means, and PATCH /agents/sessions/{id}.
func TestClientSessionBudget(t *testing.T) {
	t.Parallel()
	n := onFloor(t)
	budget := func(max float64, onReach string) object1 { return object1{"max_cost_usd": max, "on_reach": onReach} }
	// reached is a session whose first turn its budget cut.
	reached := func(t *testing.T, agent string, max float64, onReach string) (id string, response tree) {
		t.Helper()
		id = n.session(t, agent, object1{"budget": budget(max, onReach)})
		response = n.respond(t, agent, "go", object1{"session_id": id}).fits(200, responseShape(fields{
			"status": exactly("failed"), "stop_reason": exactly("budget_reached"),
			"error": object(fields{"type": exactly("budget_reached"), "code": exactly("budget_reached"), "message": nonEmpty}),
		}))
		require.InDelta(t, max, response.number("spent_usd"), metered)
		require.Regexp(t, `^w1 w2 `, response.said(), "what was said until then")
		return id, response
	}
	for name, c := range map[string]struct{ onReach, status string }{"reached_pause": {"pause", "budget_paused"}, "reached_stop": {"stop", "idle"}} {
		t.Run(name, func(t *testing.T) {
			onReach, status := c.onReach, c.status
			id, response := reached(t, "talker", 0.03, onReach)
			session := n.get(t, "/agents/sessions/"+id).fits(200, sessionShape(fields{
				"runtime_status": exactly(status), "stop_reason": exactly("budget_reached"), "budget": exactly(budget(0.03, onReach)),
				"spent_usd": exactly(response.number("spent_usd")),
			}))
			a := n.respond(t, "talker", "more", object1{"session_id": id})
			a.coded(402, "budget_reached")
			require.InDelta(t, session.number("spent_usd"), decode(t, a.text).number("spent_usd"), 0)
			require.InDelta(t, 0.03, decode(t, a.text).number("max_cost_usd"), 0)
			a = n.respond(t, "talker", "more", object1{"session_id": id, "background": true})
			a.coded(402, "budget_reached")
			require.InDelta(t, 0.03, decode(t, a.text).number("max_cost_usd"), 0)
			events := map[string]tree{}
			for _, event := range n.done(t, "GET", "/agents/sessions/"+id+"/events", nil).at("data").list() {
				events[event.text("type")] = event.at("data")
			}
			require.NoError(t, exactly(object1{"max_cost_usd": 0.03, "on_reach": onReach, "spent_usd": session.number("spent_usd")})(events["budget.reached"].v))
			require.InDelta(t, session.number("spent_usd"), events["session.usage"].number("spent_usd"), 1e-9)
			require.Positive(t, events["session.usage"].number("turn_cost_usd"))

			t.Run("until_it_is_raised_or_removed", func(t *testing.T) {
				n.change(t, id, object1{"budget": nil, "resume": false}).fits(200, sessionShape(fields{"budget": exactly(nil)}))
				n.respond(t, "talker", "more", object1{"session_id": id}).fits(200, responseShape(fields{"status": exactly("completed")}))
			})
		})
	}
	t.Run("resume_is_a_run", func(t *testing.T) {
		id, cut := reached(t, "talker", 0.03, "pause")
		run := n.change(t, id, object1{"budget": budget(1, "stop")}).fits(http.StatusAccepted, runShape(fields{"session_id": exactly(id), "agent": exactly(n.agents["talker"])}))
		ended := n.wait(t, run.text("id"))
		require.Equal(t, "succeeded", ended.text("status"))
		require.Greater(t, len(ended.at("result").said()), len(cut.said()), "the answer that was cut, gone on")
		n.get(t, "/agents/sessions/"+id).fits(200, sessionShape(fields{
			"runtime_status": exactly("idle"), "stop_reason": exactly("end_turn"), "budget": exactly(budget(1, "stop")),
		}))
		require.Len(t, n.done(t, "GET", "/agents/sessions/"+id+"/messages", nil).at("data").list(), 2)
	})
	t.Run("resume_by_removing", func(t *testing.T) {
		id, _ := reached(t, "talker", 0.02, "pause")
		run := n.change(t, id, object1{"budget": nil, "resume": true}).fits(http.StatusAccepted, runShape(nil))
		require.Equal(t, "succeeded", n.wait(t, run.text("id")).text("status"))
		require.Nil(t, n.read(t, id).at("budget").v)
	})
	t.Run("no_resume", func(t *testing.T) {
		id, cut := reached(t, "talker", 0.02, "pause")
		n.change(t, id, object1{"budget": budget(1, "pause"), "resume": false}).fits(200, sessionShape(fields{
			"runtime_status": exactly("budget_paused"), "budget": exactly(budget(1, "pause")), "spent_usd": exactly(cut.number("spent_usd")),
		}))
		n.change(t, id, object1{"budget": budget(1, "pause")}).fits(202, runShape(nil))
	})
	t.Run("nothing_to_resume", func(t *testing.T) {
		id := n.session(t, "talker", nil)
		n.change(t, id, object1{"budget": budget(0.5, "stop")}).fits(200, sessionShape(fields{"budget": exactly(budget(0.5, "stop"))}))
		n.respond(t, "talker", "go", object1{"session_id": id}).fits(200, responseShape(fields{"status": exactly("completed")}))
		n.change(t, id, object1{"budget": object1{"max_cost_usd": 0.6}}).fits(200, sessionShape(fields{"budget": exactly(budget(0.6, "pause"))}))
		id, _ = reached(t, "talker", 0.02, "stop")
		n.change(t, id, object1{"budget": budget(1, "stop")}).fits(200, sessionShape(nil))
	})
	t.Run("background_disabled_changes_nothing", func(t *testing.T) {
		id, _ := reached(t, "shy", 0.02, "pause")
		before := n.read(t, id)
		n.change(t, id, object1{"budget": budget(1, "pause"), "runtime_context": object1{"metadata": object1{"a": 1}}}).coded(400, "agent_background_disabled")
		require.Equal(t, before.v, n.read(t, id).v)
		n.respond(t, "shy", "go", object1{"session_id": id}).coded(402, "budget_reached")
		n.change(t, id, object1{"budget": budget(1, "pause"), "resume": false}).fits(200, sessionShape(nil))
		n.respond(t, "shy", "go", object1{"session_id": id}).fits(200, responseShape(fields{"status": exactly("completed")}))
		n.respond(t, "shy", "go", object1{"background": true}).coded(400, "agent_background_disabled")
	})
	t.Run("not_above_spent", func(t *testing.T) {
		for _, agent := range []string{"talker", "shy"} { // what the request says is looked at before what the agent may
			id, cut := reached(t, agent, 0.02, "pause")
			for _, max := range []float64{cut.number("spent_usd"), 0.001} {
				for _, resume := range []bool{true, false} {
					n.change(t, id, object1{"budget": budget(max, "pause"), "resume": resume}).coded(400, "invalid_budget")
				}
			}
			require.NoError(t, exactly(budget(0.02, "pause"))(n.read(t, id).at("budget").v))
		}
	})
	t.Run("refused_updates", func(t *testing.T) {
		id := n.session(t, "talker", nil)
		for name, c := range map[string]struct {
			body any
			code string
		}{
			"missing":      {object1{}, "invalid_budget"},
			"only resume":  {object1{"resume": false}, "invalid_budget"},
			"no object":    {object1{"budget": 1}, "invalid_budget"},
			"no number":    {object1{"budget": object1{}}, "invalid_budget"},
			"zero":         {object1{"budget": object1{"max_cost_usd": 0}}, "invalid_budget"},
			"on_reach":     {object1{"budget": budget(1, "x")}, "invalid_budget"},
			"resume":       {object1{"budget": nil, "resume": "yes"}, "invalid_request"},
			"malformed":    {"{", "invalid_request"},
			"not a object": {"[]", "invalid_request"},
		} {
			require.NotNil(t, n.change(t, id, c.body).coded(400, c.code).v, name)
		}
		n.change(t, "conv_AAAAAAAAAAAAAAAAAAAAA", object1{"budget": nil}).coded(404, "session_not_found")
	})
	t.Run("bound_by_the_agent", func(t *testing.T) {
		id := n.session(t, "bound", object1{"budget": budget(0.02, "pause")}) // lower
		n.change(t, id, object1{"budget": budget(0.03, "stop")}).fits(200, sessionShape(nil))
		for _, over := range []any{budget(0.0301, "stop"), nil} {
			n.change(t, id, object1{"budget": over}).coded(403, "budget_override_forbidden")
			n.respond(t, "bound", "go", object1{"budget": over}).coded(403, "budget_override_forbidden")
			n.respond(t, "bound", "go", object1{"budget": over, "background": true}).coded(403, "budget_override_forbidden")
		}
		require.NoError(t, exactly(budget(0.03, "stop"))(n.read(t, id).at("budget").v))
		lower := n.respond(t, "bound", "go", object1{"budget": budget(0.01, "pause")}).fits(200, responseShape(fields{"stop_reason": exactly("budget_reached")}))
		require.InDelta(t, 0.01, lower.number("spent_usd"), metered)
		usual := n.respond(t, "bound", "go", nil).fits(200, responseShape(fields{"stop_reason": exactly("budget_reached")}))
		require.InDelta(t, 0.03, usual.number("spent_usd"), metered)
		n.respond(t, "bound", "go", object1{"session_id": id, "budget": nil}).fits(200, responseShape(nil)) // ignored on a continued session
		n.change(t, lower.text("session_id"), object1{"budget": budget(0.031, "pause")}).coded(403, "budget_override_forbidden")
		require.Equal(t, "budget_paused", n.read(t, lower.text("session_id")).text("runtime_status"))
		n.change(t, lower.text("session_id"), object1{"budget": budget(0.03, "pause")}).fits(202, runShape(nil))
	})
	t.Run("of_a_response", func(t *testing.T) {
		made := n.respond(t, "talker", "go", object1{"budget": budget(0.02, "pause")}).fits(200, responseShape(fields{"status": exactly("failed")}))
		require.Equal(t, "budget_paused", n.read(t, made.text("session_id")).text("runtime_status"))
		n.respond(t, "talker", "go", object1{"budget": 3}).coded(400, "invalid_budget")
		n.respond(t, "quick", "go", object1{"budget": 3, "session_id": n.session(t, "quick", nil)}).fits(200, responseShape(nil))
	})
	t.Run("run_that_its_budget_cuts_fails", func(t *testing.T) {
		run := n.run(t, "talker", "go", object1{"budget": budget(0.02, "pause")})
		ended := n.wait(t, run.text("id"))
		require.Equal(t, []string{"failed", "budget_reached"}, []string{ended.text("status"), ended.text("error", "type")})
		require.Equal(t, "budget_paused", n.read(t, run.text("session_id")).text("runtime_status"))
	})
	t.Run("without_a_price", func(t *testing.T) {
		n.post(t, "/agents/sessions", object1{"agent": n.agents["broken"], "budget": budget(1, "pause")}).coded(400, "budget_unavailable")
	})
}

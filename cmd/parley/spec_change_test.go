package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpecUpdate(t *testing.T) {
	t.Parallel()
	p := open(t)
	patch := func(t *testing.T, id string, body any, record fields) tree {
		t.Helper()
		return p.ask(t, "PATCH", "/conversations/"+id, body).fits(200, conversationRecord(record))
	}

	t.Run("answers_the_bare_record_that_a_read_shows", func(t *testing.T) {
		id := p.newConversation(t, "quick", "update")
		changed := patch(t, id, map[string]any{"title": " new ", "pinned": true, "metadata": map[string]any{"a": 1}}, fields{
			"id": exactly(id), "title": exactly("new"), "pinned": exactly(true), "metadata": exactly(map[string]any{"a": 1}), "userId": exactly("update"),
		})
		require.Equal(t, changed.v, p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).at("conversation").v)
	})
	t.Run("what_is_not_named_stays", func(t *testing.T) {
		id := p.newConversation(t, "priced", "update")
		patch(t, id, `{"title":"t","pinned":true,"metadata":{"a":1,"b":2},"budget":{"maxCostUsd":1}}`, nil)
		same := fields{
			"title": exactly("t"), "pinned": exactly(true), "metadata": exactly(map[string]any{"a": 1, "b": 2}),
			"budget": exactly(map[string]any{"maxCostUsd": 1, "onReach": "pause"}),
		}
		before := patch(t, id, `{}`, same)
		require.Equal(t, before.v, patch(t, id, nil, same).v, "an empty patch changes nothing, not even updatedAt")
		patch(t, id, `{"title":"u"}`, same.with(fields{"title": exactly("u")}))
		patch(t, id, `{"metadata":{"c":3}}`, same.with(fields{"title": exactly("u"), "metadata": exactly(map[string]any{"c": 3})}))
	})
	t.Run("title_is_cleared", func(t *testing.T) {
		id := p.newConversation(t, "quick", "update")
		for _, nothing := range []string{`""`, `"  \t"`, `null`} {
			patch(t, id, `{"title":"there"}`, fields{"title": exactly("there")})
			patch(t, id, `{"title":`+nothing+`}`, fields{"title": nil})
		}
	})
	t.Run("metadata_is_emptied", func(t *testing.T) {
		id := p.newConversation(t, "quick", "update")
		patch(t, id, `{"metadata":{"a":1}}`, nil)
		patch(t, id, `{"metadata":{"parley.pins":["x"]}}`, fields{"metadata": exactly(map[string]any{})})
	})
	t.Run("budget_is_set_and_removed", func(t *testing.T) {
		id := p.newConversation(t, "priced", "update")
		patch(t, id, `{"budget":{"maxCostUsd":0.5,"onReach":"stop"}}`, fields{"budget": exactly(map[string]any{"maxCostUsd": 0.5, "onReach": "stop"})})
		patch(t, id, `{"budget":null}`, fields{"budget": exactly(nil)})
	})
	t.Run("updated_at_moves", func(t *testing.T) {
		id := p.newConversation(t, "quick", "update")
		var created, last string
		for _, title := range []string{"a", "b", "c"} {
			changed := patch(t, id, map[string]any{"title": title}, nil)
			require.GreaterOrEqual(t, changed.text("updatedAt"), max(last, created))
			created, last = changed.text("createdAt"), changed.text("updatedAt")
		}
		turn := p.say(t, id, "hello")
		read := p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject)
		require.Equal(t, turn.text("response", "createdAt"), read.text("conversation", "updatedAt"), "a message moves it, too")
	})
	t.Run("fields_of_the_server_stay", func(t *testing.T) {
		id := p.newConversation(t, "quick", "update")
		body := `{"id":"conv_x","agentId":"words","agentName":"x","userId":"eve","spentUsd":5,"continuable":true,` +
			`"createdAt":"2001-01-01T00:00:00.000Z","runtime":{"status":"running"},"state":{"x":1}}`
		before := p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).at("conversation")
		require.Equal(t, before.v, patch(t, id, body, nil).v)
	})
	t.Run("changes_are_in_the_log", func(t *testing.T) {
		id := p.newConversation(t, "quick", "update")
		patch(t, id, `{"title":"x","pinned":true}`, fields{"runtime": runtimeRecord(fields{"lastEventSeq": exactly(1)})})
		p.ask(t, "GET", "/conversations/"+id+"/events", nil).fits(200, eventsRecord(fields{"events": exactly1(eventRecord(fields{
			"seq": exactly(1), "type": exactly("session.updated"), "data": exactly(map[string]any{"title": "x", "pinned": true}), "run_id": nil,
		}))}))
	})
	t.Run("while_a_turn_runs", func(t *testing.T) {
		id := p.newConversation(t, "slow", "update")
		p.follow(t, "POST", "/conversations/"+id+"/messages", map[string]any{"message": "go", "stream": true}).frame()
		patch(t, id, `{"title":"meanwhile"}`, fields{
			"title": exactly("meanwhile"), "runtime": runtimeRecord(fields{"status": exactly("running"), "stopReason": nil}),
		})
		p.ask(t, "POST", "/conversations/"+id+"/cancel", nil).fits(200, anyObject)
	})
}

// exactly1 is a list of one item.
func exactly1(item shape) shape {
	return func(value any) error {
		if list, ok := value.([]any); ok && len(list) == 1 {
			return item(list[0])
		}
		return listOf(exactly("one item"))(value)
	}
}

func TestSpecUpdateRefusals(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := p.newConversation(t, "priced", "update refusals")
	p.say(t, id, "spend") // 0.002 USD
	before := p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject)
	for _, c := range []refusal{
		{"number_as_title", `{"title":1}`, 400, "VALIDATION_ERROR"},
		{"title_of_201_characters", map[string]any{"title": strings.Repeat("x", 201)}, 400, "VALIDATION_ERROR"},
		{"null_as_pinned", `{"pinned":null}`, 400, "VALIDATION_ERROR"},
		{"text_as_pinned", `{"pinned":"true"}`, 400, "VALIDATION_ERROR"},
		{"number_as_pinned", `{"pinned":1}`, 400, "VALIDATION_ERROR"},
		{"null_as_metadata", `{"metadata":null}`, 400, "VALIDATION_ERROR"},
		{"list_as_metadata", `{"metadata":[]}`, 400, "VALIDATION_ERROR"},
		{"huge_metadata", map[string]any{"metadata": map[string]string{"x": strings.Repeat("x", 65<<10)}}, 400, "VALIDATION_ERROR"},
		{"malformed_budget", `{"budget":{"maxCostUsd":"all"}}`, 400, "invalid_budget"},
		{"budget_below_what_was_spent", `{"budget":{"maxCostUsd":0.001}}`, 400, "invalid_budget"},
		{"budget_of_what_was_spent", `{"budget":{"maxCostUsd":0.002}}`, 400, "invalid_budget"},
		{"unknown_on_reach", `{"budget":{"maxCostUsd":1,"onReach":""}}`, 400, "invalid_budget"},
		{"one_bad_field_refuses_all", `{"title":"new","pinned":true,"budget":{"maxCostUsd":-1}}`, 400, "invalid_budget"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.ask(t, "PATCH", "/conversations/"+id, c.body).refused(c.status, c.code)
			require.Equal(t, before.v, p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).v, "a refusal changes nothing")
		})
	}
	t.Run("budget_of_an_agent_without_price", func(t *testing.T) {
		plain := p.newConversation(t, "quick", "update refusals")
		p.ask(t, "PATCH", "/conversations/"+plain, `{"budget":{"maxCostUsd":1}}`).refused(400, "budget_unavailable")
		p.ask(t, "PATCH", "/conversations/"+plain, `{"budget":null}`).fits(200, conversationRecord(nil))
	})
	t.Run("switched_off_actions", func(t *testing.T) {
		strict := p.newConversation(t, "full", "update refusals")
		p.ask(t, "PATCH", "/conversations/"+strict, `{"title":"x"}`).refused(403, "action_disabled")
		p.ask(t, "PATCH", "/conversations/"+strict, `{"pinned":true}`).refused(403, "action_disabled")
		p.ask(t, "PATCH", "/conversations/"+strict, `{"metadata":{"x":1}}`).fits(200, conversationRecord(nil))
	})
}

func TestSpecDelete(t *testing.T) {
	t.Parallel()
	p := open(t)
	t.Run("answers_204_and_everything_is_gone", func(t *testing.T) {
		id, messages := talked(t, p, "delete", 1)
		a := p.ask(t, "DELETE", "/conversations/"+id, nil)
		a.empty(204)
		require.Empty(t, a.header.Get("Content-Type"))
		for _, gone := range []struct{ method, path string }{
			{"GET", ""},
			{"GET", "?before=" + messages[1]},
			{"PATCH", ""},
			{"DELETE", ""},
			{"GET", "/messages"},
			{"POST", "/messages"},
			{"POST", "/cancel"},
			{"GET", "/events"},
			{"GET", "/events/stream"},
		} {
			var body any
			if gone.method == "POST" || gone.method == "PATCH" {
				body = `{"message":"hello","title":"x"}`
			}
			p.ask(t, gone.method, "/conversations/"+id+gone.path, body).refused(404, "NOT_FOUND")
		}
		p.ask(t, "GET", "/conversations?userId=delete", nil).fits(200, conversationPage(fields{"conversations": exactly([]int{}), "total": exactly(0)}))
	})
	t.Run("a_running_turn_is_cancelled_first", func(t *testing.T) {
		id := p.newConversation(t, "slow", "delete running")
		follower := p.follow(t, "GET", "/conversations/"+id+"/events/stream", nil)
		require.Equal(t, ": open", follower.block())
		sender := p.follow(t, "POST", "/conversations/"+id+"/messages", map[string]any{"message": "go", "stream": true})
		require.Equal(t, "stream.start", sender.frame().event)
		sender.until("stream.text")
		p.ask(t, "DELETE", "/conversations/"+id, nil).empty(204)
		last := sender.until("stream.error")
		require.NoError(t, object(streamFields("stream.error").with(fields{"code": exactly("NOT_FOUND")}))(last.data.v))
		sender.ends()
		follower.drain()
		p.ask(t, "GET", "/conversations/"+id, nil).refused(404, "NOT_FOUND")
	})
	t.Run("who_waits_for_the_turn_hears_that_it_is_gone", func(t *testing.T) {
		id := p.newConversation(t, "slow", "delete running")
		sender := p.asking(t, "POST", "/conversations/"+id+"/messages", `{"message":"go"}`)
		p.running(t, id)
		p.ask(t, "DELETE", "/conversations/"+id, nil).empty(204)
		sender().refused(404, "NOT_FOUND")
	})
}

func TestSpecBulkDelete(t *testing.T) {
	t.Parallel()
	p := open(t)
	bulk := func(t *testing.T, ids any) answer {
		t.Helper()
		return p.ask(t, "POST", "/conversations/bulk-delete", map[string]any{"ids": ids})
	}

	t.Run("each_id_has_its_result", func(t *testing.T) {
		quick, busy, strict := p.newConversation(t, "quick", "bulk"), p.newConversation(t, "slow", "bulk"), p.newConversation(t, "full", "bulk")
		p.follow(t, "POST", "/conversations/"+busy+"/messages", map[string]any{"message": "go", "stream": true}).frame()
		unknown := "conv_AAAAAAAAAAAAAAAAAAAAA"
		ids := []string{strict, unknown, quick, busy, quick, "no id/at all", " ", unknown}
		body := bulk(t, ids).fits(200, object(fields{"deleted": exactly(1), "results": listOf(object(fields{
			"id": anyText, "status": oneOf("deleted", "not_found", "busy", "error"), "message?": nonEmpty,
		}))}))
		results := body.at("results").list()
		require.Equal(t, []string{strict, unknown, quick, busy, "no id/at all", " "}, texts(results, "id"), "in the order of the request, duplicates once")
		require.Equal(t, []string{"error", "not_found", "deleted", "busy", "not_found", "not_found"}, texts(results, "status"))
		require.NotEmpty(t, results[0].text("message"))
		require.NotEmpty(t, results[3].text("message"))
		require.Nil(t, results[2].at("message").v)
		p.ask(t, "GET", "/conversations/"+quick, nil).refused(404, "NOT_FOUND")
		p.ask(t, "GET", "/conversations/"+busy, nil).fits(200, anyObject)
		p.ask(t, "GET", "/conversations/"+strict, nil).fits(200, anyObject)
		p.ask(t, "POST", "/conversations/"+busy+"/cancel", nil).fits(200, anyObject)
	})
	t.Run("takes_up_to_100_ids_and_duplicates_count_once", func(t *testing.T) {
		ids := make([]string, 0, 200)
		for range 100 {
			ids = append(ids, p.newConversation(t, "quick", "bulk many"))
		}
		body := bulk(t, append(ids, ids...)).fits(200, anyObject)
		require.Len(t, body.at("results").list(), 100)
		require.InDelta(t, 100, body.number("deleted"), 0)
		p.ask(t, "GET", "/conversations?userId=bulk+many", nil).fits(200, conversationPage(fields{"total": exactly(0)}))
	})
	many := make([]string, 101)
	for i := range many {
		many[i] = "conv_" + strings.Repeat("A", i)
	}
	for _, c := range []refusal{
		{"no_ids", `{}`, 400, "VALIDATION_ERROR"},
		{"null_ids", `{"ids":null}`, 400, "VALIDATION_ERROR"},
		{"empty_ids", `{"ids":[]}`, 400, "VALIDATION_ERROR"},
		{"ids_over_100", map[string]any{"ids": many}, 400, "VALIDATION_ERROR"},
		{"text_as_ids", `{"ids":"conv_x"}`, 400, "VALIDATION_ERROR"},
		{"numbers_as_ids", `{"ids":[1,2]}`, 400, "VALIDATION_ERROR"},
		{"objects_as_ids", `{"ids":[{"id":"conv_x"}]}`, 400, "VALIDATION_ERROR"},
		{"no_body", nil, 400, "VALIDATION_ERROR"},
		{"list_as_body", `["conv_x"]`, 400, "VALIDATION_ERROR"},
	} {
		t.Run("bulk_"+c.name, func(t *testing.T) {
			p.ask(t, "POST", "/conversations/bulk-delete", c.body).refused(c.status, c.code)
		})
	}
}

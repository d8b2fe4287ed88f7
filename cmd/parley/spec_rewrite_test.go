package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/deliver"
)

// about sends a request about a message.
func (p *process) about(t *testing.T, id, message, action string, body any) answer {
	t.Helper()
	return p.ask(t, "POST", "/conversations/"+id+"/messages/"+message+"/"+action, body)
}

// rewritten is an assistant's message with more metadata than a plain one.
func rewritten(over fields) shape {
	return assistantMessage(fields{"metadata": object(fields{
		"status": nonEmpty, "stopReason": nonEmpty,
	}.with(over))})
}

func TestSpecRegenerate(t *testing.T) {
	t.Parallel()
	p := content(t)
	t.Run("new_answer_takes_the_place_of_the_old", func(t *testing.T) {
		id := p.newConversation(t, "open", "regenerate")
		first := p.say(t, id, "question")
		old := first.at("response")
		turn := p.about(t, id, old.text("id"), "regenerate", nil).fits(200, turnRecord(fields{
			"message":  exactly(first.at("message").v),
			"response": rewritten(fields{"previousContent": exactly([]string{old.text("content")}), "regeneratedFrom": exactly(old.text("id"))}),
		}))
		require.NotEqual(t, old.text("content"), turn.text("response", "content"))
		require.NotEqual(t, old.text("id"), turn.text("response", "id"))
		read := p.messages(t, id)
		require.Len(t, read, 2)
		require.Equal(t, turn.at("response").v, read[1].v)
		p.ask(t, "GET", "/conversations/"+id+"?after="+old.text("id"), nil).refused(404, "NOT_FOUND")
		p.about(t, id, old.text("id"), "feedback", `{"rating":"up"}`).refused(404, "NOT_FOUND")
		events := p.ask(t, "GET", "/conversations/"+id+"/events", nil).fits(200, anyObject).at("events").list()
		begun := events[len(events)-3]
		require.Equal(t, "session.status_running", begun.text("type"))
		require.Equal(t, "regenerate", begun.text("data", "mode"))
		require.Equal(t, turn.text("runId"), begun.text("run_id"))
		said := p.logged(t, id, "agent.message")[1]
		require.Equal(t, old.text("id"), said.text("regenerated_from"))
		require.Equal(t, turn.text("response", "content"), said.text("content"))
	})
	t.Run("five_previous_contents_are_kept", func(t *testing.T) {
		id := p.newConversation(t, "open", "regenerate")
		var said []string
		answer := p.say(t, id, "question").at("response")
		for range 7 {
			said = append(said, answer.text("content"))
			answer = p.about(t, id, answer.text("id"), "regenerate", `{}`).fits(200, anyObject).at("response")
		}
		require.NoError(t, exactly(said[2:])(answer.at("metadata", "previousContent").v), "newest last")
		require.Len(t, p.messages(t, id), 2)
	})
	t.Run("model_does_not_see_the_old_answer", func(t *testing.T) {
		id := p.newConversation(t, "open", "regenerate")
		p.say(t, id, "say the first thing")
		answer := p.say(t, id, "unseen question").at("response")
		p.about(t, id, answer.text("id"), "regenerate", nil).fits(200, anyObject)
		asked := echo().about(t, "unseen question")
		require.Contains(t, asked, "the first thing")
		require.NotContains(t, asked, answer.text("content"))
	})
	t.Run("metadata_of_a_regenerate_is_the_answers", func(t *testing.T) {
		id := p.newConversation(t, "open", "regenerate")
		answer := p.say(t, id, "question").at("response")
		p.about(t, id, answer.text("id"), "regenerate", `{"metadata":{"why":"bad","status":"mine"}}`).fits(200, turnRecord(fields{
			"response": rewritten(fields{"previousContent": anything, "regeneratedFrom": nonEmpty, "why": exactly("bad"), "status": exactly("completed")}),
		}))
	})
	t.Run("streamed_regenerate", func(t *testing.T) {
		id := p.newConversation(t, "open", "regenerate")
		first := p.say(t, id, "question")
		s := p.follow(t, "POST", "/conversations/"+id+"/messages/"+first.text("response", "id")+"/regenerate", `{"stream":true}`)
		begun := s.frame()
		require.Equal(t, "stream.start", begun.event)
		require.Equal(t, first.text("message", "id"), begun.data.text("messageId"))
		done := s.until("stream.done")
		s.ends()
		require.Equal(t, p.messages(t, id)[1].text("id"), done.data.text("messageId"))
		require.Equal(t, "end_turn", done.data.text("stopReason"))
	})
	t.Run("followers_hear_a_regenerate", func(t *testing.T) {
		id := p.newConversation(t, "steady", "regenerate")
		first := p.say(t, id, "question")
		events := p.follow(t, "GET", "/conversations/"+id+"/events/stream?after=4", nil)
		require.Equal(t, ": open", events.block())
		s := p.follow(t, "POST", "/conversations/"+id+"/messages/"+first.text("response", "id")+"/regenerate", `{"stream":true}`)
		begun := events.frame()
		require.Equal(t, "session.status_running", begun.event)
		require.Equal(t, "regenerate", begun.data.text("data", "mode"))
		require.Equal(t, "w1", strings.TrimSpace(events.until("agent.message.delta").data.text("data", "text")))
		late := p.follow(t, "GET", "/conversations/"+id+"/events/stream?after=5", nil)
		require.Equal(t, ": open", late.block())
		snapshot := late.frame()
		require.Equal(t, "agent.message.snapshot", snapshot.event)
		require.Equal(t, first.text("message", "id"), snapshot.data.text("data", "user_message", "message_id"))
		p.ask(t, "POST", "/conversations/"+id+"/cancel", nil).fits(200, anyObject)
		s.until("stream.done")
		for _, follower := range []*stream{events, late} {
			require.Equal(t, "cancelled", follower.until("session.status_idle").data.text("data", "stop_reason"))
		}
		require.Equal(t, first.at("response").v, p.messages(t, id)[1].v)
	})
	t.Run("failed_turn_names_the_user_message", func(t *testing.T) {
		id := p.newConversation(t, "open", "regenerate")
		turn := p.say(t, id, "fail please")
		require.Equal(t, "error", turn.text("stopReason"))
		require.NoError(t, unsaidMessage("incomplete", "error")(turn.at("response").v))
		question := turn.text("message", "id")
		p.about(t, id, question, "edit", `{"content":"say better"}`).fits(200, anyObject)
		answer := p.messages(t, id)[1]
		p.about(t, id, p.messages(t, id)[0].text("id"), "regenerate", nil).refused(409, "invalid_message_target")
		p.about(t, id, answer.text("id"), "regenerate", nil).fits(200, anyObject)
	})
	t.Run("regenerate_after_a_failed_turn", func(t *testing.T) {
		id := p.newConversation(t, "open", "regenerate")
		question := p.say(t, id, "fail again").text("message", "id")
		again := p.about(t, id, question, "regenerate", nil).fits(200, anyObject)
		require.Equal(t, question, again.text("message", "id"))
		require.Equal(t, "error", again.text("stopReason"))
		require.Len(t, p.messages(t, id), 1)
	})
	t.Run("cancelled_regenerate_keeps_the_old_answer", func(t *testing.T) {
		id := p.newConversation(t, "open", "regenerate")
		p.say(t, id, "say one")
		sender := p.asking(t, "POST", "/conversations/"+id+"/messages", `{"message":"tell long stories"}`)
		p.partial(t, id)
		p.ask(t, "POST", "/conversations/"+id+"/cancel", nil).fits(200, anyObject)
		old := sender().fits(200, anyObject).at("response")
		require.Equal(t, "once ", old.text("content"))
		s := p.follow(t, "POST", "/conversations/"+id+"/messages/"+old.text("id")+"/regenerate", `{"stream":true}`)
		s.until("stream.text")
		require.Equal(t, old.v, p.messages(t, id)[3].v, "the old answer stays until there is a new one")
		p.about(t, id, old.text("id"), "regenerate", nil).refused(409, "conversation_busy")
		p.about(t, id, old.text("id"), "feedback", `{"rating":"up"}`).fits(200, anyObject)
		p.ask(t, "POST", "/conversations/"+id+"/cancel", nil).fits(200, anyObject)
		done := s.until("stream.done").data
		require.Equal(t, "cancelled", done.text("status"))
		require.NotEqual(t, old.text("id"), done.text("messageId"))
		kept := p.messages(t, id)
		require.Len(t, kept, 4)
		require.Equal(t, old.text("id"), kept[3].text("id"))
		require.Equal(t, old.text("content"), kept[3].text("content"))
		require.Equal(t, "up", kept[3].text("metadata", "feedback", "rating"))
	})
	t.Run("budget_cuts_a_regenerate_and_the_old_answer_stays", func(t *testing.T) {
		id := p.newConversation(t, "wordy", "regenerate")
		old := p.say(t, id, "hello").at("response")
		spent := p.spent(t, id)
		p.ask(t, "PATCH", "/conversations/"+id, object1{"budget": object1{"maxCostUsd": spent + 0.001}}).fits(200, anyObject)
		cut := p.about(t, id, old.text("id"), "regenerate", nil).fits(200, anyObject)
		require.Equal(t, "budget_reached", cut.text("stopReason"))
		require.Equal(t, old.v, p.messages(t, id)[1].v)
		p.ask(t, "PATCH", "/conversations/"+id, object1{"budget": nil}).fits(200, anyObject)
		whole := p.ask(t, "POST", "/conversations/"+id+"/continue", nil).fits(200, anyObject)
		require.Equal(t, "end_turn", whole.text("stopReason"))
		require.Equal(t, whole.at("response").v, p.messages(t, id)[1].v)
		require.Equal(t, old.text("id"), whole.text("response", "metadata", "regeneratedFrom"))
	})
	t.Run("cancelled_pause_of_a_regenerate_puts_the_old_answer_back", func(t *testing.T) {
		id := p.newConversation(t, "asking", "regenerate")
		turn := p.say(t, id, "hello")
		action := turn.at("pendingActions").list()[0].text("id")
		old := p.ask(t, "POST", "/conversations/"+id+"/actions/"+action, `{"resolution":{"type":"user_question","answers":{"Which colour?":"blue"}}}`).
			fits(200, anyObject).at("response")
		p.about(t, id, old.text("id"), "feedback", `{"rating":"up"}`).fits(200, anyObject)
		before := p.messages(t, id)[1]
		require.Equal(t, "requires_action", p.about(t, id, old.text("id"), "regenerate", nil).fits(200, anyObject).text("status"))
		p.ask(t, "POST", "/conversations/"+id+"/cancel", nil).fits(200, anyObject)
		require.Equal(t, before.v, p.messages(t, id)[1].v)
		require.Len(t, p.messages(t, id), 2)
	})
	t.Run("failed_regenerate_keeps_the_old_answer", func(t *testing.T) {
		id := p.newConversation(t, "open", "regenerate")
		old := p.say(t, id, "once "+id).at("response")
		p.about(t, id, old.text("id"), "regenerate", nil).fits(200, turnRecord(fields{
			"response": unsaidMessage("incomplete", "error"), "usage?": anyObject, "stopReason": exactly("error"), "status": exactly("incomplete"), "error": anyObject,
		}))
		require.Equal(t, old.v, p.messages(t, id)[1].v)
		require.Len(t, p.messages(t, id), 2)
	})
	t.Run("wrong_targets_are_409", func(t *testing.T) {
		id := p.newConversation(t, "open", "regenerate")
		first, second := p.say(t, id, "one"), p.say(t, id, "two")
		for _, wrong := range []string{first.text("response", "id"), first.text("message", "id"), second.text("message", "id")} {
			p.about(t, id, wrong, "regenerate", nil).refused(409, "invalid_message_target")
		}
		for _, unknown := range []string{"msg_AAAAAAAAAAAAAAAAAAAAA", "x", id} {
			for _, action := range []string{"regenerate", "edit", "feedback"} {
				p.about(t, id, unknown, action, `{"content":"x","rating":"up"}`).refused(404, "NOT_FOUND")
			}
		}
		other := p.newConversation(t, "open", "regenerate")
		p.about(t, other, second.text("response", "id"), "regenerate", nil).refused(404, "NOT_FOUND")
		require.Len(t, p.messages(t, id), 4)
	})
	t.Run("switched_off_content_actions", func(t *testing.T) {
		id := p.newConversation(t, "closed", "regenerate")
		turn := p.say(t, id, "hello")
		p.about(t, id, turn.text("response", "id"), "regenerate", nil).refused(403, "action_disabled")
		p.about(t, id, turn.text("message", "id"), "edit", `{"content":"x"}`).refused(403, "action_disabled")
		p.about(t, id, turn.text("response", "id"), "feedback", `{"rating":"up"}`).refused(403, "feedback_disabled")
		p.ask(t, "GET", "/conversations/"+id+"/export", nil).refused(403, "export_disabled")
		require.Len(t, p.messages(t, id), 2)
	})
	t.Run("used_up_budget_refuses_rewriting", func(t *testing.T) {
		id := p.ask(t, "POST", "/conversations", `{"agentId":"priced","userId":"regenerate","budget":{"maxCostUsd":0.002}}`).fits(201, anyObject).text("conversation", "id")
		turn := p.say(t, id, "hello")
		p.about(t, id, turn.text("response", "id"), "regenerate", nil).refused(402, "budget_reached")
		p.about(t, id, turn.text("message", "id"), "edit", `{"content":"x"}`).refused(402, "budget_reached")
	})
	t.Run("answer_that_the_budget_cut_is_regenerated", func(t *testing.T) {
		id := p.ask(t, "POST", "/conversations", `{"agentId":"wordy","userId":"regenerate","budget":{"maxCostUsd":0.001}}`).fits(201, anyObject).text("conversation", "id")
		cut := p.say(t, id, "hello")
		require.Equal(t, "budget_reached", cut.text("stopReason"))
		conversation := func() tree { return p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).at("conversation") }
		require.True(t, conversation().flag("continuable"))
		p.about(t, id, cut.text("response", "id"), "regenerate", nil).refused(402, "budget_reached")
		require.True(t, conversation().flag("continuable"), "a refusal changes nothing")
		p.ask(t, "PATCH", "/conversations/"+id, `{"budget":{"maxCostUsd":1}}`).fits(200, anyObject)
		whole := p.about(t, id, cut.text("response", "id"), "regenerate", nil).fits(200, anyObject)
		require.Equal(t, "end_turn", whole.text("stopReason"))
		require.Equal(t, cut.text("response", "id"), whole.text("response", "metadata", "regeneratedFrom"))
		require.False(t, conversation().flag("continuable"))
		p.ask(t, "POST", "/conversations/"+id+"/continue", nil).refused(409, "nothing_to_continue")
		require.Len(t, p.messages(t, id), 2)
	})
	t.Run("answer_that_the_budget_cut_is_edited_away", func(t *testing.T) {
		id := p.ask(t, "POST", "/conversations", `{"agentId":"wordy","userId":"regenerate","budget":{"maxCostUsd":0.001}}`).fits(201, anyObject).text("conversation", "id")
		cut := p.say(t, id, "hello")
		p.ask(t, "PATCH", "/conversations/"+id, `{"budget":null}`).fits(200, anyObject)
		p.about(t, id, cut.text("message", "id"), "edit", `{"content":"other"}`).fits(200, anyObject)
		p.ask(t, "POST", "/conversations/"+id+"/continue", nil).refused(409, "nothing_to_continue")
		require.Len(t, p.messages(t, id), 2)
	})
	t.Run("of_many_regenerates_at_once_one_wins", func(t *testing.T) {
		id := p.newConversation(t, "open", "regenerate")
		old := p.say(t, id, "question").text("response", "id")
		var all []func() answer
		for range 8 {
			all = append(all, p.asking(t, "POST", "/conversations/"+id+"/messages/"+old+"/regenerate", nil))
		}
		won := 0
		for _, one := range all {
			switch a := one(); a.status {
			case 200:
				won++
			case 404:
				a.refused(404, "NOT_FOUND") // it came when the old answer was gone
			default:
				a.refused(409, "conversation_busy")
			}
		}
		require.Equal(t, 1, won)
		require.Len(t, p.messages(t, id), 2)
		require.Len(t, p.messages(t, id)[1].at("metadata", "previousContent").list(), 1)
	})
	t.Run("paused_turn_of_a_regenerate", func(t *testing.T) {
		id := p.newConversation(t, "asking", "regenerate")
		resolve := func(turn tree) tree {
			action := turn.at("pendingActions").list()[0].text("id")
			return p.ask(t, "POST", "/conversations/"+id+"/actions/"+action, `{"resolution":{"type":"user_question","answers":{"Which colour?":"blue"}}}`).fits(200, anyObject)
		}
		first := resolve(p.say(t, id, "hello"))
		paused := p.about(t, id, first.text("response", "id"), "regenerate", nil).fits(200, anyObject)
		require.Equal(t, "requires_action", paused.text("status"))
		require.Len(t, p.messages(t, id), 2, "the paused answer stands in the old one's place")
		last := resolve(paused).at("response")
		require.Equal(t, paused.text("response", "id"), last.text("id"))
		require.Equal(t, first.text("response", "id"), last.text("metadata", "regeneratedFrom"))
		require.NoError(t, exactly([]string{first.text("response", "content")})(last.at("metadata", "previousContent").v))
		require.Equal(t, last.v, p.messages(t, id)[1].v)
	})
	t.Run("pending_action_refuses_rewriting", func(t *testing.T) {
		id := p.newConversation(t, "asking", "regenerate")
		turn := p.say(t, id, "hello")
		for _, c := range []struct{ message, action string }{{turn.text("response", "id"), "regenerate"}, {turn.text("message", "id"), "edit"}} {
			details := p.about(t, id, c.message, c.action, `{"content":"x"}`).refused(409, "action_pending")
			require.Len(t, details.at("pendingActionIds").list(), 1)
		}
		p.about(t, id, turn.text("response", "id"), "feedback", `{"rating":"up"}`).refused(409, "invalid_message_target")
	})
}

// anything is any value.
func anything(any) error { return nil }

// partial waits until a running turn has said something.
func (p *process) partial(t *testing.T, id string) {
	t.Helper()
	p.running(t, id)
	s := p.follow(t, "GET", "/conversations/"+id+"/events/stream?types=agent.message.delta,agent.message.snapshot", nil)
	require.Equal(t, ": open", s.block())
	for {
		f := s.frame()
		if f.event == "agent.message.delta" || f.data.text("data", "text") != "" {
			s.cancel()
			return
		}
	}
}

func TestSpecEdit(t *testing.T) {
	t.Parallel()
	p := content(t)
	t.Run("edit_removes_what_came_after", func(t *testing.T) {
		id := p.newConversation(t, "open", "edit")
		p.say(t, id, "say zero")
		first := p.ask(t, "POST", "/conversations/"+id+"/messages", `{"message":"first words","metadata":{"k":1}}`).fits(200, anyObject)
		later := p.say(t, id, "forgotten words")
		question := first.text("message", "id")
		turn := p.about(t, id, question, "edit", `{"content":"better words"}`).fits(200, turnRecord(fields{
			"message": userMessage(fields{"content": exactly("better words"), "metadata": exactly(map[string]any{
				"k": 1, "edited": true, "editedFrom": question, "previousContent": []string{"first words"},
			})}),
		}))
		read := p.messages(t, id)
		require.Len(t, read, 4)
		require.Equal(t, turn.at("message").v, read[2].v)
		require.Equal(t, turn.at("response").v, read[3].v)
		page := p.ask(t, "GET", "/conversations/"+id+"/messages?order=desc&limit=3", nil).fits(200, object(fields{
			"messages": listOf(anyObject), "total": exactly(4), "limit": exactly(3), "offset": exactly(0), "hasMore": exactly(true),
		}))
		require.Equal(t, turn.text("response", "id"), page.at("messages").list()[0].text("id"))
		for _, gone := range []string{question, first.text("response", "id"), later.text("message", "id"), later.text("response", "id")} {
			p.ask(t, "GET", "/conversations/"+id+"?before="+gone, nil).refused(404, "NOT_FOUND")
			p.about(t, id, gone, "edit", `{"content":"x"}`).refused(404, "NOT_FOUND")
		}
		asked := echo().about(t, "better words")
		require.Contains(t, asked, "say zero")
		require.NotContains(t, asked, "forgotten words")
		require.NotContains(t, asked, "first words")
		require.NoError(t, exactly(map[string]any{"message_id": question, "removed": 4})(p.logged(t, id, "session.truncated")[0].v))
		events := p.ask(t, "GET", "/conversations/"+id+"/events", nil).fits(200, eventsRecord(nil)).at("events").list()
		tail := events[len(events)-5:]
		require.Equal(t, []string{"session.truncated", "user.message", "session.status_running", "agent.message", "session.status_idle"}, texts(tail, "type"))
		for _, event := range tail {
			require.Equal(t, turn.text("runId"), event.text("run_id"))
		}
		require.True(t, tail[1].flag("data", "edited"))
		require.Equal(t, question, tail[1].text("data", "edited_from"))
		require.Equal(t, "edit", tail[2].text("data", "mode"))
	})
	t.Run("first_message_is_edited_again_and_again", func(t *testing.T) {
		id := p.newConversation(t, "open", "edit")
		question := p.say(t, id, "words 0").at("message")
		for n := 1; n <= 7; n++ {
			question = p.about(t, id, question.text("id"), "edit", map[string]string{"message": fmt.Sprintf("words %d", n)}).fits(200, anyObject).at("message")
		}
		require.NoError(t, exactly([]string{"words 2", "words 3", "words 4", "words 5", "words 6"})(question.at("metadata", "previousContent").v))
		require.Len(t, p.messages(t, id), 2)
		p.say(t, id, "and on")
		require.Len(t, p.messages(t, id), 4)
	})
	t.Run("files_are_kept_dropped_or_replaced", func(t *testing.T) {
		id := p.newConversation(t, "open", "edit")
		turn := p.ask(t, "POST", "/conversations/"+id+"/messages", `{"message":"x","files":[{"name":"a.txt","content":"YQ==","mimeType":"text/plain"}]}`).fits(200, anyObject)
		first := turn.at("message", "files").list()[0].text("id")
		edit := func(body string) tree {
			turn = p.about(t, id, turn.text("message", "id"), "edit", body).fits(200, anyObject)
			return turn.at("message", "files")
		}
		require.Equal(t, first, edit(`{"content":"kept"}`).list()[0].text("id"))
		replaced := edit(`{"content":"replaced","files":[{"name":"b.txt","content":"Yg==","mimeType":"text/plain"}]}`).list()
		require.Equal(t, []string{"b.txt"}, texts(replaced, "name"))
		require.Equal(t, []string{"a.txt", "b.txt"}, texts(edit(fmt.Sprintf(`{"content":"both","fileIds":[%q,%q]}`, first, replaced[0].text("id"))).list(), "name"))
		require.Nil(t, edit(`{"content":"dropped","fileIds":[]}`).v)
		require.Len(t, p.ask(t, "GET", "/conversations/"+id+"/files", nil).fits(200, anyObject).at("files").list(), 2, "they stay files of the conversation")
		p.about(t, id, turn.text("message", "id"), "edit", `{"content":"x","fileIds":["file_AAAAAAAAAAAAAAAAAAAAA"]}`).refused(404, "NOT_FOUND")
	})
	t.Run("streamed_edit", func(t *testing.T) {
		id := p.newConversation(t, "open", "edit")
		question := p.say(t, id, "one").text("message", "id")
		s := p.follow(t, "POST", "/conversations/"+id+"/messages/"+question+"/edit", `{"content":"two","stream":true}`)
		begun := s.frame()
		require.Equal(t, "stream.start", begun.event)
		s.until("stream.done")
		s.ends()
		require.Equal(t, begun.data.text("messageId"), p.messages(t, id)[0].text("id"))
	})
	id := p.newConversation(t, "open", "edit")
	turn := p.say(t, id, "question")
	question := turn.text("message", "id")
	before := p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject)
	for _, c := range []refusal{
		{"nothing", `{}`, 400, "VALIDATION_ERROR"},
		{"blank", `{"content":" \n"}`, 400, "VALIDATION_ERROR"},
		{"number", `{"content":1}`, 400, "VALIDATION_ERROR"},
		{"too_long", map[string]string{"content": strings.Repeat("x", 256<<10+1)}, 400, "VALIDATION_ERROR"},
		{"text_as_file_ids", `{"content":"x","fileIds":"x"}`, 400, "VALIDATION_ERROR"},
		{"no_body", nil, 400, "VALIDATION_ERROR"},
	} {
		t.Run("edit_to_"+c.name, func(t *testing.T) {
			p.about(t, id, question, "edit", c.body).refused(c.status, c.code)
			require.Equal(t, before.v, p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).v)
		})
	}
	t.Run("answers_cannot_be_edited", func(t *testing.T) {
		p.about(t, id, turn.text("response", "id"), "edit", `{"content":"x"}`).refused(409, "invalid_message_target")
	})
	t.Run("running_conversation_cannot_be_edited", func(t *testing.T) {
		slow := p.newConversation(t, "slow", "edit")
		s := p.follow(t, "POST", "/conversations/"+slow+"/messages", `{"message":"go","stream":true}`)
		running := s.frame().data.text("messageId")
		details := p.about(t, slow, running, "edit", `{"content":"x"}`).refused(409, "conversation_busy")
		require.NotEmpty(t, details.text("activeRunId"))
		p.ask(t, "POST", "/conversations/"+slow+"/cancel", nil).fits(200, anyObject)
		s.until("stream.done")
	})
}

func feedbackRecord(over fields) shape {
	return object(fields{
		"rating": oneOf("up", "down"), "reasons": listOf(nonEmpty), "comment?": nonEmpty, "userId?": nonEmpty, "createdAt": moment, "updatedAt": moment,
	}.with(over))
}

func TestSpecFeedback(t *testing.T) {
	t.Parallel()
	p := content(t)
	rate := func(t *testing.T, id, message, body string, record fields) tree {
		t.Helper()
		return p.about(t, id, message, "feedback", body).fits(200, object(fields{
			"feedback": feedbackRecord(record), "messageId": exactly(message),
		})).at("feedback")
	}
	t.Run("ratings_at_once", func(t *testing.T) {
		id := p.newConversation(t, "open", "feedback")
		turn := p.say(t, id, "hello")
		var all []func() answer
		for i := range 24 {
			rating := []string{"up", "down"}[i%2]
			all = append(all, p.asking(t, "POST", "/conversations/"+id+"/messages/"+turn.text("response", "id")+"/feedback", object1{"rating": rating}))
		}
		for _, one := range all {
			one().fits(200, anyObject)
		}
		kept := p.messages(t, id)
		require.Len(t, kept, 2)
		require.Equal(t, turn.text("response", "content"), kept[1].text("content"))
		require.Contains(t, []string{"up", "down"}, kept[1].text("metadata", "feedback", "rating"))
	})
	t.Run("rating_is_kept_and_replaced", func(t *testing.T) {
		id := p.newConversation(t, "open", "feedback")
		answer := p.say(t, id, "question").text("response", "id")
		up := rate(t, id, answer, `{"rating":"up"}`, fields{"rating": exactly("up"), "reasons": exactly([]string{}), "comment": nil})
		require.Equal(t, up.v, p.messages(t, id)[1].at("metadata", "feedback").v)
		down := rate(t, id, answer, `{"rating":"down","reasons":["inaccurate","too_long","inaccurate"],"comment":" not good "}`, fields{
			"rating": exactly("down"), "reasons": exactly([]string{"inaccurate", "too_long"}), "comment": exactly("not good"), "createdAt": exactly(up.text("createdAt")),
		})
		require.Equal(t, down.v, p.messages(t, id)[1].at("metadata", "feedback").v)
		rate(t, id, answer, `{"rating":null}`, fields{"rating": exactly(nil), "reasons": exactly([]string{}), "comment": nil})
		require.Nil(t, p.messages(t, id)[1].at("metadata", "feedback").v)
		log := p.logged(t, id, "message.feedback")
		require.Len(t, log, 3)
		require.NoError(t, object(fields{
			"message_id": exactly(answer), "rating": exactly("down"), "reasons": exactly([]string{"inaccurate", "too_long"}), "comment": exactly("not good"), "user_id?": nonEmpty,
		})(log[1].v))
		require.Equal(t, "idle", p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).text("conversation", "runtime", "status"))
	})
	t.Run("rating_while_another_turn_runs", func(t *testing.T) {
		id := p.newConversation(t, "slow", "feedback")
		s := p.follow(t, "POST", "/conversations/"+id+"/messages", `{"message":"go","stream":true}`)
		s.until("stream.text")
		p.ask(t, "POST", "/conversations/"+id+"/cancel", nil).fits(200, anyObject)
		first := s.until("stream.done").data.text("messageId")
		s = p.follow(t, "POST", "/conversations/"+id+"/messages", `{"message":"go on","stream":true}`)
		s.until("stream.text")
		rate(t, id, first, `{"rating":"down"}`, fields{"rating": exactly("down")})
		p.ask(t, "POST", "/conversations/"+id+"/cancel", nil).fits(200, anyObject)
		s.until("stream.done")
		require.Equal(t, "down", p.messages(t, id)[1].text("metadata", "feedback", "rating"))
	})
	id := p.newConversation(t, "open", "feedback")
	turn := p.say(t, id, "question")
	answer := turn.text("response", "id")
	for _, c := range []refusal{
		{"nothing", `{}`, 400, "invalid_feedback"},
		{"unknown", `{"rating":"good"}`, 400, "invalid_feedback"},
		{"number", `{"rating":1}`, 400, "invalid_feedback"},
		{"reasons_with_up", `{"rating":"up","reasons":["inaccurate"]}`, 400, "invalid_feedback"},
		{"reasons_with_nothing", `{"rating":null,"reasons":["inaccurate"]}`, 400, "invalid_feedback"},
		{"unknown_reason", `{"rating":"down","reasons":["boring"]}`, 400, "invalid_feedback"},
		{"text_as_reasons", `{"rating":"down","reasons":"inaccurate"}`, 400, "invalid_feedback"},
		{"long_comment", map[string]any{"rating": "up", "comment": strings.Repeat("ß", 1001)}, 400, "invalid_feedback"},
		{"number_as_comment", `{"rating":"up","comment":1}`, 400, "invalid_feedback"},
	} {
		t.Run("feedback_"+c.name, func(t *testing.T) {
			p.about(t, id, answer, "feedback", c.body).refused(c.status, c.code)
			require.Nil(t, p.messages(t, id)[1].at("metadata", "feedback").v)
		})
	}
	t.Run("longest_comment_in_characters", func(t *testing.T) {
		comment := strings.Repeat("ß", 1000)
		require.Equal(t, comment, rate(t, id, answer, `{"rating":"up","comment":"`+comment+`"}`, nil).text("comment"))
		brief := p.newConversation(t, "brief", "feedback")
		message := p.say(t, brief, "x").text("response", "id")
		p.about(t, brief, message, "feedback", `{"rating":"up","comment":"123456"}`).refused(400, "invalid_feedback")
		p.about(t, brief, message, "feedback", `{"rating":"up","comment":"12345"}`).fits(200, anyObject)
	})
	t.Run("reasons_and_comments_of_the_agent", func(t *testing.T) {
		narrow := p.newConversation(t, "narrow", "feedback")
		message := p.say(t, narrow, "x").text("response", "id")
		p.about(t, narrow, message, "feedback", `{"rating":"down","reasons":["inaccurate"]}`).refused(400, "invalid_feedback")
		p.about(t, narrow, message, "feedback", `{"rating":"down","comment":"x"}`).refused(400, "invalid_feedback")
		rate(t, narrow, message, `{"rating":"down","reasons":["wrong"]}`, fields{"reasons": exactly([]string{"wrong"})})
	})
	t.Run("user_messages_cannot_be_rated", func(t *testing.T) {
		p.about(t, id, turn.text("message", "id"), "feedback", `{"rating":"up"}`).refused(409, "invalid_message_target")
	})
}

// heard is requests that came to a server of a test.
type heard struct {
	path, body, signature string
}

// listener is a server that hears what it is told; the first refuse requests are answered 500.
func listener(t *testing.T, refuse int) (address string, requests <-chan heard) {
	t.Helper()
	came := make(chan heard, 100)
	var count atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is missing fails the test
		if count.Add(1) <= int64(refuse) {
			w.WriteHeader(http.StatusInternalServerError)
		}
		came <- heard{r.URL.Path, string(body), r.Header.Get("X-Service-Signature")}
	}))
	t.Cleanup(server.Close)
	return server.URL, came
}

func TestSpecFeedbackHooks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: builds the binary and runs processes")
	}
	address, requests := listener(t, 0)
	p := newProcess(t, `
hooks: {on_feedback: {url: `+address+`/server, secret: whsec_server}}
outbound: {allow: [127.0.0.0/8]}
agents:
  - id: rated
    model: {provider: scripted, script: {text: x}}
    feedback_hook: {url: `+address+`/agent, secret: whsec_agent}
`)
	p.start()
	id := p.newConversation(t, "rated", "hooks")
	turn := p.say(t, id, "hello")
	t.Run("both_hooks_hear_each_rating", func(t *testing.T) {
		for _, rating := range []string{`"down"`, `null`} {
			p.about(t, id, turn.text("response", "id"), "feedback", `{"rating":`+rating+`}`).fits(200, anyObject)
			for range 2 {
				h := receive(t, requests)
				body := decode(t, h.body)
				require.NoError(t, object(fields{
					"type": exactly("message.feedback"), "conversationId": exactly(id), "messageId": exactly(turn.text("response", "id")), "agentId": exactly("rated"),
					"runId": exactly(turn.text("runId")), "feedback": feedbackRecord(fields{"rating": anything, "reasons?": anything}),
				})(body.v))
				require.True(t, signedWith(h, map[string]string{"/server": "whsec_server", "/agent": "whsec_agent"}[h.path]), h.signature)
			}
		}
	})
	t.Run("same_rating_again_is_not_told", func(t *testing.T) {
		p.about(t, id, turn.text("response", "id"), "feedback", `{"rating":"up"}`).fits(200, anyObject)
		receive(t, requests)
		receive(t, requests)
		p.about(t, id, turn.text("response", "id"), "feedback", `{"rating":"up"}`).fits(200, anyObject)
		p.about(t, id, turn.text("response", "id"), "feedback", `{"rating":"down"}`).fits(200, anyObject)
		require.Contains(t, receive(t, requests).body, "down")
	})
}

func receive(t *testing.T, requests <-chan heard) heard {
	t.Helper()
	select {
	case h := <-requests:
		return h
	case <-time.After(time.Minute):
		require.Fail(t, "nobody was told")
		return heard{}
	}
}

// signedWith says whether what was heard bears the signature of a secret.
func signedWith(h heard, secret string) bool {
	seconds, _, _ := strings.Cut(strings.TrimPrefix(h.signature, "t="), ",")
	var at int64
	if _, err := fmt.Sscan(seconds, &at); err != nil || time.Since(time.Unix(at, 0)).Abs() > time.Minute {
		return false
	}
	return h.signature == deliver.Sign(secret, []byte(h.body), time.Unix(at, 0))
}

func TestSpecTitles(t *testing.T) {
	t.Parallel()
	p := content(t)
	t.Run("title_is_made_from_the_first_exchange", func(t *testing.T) {
		id := p.newConversation(t, "titled", "titles")
		p.say(t, id, "hello")
		var conversation tree
		require.Eventually(t, func() bool {
			conversation = p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).at("conversation")
			return conversation.at("title").v == "A Fine Title" // the first message until then
		}, 30*time.Second, 5*time.Millisecond)
		require.NoError(t, exactly(map[string]any{"parley.titleGenerated": true})(conversation.at("metadata").v))
		require.Equal(t, "A Fine Title", p.say(t, id, "more").text("conversationTitle"))
		renamed := p.ask(t, "PATCH", "/conversations/"+id, `{"title":"Mine","metadata":{"parley.titleGenerated":true,"parley.taskId":"x"}}`).fits(200, conversationRecord(nil))
		require.Equal(t, "Mine", renamed.text("title"))
		require.NoError(t, exactly(map[string]any{})(renamed.at("metadata").v))
	})
	t.Run("given_title_stays", func(t *testing.T) {
		id := p.ask(t, "POST", "/conversations", `{"agentId":"titled","userId":"titles","title":"Given"}`).fits(201, anyObject).text("conversation", "id")
		require.Equal(t, "Given", p.say(t, id, "hello").text("conversationTitle"))
	})
	t.Run("first_message_is_the_title_without_the_switch", func(t *testing.T) {
		id := p.newConversation(t, "open", "titles")
		s := p.follow(t, "POST", "/conversations/"+id+"/messages", object1{"message": "  hello\n  there ", "stream": true})
		require.Equal(t, "hello there", p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).text("conversation", "title"), "at once")
		require.Equal(t, "hello there", s.until("stream.done").data.text("title"))
		require.Equal(t, "hello there", p.say(t, id, "more").text("conversationTitle"))
		require.Equal(t, "hello there", p.ask(t, "GET", "/conversations/"+id+"/events?types=user.message", nil).
			fits(200, anyObject).at("events").list()[0].text("data", "title"))
	})
}

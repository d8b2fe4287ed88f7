package main

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestClientSessionActions: what waits for a person, and resolving it here and on the conversation server.
func TestClientSessionActions(t *testing.T) {
	t.Parallel()
	n := onFloor(t)
	pause := func(t *testing.T, parts ...part) (id string, actions []tree) {
		t.Helper()
		id = n.session(t, "worker", nil)
		response := n.respond(t, "worker", script(parts...), object1{"session_id": id}).fits(200, responseShape(fields{
			"status": exactly("requires_action"), "stop_reason": exactly("requires_action"), "error": exactly(nil),
		}))
		actions = response.at("pending_actions").list()
		require.Equal(t, response.at("pending_actions").v, n.read(t, id).at("pending_actions").v)
		return id, actions
	}
	resolve := func(t *testing.T, id string, action tree, resolution any) answer {
		t.Helper()
		return n.post(t, "/agents/sessions/"+id+"/actions/"+action.text("id"), object1{"resolution": resolution})
	}
	whole := responseShape(fields{"status": exactly("completed"), "stop_reason": exactly("end_turn")})
	t.Run("approval", func(t *testing.T) {
		id, actions := pause(t, part{Text: "May I?", Calls: []wanted{wipe("cl-1")}})
		require.Len(t, actions, 1)
		require.NoError(t, object(fields{
			"id": idOf("act"), "kind": exactly("tool_approval"), "status": exactly("pending"), "tool_name": exactly("wipe"), "tool_call_id": nonEmpty,
			"args": exactly(object1{"disk": "cl-1"}), "details": exactly(object1{"prompt": "Really?"}), "created_at": moment, "expires_at": like(`Z$`),
		})(actions[0].v))
		n.get(t, "/agents/sessions/"+id).fits(200, sessionShape(fields{
			"runtime_status": exactly("requires_action"), "stop_reason": exactly("requires_action"),
		}))
		n.respond(t, "worker", "hi", object1{"session_id": id}).coded(409, "action_pending")
		n.respond(t, "worker", "hi", object1{"session_id": id, "background": true}).coded(409, "action_pending")
		for _, bad := range []any{nil, object1{}, object1{"type": "x"}, object1{"type": "tool_approval"}, object1{"type": "tool_approval", "decision": "maybe"}, 3} {
			resolve(t, id, actions[0], bad).coded(400, "invalid_request")
		}
		resolve(t, id, actions[0], object1{"type": "tool_approval", "decision": "allow", "approved_args": 3}).coded(400, "invalid_approved_args")
		resolve(t, id, actions[0], object1{"type": "client_tool", "output": 1}).coded(400, "invalid_request")
		require.Empty(t, n.shop.uses("wipe", "cl-1"))
		done := resolve(t, id, actions[0], allow).fits(200, whole)
		require.Equal(t, "May I?\n\ndone wipe", done.said())
		require.Len(t, n.shop.uses("wipe", "cl-1"), 1)
		resolve(t, id, actions[0], allow).coded(409, "action_not_pending")
		n.post(t, "/agents/sessions/"+id+"/actions/act_AAAAAAAAAAAAAAAAAAAAA", object1{"resolution": allow}).coded(409, "action_not_pending")
	})
	t.Run("other_arguments", func(t *testing.T) {
		id, actions := pause(t, calls(wipe("cl-2")))
		resolve(t, id, actions[0], object1{"type": "tool_approval", "decision": "allow", "approved_args": object1{"disk": "cl-3"}}).fits(200, whole)
		require.Empty(t, n.shop.uses("wipe", "cl-2"))
		require.Len(t, n.shop.uses("wipe", "cl-3"), 1)
		var told tree
		for _, event := range n.done(t, "GET", "/agents/sessions/"+id+"/events?types=action.resolved", nil).at("data").list() {
			told = event.at("data", "resolution")
		}
		require.NoError(t, exactly(object1{"type": "tool_approval", "decision": "allow", "approved_args": object1{"disk": "cl-3"}})(told.v), "in snake_case")
	})
	t.Run("checked_arguments", func(t *testing.T) {
		id, actions := pause(t, calls(wipe("cl-30")))
		approved := func(args any) answer {
			return resolve(t, id, actions[0], object1{"type": "tool_approval", "decision": "allow", "approved_args": args})
		}
		long := strings.Repeat("cl", 6000) // more than the rules would check themselves
		approved(object1{"disk": long}).fits(200, whole)
		require.Len(t, n.shop.uses("wipe", long), 1)
	})
	t.Run("patterns_that_expand", func(t *testing.T) {
		bomb := object1{"type": "object", "properties": object1{"a": object1{"type": "string", "pattern": "a{1000}b{1000}c{1000}d{1000}"}}}
		for name, extra := range map[string]object1{
			"tools": {"tools": []any{object1{"type": "function", "name": "look", "parameters": bomb}}},
			"text":  {"text": object1{"format": object1{"type": "json_schema", "name": "look", "schema": bomb}}},
		} {
			extra["model"], extra["input"] = n.agents["worker"], "hi"
			refused := n.post(t, "/responses", extra)
			require.Equal(t, 400, refused.status, "%s", refused.text)
			require.Contains(t, refused.text, "/properties/a/pattern", name)
		}
		refused := n.post(t, "/agents", object1{"name": "Bomb", "config": object1{"modelKey": "stand-in", "tools": []any{
			object1{"name": "t", "url": n.shop.server.URL + "/tools/wipe", "inputSchema": bomb},
		}}})
		require.Equal(t, 400, refused.status, "%s", refused.text)
		require.Contains(t, refused.text, "/properties/a/pattern")
	})
	t.Run("denial", func(t *testing.T) {
		id, actions := pause(t, calls(wipe("cl-4")))
		require.Contains(t, resolve(t, id, actions[0], object1{"type": "tool_approval", "decision": "deny", "comment": "not mine"}).fits(200, whole).said(), "not mine")
		require.Empty(t, n.shop.uses("wipe", "cl-4"))
	})
	t.Run("remembered", func(t *testing.T) {
		id, actions := pause(t, calls(wipe("cl-5")))
		resolve(t, id, actions[0], object1{"type": "tool_approval", "decision": "allow", "remember_for_session": true}).fits(200, whole)
		n.respond(t, "worker", script(calls(wipe("cl-6"))), object1{"session_id": id}).fits(200, whole)
		require.Len(t, n.shop.uses("wipe", "cl-6"), 1)
	})
	t.Run("question", func(t *testing.T) {
		id, actions := pause(t, calls(use("ask_user", object1{"questions": []any{object1{"question": "Red?", "options": []any{object1{"label": "yes"}, object1{"label": "no"}}}}})))
		require.Equal(t, []string{"user_question", "Red?"}, []string{actions[0].text("kind"), actions[0].at("questions").list()[0].text("question")})
		resolve(t, id, actions[0], object1{"type": "user_question"}).coded(400, "invalid_request")
		require.JSONEq(t, `{"Red?":"no"}`, resolve(t, id, actions[0], object1{"type": "user_question", "answers": object1{"Red?": "no"}}).fits(200, whole).said())
	})
	t.Run("client_tool_and_one_more", func(t *testing.T) {
		id, actions := pause(t, calls(use("camera", nil), wipe("cl-7")))
		require.Equal(t, []string{"client_tool", "tool_approval"}, texts(actions, "kind"))
		still := resolve(t, id, actions[0], object1{"type": "client_tool", "output": "seen"}).fits(200, responseShape(fields{"status": exactly("requires_action")}))
		require.Equal(t, []string{actions[1].text("id")}, texts(still.at("pending_actions").list(), "id"))
		require.Equal(t, "seen | done wipe", resolve(t, id, actions[1], allow).fits(200, whole).said())
	})
	t.Run("on_the_conversation_server", func(t *testing.T) {
		id, actions := pause(t, calls(wipe("cl-8")))
		auth := []string{"Authorization", "Bearer " + n.token}
		read := n.p.ask(t, "GET", "/conversations/"+id, nil, auth...).fits(200, anyObject)
		require.Equal(t, []string{actions[0].text("id")}, texts(read.at("pendingActions").list(), "id"))
		n.p.ask(t, "POST", "/conversations/"+id+"/actions/"+actions[0].text("id"), object1{"resolution": allow}, auth...).fits(200, anyObject)
		n.get(t, "/agents/sessions/"+id).fits(200, sessionShape(fields{"runtime_status": exactly("idle"), "stop_reason": exactly("end_turn"), "pending_actions": exactly([]any{})}))
		require.Len(t, n.shop.uses("wipe", "cl-8"), 1)
	})
	t.Run("cancelled", func(t *testing.T) {
		id, actions := pause(t, calls(wipe("cl-9")))
		given := n.post(t, "/agents/sessions/"+id+"/cancel", nil).fits(200, object(fields{
			"cancelled": exactly(true), "settled": exactly(true), "turn_id": nonEmpty, "cancelled_action_ids": exactly([]string{actions[0].text("id")}),
			"session": sessionShape(fields{"runtime_status": exactly("idle"), "stop_reason": exactly("cancelled")}),
		}))
		require.Equal(t, given.at("session").v, n.read(t, id).v)
		resolve(t, id, actions[0], allow).coded(409, "action_not_pending")
	})
}

// TestClientSessionCancel: POST /agents/sessions/{id}/cancel.
func TestClientSessionCancel(t *testing.T) {
	t.Parallel()
	n := onFloor(t)
	t.Run("running_turn", func(t *testing.T) {
		id := n.session(t, "worker", nil)
		s := n.p.follow(t, "GET", n.url("/agents/sessions/"+id+"/events/stream"), nil, "Authorization", "Bearer "+n.token)
		require.Equal(t, ": open", s.block())
		came := n.p.asking(t, "POST", n.url("/agents/responses"), n.order("worker", script(part{Text: "half", Hold: "never"}), object1{"session_id": id}),
			"Authorization", "Bearer "+n.token)
		s.until("agent.message.delta")
		a := n.post(t, "/agents/sessions/"+id+"/cancel", nil)
		require.Contains(t, []int{200, 202}, a.status, a.text)
		require.True(t, decode(t, a.text).flag("cancelled"))
		response := came().fits(200, responseShape(fields{"status": exactly("cancelled"), "stop_reason": exactly("cancelled")}))
		require.Equal(t, "half", response.said())
		n.becomes(t, id, "idle")
	})
	t.Run("idle_session", func(t *testing.T) {
		id := n.session(t, "quick", nil)
		n.post(t, "/agents/sessions/"+id+"/cancel", nil).fits(200, object(fields{
			"cancelled": exactly(false), "settled": exactly(true), "cancelled_action_ids": exactly([]any{}), "session": sessionShape(nil),
		}))
	})
	t.Run("background_run_goes_with_it", func(t *testing.T) {
		id := n.session(t, "worker", nil)
		run := n.run(t, "worker", script(part{Text: "half", Hold: "never"}), object1{"session_id": id}).text("id")
		n.becomes(t, id, "running")
		a := n.post(t, "/agents/sessions/"+id+"/cancel", nil)
		require.Equal(t, run, decode(t, a.text).text("run_id"), a.text)
		require.Equal(t, "canceled", n.wait(t, run).text("status"))
		require.Eventually(t, func() bool { return n.remove(t, id).status == http.StatusOK }, waitLong, waitStep)
	})
}

// TestClientSessionEvents: the log of a session, read and followed.
func TestClientSessionEvents(t *testing.T) {
	t.Parallel()
	n := onFloor(t)
	auth := []string{"Authorization", "Bearer " + n.token}
	id := n.session(t, "quick", nil)
	path := "/agents/sessions/" + id + "/events"
	require.Zero(t, n.done(t, "GET", path, nil).number("last_seq"))
	live := n.p.follow(t, "GET", n.url(path+"/stream"), nil, auth...)
	require.Equal(t, ": open", live.block())
	n.respond(t, "quick", "hi", object1{"session_id": id}).fits(200, anyObject)
	log := n.get(t, path).fits(200, object(fields{
		"object": exactly("list"), "has_more": exactly(false), "last_seq": integer,
		"data": listOf(object(fields{"seq": integer, "type": nonEmpty, "data": anyObject, "run_id?": nonEmpty, "created_at": moment})),
	}))
	events := log.at("data").list()
	require.Equal(t, []string{"user.message", "session.status_running"}, texts(events, "type")[:2])
	require.Subset(t, texts(events, "type"), []string{"agent.message", "session.status_idle"})
	require.Equal(t, "hi", events[0].text("data", "title"), "the first message names it")
	require.Equal(t, n.read(t, id).at("last_event_seq").v, log.at("last_seq").v)
	last := 0.0
	for _, event := range events {
		require.Greater(t, event.number("seq"), last)
		last = event.number("seq")
	}
	numbered := func(s *stream, count int) (ids, names []string) {
		for len(ids) < count {
			if f := s.frame(); f.id != "" {
				ids, names = append(ids, f.id), append(names, f.event)
			}
		}
		return ids, names
	}
	liveIDs, names := numbered(live, len(events))
	require.Equal(t, texts(events, "type"), names)
	t.Run("pages", func(t *testing.T) {
		page := n.done(t, "GET", path+"?limit=2&after=1", nil)
		require.Equal(t, texts(events, "type")[1:3], texts(page.at("data").list(), "type"))
		require.True(t, page.flag("has_more"))
		require.Len(t, n.done(t, "GET", path+"?types=user.message,session.status_idle", nil).at("data").list(), 2)
		n.get(t, path+"?after=x").coded(400, "invalid_request")
	})
	t.Run("stream_goes_on_where_it_ended", func(t *testing.T) {
		for _, s := range []*stream{
			n.p.follow(t, "GET", n.url(path+"/stream"), nil, append(auth, "Last-Event-ID", liveIDs[1])...),
			n.p.follow(t, "GET", n.url(path+"/stream?after="+liveIDs[1]), nil, auth...),
			n.p.follow(t, "GET", n.url(path+"/stream?after=0"), nil, append(auth, "Last-Event-ID", liveIDs[1])...),
		} {
			require.Equal(t, ": open", s.block())
			ids, again := numbered(s, len(events)-2)
			require.Equal(t, liveIDs[2:], ids)
			require.Equal(t, names[2:], again)
			s.cancel()
		}
		n.ask(t, "GET", path+"/stream", nil, "Last-Event-ID", "x").coded(400, "invalid_request")
		s := n.p.follow(t, "GET", n.url(path+"/stream?types=session.status_idle&after=0"), nil, auth...)
		require.Equal(t, ": open", s.block())
		_, only := numbered(s, 1)
		require.Equal(t, []string{"session.status_idle"}, only)
	})
	t.Run("messages", func(t *testing.T) {
		page := n.get(t, "/agents/sessions/"+id+"/messages").fits(200, object(fields{
			"object": exactly("list"), "data": listOf(anyObject), "has_more_before": exactly(false), "has_more_after": exactly(false),
		}))
		require.Equal(t, []string{"user", "assistant"}, texts(page.at("data").list(), "role"))
		require.Equal(t, []string{"hi", "one two three"}, texts(page.at("data").list(), "content"))
		older := n.done(t, "GET", "/agents/sessions/"+id+"/messages?before="+page.at("data").list()[1].text("id"), nil)
		require.Equal(t, []string{"hi"}, texts(older.at("data").list(), "content"))
		n.get(t, "/agents/sessions/"+id+"/messages?before=a&after=b").coded(400, "invalid_request")
	})
}

// TestClientSessionFiles: files of a session, and in the input of a response.
func TestClientSessionFiles(t *testing.T) {
	t.Parallel()
	n := onFloor(t)
	id := n.session(t, "worker", nil)
	path := "/agents/sessions/" + id + "/files"
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	record := func(over fields) shape {
		return object(fields{
			"id": idOf("file"), "object": exactly("agent.session.file"), "session_id": exactly(id), "name": nonEmpty, "mime_type": like("^text/plain"),
			"size": integer, "metadata": exactly(object1{}), "created_at": moment, "expires_at": anything,
		}.with(over))
	}
	first := n.post(t, path, object1{"file": object1{"name": "a.txt", "content": encoded("the first file")}, "metadata": object1{"k": "v"}}).
		fits(201, record(fields{"name": exactly("a.txt"), "size": exactly(14), "metadata": exactly(object1{"k": "v"})}))
	second := n.post(t, path+"?name=b.txt", "raw bytes", "Content-Type", "text/plain").fits(201, record(fields{"name": exactly("b.txt"), "size": exactly(9)}))
	t.Run("form", func(t *testing.T) {
		form := "--cut\r\nContent-Disposition: form-data; name=\"file\"; filename=\"c.txt\"\r\n\r\nfrom a form\r\n--cut--\r\n"
		other := n.session(t, "worker", nil)
		n.post(t, "/agents/sessions/"+other+"/files", form, "Content-Type", "multipart/form-data; boundary=cut").
			fits(201, record(fields{"session_id": exactly(other), "name": exactly("c.txt"), "size": exactly(11)}))
	})
	list := n.get(t, path).fits(200, object(fields{"object": exactly("list"), "data": listOf(record(fields{"metadata": anyObject}))}))
	require.ElementsMatch(t, []string{first.text("id"), second.text("id")}, texts(list.at("data").list(), "id"))
	t.Run("content", func(t *testing.T) {
		a := n.get(t, path+"/"+second.text("id")+"/content")
		require.Equal(t, []any{200, "raw bytes"}, []any{a.status, a.text})
		part := n.ask(t, "GET", path+"/"+second.text("id")+"/content", nil, "Range", "bytes=4-")
		require.Equal(t, []any{206, "bytes"}, []any{part.status, part.text})
	})
	t.Run("limits_of_the_agent", func(t *testing.T) {
		n.post(t, path, object1{"file": object1{"name": "c.txt", "content": encoded("one too many")}}).coded(409, "too_many_files")
		n.post(t, "/agents/sessions/"+n.session(t, "worker", nil)+"/files", object1{"file": object1{"name": "c.txt", "content": encoded(strings.Repeat("x", 1001))}}).
			coded(400, "invalid_request")
		n.post(t, "/agents/sessions/"+n.session(t, "quick", nil)+"/files", object1{"file": object1{"name": "c.txt", "content": encoded("x")}}).
			coded(403, "attachments_disabled")
	})
	t.Run("refusals", func(t *testing.T) {
		empty := "/agents/sessions/" + n.session(t, "worker", nil) + "/files"
		n.post(t, empty, object1{}).coded(400, "invalid_request")
		n.post(t, empty, object1{"file": object1{"name": "", "content": encoded("x")}}).coded(400, "invalid_request")
		n.post(t, empty, object1{"file": object1{"name": "a", "content": "!!"}}).coded(400, "invalid_request")
		n.get(t, empty+"/"+first.text("id")+"/content").coded(404, "not_found")
		n.ask(t, "DELETE", path+"/file_AAAAAAAAAAAAAAAAAAAAA", nil).coded(404, "not_found")
	})
	t.Run("in_the_input", func(t *testing.T) {
		part := object1{"type": "input_file", "file_id": first.text("id")}
		input := []any{object1{"role": "user", "content": []any{
			object1{"type": "input_text", "text": "Read"}, part, object1{"type": "input_text", "text": "this"},
		}}}
		n.respond(t, "worker", "", object1{"input": input, "session_id": id}).fits(200, responseShape(fields{"status": exactly("completed")}))
		asked := n.shop.lastAsked("the first file")
		require.NotNil(t, asked, "the model was given the file")
		message := n.done(t, "GET", "/agents/sessions/"+id+"/messages", nil).at("data").list()[0]
		require.Equal(t, "Read\nthis", message.text("content"))
		require.Equal(t, []string{first.text("id")}, texts(message.at("files").list(), "id"))
		n.respond(t, "worker", "", object1{"input": input}).coded(400, "invalid_request")
		part["file_id"] = "file_AAAAAAAAAAAAAAAAAAAAA"
		n.respond(t, "worker", "", object1{"input": input, "session_id": id}).coded(404, "not_found")
	})
	t.Run("without_words", func(t *testing.T) {
		parts := []any{object1{"type": "input_image", "image_url": "data:image/png;base64," + encoded("\x89PNG\r\n\x1a\n a mute picture")}}
		input := []any{object1{"role": "user", "content": parts}}
		for _, order := range []object1{{"input": input}, {"input": input, "background": true}} {
			answered := n.respond(t, "worker", "", order)
			require.Contains(t, []int{200, 202}, answered.status, answered.text)
			other := decode(t, answered.text).text("session_id")
			require.Eventually(t, func() bool {
				said := n.done(t, "GET", "/agents/sessions/"+other+"/messages", nil).at("data").list()
				return len(said) == 2 && said[0].text("content") == "" && len(said[0].at("files").list()) == 1
			}, waitLong, waitStep)
		}
		n.post(t, "/responses", object1{"model": n.agents["worker"], "input": input}).fits(200, anyObject)
		n.respond(t, "worker", "", object1{"input": []any{object1{"role": "user", "content": []any{}}}}).coded(400, "invalid_request")
	})
	t.Run("with_the_input", func(t *testing.T) {
		picture := "\x89PNG\r\n\x1a\n a small picture"
		input := func(address string) any {
			return []any{object1{"role": "user", "content": []any{
				object1{"type": "input_text", "text": "Look"}, object1{"type": "input_image", "image_url": address},
			}}}
		}
		small := "data:image/png;base64," + encoded(picture)
		fresh := n.respond(t, "worker", "", object1{"input": input(small)}).fits(200, responseShape(fields{"status": exactly("completed")}))
		other := fresh.text("session_id")
		kept := n.done(t, "GET", "/agents/sessions/"+other+"/files", nil).at("data").list()
		require.Len(t, kept, 1)
		require.Equal(t, []string{"image-1.png", "image/png"}, []string{kept[0].text("name"), kept[0].text("mime_type")})
		message := n.done(t, "GET", "/agents/sessions/"+other+"/messages", nil).at("data").list()[0]
		require.Equal(t, texts(kept, "id"), texts(message.at("files").list(), "id"))
		n.respond(t, "worker", "", object1{"input": input(small), "session_id": other}).fits(200, responseShape(fields{"status": exactly("completed")}))
		n.respond(t, "worker", "", object1{"input": input(small), "session_id": other}).coded(409, "too_many_files")
		before := len(n.done(t, "GET", "/agents/sessions?limit=100", nil).at("data").list())
		n.respond(t, "worker", "", object1{"input": input("https://example.com/a.png")}).coded(400, "invalid_request")
		n.respond(t, "worker", "", object1{"input": input("data:image/png;base64,!!")}).coded(400, "invalid_request")
		n.respond(t, "worker", "", object1{"input": input("data:image/png;base64," + encoded(picture+strings.Repeat("x", 1000)))}).coded(400, "invalid_request")
		n.respond(t, "quick", "", object1{"input": input(small)}).coded(403, "attachments_disabled")
		require.Len(t, n.done(t, "GET", "/agents/sessions?limit=100", nil).at("data").list(), before, "refused requests leave nothing")
		n.respond(t, "worker", "", object1{"input": input(small), "background": true}).fits(202, anyObject)
	})
	t.Run("removed", func(t *testing.T) {
		n.ask(t, "DELETE", path+"/"+second.text("id"), nil).fits(200, anyObject)
		n.get(t, path+"/"+second.text("id")+"/content").coded(404, "not_found")
		require.Len(t, n.done(t, "GET", path, nil).at("data").list(), 1)
	})
}

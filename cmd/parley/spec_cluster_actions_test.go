package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSpecActionStream: what a client sees of a turn that waits, and of one that goes on.
func TestSpecActionStream(t *testing.T) {
	t.Parallel()
	p, shop := people(t)
	// frames reads a stream to its end; all text in a row is one frame's worth.
	frames := func(t *testing.T, s *stream) (names []string, last map[string]frame, text string) {
		t.Helper()
		last = map[string]frame{}
		for seq := 1; ; seq++ {
			f := s.frame()
			require.InDelta(t, seq, f.data.number("seq"), 0)
			require.NoError(t, epochMillis(f.data.at("timestamp").v))
			last[f.event] = f
			if f.event == "stream.text" {
				text += f.data.text("text")
			}
			if f.event != "stream.text" || names[len(names)-1] != f.event {
				names = append(names, f.event)
			}
			if f.event == "stream.done" || f.event == "stream.error" {
				s.ends()
				return names, last, text
			}
		}
	}
	resolve := func(t *testing.T, w *waiting, n int, resolution any) *stream {
		t.Helper()
		return p.follow(t, "POST", "/conversations/"+w.id+"/actions/"+w.actions[n], object1{"resolution": resolution, "stream": true})
	}
	id := p.newConversation(t, "worker", "action stream")
	message := script(part{Text: "May I wipe?", Calls: []wanted{wipe("sdg-1"), use("camera", nil)}}, part{Text: "It is gone."})
	names, last, text := frames(t, p.follow(t, "POST", "/conversations/"+id+"/messages", object1{"message": message, "stream": true}))
	require.Equal(t, []string{"stream.start", "stream.text", "stream.tool_call", "stream.tool_call", "stream.done"}, names)
	require.Equal(t, "May I wipe?", text)
	done := last["stream.done"].data
	read := p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject)
	require.NoError(t, object(streamFields("stream.done").with(fields{
		"stopReason": exactly("requires_action"), "status": exactly("requires_action"), "content": exactly("May I wipe?"),
		"messageId": exactly(read.at("messages").list()[1].text("id")), "pendingActions": exactly(read.at("pendingActions").v),
	}))(done.v), last["stream.done"].raw)
	w := &waiting{p: p, id: id, run: done.text("runId"), actions: texts(done.at("pendingActions").list(), "id")}

	t.Run("refusals_are_json", func(t *testing.T) {
		post := func(action string, resolution any) answer {
			return p.ask(t, "POST", "/conversations/"+id+"/actions/"+action, object1{"resolution": resolution, "stream": true})
		}
		post(w.actions[0], object1{"type": "x"}).refused(400, "VALIDATION_ERROR")
		post(w.actions[0], object1{"type": "tool_approval", "decision": "allow", "approvedArgs": object1{}}).refused(400, "invalid_approved_args")
		post("act_AAAAAAAAAAAAAAAAAAAAA", allow).refused(409, "action_not_pending")
	})
	t.Run("others_are_still_pending", func(t *testing.T) {
		names, last, _ := frames(t, resolve(t, w, 1, object1{"type": "client_tool", "output": "photo"}))
		require.Equal(t, []string{"stream.start", "stream.action_resolved", "stream.done"}, names)
		require.Equal(t, "requires_action", last["stream.done"].data.text("stopReason"))
		require.Equal(t, w.actions[:1], texts(last["stream.done"].data.at("pendingActions").list(), "id"))
	})
	t.Run("turn_goes_on", func(t *testing.T) {
		follower := p.follow(t, "GET", "/conversations/"+id+"/events/stream", nil)
		require.Equal(t, ": open", follower.block())
		names, last, text := frames(t, resolve(t, w, 0, allow))
		require.Equal(t, []string{"stream.start", "stream.action_resolved", "stream.tool_result", "stream.text", "stream.done"}, names)
		require.NoError(t, object(fields{
			"type": exactly("stream.action_resolved"), "timestamp": epochMillis, "seq": exactly(2), "conversationId": exactly(id), "runId": exactly(w.run),
			"actionId": exactly(w.actions[0]), "kind": exactly("tool_approval"), "toolName": exactly("wipe"), "toolCallId": nonEmpty, "decision": exactly("allow"),
		})(last["stream.action_resolved"].data.v))
		require.Equal(t, "done wipe", last["stream.tool_result"].data.text("result"))
		require.Equal(t, "It is gone.", strings.TrimSpace(text), "only what is new")
		require.Equal(t, "May I wipe?\n\nIt is gone.", last["stream.done"].data.text("content"))
		require.Equal(t, "end_turn", last["stream.done"].data.text("stopReason"))
		require.Len(t, shop.uses("wipe", "sdg-1"), 1)
		var seen []string
		for len(seen) == 0 || seen[len(seen)-1] != "session.status_idle" {
			if f := follower.frame(); f.id != "" {
				seen = append(seen, f.event)
			}
		}
		require.Equal(t, []string{
			"user.message", "session.status_running", "agent.tool_use", "action.requested", "action.requested", "session.status_waiting",
			"action.resolved", "action.resolved", "session.status_running", "agent.tool_result", "agent.message", "session.status_idle",
		}, seen)
	})
	t.Run("connection_does_not_matter", func(t *testing.T) {
		w := p.pause(t, calls(wipe("sdg-2")), part{Text: "Done.", Hold: "sdg-2"})
		s := resolve(t, w, 0, allow)
		s.until("stream.tool_result")
		s.cancel()
		close(shop.gate("sdg-2"))
		require.Equal(t, "Done.", w.idle(t).at("messages").list()[1].text("content"))
	})
	t.Run("cancelled_in_mid_turn", func(t *testing.T) {
		w := p.pause(t, calls(wipe("sdg-3")), part{Text: "Half", Hold: "sdg-3"})
		s := resolve(t, w, 0, allow)
		s.until("stream.text")
		p.ask(t, "POST", "/conversations/"+w.id+"/cancel", nil).fits(200, anyObject)
		require.Equal(t, "cancelled", s.until("stream.done").data.text("stopReason"))
		answer := w.read(t).at("messages").list()[1]
		require.Equal(t, "Half", answer.text("content"))
		require.Equal(t, "done wipe", answer.at("toolCalls").list()[0].text("result"))
	})
}

// TestSpecActionsOverRestarts: what waits for a person waits through kills and stops.
func TestSpecActionsOverRestarts(t *testing.T) {
	t.Parallel()
	shop := openWorkshop(t)
	p := newProcess(t, shop.peopleConfig("spec-9", ""))
	p.start()
	remembering := p.pause(t, calls(wipe("sdh-0")))
	remembering.resolve(t, 0, object1{"type": "tool_approval", "decision": "allow", "rememberForSession": true}).fits(200, anyObject)
	approval := p.pause(t, part{Text: "May I?", Calls: []wanted{wipe("sdh-1"), use("add", object1{"a": 41, "b": 1})}})
	asked := p.pause(t, calls(use("ask_user", object1{"questions": []any{object1{"question": "Red?"}}})))
	both := p.pause(t, calls(use("camera", nil), wipe("sdh-2")))
	both.resolve(t, 0, object1{"type": "client_tool", "output": "seen"}).fits(200, anyObject)
	late := p.pause(t, calls(use("later", nil)))
	look := func() []any { return []any{approval.read(t).v, asked.read(t).v, both.read(t).v} }
	before := look()
	same := func() {
		t.Helper()
		require.Equal(t, before, look())
	}
	p.kill()
	p.start()
	same()
	begun := time.Now()
	done := approval.resolve(t, 0, allow).fits(200, resumedTurn(nil))
	t.Logf("resolved %v after the restart", time.Since(begun))
	require.Equal(t, "May I?\n\n"+`done wipe | {"sum":42}`, done.text("response", "content"))
	require.Len(t, shop.uses("wipe", "sdh-1"), 1)
	require.Len(t, shop.uses("add", `"a":41`), 1, "what had run is not run again")
	before[0] = approval.read(t).v
	require.NoError(t, p.terminate())
	p.start()
	same()
	require.JSONEq(t, `{"Red?":"no"}`, asked.resolve(t, 0, object1{"type": "user_question", "answers": object1{"Red?": "no"}}).
		fits(200, resumedTurn(nil)).text("response", "content"))
	both.resolve(t, 0, object1{"type": "client_tool", "output": "again"}).refused(409, "action_not_pending")
	require.Equal(t, "seen | done wipe", both.resolve(t, 1, allow).fits(200, resumedTurn(nil)).text("response", "content"))
	require.Contains(t, late.idle(t).at("messages").list()[1].text("content"), "nobody approved", "lapsed while the server was away, or later")
	require.Equal(t, "end_turn", p.say(t, remembering.id, script(calls(wipe("sdh-3")))).text("stopReason"), "remembered")

	toolless, orphan := p.pause(t, calls(wipe("sdh-4"))), p.pause(t, calls(wipe("sdh-5"), use("camera", nil)))
	p.kill()
	config := strings.ReplaceAll(shop.peopleConfig("spec-9", ""), "name: wipe,", "name: wiped,")
	require.NoError(t, os.WriteFile(p.config, []byte(config), 0o600))
	p.start()
	require.Contains(t, toolless.resolve(t, 0, allow).fits(200, resumedTurn(nil)).text("response", "content"), "no such tool", "the agent has it no more")
	p.kill()
	require.NoError(t, os.WriteFile(p.config, []byte("log: {level: warn}\n"), 0o600))
	p.start()
	orphan.resolve(t, 0, allow).fits(200, anyObject)
	ended := orphan.resolve(t, 1, object1{"type": "client_tool", "output": 1}).fits(200, anyObject)
	require.Equal(t, "error", ended.text("stopReason"))
	require.Equal(t, "agent_not_found", ended.text("error", "code"))
	require.Equal(t, "idle", orphan.status(t))
	require.Empty(t, shop.uses("wipe", "sdh-4"))
	require.Empty(t, shop.uses("wipe", "sdh-5"))
}

// inDoubt says that the turn's owner changed while its tool ran: what became of the call is not known, and a person is asked.
func inDoubt(t *testing.T, a answer) bool {
	t.Helper()
	pending, is := decode(t, a.text).at("pendingActions").v.([]any)
	if !is || len(pending) != 1 {
		return false
	}
	one, _ := pending[0].(map[string]any)
	return one["unknownOutcome"] == true
}

// TestSpecActionsOverNodes: any node takes a decision, exactly one wins, and what waits outlives its node.
func TestSpecActionsOverNodes(t *testing.T) {
	t.Parallel()
	shop := openWorkshop(t)
	file := filepath.Join(t.TempDir(), "people.yaml")
	require.NoError(t, os.WriteFile(file, []byte(shop.peopleConfig("x", "")), 0o600))
	c := newCluster(t, 3, false, "--config", file, "--cluster-election-timeout", "3s") // a busy machine is no failure
	require.NoError(t, c.Start(t.Context()))
	require.NoError(t, c.awaitSettled(t.Context(), 3))
	at := map[string]*process{}
	var doors []*process
	for _, n := range c.Nodes() {
		at[n.Name] = &process{t: t, listen: n.Listen}
		doors = append(doors, at[n.Name])
	}
	t.Run("one_of_many_decisions_wins", func(t *testing.T) {
		for round, decisions := range [][]any{
			{allow}, {allow, deny}, {object1{"type": "tool_approval", "decision": "allow", "approvedArgs": object1{"disk": "sdi-other"}}, deny, allow},
		} {
			w := doors[round].pause(t, calls(wipe("sdi-"+string(rune('a'+round)))))
			for _, door := range doors {
				read := door.ask(t, "GET", "/conversations/"+w.id, nil).fits(200, anyObject)
				require.Equal(t, w.turn.at("pendingActions").v, read.at("pendingActions").v)
			}
			var deciders []func() answer
			for i := range 16 {
				body := object1{"resolution": decisions[i%len(decisions)]}
				deciders = append(deciders, doors[i%3].asking(t, "POST", "/conversations/"+w.id+"/actions/"+w.actions[0], body))
			}
			won := 0
			for _, decide := range deciders {
				if a := decide(); a.status == 200 {
					if !inDoubt(t, a) {
						a.fits(200, resumedTurn(nil))
					}
					won++
				} else {
					a.refused(409, "action_not_pending")
				}
			}
			require.Equal(t, 1, won)
			require.LessOrEqual(t, len(shop.uses("wipe", "sdi-"+string(rune('a'+round))))+len(shop.uses("wipe", "sdi-other")), 1)
			require.Len(t, w.events(t, "action.resolved"), 1)
		}
	})
	t.Run("decisions_and_cancels_at_once", func(t *testing.T) {
		for round := range 3 {
			disk := "sdk-" + string(rune('a'+round))
			w := doors[round].pause(t, calls(wipe(disk), use("sweep", object1{"x": disk})))
			var all []func() answer
			for i := range 12 {
				if i%4 == 3 {
					all = append(all, doors[i%3].asking(t, "POST", "/conversations/"+w.id+"/cancel", nil))
					continue
				}
				all = append(all, doors[i%3].asking(t, "POST", "/conversations/"+w.id+"/actions/"+w.actions[i%2], object1{"resolution": allow}))
			}
			for _, came := range all {
				require.Contains(t, []int{200, 202, 409}, came().status)
			}
			read := w.idle(t)
			messages := read.at("messages").list()
			require.Len(t, messages, 2)
			require.Contains(t, []string{"cancelled", "completed"}, messages[1].text("status"))
			require.Nil(t, read.at("pendingActions").v)
			require.LessOrEqual(t, len(shop.uses("wipe", disk)), 1)
			closed := w.events(t, "action.resolved,action.cancelled")
			require.ElementsMatch(t, w.actions, texts(closed, "data", "action_id"), "each is closed once")
			require.Equal(t, "end_turn", w.p.say(t, w.id, script(part{Text: "on"})).text("stopReason"))
		}
	})
	t.Run("waits_through_the_loss_of_its_node", func(t *testing.T) {
		w := doors[0].pause(t, part{Text: "May I?", Calls: []wanted{wipe("sdj-1"), use("add", object1{"a": 51, "b": 1})}})
		late := doors[0].pause(t, calls(use("later", nil)))
		owner, err := c.owner(t.Context(), w.id)
		require.NoError(t, err)
		require.NoError(t, owner.Kill())
		door := at[c.others(owner)[0].Name]
		w.p, late.p = door, door
		var decided answer
		begun := time.Now()
		require.Eventually(t, func() bool {
			decided = w.resolve(t, 0, allow, "Idempotency-Key", w.actions[0]) // of a 503 nobody knows whether it was decided: the repeat must be one
			return decided.status != 503
		}, 30*time.Second, 20*time.Millisecond)
		t.Logf("resolved %v after the node's end", time.Since(begun))
		result := decided.fits(200, resumedTurn(nil))
		require.Equal(t, "May I?\n\n"+`done wipe | {"sum":52}`, result.text("response", "content"))
		require.Len(t, shop.uses("wipe", "sdj-1"), 1)
		require.Len(t, shop.uses("add", `"a":51`), 1)
		require.Contains(t, late.idle(t).at("messages").list()[1].text("content"), "nobody approved")
	})
}

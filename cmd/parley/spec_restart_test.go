package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// life is conversations of every kind, made before a restart.
type life struct {
	ids  map[string]string // by what they are
	gone string
}

func (p *process) live(t *testing.T) life {
	t.Helper()
	l := life{ids: map[string]string{}}
	make := func(name, agent, body string) string {
		id := p.newConversation(t, agent, "restart")
		if body != "" {
			p.ask(t, "PATCH", "/conversations/"+id, body).fits(200, anyObject)
		}
		l.ids[name] = id
		return id
	}
	make("empty", "quick", "")
	make("changed", "quick", `{"title":"Größe 🙂","metadata":{"a":{"b":[1,2.50,null]}}}`)
	for n := range 3 {
		p.say(t, make(fmt.Sprintf("pinned %d", n), "quick", `{"pinned":true}`), "hello")
	}
	talked := make("talked", "quick", "")
	for n := range 6 {
		p.say(t, talked, fmt.Sprintf("question %d", n))
	}
	p.say(t, make("broken", "broken", ""), "hello")
	p.say(t, make("mute", "mute", ""), "hello")
	p.say(t, make("looping", "looping", ""), "hello")
	spent := make("spent", "priced", `{"budget":{"maxCostUsd":0.004,"onReach":"stop"}}`)
	p.say(t, spent, "one")
	p.say(t, spent, "two")
	cancelled := make("cancelled", "slow", "")
	sender := p.follow(t, "POST", "/conversations/"+cancelled+"/messages", map[string]any{"message": "go", "stream": true})
	sender.until("stream.text")
	p.ask(t, "POST", "/conversations/"+cancelled+"/cancel", nil).fits(200, anyObject)
	l.gone = p.newConversation(t, "quick", "restart")
	p.say(t, l.gone, "hello")
	p.ask(t, "DELETE", "/conversations/"+l.gone, nil).empty(204)
	return l
}

// look is everything that can be read about a life.
func (p *process) look(t *testing.T, l life) map[string]string {
	t.Helper()
	paths := []string{"/agents", "/docs/openapi.json"}
	for _, query := range []string{
		"", "&limit=2&offset=2", "&pinned=none", "&orderBy=updatedAt", "&order=asc&pinned=none", "&agentId=quick", "&agentId=slow&orderBy=updatedAt",
	} {
		paths = append(paths, "/conversations?userId=restart"+query)
	}
	for _, id := range l.ids {
		at := "/conversations/" + id
		paths = append(paths, at, at+"?limit=2&order=desc", at+"/messages", at+"/messages?offset=1&limit=1", at+"/events", at+"/events?types=agent.message&after=2")
	}
	seen := map[string]string{}
	for _, path := range paths {
		a := p.ask(t, "GET", path, nil)
		require.Equal(t, 200, a.status, a.text)
		seen[path] = a.text
	}
	for name, id := range l.ids {
		s := p.follow(t, "GET", "/conversations/"+id+"/events/stream", nil)
		events := len(p.ask(t, "GET", "/conversations/"+id+"/events", nil).fits(200, anyObject).at("events").list())
		seen["stream of "+name] = strings.Join(s.peek(t, 1+events), "\n\n")
		s.cancel()
	}
	return seen
}

func TestSpecRestart(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: builds the binary and runs processes")
	}
	p := newProcess(t, openConfig)
	p.start()
	l := p.live(t)
	before := p.look(t, l)

	same := func(t *testing.T) {
		t.Helper()
		after := p.look(t, l)
		for _, path := range slices.Sorted(maps.Keys(before)) {
			require.Equal(t, before[path], after[path], path)
		}
		p.ask(t, "GET", "/conversations/"+l.gone, nil).refused(404, "NOT_FOUND")
		p.ask(t, "GET", "/conversations/"+l.gone+"/events", nil).refused(404, "NOT_FOUND")
	}
	p.kill()
	p.start()
	t.Run("everything_reads_the_same_after_a_kill", same)
	follower := p.follow(t, "GET", "/conversations/"+l.ids["talked"]+"/events/stream?after=24", nil)
	require.Equal(t, ": open", follower.block())
	require.NoError(t, p.terminate())
	t.Run("streams_end_cleanly_on_a_graceful_stop", func(t *testing.T) {
		require.Equal(t, ": server stopping", follower.block())
		require.Regexp(t, `^retry: \d+$`, follower.block())
		follower.ends()
	})
	p.start()
	t.Run("everything_reads_the_same_after_a_graceful_stop", same)

	t.Run("rules_hold_after_a_restart", func(t *testing.T) {
		p.ask(t, "POST", "/conversations/"+l.ids["spent"]+"/messages", `{"message":"more"}`).refused(402, "budget_reached")
		p.ask(t, "PATCH", "/conversations/"+l.ids["spent"], `{"budget":{"maxCostUsd":0.004}}`).refused(400, "invalid_budget")
		p.ask(t, "POST", "/conversations/"+l.ids["cancelled"]+"/cancel", nil).fits(200, object(fields{
			"cancelled": exactly(false), "settled": exactly(true), "runtime": anyObject,
		}))
	})
	t.Run("log_goes_on_after_a_restart", func(t *testing.T) {
		id := l.ids["talked"]
		s := p.follow(t, "GET", "/conversations/"+id+"/events/stream", nil, "Last-Event-ID", "24")
		require.Equal(t, ": open", s.block())
		p.say(t, id, "question 6")
		for seq := 25; seq <= 28; {
			f := s.frame()
			if f.id == "" {
				continue // live text
			}
			require.Equal(t, seq, f.seq(t))
			seq++
		}
		p.ask(t, "GET", "/conversations/"+id+"/messages", nil).fits(200, messagePage(fields{"total": exactly(14)}))
	})
	p.kill()
	require.NoError(t, os.WriteFile(p.config, []byte("log: {level: warn}\n"), 0o600))
	p.start()
	t.Run("conversations_outlive_their_agent", func(t *testing.T) {
		id := l.ids["talked"]
		read := p.ask(t, "GET", "/conversations/"+id, nil).fits(200, conversationRead(messagesPage{100, "asc", false, false}))
		require.Equal(t, "quick", read.text("conversation", "agentName"))
		p.ask(t, "POST", "/conversations", `{"agentId":"quick"}`).refused(404, "NOT_FOUND")
		p.ask(t, "PATCH", "/conversations/"+id, `{"title":"orphan"}`).fits(200, conversationRecord(nil))
		p.ask(t, "POST", "/conversations/"+id+"/messages", `{"message":"anybody?"}`).fits(200, turnRecord(fields{
			"response": unsaidMessage("incomplete", "error"), "usage": nil, "stopReason": exactly("error"), "status": exactly("incomplete"), "conversationTitle": exactly("orphan"),
			"error": object(fields{"code": exactly("agent_not_found"), "message": nonEmpty}),
		}))
		p.ask(t, "DELETE", "/conversations/"+id, nil).empty(204)
	})
}

package sse

import (
	"testing"

	"parley/proto/conversationpb"
)

// TestTextInOrder: a stream that wants its text in order hears what happened first, then the text.
func TestTextInOrder(t *testing.T) {
	e := newEdge(t, testConfig())
	e.options = func(after uint64) Options {
		return Options{After: after, Opening: Comment("open"), View: plainView{}, InOrder: true}
	}
	e.upstream.create("c")
	e.upstream.publish("c", updated("a"))
	e.upstream.startRun("c", "r1")
	e.upstream.say("c", "Hello")
	e.upstream.publish("c", updated("b"))
	c := e.follow("c", 0)
	c.expect(t, "updated", "a", 1)
	c.expect(t, "updated", "b", 2)
	c.expect(t, "delta", "r1|0|Hello", 0)
	e.upstream.say("c", ", world")
	c.expect(t, "delta", "r1|5|, world", 0)
	e.upstream.startRun("c", "r1") // recovered: what it says replaces what it said
	c.expect(t, "snapshot", "r1|0|", 0)
}

// TestPausedRunSaysNothingMore: whoever comes while a turn waits is not told its text; when it goes on, its text begins
// anew, for those who heard the first part as a snapshot.
func TestPausedRunSaysNothingMore(t *testing.T) {
	e := newEdge(t, testConfig())
	e.upstream.create("c")
	early := e.follow("c", 0)
	e.upstream.startRun("c", "r1")
	e.upstream.say("c", "Shall I?")
	early.expect(t, "delta", "r1|0|Shall I?", 0)
	e.upstream.publish("c", &conversationpb.Event{RunId: "r1", Body: &conversationpb.Event_TurnPaused{
		TurnPaused: &conversationpb.TurnPaused{},
	}})
	early.expect(t, "event", "r1", 1)
	late := e.follow("c", 0)
	late.expect(t, "event", "r1", 1)
	e.upstream.startRun("c", "r1")
	e.upstream.say("c", "Done.")
	late.expect(t, "delta", "r1|0|Done.", 0)
	early.expect(t, "snapshot", "r1|0|Done.", 0)
}

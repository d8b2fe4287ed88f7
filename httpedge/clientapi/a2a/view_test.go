package a2a

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/httpedge/a2a/protocol"
	"parley/httpedge/a2a/tasks"
	"parley/httpedge/sse"
	"parley/proto/conversationpb"
)

// reader is what a client makes of a stream of 0.3.
type reader struct {
	text     string
	statuses []string
}

func (r *reader) take(t *testing.T, frame sse.Frame) {
	t.Helper()
	for _, found := range regexp.MustCompile(`data: (\{.*\})\n`).FindAllStringSubmatch(string(frame), -1) {
		var heard struct {
			ID     json.RawMessage
			Result struct {
				Kind     string
				Append   bool
				Artifact struct{ Parts []struct{ Text string } }
				Status   struct{ State string }
			}
		}
		require.NoError(t, json.Unmarshal([]byte(found[1]), &heard), found[1])
		require.Equal(t, `"q"`, string(heard.ID))
		switch heard.Result.Kind {
		case "artifact-update":
			if !heard.Result.Append {
				r.text = ""
			}
			r.text += heard.Result.Artifact.Parts[0].Text
		case "status-update":
			r.statuses = append(r.statuses, heard.Result.Status.State)
		}
	}
}

func viewOfRun() *view {
	return &view{task: tasks.New("conv_1", 2), run: "r", id: json.RawMessage(`"q"`)}
}

func delta(t *testing.T, r *reader, v *view, text string, offset int) {
	t.Helper()
	r.take(t, v.Delta(sse.Run{ID: "r", Text: []byte(text)}, offset))
}

func event(t *testing.T, r *reader, v *view, event *conversationpb.Event) bool {
	t.Helper()
	event.RunId = "r"
	frame, done := v.Event(event)
	r.take(t, frame)
	return done
}

func whole(text string) *conversationpb.Event {
	return &conversationpb.Event{Body: &conversationpb.Event_AgentMessage{AgentMessage: &conversationpb.AgentMessage{
		Message: &conversationpb.Message{Content: text, Number: 2},
	}}}
}

func over(why conversationpb.StopReason) *conversationpb.Event {
	return &conversationpb.Event{Body: &conversationpb.Event_TurnEnded{TurnEnded: &conversationpb.TurnEnded{StopReason: why}}}
}

// TestReplyComesWhole: whatever was missed on the way, or said otherwise by another attempt, the pieces come to the stored reply.
func TestReplyComesWhole(t *testing.T) {
	for name, first := range map[string]string{"all of it": "one two three", "some of it": "one ", "nothing": "", "something else": "uno due tre quattro"} {
		t.Run(name, func(t *testing.T) {
			r, v := &reader{}, viewOfRun()
			delta(t, r, v, first, 0)
			require.False(t, event(t, r, v, whole("one two three")))
			require.True(t, event(t, r, v, over(conversationpb.StopReason_END_TURN)))
			require.Equal(t, "one two three", r.text)
			require.Equal(t, []string{"completed"}, r.statuses)
		})
	}
}

// TestFollowerStaysOverAPause: who follows a task hears it go on after the pause; a message's own stream ends with it.
func TestFollowerStaysOverAPause(t *testing.T) {
	paused := func() *conversationpb.Event {
		return &conversationpb.Event{Body: &conversationpb.Event_TurnPaused{TurnPaused: &conversationpb.TurnPaused{
			Answer: &conversationpb.Message{Content: "Wait.", Number: 2, Pending: []*conversationpb.PendingAction{{Kind: conversationpb.KindApproval}}},
		}}}
	}
	require.True(t, event(t, &reader{}, viewOfRun(), paused()))

	r, v := &reader{}, viewOfRun()
	v.keeps = true
	delta(t, r, v, "Wai", 0)
	require.False(t, event(t, r, v, paused()))
	resumed := &conversationpb.TurnResumed{Lease: &conversationpb.Lease{Mode: conversationpb.Mode_RESOLVE}}
	require.False(t, event(t, r, v, &conversationpb.Event{Body: &conversationpb.Event_TurnResumed{TurnResumed: resumed}}))
	delta(t, r, v, "\n\nGo", 0)
	require.False(t, event(t, r, v, whole("Wait.\n\nGo on.")))
	require.True(t, event(t, r, v, over(conversationpb.StopReason_END_TURN)))
	require.Equal(t, "Wait.\n\nGo on.", r.text)
	require.Equal(t, []string{"input-required", "working", "completed"}, r.statuses)
}

// FuzzRead: whatever the body is, there is a call to answer, with an id that is JSON.
func FuzzRead(f *testing.F) {
	for _, body := range []string{``, `7`, `[]`, `[1,{}]`, `{"jsonrpc":"2.0","id":"a","method":"tasks/get","params":{"id":"task_x_1"}}`, "\xff", `{"id":{}}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		read := protocol.Read(body)
		require.NotEmpty(t, read.Calls)
		for _, one := range read.Calls {
			require.True(t, json.Valid(one.ID), "%q", one.ID)
			if _, failed := protocol.ReadMessage(one.Params); failed == nil {
				require.Equal(t, byte('{'), one.Params[0])
			}
			_, _, _ = tasks.ParseID(protocol.ReadTaskID(one.Params))
		}
	})
}

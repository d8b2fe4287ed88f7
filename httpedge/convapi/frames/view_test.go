package frames

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http/httputil"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/httpedge/sse"
	"parley/proto/conversationpb"
)

// fields reads one frame as a client does: lines by name, several data lines put together.
func fields(t require.TestingT, f sse.Frame) map[string]string {
	body, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(append(bytes.Clone(f), "0\r\n\r\n"...))))
	require.NoError(t, err)
	got := make(map[string]string)
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 1<<24)
	ended := false
	for lines.Scan() {
		require.False(t, ended, "more than one event in a frame")
		ended = lines.Text() == ""
		name, value, _ := strings.Cut(lines.Text(), ": ")
		if previous, again := got[name]; again {
			value = previous + "\n" + value
		}
		got[name] = value
	}
	require.True(t, ended)
	return got
}

func textOf(t require.TestingT, f sse.Frame) string {
	if f == nil {
		return ""
	}
	var data struct {
		Type, Text string
	}
	require.NoError(t, json.Unmarshal([]byte(fields(t, f)["data"]), &data))
	require.Equal(t, "stream.text", data.Type)
	return data.Text
}

// Whatever attempts a run takes, and whatever of them the hub tells: what was sent is never taken back, and it is the
// answer, unless the answer does not begin with what was sent.
func TestMessageViewSendsTheAnswerAndNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"a", "b", "ä", "𝄞", "ab"})
		base := strings.Join(rapid.SliceOfN(word, 0, 30).Draw(t, "text"), "")
		v := NewMessageView("c", &conversationpb.Accepted{RunId: "r"})
		heard, saying := "", ""
		attempts := rapid.IntRange(1, 4).Draw(t, "attempts")
		for attempt := range attempts {
			saying = base
			if attempt > 0 && rapid.Bool().Draw(t, "other") {
				saying = strings.Join(rapid.SliceOfN(word, 0, 30).Draw(t, "other text"), "")
			}
			if attempt > 0 {
				heard += textOf(t, v.Snapshot(sse.Run{ID: "r"}))
			}
			told := rapid.IntRange(0, len(saying)).Draw(t, "told")
			for told < len(saying) && !utf8.RuneStart(saying[told]) {
				told++
			}
			for at := 0; at < told; {
				next := rapid.IntRange(at+1, told).Draw(t, "next")
				for next < told && !utf8.RuneStart(saying[next]) {
					next++
				}
				heard += textOf(t, v.Delta(sse.Run{ID: "r", Text: []byte(saying[:next])}, at))
				at = next
			}
			require.Empty(t, textOf(t, v.Delta(sse.Run{ID: "other", Text: []byte("x")}, 0)))
		}
		agree := strings.HasPrefix(saying, heard)
		frame, done := v.Event(&conversationpb.Event{RunId: "r", Body: &conversationpb.Event_AgentMessage{
			AgentMessage: &conversationpb.AgentMessage{Message: &conversationpb.Message{Content: saying}},
		}})
		require.False(t, done)
		heard += textOf(t, frame)
		if agree {
			require.Equal(t, saying, heard)
		}
		frame, done = v.Event(&conversationpb.Event{RunId: "r", Body: &conversationpb.Event_TurnEnded{
			TurnEnded: &conversationpb.TurnEnded{StopReason: conversationpb.StopReason_END_TURN},
		}})
		require.True(t, done)
		var last struct {
			Content string
			Seq     int
		}
		require.NoError(t, json.Unmarshal([]byte(fields(t, frame)["data"]), &last))
		require.Equal(t, saying, last.Content)
	})
}

func BenchmarkMessageText(b *testing.B) {
	v := NewMessageView("conv_012345678901234567890", &conversationpb.Accepted{RunId: "r"})
	const text = "word "
	b.ReportAllocs()
	for b.Loop() {
		v.text(text)
	}
}

// A turn with tools, whose client takes text late: every call stands behind the text that was said before it, and all
// pieces together are what the turn said from where the stream began.
func TestMessageViewKeepsTextAndCallsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"a", "b", "ä", "𝄞", "ab "})
		drawWords := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(word, 0, 8).Draw(t, "words"), "") })
		prior := drawWords.Draw(t, "prior")
		v := NewMessageView("c", &conversationpb.Accepted{RunId: "r"})
		if prior != "" {
			v.Resume(&conversationpb.State{
				Status: conversationpb.Status_WAITING,
				Paused: &conversationpb.Lease{RunId: "r", Answer: &conversationpb.Message{Content: prior}},
			})
		}
		var output, heard string // what the run has said, what the client has heard
		told := 0                // offset up to which the hub has said it
		take := func(upto int) {
			for upto < len(output) && !utf8.RuneStart(output[upto]) {
				upto++
			}
			if upto > told {
				heard += textOf(t, v.Delta(sse.Run{ID: "r", Text: []byte(output[:upto])}, told))
				told = upto
			}
		}
		for range rapid.IntRange(0, 4).Draw(t, "steps") {
			text := drawWords.Draw(t, "text")
			if text != "" && prior+output != "" {
				output += "\n\n"
			}
			output += text
			take(rapid.IntRange(told, len(output)).Draw(t, "taken"))
			frame, done := v.Event(&conversationpb.Event{RunId: "r", Body: &conversationpb.Event_ToolUse{ToolUse: &conversationpb.ToolUse{
				Text: text, Calls: []*conversationpb.ToolCall{{Id: "c1", Name: "n", Arguments: "{}"}},
			}}})
			require.False(t, done)
			frames := split(t, frame)
			require.Equal(t, "stream.tool_call", frames[len(frames)-1]["type"])
			for _, f := range frames[:len(frames)-1] {
				piece, ok := f["text"].(string)
				require.True(t, ok)
				heard += piece
			}
			require.Equal(t, output, heard, "before its calls")
			if rapid.Bool().Draw(t, "recovered") {
				told = 0
				heard += textOf(t, v.Snapshot(sse.Run{ID: "r", Text: []byte(output)}))
				told = len(output)
			}
		}
		frame, _ := v.Event(&conversationpb.Event{RunId: "r", Body: &conversationpb.Event_AgentMessage{
			AgentMessage: &conversationpb.AgentMessage{Message: &conversationpb.Message{Content: prior + output + "!"}},
		}})
		require.Equal(t, output+"!", heard+textOf(t, frame))
	})
}

// split reads several frames that are sent in one piece.
func split(t require.TestingT, frames sse.Frame) []map[string]any {
	body, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(append(bytes.Clone(frames), "0\r\n\r\n"...))))
	require.NoError(t, err)
	var all []map[string]any
	for one := range strings.SplitSeq(strings.TrimSuffix(string(body), "\n\n"), "\n\n") {
		_, data, _ := strings.Cut(one, "data: ")
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(data), &object), one)
		all = append(all, object)
	}
	return all
}

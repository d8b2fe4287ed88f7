package convapi

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
		v := newMessageView("c", &conversationpb.Accepted{RunId: "r"})
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

func FuzzEventFrame(f *testing.F) {
	f.Add("plain", []byte(`{"a":1}`))
	f.Add("a\r\nb\n\ndata: x\u2028\u2029\x00\xff", []byte("{\n\"a\":\r\n1\r}"))
	f.Fuzz(func(t *testing.T, content string, metadata []byte) {
		if !json.Valid(metadata) || !strings.HasPrefix(string(metadata), "{") {
			metadata = nil // the rules store objects only
		}
		got := fields(t, eventFrame("user.message", &conversationpb.Event{Seq: 9, RunId: "r", Body: &conversationpb.Event_UserMessage{
			UserMessage: &conversationpb.UserMessage{Message: &conversationpb.Message{Content: content, Metadata: metadata}},
		}}))
		require.Equal(t, "9", got["id"])
		require.Equal(t, "user.message", got["event"])
		var event struct {
			Type string
			Data struct {
				Content  string
				Metadata json.RawMessage
			}
		}
		require.NoError(t, json.Unmarshal([]byte(got["data"]), &event))
		plain := func(s string) string { return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\ufffd", "") }
		require.Equal(t, plain(content), plain(event.Data.Content), "but for what is no UTF-8")
	})
}

func BenchmarkDeltaFrame(b *testing.B) {
	run := sse.Run{ID: "run_012345678901234567890", Text: []byte(strings.Repeat("word ", 50))}
	b.ReportAllocs()
	for b.Loop() {
		deltaFrame(run, len(run.Text)-5)
	}
}

func BenchmarkMessageText(b *testing.B) {
	v := newMessageView("conv_012345678901234567890", &conversationpb.Accepted{RunId: "r"})
	text := []byte("word ")
	b.ReportAllocs()
	for b.Loop() {
		v.hear(text)
	}
}

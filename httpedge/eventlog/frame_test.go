package eventlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http/httputil"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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

func FuzzEventFrame(f *testing.F) {
	f.Add("plain", []byte(`{"a":1}`))
	f.Add("a\r\nb\n\ndata: x\u2028\u2029\x00\xff", []byte("{\n\"a\":\r\n1\r}"))
	f.Fuzz(func(t *testing.T, content string, metadata []byte) {
		if !json.Valid(metadata) || !strings.HasPrefix(string(metadata), "{") {
			metadata = nil // the rules store objects only
		}
		got := fields(t, eventFrame("user.message", &conversationpb.Event{Seq: 9, RunId: "r", Body: &conversationpb.Event_UserMessage{
			UserMessage: &conversationpb.UserMessage{Message: &conversationpb.Message{Content: content, Metadata: metadata}},
		}}, Conversation))
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

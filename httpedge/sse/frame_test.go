package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http/httputil"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/proto/conversationpb"
)

type eventType = conversationpb.Event

func decode(t *testing.T, frames ...Frame) []frame {
	t.Helper()
	wire := append([]byte(Join(frames...)), lastChunk...)
	body, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(wire)))
	require.NoError(t, err)
	c := &client{lines: bufio.NewReader(bytes.NewReader(body)), pings: true}
	var all []frame
	for {
		f, err := c.next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, f)
	}
}

func TestFrames(t *testing.T) {
	b := AppendData(AppendEvent(AppendID(Begin(0), 42), "a.b"), []byte("x\ny\r\nz\rend"))
	require.Equal(t, "35\r\nid: 42\nevent: a.b\ndata: x\ndata: y\ndata: z\ndata: end\n\n\r\n", string(Seal(b)))
	require.Equal(t, []frame{
		{id: 42, event: "a.b", data: "x\ny\nz\nend"}, {comment: "ping"}, {}, {event: "e"},
	}, decode(t, Seal(AppendData(AppendEvent(AppendID(Begin(0), 42), "a.b"), []byte("x\ny\r\nz\rend"))),
		Comment("ping"), Retry(1500), Seal(AppendData(AppendEvent(Begin(0), "e"), nil))))
}

func TestFrameSizes(t *testing.T) {
	for _, size := range []int{0, 1, 15, 16, 255, 256, 65535, 65536, 1 << 20} {
		data := strings.Repeat("q", size)
		got := decode(t, Seal(AppendData(Begin(size), []byte(data))))
		require.Len(t, got, 1)
		require.Equal(t, data, got[0].data)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte("plain"), uint64(1))
	f.Add([]byte("a\nb\r\nc\rd\n\n: x\nid: 7\n"), uint64(0))
	f.Add([]byte("\u2028 \xff\xfe \x00 \u0085"), uint64(1<<63))
	f.Fuzz(func(t *testing.T, data []byte, id uint64) {
		before := Seal(AppendData(AppendEvent(Begin(0), "before"), []byte("1")))
		fuzzed := Seal(AppendData(AppendEvent(AppendID(Begin(0), id), "fuzzed"), data))
		after := Seal(AppendData(AppendEvent(Begin(0), "after"), []byte("2")))
		want := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data))
		require.Equal(t, []frame{
			{event: "before", data: "1"}, {id: id, event: "fuzzed", data: want}, {event: "after", data: "2"},
		}, decode(t, before, fuzzed, after))
	})
}

func FuzzParseCursor(f *testing.F) {
	for _, seed := range []string{"", "0", "17", "9223372036854775807", "9223372036854775808", "-1", "+1", " 1", "1e3", "٣", "1\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseCursor(s)
		digits := strings.Trim(s, "0123456789") == ""
		if err == nil {
			require.True(t, digits)
			require.Less(t, n, uint64(1)<<63)
			return
		}
		require.Zero(t, n)
		require.True(t, !digits || len(s) >= 19)
	})
}

func TestUnchunked(t *testing.T) {
	require.Equal(t, ": a\n\n: b\n\n", string(Unchunked(Join(Comment("a"), Comment("b"), Frame(lastChunk)))))
	require.Empty(t, Unchunked(Frame(lastChunk)))
	require.Empty(t, Unchunked(nil))
	require.NotContains(t, string(responseHead(nil, true)), "chunked")
}

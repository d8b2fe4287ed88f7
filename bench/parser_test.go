package bench

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const answer = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
	"8\r\n: open\n\n\r\n" + "1d;ext=1\r\nid: 1\nevent: a\ndata: {\"x\":1}\n\r\n" + "1\r\n\n\r\n" + "12\r\ndata: b\ndata: c\n\n\r\n" + "0\r\n\r\n"

func readAll(t *testing.T, p *parser, pieces ...string) []string {
	t.Helper()
	var seen []string
	for _, piece := range pieces {
		err := p.feed([]byte(piece),
			func(f frame) { seen = append(seen, fmt.Sprintf("%s|%s|%s", f.event, f.id, f.data)) },
			func(c []byte) { seen = append(seen, "#"+string(c)) })
		require.NoError(t, err)
	}
	return seen
}

func TestParserWhateverThePieces(t *testing.T) {
	want := []string{"#open", `a|1|{"x":1}`, "||b\nc"}
	var whole parser
	require.Equal(t, want, readAll(t, &whole, answer))
	require.True(t, whole.ended)
	for cut := 1; cut < len(answer); cut++ {
		var p parser
		require.Equal(t, want, readAll(t, &p, answer[:cut], answer[cut:]), "cut at %d", cut)
		require.True(t, p.ended)
	}
	var bytewise parser
	require.Equal(t, want, readAll(t, &bytewise, strings.Split(answer, "")...))
}

func TestParserKeepsTheBodyOfARefusal(t *testing.T) {
	var p parser
	require.Empty(t, readAll(t, &p, "HTTP/1.1 409 Conflict\r\nContent-Length: 28\r\n\r\n", `{"code":"conversation_busy"}`))
	require.True(t, p.ended)
	require.Equal(t, "409 conversation_busy", errorCode(p.status, p.body))
}

func TestParserRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no_http":    "SSH-2.0-something\r\n",
		"status":     "HTTP/1.1 abc OK\r\n",
		"length":     "HTTP/1.1 200 OK\r\nContent-Length: -4\r\n",
		"chunk_size": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"chunk_end":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
		"head":       "HTTP/1.1 200 OK" + strings.Repeat("x", maxHead+10),
	} {
		t.Run(name, func(t *testing.T) {
			var p parser
			require.ErrorIs(t, p.feed([]byte(text), func(frame) {}, func([]byte) {}), errMalformed)
		})
	}
}

func FuzzParser(f *testing.F) {
	f.Add([]byte(answer), 7)
	f.Add([]byte("HTTP/1.1 500 x\r\n\r\nbody"), 3)
	f.Fuzz(func(t *testing.T, in []byte, size int) {
		if size < 1 || size > 100 {
			size = 1
		}
		read := func(size int) (seen []string, failed bool) {
			var p parser
			for rest := in; len(rest) > 0 && !p.ended && !failed; {
				n := min(size, len(rest))
				failed = p.feed(rest[:n], func(f frame) { seen = append(seen, string(f.data)) }, func([]byte) {}) != nil
				rest = rest[n:]
			}
			return seen, failed
		}
		whole, wholeFailed := read(max(len(in), 1))
		pieces, piecesFailed := read(size)
		if !wholeFailed && !piecesFailed {
			require.Equal(t, whole, pieces)
		}
	})
}

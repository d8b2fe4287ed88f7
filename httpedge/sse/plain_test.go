package sse

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestFirstVersionGetsNoChunks: the stream of a client of HTTP/1.0 is plain text that ends with the connection.
func TestFirstVersionGetsNoChunks(t *testing.T) {
	both(t, func(t *testing.T, e *edge) {
		t.Helper()
		e.plain = true
		e.options = func(after uint64) Options {
			return Options{After: after, Opening: Comment("open"), View: lastView{}}
		}
		e.upstream.create("c")
		conn, err := net.Dial("tcp", e.listener.Addr().String()) //nolint:noctx // a test's client
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
		_, err = fmt.Fprint(conn, "c 0\n")
		require.NoError(t, err)
		reader := bufio.NewReader(conn)
		var head strings.Builder
		for !strings.HasSuffix(head.String(), "\r\n\r\n") {
			line, broken := reader.ReadString('\n')
			require.NoError(t, broken)
			head.WriteString(line)
		}
		require.NotContains(t, head.String(), "Transfer-Encoding")
		require.Contains(t, head.String(), "Connection: close\r\n")
		opening := make([]byte, len(": open\n\n"))
		_, err = io.ReadFull(reader, opening)
		require.NoError(t, err)
		require.Equal(t, ": open\n\n", string(opening))
		e.upstream.publish("c", answered("r", "done")...)
		rest, err := io.ReadAll(reader)
		require.NoError(t, err)
		require.Contains(t, string(rest), "data: r|done\n\n")
		require.NotContains(t, string(rest), "\r\n")
		require.Eventually(t, func() bool { return reading(e.hub.metrics.ended[endDone]) == 1 }, 30*time.Second, time.Millisecond)
	})
}

// TestWhatAStuckReaderCosts: with the default settings the queue of a client that reads nothing, and what the kernel may hold for
// it, stay within 256 KiB, whatever it is told.
func TestWhatAStuckReaderCosts(t *testing.T) {
	const most = 256 << 10
	e := newEdge(t, DefaultConfig())
	e.options = func(after uint64) Options {
		return Options{After: after, Opening: Comment("open"), View: plainView{}, Lean: true}
	}
	e.upstream.create("c")
	e.follow("c", 0).readBuffer(t, 4<<10)
	stuck := e.hub.wire.wheel.all()[0]
	limit := 0
	for _, option := range []int{unix.SO_SNDBUF, unix.SO_RCVBUF} {
		size, err := unix.GetsockoptInt(int(stuck.fd), unix.SOL_SOCKET, option)
		require.NoError(t, err)
		limit += size
	}
	e.upstream.startRun("c", "r")
	worst := 0
	for i := range 2000 {
		if i%4 == 0 {
			e.upstream.publish("c", updated(strings.Repeat("x", 4<<10)))
		}
		e.upstream.say("c", strings.Repeat("y", 2<<10))
		stuck.mu.Lock()
		worst = max(worst, int(stuck.queue.queued))
		stuck.mu.Unlock()
	}
	t.Logf("kernel %d, queue %d", limit, worst)
	require.Positive(t, worst)
	require.LessOrEqual(t, worst+limit, most)
}

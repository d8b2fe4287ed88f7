package httpedge

import (
	"container/list"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"parley/httpedge/accept"
)

// listener bounds and tracks the open connections, so that Stop can close those that do not close by themselves. It returns
// the connections unwrapped, because the event streams need the socket.
type listener struct {
	*accept.Listener
	bounds  bounds
	body    func(dst []byte) []byte // of the answer to a refused connection
	proxies []netip.Prefix          // that begin with a PROXY header
	logger  *slog.Logger
	logged  time.Time // of the last refused connection; used by Accept only
	refused atomic.Int64
	shed    atomic.Int64
	ended   atomic.Bool
	leaving sync.WaitGroup // refused connections that are not closed yet

	mu struct {
		sync.Mutex
		open     map[net.Conn]*list.Element // of idle; nil = not between two requests
		idle     *list.List                 // of net.Conn: kept open between two requests, the longest first
		refusing int
	}
}

// bounds are the limits on open connections.
type bounds struct {
	connections int          // without streams
	sockets     int          // with streams; 0 = no bound
	streams     func() int64 // counts the open streams
}

// logPause is the least time between two log lines about refused connections.
const logPause = time.Minute

// Refused connections stay open for a moment, a few at a time: see linger. Idle ones are closed so many at a time.
const (
	maxRefusing = 8
	shedAtOnce  = 64
)

func newListener(inner net.Listener, logger *slog.Logger, bounds bounds, body func([]byte) []byte) *listener {
	l := &listener{bounds: bounds, body: body, logger: logger}
	l.Listener = accept.New(inner, "main", logger, l.shedIdle)
	l.mu.open = make(map[net.Conn]*list.Element)
	l.mu.idle = list.New()
	return l
}

// Accept returns the next connection within the limits. The others get an answer and are closed.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if len(l.proxies) > 0 {
			conn = accept.Announce(conn, l.proxies)
		}
		if l.admit(conn) {
			return conn, nil
		}
		l.refuse(conn)
		if now := time.Now(); now.Sub(l.logged) >= logPause {
			l.logged = now
			l.logger.Warn("connections are refused: too many are open", slog.Int("open", l.connections()),
				slog.Int64("streams", l.bounds.streams()), slog.Int64("refused", l.refused.Load()))
		}
	}
}

// admit counts a connection as open, unless there are too many.
func (l *listener) admit(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := len(l.mu.open)
	if open >= l.bounds.connections || l.bounds.sockets > 0 && open+int(l.bounds.streams()) >= l.bounds.sockets {
		return false
	}
	l.mu.open[conn] = nil
	return true
}

// adopt counts a connection regardless of the limits: one that a stream has returned, or that is about to be closed.
func (l *listener) adopt(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.open[conn] = nil
}

// forget stops counting a connection that was closed or has become a stream.
func (l *listener) forget(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wakeLocked(conn)
	delete(l.mu.open, conn)
}

// turn records that a connection waits for its next request, or has received it.
func (l *listener) turn(conn net.Conn, state fasthttp.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.mu.open[conn]; !known {
		return
	}
	l.wakeLocked(conn)
	if state == fasthttp.StateIdle {
		l.mu.open[conn] = l.mu.idle.PushBack(conn)
	}
}

func (l *listener) wakeLocked(conn net.Conn) {
	if element := l.mu.open[conn]; element != nil {
		l.mu.idle.Remove(element)
		l.mu.open[conn] = nil
	}
}

// shedIdle closes the connections that have been idle longest, as a server may do between two requests. It returns whether there
// were any.
func (l *listener) shedIdle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for ; n < shedAtOnce && l.mu.idle.Len() > 0; n++ {
		oldest := l.mu.idle.Front()
		conn := oldest.Value.(net.Conn) //nolint:errcheck,forcetypeassert // the list holds nothing else
		l.wakeLocked(conn)
		_ = conn.Close() // it is uncounted when fasthttp notices
	}
	l.shed.Add(int64(n))
	return n > 0
}

// refuse answers before any request was read. The few bytes fit into the socket's buffer, so the accept loop does not
// wait for the client.
func (l *listener) refuse(conn net.Conn) {
	l.refused.Add(1)
	body := l.body(nil)
	head := "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n" +
		"Connection: close\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	if conn.SetWriteDeadline(time.Now().Add(100*time.Millisecond)) == nil {
		_, _ = conn.Write(append([]byte(head), body...)) // best effort: the connection is closed either way
	}
	l.mu.Lock()
	waits := l.mu.refusing < maxRefusing && !l.ended.Load()
	if waits {
		l.mu.refusing++
		l.leaving.Add(1)
	}
	l.mu.Unlock()
	if !waits {
		_ = conn.Close()
		return
	}
	go func() {
		defer l.leaving.Done()
		linger(conn, silence)
		l.mu.Lock()
		l.mu.refusing--
		l.mu.Unlock()
	}()
}

// Bounds of linger.
const (
	silence  = 500 * time.Millisecond
	patience = 5 * time.Second
	unread   = 256 << 20
)

// linger closes a connection after its last answer. What the client is still sending is read first, within
// bounds: closing over unread data would reset the connection, and the client might never see the answer.
func linger(conn net.Conn, patience time.Duration) {
	defer func() { _ = conn.Close() }() // nothing depends on it
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	const piece = 64 << 10
	last := time.Now().Add(patience)
	for left := int64(unread); left > 0; {
		until := time.Now().Add(silence)
		if until.After(last) {
			until = last
		}
		if conn.SetReadDeadline(until) != nil {
			return
		}
		taken, err := io.CopyN(io.Discard, conn, min(piece, left))
		if left -= taken; err != nil && (taken == 0 || !time.Now().Before(last)) {
			return
		}
	}
}

func (l *listener) connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.open)
}

// Close stops accepting.
func (l *listener) Close() error {
	l.mu.Lock()
	l.ended.Store(true)
	l.mu.Unlock()
	return l.Listener.Close()
}

func (l *listener) closed() bool { return l.ended.Load() }

// closeAll cuts every connection that is still open.
func (l *listener) closeAll() {
	l.mu.Lock()
	for conn := range l.mu.open {
		_ = conn.Close() // it is being cut off: there is no caller to report to
	}
	l.mu.Unlock()
	l.leaving.Wait()
}

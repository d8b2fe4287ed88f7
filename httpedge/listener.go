package httpedge

import (
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// listener bounds the open connections and knows them, so that Stop can close what does not close by itself. It hands
// out the connections as they are, because the event streams need the real thing.
type listener struct {
	net.Listener
	limit   int
	body    func(dst []byte) []byte // of the refusal
	refused atomic.Int64
	ended   atomic.Bool

	mu struct {
		sync.Mutex
		open map[net.Conn]struct{}
	}
}

func newListener(inner net.Listener, limit int, body func([]byte) []byte) *listener {
	l := &listener{Listener: inner, limit: limit, body: body}
	l.mu.open = make(map[net.Conn]struct{})
	return l
}

// Accept returns the next connection that there is room for. The others are told so and closed.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.adopt(conn) {
			return conn, nil
		}
		l.refuse(conn)
	}
}

// adopt counts a connection as open, unless there are too many.
func (l *listener) adopt(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.mu.open) >= l.limit {
		return false
	}
	l.mu.open[conn] = struct{}{}
	return true
}

// forget takes a connection out of the count: it was closed, or has become a stream.
func (l *listener) forget(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.mu.open, conn)
}

// refuse answers before anything was asked. The few bytes fit into the socket's buffer, so the accept loop does not
// wait for the client.
func (l *listener) refuse(conn net.Conn) {
	l.refused.Add(1)
	body := l.body(nil)
	head := "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n" +
		"Connection: close\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	if conn.SetWriteDeadline(time.Now().Add(100*time.Millisecond)) == nil {
		_, _ = conn.Write(append([]byte(head), body...)) // a courtesy: the connection is closed either way
	}
	_ = conn.Close()
}

func (l *listener) connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.open)
}

// Close stops accepting.
func (l *listener) Close() error {
	l.ended.Store(true)
	return l.Listener.Close()
}

func (l *listener) closed() bool { return l.ended.Load() }

// closeAll cuts every connection that is still open.
func (l *listener) closeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.mu.open {
		_ = conn.Close() // it is being cut off: nobody is left to tell
	}
}

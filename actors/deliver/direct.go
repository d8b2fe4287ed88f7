package deliver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/sys/unix"
)

const (
	// directBody is the longest body of a request that is sent directly. It fits into a socket's buffers, so that writing it
	// does not block on a server that answers before it has read everything.
	directBody = 64 << 10
	// maxInterim bounds the 1xx responses before the final one.
	maxInterim = 5
)

var (
	errHeadSize  = errors.New("deliver: the head of the answer is too large")
	errSwitching = errors.New("deliver: the server switches to a protocol that it was not asked for")
)

// direct is a transport that writes a request and reads the answer in the caller's goroutine. net/http runs two goroutines for
// each connection and passes every call to them and back; when processors are idle and have to wake up, that takes longer than the
// rest of the call.
//
// It handles HTTP/1.1 without TLS, and requests with small bodies that set Accept-Encoding. All other requests go to next, which
// supports HTTP/2.
type direct struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	next http.RoundTripper

	mu    sync.Mutex
	idle  map[string][]*directConn // by host and port; the newest is last
	kept  int                      // in all
	sweep *time.Timer              // runs while there are any
}

// RoundTrip implements http.RoundTripper.
func (d *direct) RoundTrip(request *http.Request) (*http.Response, error) {
	if !carries(request) {
		return d.next.RoundTrip(request)
	}
	ctx, address := request.Context(), hostPort(request)
	for this := request; ; {
		conn, err := d.take(address), error(nil)
		reused := conn != nil
		if !reused {
			conn, err = d.connect(ctx, address)
		}
		if err != nil {
			_ = this.Body.Close() // nothing of it was read
			return nil, err
		}
		response, err := conn.exchange(this)
		if err == nil || !reused || conn.wrote > 0 || ctx.Err() != nil {
			return response, err
		}
		// The server closed the connection just now, and nothing was sent.
		again := *request
		if again.Body, err = request.GetBody(); err != nil {
			return nil, err
		}
		this = &again
	}
}

// carries reports whether a request can use a direct connection.
func carries(request *http.Request) bool {
	if request.URL.Scheme != "http" || request.URL.Host == "" || request.GetBody == nil || request.Close ||
		request.ContentLength <= 0 || request.ContentLength > directBody || request.Header["Accept-Encoding"] == nil {
		return false
	}
	for name, values := range request.Header {
		switch {
		case !httpguts.ValidHeaderFieldName(name), name == "Connection", name == "Expect", name == "Upgrade":
			return false
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return false
			}
		}
	}
	return true
}

func hostPort(request *http.Request) string {
	if request.URL.Port() != "" {
		return request.URL.Host
	}
	return net.JoinHostPort(request.URL.Hostname(), port(request))
}

func (d *direct) connect(ctx context.Context, address string) (*directConn, error) {
	conn, err := d.dial(ctx, "tcp", address)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	c := &directConn{Conn: conn, pool: d, address: address}
	c.reader, c.writer = bufio.NewReader(c), bufio.NewWriter(c)
	return c, nil
}

// take returns an idle connection that the server keeps open, the one used last; nil if there is none.
func (d *direct) take(address string) *directConn {
	for {
		d.mu.Lock()
		idle := d.idle[address]
		if len(idle) == 0 {
			d.mu.Unlock()
			return nil
		}
		conn := idle[len(idle)-1]
		d.remain(address, idle[:len(idle)-1])
		d.mu.Unlock()
		if conn.quiet() {
			return conn
		}
		_ = conn.Close() // the server has closed it, or said what nobody asked for
	}
}

// remain sets the idle connections that remain of an address. The caller holds the lock.
func (d *direct) remain(address string, fewer []*directConn) {
	d.kept -= len(d.idle[address]) - len(fewer)
	if len(fewer) == 0 {
		delete(d.idle, address)
		return
	}
	d.idle[address] = fewer
}

// keep makes a connection idle, if there is room for it.
func (d *direct) keep(conn *directConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.kept >= idleInAll || len(d.idle[conn.address]) >= idlePerHost {
		_ = conn.Close() // nothing is under way on it
		return
	}
	if d.idle == nil {
		d.idle = map[string][]*directConn{}
	}
	conn.since = time.Now()
	d.idle[conn.address] = append(d.idle[conn.address], conn)
	if d.kept++; d.sweep == nil {
		d.sweep = time.AfterFunc(idleTimeout, func() { d.expire(time.Now().Add(-idleTimeout)) })
	}
}

// expire closes the connections that have been idle for too long, and schedules itself for the others.
func (d *direct) expire(since time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for address, idle := range d.idle {
		old := 0
		for old < len(idle) && !idle[old].since.After(since) { // the oldest is first
			_ = idle[old].Close() // nothing is under way on it
			old++
		}
		d.remain(address, idle[old:])
	}
	switch {
	case d.sweep == nil:
	case d.kept == 0:
		d.sweep.Stop()
		d.sweep = nil
	default:
		d.sweep.Reset(idleTimeout / 2)
	}
}

// CloseIdleConnections is called by http.Client.
func (d *direct) CloseIdleConnections() {
	d.expire(time.Now())
	if next, ok := d.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// directConn is a connection of a direct transport. One call at a time uses it.
type directConn struct {
	net.Conn
	pool    *direct
	address string
	since   time.Time // it is idle

	reader *bufio.Reader
	writer *bufio.Writer
	wrote  int64 // of this request
	room   int64 // for what may still be read of this answer
}

// Read is bounded while the head of an answer is read.
func (c *directConn) Read(p []byte) (int, error) {
	if c.room <= 0 {
		return 0, errHeadSize
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.room)])
	c.room -= int64(n)
	return n, err
}

// Write counts what was sent.
func (c *directConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.wrote += int64(n)
	return n, err
}

// quiet reports whether an idle connection is still open and the server has sent nothing on it.
func (c *directConn) quiet() bool {
	socket, ok := c.Conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	var seen error
	err = raw.Read(func(fd uintptr) bool {
		_, _, seen = unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return true
	})
	return err == nil && errors.Is(seen, unix.EAGAIN)
}

// exchange makes one call. Reading or closing the answer's body decides whether the connection is kept; an error closes it.
func (c *directConn) exchange(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	body := &directAnswer{conn: c, ctx: ctx}
	body.unwatch = context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) }) // fails only on a closed connection
	c.wrote, c.room = 0, maxHeaderBytes
	unsent := request.Write(c.writer)
	if unsent == nil {
		unsent = c.writer.Flush()
	}
	var response *http.Response
	err := unsent
	if unsent == nil || c.wrote > 0 && ctx.Err() == nil { // a server may refuse a request before it has read all of it
		response, err = c.answer(request)
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case unsent != nil:
		err = unsent
	}
	if err != nil {
		body.end(false)
		return nil, err
	}
	c.room = math.MaxInt64
	body.body, body.keep = response.Body, unsent == nil && !response.Close
	if response.Body == http.NoBody {
		body.end(body.keep)
		return response, nil
	}
	response.Body = body
	return response, nil
}

// answer reads the head of the answer.
func (c *directConn) answer(request *http.Request) (*http.Response, error) {
	for range maxInterim + 1 {
		response, err := http.ReadResponse(c.reader, request)
		switch {
		case err != nil:
			return nil, err
		case response.StatusCode == http.StatusSwitchingProtocols:
			return nil, errSwitching
		case response.StatusCode >= http.StatusOK:
			return response, nil
		}
	}
	return nil, fmt.Errorf("deliver: more than %d interim answers", maxInterim)
}

// directAnswer is the body of an answer. Once it was read to its end, the connection is free for the next call.
type directAnswer struct {
	conn    *directConn
	ctx     context.Context //nolint:containedctx // of the request, which the body is part of
	unwatch func() bool
	body    io.ReadCloser
	keep    bool // the connection, once all was read

	ending sync.Once
	closed atomic.Bool
	over   error // what reading says after the end; of the reader
}

// Read implements io.Reader.
func (a *directAnswer) Read(p []byte) (int, error) {
	switch {
	case a.closed.Load():
		return 0, http.ErrBodyReadAfterClose
	case a.over != nil:
		return 0, a.over
	}
	n, err := a.body.Read(p)
	if err == nil {
		return n, nil
	}
	if !errors.Is(err, io.EOF) && a.ctx.Err() != nil {
		err = context.Cause(a.ctx)
	}
	a.over = err
	a.end(a.keep && errors.Is(err, io.EOF))
	return n, err
}

// Close implements io.Closer. A connection whose answer was left unread serves no other call.
func (a *directAnswer) Close() error {
	a.closed.Store(true)
	a.end(false)
	return nil
}

// end gives the connection back, or closes it: it is of no use when more came than the answer, or when the call was cancelled.
func (a *directAnswer) end(keep bool) {
	a.ending.Do(func() {
		if a.unwatch() && keep && a.conn.reader.Buffered() == 0 {
			a.conn.pool.keep(a.conn)
			return
		}
		_ = a.conn.Close() // nothing more is expected of it
	})
}

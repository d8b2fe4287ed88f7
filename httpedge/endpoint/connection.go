package endpoint

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

// takeConn takes the connection out of HTTP once the handler has returned: serve gets it, on a goroutine of its own, with
// what HTTP has read of it beyond this request. It is called exactly once: with nil when the connection died in between,
// which fasthttp would not tell (see Mux.ConnClosed).
func (x *exchange) takeConn(serve func(conn net.Conn, ahead []byte)) {
	m, conn := x.mux, x.rc.Conn()
	m.handovers.Store(conn, func() { serve(nil, nil) })
	x.rc.HijackSetNoResponse(true)
	x.rc.Hijack(func(hijacked net.Conn) {
		if _, ok := m.handovers.LoadAndDelete(conn); !ok {
			return
		}
		if m.config.Taken != nil {
			m.config.Taken(conn)
		}
		ahead, ok := overread(hijacked)
		if !ok {
			serve(nil, nil)
			_ = conn.Close() // it is dead
			return
		}
		serve(bare(conn), ahead)
	})
}

// overread returns the bytes that the HTTP server has read beyond the request: they belong to the client's next one.
func overread(hijacked net.Conn) (ahead []byte, ok bool) {
	if hijacked.SetReadDeadline(time.Unix(1, 0)) != nil { // so that only the buffer answers
		return nil, false
	}
	for {
		var piece [4 << 10]byte
		n, err := hijacked.Read(piece[:])
		ahead = append(ahead, piece[:n]...)
		if err != nil {
			return ahead, hijacked.SetReadDeadline(time.Time{}) == nil
		}
	}
}

// primed is a connection that returns bytes which were read ahead before its own.
type primed struct {
	net.Conn
	ahead []byte
	read  atomic.Bool // all of ahead
}

// prime returns a connection whose first bytes are ahead.
func prime(conn net.Conn, ahead []byte) net.Conn {
	if len(ahead) == 0 {
		return conn
	}
	return &primed{Conn: conn, ahead: ahead}
}

// bare returns the underlying connection once everything that was read ahead has been consumed.
func bare(conn net.Conn) net.Conn {
	if p, ok := conn.(*primed); ok {
		return p.Conn
	}
	return conn
}

// Read implements net.Conn. It is called from one goroutine at a time.
func (p *primed) Read(into []byte) (int, error) {
	if p.read.Load() {
		return p.Conn.Read(into)
	}
	n := copy(into, p.ahead)
	if p.ahead = p.ahead[n:]; len(p.ahead) == 0 {
		p.ahead = nil
		p.read.Store(true)
	}
	return n, nil
}

// AwaitData waits until the other side has sent something, which is left unread (true), has closed its side (false), or the wait
// has timed out (an error). For a connection that cannot be peeked at it returns true.
func AwaitData(conn net.Conn, patience time.Duration) (came bool, err error) {
	if p, ok := conn.(*primed); ok && !p.read.Load() {
		return true, nil
	}
	plain, ok := bare(conn).(syscall.Conn)
	if !ok {
		return true, nil
	}
	raw, err := plain.SyscallConn()
	if err != nil {
		return false, err
	}
	if patience > 0 {
		if err = conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return false, err
		}
	}
	err = raw.Read(func(fd uintptr) (done bool) {
		n, failed := peek(fd)
		came = n > 0
		return !errors.Is(failed, syscall.EAGAIN)
	})
	return came && err == nil, err
}

// peek looks at the next byte of a socket without taking it, and without waiting for it.
func peek(fd uintptr) (int, error) {
	for {
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

// part sends the answer at once, and leaves it to another goroutine to drain what the client is still sending and to close the
// connection.
func (x *exchange) part() {
	x.rc.SetConnectionClose()
	if x.mux.config.Part == nil || x.down != nil || x.serve != nil {
		return
	}
	m, rc := x.mux, x.rc
	x.takeConn(func(conn net.Conn, _ []byte) {
		if conn == nil {
			return
		}
		if m.config.WriteTimeout > 0 {
			_ = conn.SetWriteDeadline(time.Now().Add(m.config.WriteTimeout)) // of a dead connection: the write says so
		}
		out := bufio.NewWriter(conn)
		if rc.Response.Write(out) != nil || out.Flush() != nil {
			_ = conn.Close() // nobody is left to tell
			return
		}
		m.config.Part(conn)
	})
}

// sendUnchunked sends a file of unknown size to an HTTP/1.0 client, which knows no chunks: closing the connection ends it.
func (x *exchange) sendUnchunked(down *download) {
	header := &x.rc.Response.Header
	header.SetContentLength(lengthUnknown)
	head := header.AppendBytes(nil)
	m := x.mux
	x.takeConn(func(conn net.Conn, _ []byte) {
		defer func() { _ = down.Close() }() // its error was noted
		if conn == nil {
			return
		}
		if m.config.WriteTimeout > 0 {
			_ = conn.SetWriteDeadline(time.Now().Add(m.config.WriteTimeout)) // of a dead connection: the write says so
		}
		if _, err := conn.Write(head); err == nil {
			_, err = io.Copy(conn, down)
			if err == nil && m.config.Part != nil {
				m.config.Part(conn)
				return
			}
		}
		_ = conn.Close() // cut off: the client sees no end of the file
	})
}

// lengthUnknown makes fasthttp send neither a Content-Length nor chunks.
const lengthUnknown = -2

// http10 says that the client knows no chunks.
func http10(rc *fasthttp.RequestCtx) bool { return !rc.Request.Header.IsHTTP11() }

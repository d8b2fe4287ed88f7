package endpoint

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

// lookEvery is the interval at which the connection of an EndsWithClient route is checked. Most calls end before the first check.
const lookEvery = time.Second

var errClientLeft = errors.New("the client closed the connection")

// attended cancels the context of an EndsWithClient route once the client has closed its side of the connection.
func (x *exchange) attended(ctx context.Context) context.Context {
	if !x.route.endsWithClient {
		return ctx
	}
	conn := x.rc.Conn() // x ends with the request
	return x.tended(ctx, lookEvery, func() error {
		if closed(conn) {
			return errClientLeft
		}
		return nil
	})
}

// closed says whether the other side has closed a connection, without reading from it.
func closed(conn net.Conn) (yes bool) {
	socket, ok := bare(conn).(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		n, failed := peek(fd)
		yes = n == 0 && failed == nil || errors.Is(failed, syscall.ECONNRESET)
	})
	return yes || err != nil
}

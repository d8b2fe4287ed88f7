package peer

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout lets the kernel give up on unacknowledged bytes after d, also those of a connection that is closed here.
func setUserTimeout(conn *net.TCPConn, d time.Duration) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return // closed already; the next read says so
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds())) //nolint:gosec // a descriptor fits
	})
}

package httpedge

import (
	"net"
	"syscall"
	"time"
)

// awaitRequest waits until the client has sent something, which it leaves unread. It is false when the client left or the time
// is over.
func awaitRequest(conn net.Conn, patience time.Duration) bool {
	plain, ok := conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := plain.SyscallConn()
	if err != nil || conn.SetReadDeadline(time.Now().Add(patience)) != nil {
		return false
	}
	var one [1]byte
	came := false
	err = raw.Read(func(fd uintptr) (done bool) {
		for {
			n, _, failed := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
			if failed == syscall.EINTR {
				continue
			}
			came = n > 0
			return failed != syscall.EAGAIN
		}
	})
	return err == nil && came
}

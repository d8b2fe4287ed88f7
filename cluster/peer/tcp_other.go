//go:build !linux

package peer

import (
	"net"
	"time"
)

// setUserTimeout does nothing: pings find a broken connection here.
func setUserTimeout(*net.TCPConn, time.Duration) {}

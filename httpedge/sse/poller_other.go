//go:build !linux

package sse

import (
	"errors"
	"net"
	"time"
)

// poller is not available here: every connection gets goroutines of its own.
type poller struct{}

func newPoller() (*poller, error) { return nil, errors.ErrUnsupported }

func (*poller) add(*conn, *net.TCPConn, time.Duration) error { return errUnsupported }
func (*poller) forget(*conn) bool                            { return false }
func (*poller) close(*conn)                                  {}
func (*poller) run()                                         {}
func (*poller) stop()                                        {}

func writeSocket(int, []byte) (int, error) { return 0, errors.ErrUnsupported }

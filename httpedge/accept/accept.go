// Package accept accepts connections for as long as a listener is open: a temporary lack of resources (file
// descriptors, buffers, memory) makes it wait instead of fail. It does not bound the open connections; its users do.
package accept

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Pauses after a failure. They grow, unless descriptors have been freed.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = time.Second
	logPause   = time.Minute // between two log lines about it
)

// Listener is a listener that waits out temporary failures.
type Listener struct {
	net.Listener
	name   string
	logger *slog.Logger
	free   func() bool

	failures atomic.Int64
	logged   time.Time // by Accept
	once     sync.Once
	closed   chan struct{}
}

// New wraps a listener; the name is for the log. free, which may be nil, is called to free descriptors when there are
// none left; it reports whether it has freed any.
func New(inner net.Listener, name string, logger *slog.Logger, free func() bool) *Listener {
	return &Listener{Listener: inner, name: name, logger: logger, free: free, closed: make(chan struct{})}
}

// Accept returns the next connection. It is called from one goroutine only.
func (l *Listener) Accept() (net.Conn, error) {
	pause := firstPause
	for {
		conn, err := l.Listener.Accept()
		if err == nil || !passing(err) {
			return conn, err
		}
		l.failures.Add(1)
		l.report(err)
		if l.free != nil && l.free() {
			pause = firstPause
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-l.closed:
			timer.Stop()
			return nil, net.ErrClosed
		}
		pause = min(2*pause, lastPause)
	}
}

// Close ends a waiting Accept, too.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// Failures returns how often a connection could not be accepted.
func (l *Listener) Failures() int64 { return l.failures.Load() }

func (l *Listener) report(err error) {
	now := time.Now()
	if now.Sub(l.logged) < logPause {
		return
	}
	l.logged = now
	l.logger.Warn("connections cannot be accepted at the moment", slog.String("listener", l.name),
		slog.Int64("failures", l.failures.Load()), slog.Any("err", err))
}

// passing reports whether a retry may succeed: a resource is short, or a connection broke before it was accepted
// (accept(2) reports that, too).
func passing(err error) bool {
	for _, known := range []error{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
		syscall.ECONNABORTED, syscall.ECONNRESET, syscall.EPROTO, syscall.ENETDOWN, syscall.ENETUNREACH,
		syscall.EHOSTDOWN, syscall.EHOSTUNREACH, syscall.EINTR, syscall.EPERM,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

package accept

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// short is a listener that fails for a while, then has a connection.
type short struct {
	fail  error
	until time.Time
	conn  net.Conn
}

func (s *short) Accept() (net.Conn, error) {
	if time.Now().Before(s.until) {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", s.fail)}
	}
	return s.conn, nil
}

func (s *short) Close() error   { return nil }
func (s *short) Addr() net.Addr { return nil }

func TestShortagePasses(t *testing.T) {
	for _, fail := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		synctest.Test(t, func(t *testing.T) {
			conn, other := net.Pipe()
			defer func() { _, _ = conn.Close(), other.Close() }()
			var log bytes.Buffer
			l := New(&short{fail, time.Now().Add(150 * time.Second), conn}, "main", slog.New(slog.NewTextHandler(&log, nil)), nil)
			accepted, err := l.Accept()
			require.NoError(t, err)
			require.Equal(t, conn, accepted)
			require.Equal(t, 3, strings.Count(log.String(), "\n"), "a line a minute")
			require.Greater(t, l.Failures(), int64(100))
			require.Less(t, l.Failures(), int64(200), "it does not spin")
		})
	}
}

func TestFreedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &short{fail: syscall.EMFILE, until: time.Now().Add(time.Hour)}
		l := New(inner, "main", slog.New(slog.DiscardHandler), func() bool {
			inner.until = time.Time{}
			return true
		})
		began := time.Now()
		_, err := l.Accept()
		require.NoError(t, err)
		require.Equal(t, firstPause, time.Since(began))
	})
}

func TestCloseEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(&short{fail: syscall.EMFILE, until: time.Now().Add(time.Hour)}, "main", slog.New(slog.DiscardHandler), nil)
		time.AfterFunc(time.Minute, func() { _ = l.Close() })
		_, err := l.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

func TestOtherErrorsAreTheEnd(t *testing.T) {
	broken := errors.New("broken")
	l := New(&short{fail: broken, until: time.Now().Add(time.Hour)}, "main", slog.New(slog.DiscardHandler), nil)
	_, err := l.Accept()
	require.ErrorIs(t, err, broken)
}

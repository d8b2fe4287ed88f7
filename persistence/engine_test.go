package persistence

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// What Pebble calls fatal fails the store and comes out of our goroutine as a panic that says why; it never returns,
// because a commit would seem to have succeeded.
func TestFatalIsTheFailureOfTheStore(t *testing.T) {
	c := newCondition(slog.New(slog.DiscardHandler))
	l := &engineLogger{logger: c.logger, condition: c}
	var heard []error
	c.onFailure(func(err error) { heard = append(heard, err) })
	require.PanicsWithError(t, "log is gone", func() { l.Fatalf("log is %s", "gone") })
	require.ErrorIs(t, c.writable(), ErrFailed)
	require.Len(t, heard, 1)
	require.Panics(t, func() { l.Fatalf("again") })
	require.Len(t, heard, 1, "a failure is told once")
	c.onFailure(func(err error) { require.ErrorContains(t, err, "log is gone") })
}

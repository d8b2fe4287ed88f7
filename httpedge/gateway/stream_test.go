package gateway

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestNothingFollowsAPartialChunk: behind a ping that went out in part, the end of the stream would be taken for the rest of it.
func TestNothingFollowsAPartialChunk(t *testing.T) {
	ours, theirs := net.Pipe()
	s := &stream{api: &API{config: Config{WriteTimeout: 20 * time.Millisecond}}}
	s.take.Conn = ours
	s.ctx, s.cancel = context.WithCancelCause(t.Context())
	defer s.cancel(nil)
	half := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(theirs, make([]byte, 2))
		half <- err
	}()
	require.ErrorIs(t, s.write([]byte("ping")), errClientGone)
	require.NoError(t, <-half)
	s.api.config.WriteTimeout = 30 * time.Second
	came := make(chan []byte, 1)
	go func() {
		rest, _ := io.ReadAll(theirs) // ends with the connection
		came <- rest
	}()
	require.ErrorIs(t, s.write([]byte("end")), errClientGone)
	require.NoError(t, ours.Close())
	require.Empty(t, <-came)
}

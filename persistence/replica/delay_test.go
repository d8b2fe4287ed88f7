package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLogDelay(t *testing.T) {
	t.Parallel()
	var d delays
	at := time.Now()
	commit := func(took time.Duration, times int) {
		for range times {
			at = at.Add(took)
			d.add(took, at)
		}
	}
	require.Zero(t, d.mean(at))
	commit(2*time.Second, 3)
	require.Zero(t, d.mean(at), "a disk that hangs for a moment is not a slow disk")
	commit(5*time.Millisecond, 300)
	require.Less(t, d.mean(at), 30*time.Millisecond)
	commit(600*time.Millisecond, 17)
	require.Equal(t, 600*time.Millisecond, d.mean(at), "what is older than ten seconds does not count")
	commit(5*time.Millisecond, 1)
	require.Greater(t, d.mean(at), 500*time.Millisecond)
	at = at.Add(2 * delayWindow)
	require.Zero(t, d.mean(at), "nothing was written of late")
}

package files

import (
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFilePace: the collector keeps a close pace while files flow, and the process's own before and after; one that is
// paced closer is left alone.
func TestFilePace(t *testing.T) {
	percent := func() int {
		now := debug.SetGCPercent(100)
		debug.SetGCPercent(now)
		return now
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	synctest.Test(t, func(t *testing.T) {
		p := &Pace{}
		for range 2 {
			for range 5 {
				p.Flow(1)
				require.Equal(t, filePercent, percent())
				time.Sleep(filePause - time.Millisecond)
			}
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			require.Equal(t, 400, percent())
		}
		p.Flow(1)
		p.Stop(t.Context())
		require.Equal(t, 400, percent())
		p.Flow(1)
		require.Equal(t, 400, percent())

		debug.SetGCPercent(filePercent - 10)
		(&Pace{}).Flow(1)
		require.Equal(t, filePercent-10, percent())
	})
}

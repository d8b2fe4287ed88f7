package actors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestNewerTimerReplacesOlder: what only the newest of a kind is needed for must not pile up.
func TestNewerTimerReplacesOlder(t *testing.T) {
	s := newShell(t, newJournal(), 1)
	g := &activation{host: s.hostIf(testShard)}
	defer g.disarm()
	for range 1000 {
		g.arm(time.Hour, &alarm{key: "final"})
	}
	g.arm(time.Hour, &alarm{key: "other"})
	g.arm(time.Hour, &alarm{})
	g.arm(time.Hour, &alarm{})
	require.Len(t, g.alarms, 4)
}

package deliver

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Without a bound of their number, connections to ever new hosts are all kept for their idle time.
func TestIdleConnectionsAreBounded(t *testing.T) {
	guard := NewGuard(GuardConfig{})
	require.Equal(t, idleInAll, guard.transport.MaxIdleConns)
	require.LessOrEqual(t, guard.transport.MaxIdleConnsPerHost, guard.transport.MaxIdleConns)
}

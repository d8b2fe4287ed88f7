package placement

import (
	"net"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"parley/cluster/shard"
)

func shardEpoch(n uint64) shard.Epoch { return shard.Epoch(n) }

func must(tb testing.TB) shard.Map {
	tb.Helper()
	shards, ok := shard.New(4)
	require.True(tb, ok)
	return shards
}

func TestSettingsAreChecked(t *testing.T) {
	w := newWorld(t)
	for text, change := range map[string]func(*Config){
		"are required":      func(c *Config) { c.Boot = "" },
		"Encode and Decode": func(c *Config) { c.Decode = nil },
		"belong together":   func(c *Config) { c.ServerTLS, _ = testTLS(t) },
		"two beats":         func(c *Config) { c.Silence = c.Beat },
		"at least Message":  func(c *Config) { c.MessageBytes = 1 << 30 },
		"of follows":        func(c *Config) { c.FollowBytes = -1 },
		"address":           func(c *Config) { c.Listen = "nowhere" },
		"invalid syntax":    func(c *Config) { c.Listen = "127.0.0.1:x" },
	} {
		config := w.config("a", "127.0.0.1:1", newShell())
		config.setDefaults()
		change(&config)
		_, err := New(config)
		require.ErrorContains(t, err, text)
	}
}

func TestAnAddressThatIsTaken(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	s, err := New(newWorld(t).config("a", listener.Addr().String(), newShell()))
	require.NoError(t, err)
	require.ErrorContains(t, s.Start(t.Context()), "address already in use")
	require.NoError(t, s.Stop(t.Context()))
}

func dropped(n *node) float64 { return valueOf(n.metrics.dropped) }

func valueOf(counter prometheus.Counter) float64 {
	var metric dto.Metric
	if err := counter.Write(&metric); err != nil {
		panic(err)
	}
	return metric.GetCounter().GetValue()
}

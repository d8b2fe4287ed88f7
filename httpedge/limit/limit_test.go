package limit

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// from is a request from an address.
type from string

func (f from) Method() string       { return "GET" }
func (f from) Path() string         { return "/agents" }
func (f from) Header(string) string { return "" }
func (f from) Query(string) string  { return "" }
func (f from) RemoteIP() string     { return string(f) }

func user(name string) endpoint.Caller {
	return endpoint.Caller{TenantID: "t", ProjectID: "p", UserID: name, Identified: true}
}

func newLimiter(tb testing.TB, config Config) *Limiter {
	tb.Helper()
	l, _ := newCounted(tb, config)
	return l
}

// newCounted also returns a reader of a counter, summed over its labels.
func newCounted(tb testing.TB, config Config) (*Limiter, func(name string) float64) {
	tb.Helper()
	if config.Callers == 0 {
		config.Callers = 1000
	}
	registry := prometheus.NewRegistry()
	l, err := New(config, registry)
	require.NoError(tb, err)
	return l, func(name string) (sum float64) {
		families, err := registry.Gather()
		require.NoError(tb, err)
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				if family.GetName() == name {
					sum += metric.GetCounter().GetValue()
				}
			}
		}
		return sum
	}
}

func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, counter := newCounted(t, Config{RequestsPerSecond: 0.5, Burst: 3})
		for range 3 {
			require.Nil(t, l.Allow(user("a"), from("1.1.1.1"), nil))
		}
		for range 5 { // a refusal costs nothing
			failure := l.Allow(user("a"), from("2.2.2.2"), nil)
			require.NotNil(t, failure)
			require.Equal(t, failurepb.Code_RATE_LIMITED, failure.Code)
			require.Equal(t, 2, failure.Details["retryAfter"])
		}
		require.Nil(t, l.Allow(user("b"), from("1.1.1.1"), nil))
		time.Sleep(2 * time.Second)
		require.Nil(t, l.Allow(user("a"), from("1.1.1.1"), nil))
		require.NotNil(t, l.Allow(user("a"), from("1.1.1.1"), nil))
		require.InDelta(t, 6, counter("parley_limit_refusals_total"), 0)
	})
}

func TestBurstDefaultsToOneSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			perSecond float64
			burst     int
		}{{10, 10}, {2.5, 3}, {0.1, 1}} {
			l := newLimiter(t, Config{RequestsPerSecond: test.perSecond})
			for range test.burst {
				require.Nil(t, l.Allow(user("a"), from(""), nil))
			}
			require.NotNil(t, l.Allow(user("a"), from(""), nil))
		}
	})
}

func TestOffAndTrusted(t *testing.T) {
	l := newLimiter(t, Config{})
	tight := newLimiter(t, Config{RequestsPerSecond: 0.001, StreamsPerCaller: 1})
	for range 100 {
		require.Nil(t, l.Allow(user("a"), from("1.1.1.1"), nil))
		_, failure := l.OpenStream(user("a"), from("1.1.1.1"))
		require.Nil(t, failure)
		require.Nil(t, tight.Allow(endpoint.Caller{Trusted: true}, from("1.1.1.1"), nil))
		_, failure = tight.OpenStream(endpoint.Caller{Trusted: true, Identified: true, UserID: "backend"}, from("1.1.1.1"))
		require.Nil(t, failure)
	}
	nobody := endpoint.Caller{Trusted: true} // authentication is off
	_, failure := tight.OpenStream(nobody, from("1.1.1.1"))
	require.Nil(t, failure)
	_, failure = tight.OpenStream(nobody, from("1.1.1.1"))
	require.NotNil(t, failure, "streams of an address are bounded all the same")
	_, failure = tight.OpenStream(nobody, from("1.1.1.2"))
	require.Nil(t, failure)
}

func TestWhoIsOneCaller(t *testing.T) {
	anonymous, claims := endpoint.Caller{TenantID: "t"}, endpoint.Caller{TenantID: "t", UserID: "a"}
	other := user("a")
	other.ProjectID = "q"
	same := [][2]key{
		{keyOf(user("a"), from("1.1.1.1")), keyOf(user("a"), from("2.2.2.2"))},
		{keyOf(anonymous, from("1.1.1.1")), keyOf(claims, from("1.1.1.1"))},
		{keyOf(anonymous, from("1.1.1.1")), keyOf(anonymous, from("::ffff:1.1.1.1"))},
		{keyOf(anonymous, from("2001:db8::1")), keyOf(anonymous, from("2001:db8::ffff:1"))},
		{keyOf(anonymous, from("fe80::1%eth0")), keyOf(anonymous, from("fe80::1"))},
	}
	for _, pair := range same {
		require.Equal(t, pair[0], pair[1])
	}
	different := [][2]key{
		{keyOf(user("a"), from("1.1.1.1")), keyOf(user("b"), from("1.1.1.1"))},
		{keyOf(user("a"), from("1.1.1.1")), keyOf(other, from("1.1.1.1"))},
		{keyOf(user("a"), from("1.1.1.1")), keyOf(claims, from("1.1.1.1"))},
		{keyOf(anonymous, from("1.1.1.1")), keyOf(anonymous, from("1.1.1.2"))},
		{keyOf(anonymous, from("2001:db8::1")), keyOf(anonymous, from("2001:db8:0:1::1"))},
		{keyOf(anonymous, from("@")), keyOf(anonymous, from("1.1.1.2"))},
	}
	for _, pair := range different {
		require.NotEqual(t, pair[0], pair[1])
	}
}

func TestCallersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, counter := newCounted(t, Config{RequestsPerSecond: 0.001, Burst: 1, Callers: 10})
		require.Nil(t, l.Allow(user("hot"), from(""), nil))
		for i := range 1000 {
			require.Nil(t, l.Allow(user(fmt.Sprint(i)), from(""), nil))
			require.NotNil(t, l.Allow(user("hot"), from(""), nil), "who is seen is not forgotten")
			require.LessOrEqual(t, len(l.rates.byCaller), 10)
			require.Equal(t, len(l.rates.byCaller), l.rates.recent.Len())
		}
		require.InDelta(t, 991, counter("parley_limit_evictions_total"), 0)
	})
}

func TestStreams(t *testing.T) {
	l := newLimiter(t, Config{StreamsPerCaller: 2})
	first, failure := l.OpenStream(user("a"), from(""))
	require.Nil(t, failure)
	second, failure := l.OpenStream(user("a"), from(""))
	require.Nil(t, failure)
	_, failure = l.OpenStream(user("a"), from(""))
	require.NotNil(t, failure)
	require.Equal(t, failurepb.Code_RATE_LIMITED, failure.Code)
	require.Equal(t, map[string]any{"retryAfter": 5, "maxStreams": 2}, failure.Details)
	_, failure = l.OpenStream(user("b"), from(""))
	require.Nil(t, failure)

	first()
	first() // gives back one place, not two
	third, failure := l.OpenStream(user("a"), from(""))
	require.Nil(t, failure)
	_, failure = l.OpenStream(user("a"), from(""))
	require.NotNil(t, failure)
	second()
	third()
	require.NotContains(t, l.streams.open, keyOf(user("a"), from("")))
}

func TestStreamsConcurrently(t *testing.T) {
	const limit = 7
	l := newLimiter(t, Config{StreamsPerCaller: limit, RequestsPerSecond: 1e6})
	var open, most atomic.Int64
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for range 2000 {
				_ = l.Allow(user(fmt.Sprint(worker)), from(""), nil)
				release, failure := l.OpenStream(user("a"), from(""))
				if failure != nil {
					continue
				}
				most.Store(max(most.Load(), open.Add(1)))
				open.Add(-1)
				release()
			}
		})
	}
	group.Wait()
	require.LessOrEqual(t, most.Load(), int64(limit))
	require.Empty(t, l.streams.open)
}

func TestValidate(t *testing.T) {
	require.NoError(t, DefaultConfig().Validate())
	for _, bad := range []Config{{Callers: 0}, {Callers: 1, Burst: -1}, {Callers: 1, RequestsPerSecond: math.NaN()}, {Callers: 1, StreamsPerCaller: -1}} {
		_, err := New(bad, prometheus.NewRegistry())
		require.Error(t, err)
	}
}

func BenchmarkAllow(b *testing.B) {
	l := newLimiter(b, Config{RequestsPerSecond: 1e9})
	var request endpoint.Request = from("192.0.2.1")
	b.ReportAllocs()
	for b.Loop() {
		if l.Allow(user("a"), request, nil) != nil {
			b.Fatal("refused")
		}
	}
}

package limit

import (
	"container/list"
	"errors"
	"math"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate" // the token bucket of the Go project

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// Config configures the limits of callers. Start from DefaultConfig.
type Config struct {
	// RequestsPerSecond of one caller, averaged. 0 = no limit. Default 0.
	RequestsPerSecond float64
	// Burst is how many requests may come at once. 0 = one second's worth, at least one. Default 0.
	Burst int
	// StreamsPerCaller is how many streams a caller may hold open. 0 = no limit. Default 256.
	StreamsPerCaller int
	// Callers bounds the callers whose rates are tracked, about 300 bytes each. The least recently seen one is dropped
	// first, and starts with a full burst again. Default 100,000.
	Callers int
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config { return Config{StreamsPerCaller: 256, Callers: 100_000} }

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	if c.RequestsPerSecond < 0 || math.IsNaN(c.RequestsPerSecond) || c.Burst < 0 || c.StreamsPerCaller < 0 {
		return errors.New("limits must not be negative")
	}
	if c.Callers < 1 {
		return errors.New("callers must be at least 1")
	}
	return nil
}

// Limiter limits callers. It implements endpoint.Limiter.
type Limiter struct {
	config  Config
	burst   int
	metrics *metrics
	rates   struct {
		sync.Mutex
		byCaller map[key]*list.Element // of *bucket
		recent   *list.List            // most recently seen first
	}
	streams struct {
		sync.Mutex
		open map[key]int // entries exist while streams do
	}
}

var _ endpoint.Limiter = (*Limiter)(nil)

// key is one caller. Address is set where no user is known.
type key struct {
	tenant, project, user string
	address               netip.Prefix
	other                 string // an address that is not an IP
}

type bucket struct {
	key  key
	rate *rate.Limiter
}

// New returns a limiter.
func New(config Config, registerer prometheus.Registerer) (*Limiter, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	l := &Limiter{config: config, burst: config.Burst}
	l.metrics = newMetrics(registerer, l.callers)
	if l.burst == 0 {
		l.burst = max(1, int(math.Min(math.Ceil(config.RequestsPerSecond), math.MaxInt32)))
	}
	l.rates.byCaller = map[key]*list.Element{}
	l.rates.recent = list.New()
	l.streams.open = map[key]int{}
	return l, nil
}

// Allow counts one request.
func (l *Limiter) Allow(caller endpoint.Caller, request endpoint.Request, _ *endpoint.Route) *machine.Failure {
	if l.config.RequestsPerSecond == 0 || caller.Trusted {
		return nil
	}
	now := time.Now()
	reservation := l.bucket(keyOf(caller, request)).ReserveN(now, 1)
	if wait := reservation.DelayFrom(now); wait > 0 {
		reservation.CancelAt(now)
		l.metrics.requests.Inc()
		return refused(failure.TooManyRequests, wait)
	}
	return nil
}

// OpenStream counts an open stream.
func (l *Limiter) OpenStream(caller endpoint.Caller, request endpoint.Request) (func(), *machine.Failure) {
	backend := caller.Trusted && caller.Identified // it acts for many users; without authentication no caller is known to
	if l.config.StreamsPerCaller == 0 || backend {
		return func() {}, nil
	}
	k := keyOf(caller, request)
	l.streams.Lock()
	defer l.streams.Unlock()
	if l.streams.open[k] >= l.config.StreamsPerCaller {
		l.metrics.streams.Inc()
		return nil, refused(failure.TooManyStreams, 5*time.Second).With("maxStreams", l.config.StreamsPerCaller)
	}
	l.streams.open[k]++
	return sync.OnceFunc(func() { l.closeStream(k) }), nil
}

func (l *Limiter) closeStream(k key) {
	l.streams.Lock()
	defer l.streams.Unlock()
	if l.streams.open[k]--; l.streams.open[k] <= 0 {
		delete(l.streams.open, k)
	}
}

// bucket returns the caller's bucket, a full one for a new caller, which may evict the least recently seen one.
func (l *Limiter) bucket(k key) *rate.Limiter {
	l.rates.Lock()
	defer l.rates.Unlock()
	if element, ok := l.rates.byCaller[k]; ok {
		l.rates.recent.MoveToFront(element)
		return bucketOf(element).rate
	}
	if len(l.rates.byCaller) >= l.config.Callers {
		oldest := l.rates.recent.Back()
		l.rates.recent.Remove(oldest)
		delete(l.rates.byCaller, bucketOf(oldest).key)
		l.metrics.evictions.Inc()
	}
	b := &bucket{key: k, rate: rate.NewLimiter(rate.Limit(l.config.RequestsPerSecond), l.burst)}
	l.rates.byCaller[k] = l.rates.recent.PushFront(b)
	return b.rate
}

func (l *Limiter) callers() float64 {
	l.rates.Lock()
	defer l.rates.Unlock()
	return float64(len(l.rates.byCaller))
}

func bucketOf(element *list.Element) *bucket {
	return element.Value.(*bucket) //nolint:errcheck,forcetypeassert // the list holds nothing else
}

func keyOf(caller endpoint.Caller, request endpoint.Request) key {
	if caller.Identified {
		return key{tenant: caller.TenantID, project: caller.ProjectID, user: caller.UserID}
	}
	remote := request.RemoteIP()
	address, err := netip.ParseAddr(remote)
	if err != nil {
		return key{other: remote}
	}
	address = address.Unmap().WithZone("")
	bits := address.BitLen()
	if address.Is6() {
		bits = 64
	}
	prefix, err := address.Prefix(bits)
	if err != nil {
		return key{other: remote}
	}
	return key{address: prefix}
}

// refused is the failure with the time to wait in whole seconds, as in Retry-After.
func refused(reason failure.Reason, wait time.Duration) *failure.Failure {
	seconds := int(math.Ceil(math.Min(wait.Seconds(), 3600)))
	return failure.New(failurepb.Code_RATE_LIMITED, reason).With("retryAfter", max(seconds, 1))
}

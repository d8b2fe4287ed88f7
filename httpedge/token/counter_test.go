package token_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/access"
	"parley/actors/core/collection"
	"parley/actors/core/collection/collectiontest"
	"parley/actors/core/identity"
	"parley/httpedge/endpoint"
	"parley/httpedge/token"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

const month = 2_592_000 * time.Second

// fleet is nodes with a directory: writes take a while, and what one has written the others read a while later.
type fleet struct {
	*collectiontest.Records
	replicas []*replica
	latency  time.Duration
	lag      time.Duration
	puts     atomic.Int64
	err      atomic.Pointer[error]
}

type replica struct {
	*collectiontest.Records
	fleet *fleet

	mu    sync.Mutex
	known map[string]collection.Record
}

func newFleet(nodes int) *fleet {
	f := &fleet{Records: &collectiontest.Records{}, latency: 2 * time.Millisecond, lag: 20 * time.Millisecond}
	for range nodes {
		f.replicas = append(f.replicas, &replica{Records: f.Records, fleet: f, known: map[string]collection.Record{}})
	}
	return f
}

func (r *replica) Get(_, key string) (collection.Record, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	record, ok := r.known[key]
	return record, ok
}

func (r *replica) learn(record collection.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known[record.Key].Version < record.Version {
		r.known[record.Key] = record
	}
}

func (r *replica) Put(ctx context.Context, name, key string, expected uint64, value []byte) (uint64, error) {
	time.Sleep(r.fleet.latency)
	if err := r.fleet.err.Load(); err != nil {
		return 0, *err
	}
	r.fleet.puts.Add(1)
	version, err := r.Records.Put(ctx, name, key, expected, value)
	if err != nil {
		return 0, err
	}
	record := collection.Record{Key: key, Version: version, Value: value}
	r.learn(record)
	for _, other := range r.fleet.replicas {
		if other != r {
			time.AfterFunc(r.fleet.lag, func() { other.learn(record) })
		}
	}
	return version, nil
}

func (f *fleet) stored(t *testing.T) *directorypb.RequestCount {
	t.Helper()
	record, _ := f.Get(identity.RequestCounts, "t")
	stored := new(directorypb.RequestCount)
	require.NoError(t, proto.Unmarshal(record.Value, stored))
	return stored
}

func callerOn(tier string) endpoint.Caller {
	return endpoint.Caller{TenantID: "t", Grant: access.NewGrant(
		&directorypb.Token{}, &directorypb.User{Role: "owner"}, &directorypb.Tenant{Id: "t", Tier: tier}, &directorypb.Project{},
	)}
}

// counters returns a started counter for each node.
func (f *fleet) counters() []*token.Counter {
	var counters []*token.Counter
	for _, r := range f.replicas {
		counter := token.NewCounter(r, discard)
		counter.Start()
		counters = append(counters, counter)
	}
	return counters
}

// However many nodes count at once: never more than the limit, and in the end all of it.
func TestMonthIsExact(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(uint64(seed), 1))
		f := newFleet(3)
		counters := f.counters()
		start := time.Now()
		var admitted, refused atomic.Int64
		take := func(counter *token.Counter) {
			failure := counter.Take(context.Background(), callerOn("FREE"))
			switch {
			case failure == nil:
				admitted.Add(1)
			case failure.Code == failurepb.Code_QUOTA_REACHED:
				refused.Add(1)
			default:
				t.Errorf("refused: %v", failure)
			}
		}
		var callers sync.WaitGroup
		for i := range 24 {
			pauses := make([]time.Duration, 100)
			for j := range pauses {
				pauses[j] = time.Duration(random.IntN(300)) * time.Millisecond
			}
			callers.Go(func() {
				for _, pause := range pauses {
					time.Sleep(pause)
					take(counters[i%len(counters)])
				}
			})
		}
		callers.Wait()
		require.LessOrEqual(t, admitted.Load(), int64(1000))
		require.Equal(t, int64(2400), admitted.Load()+refused.Load())
		for range 3 { // what was taken ahead comes back
			time.Sleep(3 * time.Second)
			for range 20 {
				take(counters[0])
			}
		}
		require.Equal(t, int64(1000), admitted.Load())
		require.Equal(t, int64(1000), f.stored(t).GetCount())

		failure := counters[1].Take(t.Context(), callerOn("FREE"))
		require.Equal(t, "Rate limit exceeded for requests perMonth (1000/1000)", failure.DefaultText())
		ends := time.UnixMilli(f.stored(t).GetSince()).Add(month)
		require.WithinDuration(t, start.Add(month), ends, time.Second)
		require.InDelta(t, time.Until(ends).Seconds(), failure.Details["retryAfter"], 1)
		for _, counter := range counters { // their tickers would go on for a month
			counter.Stop()
		}
		time.Sleep(time.Until(ends) - time.Second)
		require.NotNil(t, counters[2].Take(t.Context(), callerOn("FREE")))
		require.Nil(t, counters[2].Take(t.Context(), callerOn("STARTER")), "a better plan counts at once")
		time.Sleep(time.Second)
		require.Nil(t, counters[0].Take(t.Context(), callerOn("FREE")), "the next month")
		require.Equal(t, int64(1), f.stored(t).GetCount())
	})
}

func TestCountingIsCheapFarFromTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(1)
		counter := f.counters()[0]
		for range 2000 {
			require.Nil(t, counter.Take(t.Context(), callerOn("STARTER")))
		}
		require.Less(t, f.puts.Load(), int64(40))
		counter.Stop()
		require.Equal(t, int64(2000), f.stored(t).GetCount(), "what was taken ahead is given back")

		f = newFleet(1)
		counter = f.counters()[0]
		for range 5 {
			require.Nil(t, counter.Take(t.Context(), callerOn("STARTER")))
			time.Sleep(2 * time.Second)
		}
		require.Equal(t, int64(5), f.puts.Load(), "a trickle takes nothing ahead")
		require.Nil(t, counter.Take(t.Context(), callerOn("ON_PREMISE")))
		require.Equal(t, int64(5), f.puts.Load(), "what has no limit is not counted")
		counter.Stop()
	})
}

// What a node had taken ahead when it died is lost to the month, no more.
func TestDeadNodeLosesLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(2)
		dead, alive := token.NewCounter(f.replicas[0], discard), token.NewCounter(f.replicas[1], discard)
		admitted := 0
		for range 200 {
			require.Nil(t, dead.Take(t.Context(), callerOn("FREE")))
			admitted++
		}
		time.Sleep(time.Second)
		for alive.Take(t.Context(), callerOn("FREE")) == nil {
			admitted++
		}
		require.LessOrEqual(t, admitted, 1000)
		require.GreaterOrEqual(t, admitted, 990)
	})
}

func TestCountingThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(1)
		counter := f.counters()[0]
		broken := errors.New("no leader")
		f.err.Store(&broken)
		failure := counter.Take(t.Context(), callerOn("FREE"))
		require.Equal(t, failurepb.Code_UNAVAILABLE, failure.Code)
		require.Equal(t, "Rate limit enforcement unavailable", failure.DefaultText())
		f.err.Store(nil)
		f.latency = time.Minute // nobody waits for ever
		var callers sync.WaitGroup
		started := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 3 {
			callers.Go(func() { _ = counter.Take(ctx, callerOn("FREE")) })
		}
		callers.Wait()
		require.LessOrEqual(t, time.Since(started), time.Minute)
		f.latency = time.Millisecond
		counter.Stop()
	})
}

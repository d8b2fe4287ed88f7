package token

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/access"
	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

const (
	// month is how long a tenant's requests are counted together, from the first one on (document 3, 3.5).
	month = 2_592_000 * time.Second
	// idle is how long requests taken ahead are kept unused, and how soon one more is taken ahead for being in use.
	idle = time.Second
	// A node takes at most a hundredth of the limit ahead, and at most a tenth of what is left.
	partOfLimit, partOfRest = 100, 10
	takeTimeout             = 5 * time.Second // for taking some, and for giving some back
	firstPause, lastPause   = 2 * time.Millisecond, 50 * time.Millisecond
)

// Counter counts the requests of tenants whose licence bounds them, over all nodes. Without Start nothing that was taken ahead is
// given back.
type Counter struct {
	records collection.Store
	logger  *slog.Logger
	cancel  context.CancelFunc // nil = not running
	running sync.WaitGroup

	mu      sync.Mutex
	tenants map[string]*allowance // of those that asked a short while ago
}

// allowance is what a node has taken ahead for a tenant. turn is held by whoever reads or writes it.
type allowance struct {
	turn  chan struct{} // holds a value while nobody has it
	users int           // guarded by Counter.mu: holders and waiters
	left  int64
	ends  time.Time // of the month that left is of
	block int64     // taken last time
	taken time.Time // when
	limit int64     // for which it was taken
}

// NewCounter returns a counter over the directory.
func NewCounter(records collection.Store, logger *slog.Logger) *Counter {
	return &Counter{records: records, logger: logger, tenants: make(map[string]*allowance)}
}

// Start begins to give back what was taken ahead and is not used.
func (c *Counter) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.running.Go(func() {
		ticker := time.NewTicker(idle)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				c.giveBack(ctx, false)
			}
		}
	})
}

// Stop ends what Start began and gives everything back, or lets it be when that takes longer than some seconds.
func (c *Counter) Stop() {
	if c.cancel != nil {
		c.cancel()
		c.running.Wait()
	}
	ctx, cancel := context.WithTimeout(context.Background(), takeTimeout)
	defer cancel()
	c.giveBack(ctx, true)
}

// Take counts one request of the caller's tenant, or refuses it: QUOTA_REACHED when the month has none left, with the end of the
// month in details.retryAfter; UNAVAILABLE when that cannot be said.
func (c *Counter) Take(ctx context.Context, caller endpoint.Caller) *machine.Failure {
	limit := caller.Grant.Licence().Limits().RequestsPerMonth
	if limit == access.Unlimited {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	a, ok := c.enter(ctx, caller.TenantID)
	if !ok {
		return unenforceable()
	}
	defer c.leave(a)
	now := time.Now()
	if a.left > 0 && now.Before(a.ends) && a.limit <= limit {
		a.left--
		return nil
	}
	return c.refill(ctx, caller.TenantID, a, limit)
}

// enter waits for the tenant's turn.
func (c *Counter) enter(ctx context.Context, tenant string) (*allowance, bool) {
	c.mu.Lock()
	a := c.tenants[tenant]
	if a == nil {
		a = &allowance{turn: make(chan struct{}, 1)}
		a.turn <- struct{}{}
		c.tenants[tenant] = a
	}
	a.users++
	c.mu.Unlock()
	select {
	case <-a.turn:
		return a, true
	case <-ctx.Done():
		c.mu.Lock()
		a.users--
		c.mu.Unlock()
		return nil, false
	}
}

func (c *Counter) leave(a *allowance) {
	a.turn <- struct{}{}
	c.mu.Lock()
	a.users--
	c.mu.Unlock()
}

// refill takes some requests out of the month, one of them for whoever asks.
func (c *Counter) refill(ctx context.Context, tenant string, a *allowance, limit int64) *machine.Failure {
	now := time.Now()
	block := int64(1)
	if now.Sub(a.taken) < idle {
		block = 2 * a.block
	}
	var taken, count int64
	var ends time.Time
	unused, of := a.left, a.ends // under a licence that allowed more: it is given back first
	a.left = 0
	err := c.change(ctx, tenant, func(stored *directorypb.RequestCount) bool {
		switch {
		case !now.Before(endOf(stored)):
			stored.Since, stored.Count = now.UnixMilli(), 0
		case endOf(stored).Equal(of):
			stored.Count -= min(unused, stored.GetCount())
		}
		ends = endOf(stored)
		count = stored.GetCount()
		rest := limit - count
		taken = min(block, max(1, limit/partOfLimit), max(1, rest/partOfRest), rest)
		stored.Count += max(taken, 0)
		return taken > 0 || unused > 0
	})
	switch {
	case err != nil:
		c.logger.Warn("monthly requests cannot be counted", slog.String("tenant", tenant), slog.Any("err", err))
		return unenforceable()
	case taken <= 0:
		seconds := int((ends.Sub(now) + time.Second - 1) / time.Second)
		return failure.New(failurepb.Code_QUOTA_REACHED, failure.MonthUsedUp).Param("count", count).Param("limit", limit).
			With("retryAfter", seconds)
	}
	a.left, a.ends, a.block, a.taken, a.limit = taken-1, ends, taken, now, limit
	return nil
}

// endOf is when the month of a count ends.
func endOf(count *directorypb.RequestCount) time.Time {
	return time.UnixMilli(count.GetSince()).Add(month)
}

// change reads a tenant's count, changes it and writes it if change says so, again and again while others do the same.
func (c *Counter) change(ctx context.Context, tenant string, change func(*directorypb.RequestCount) bool) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		record, _ := c.records.Get(identity.RequestCounts, tenant)
		var stored directorypb.RequestCount
		if err := proto.Unmarshal(record.Value, &stored); err != nil {
			return err
		}
		if !change(&stored) {
			return nil
		}
		stored.Mark = rand.Uint64()
		value, err := proto.Marshal(&stored)
		if err != nil {
			return err
		}
		_, err = c.records.Put(ctx, identity.RequestCounts, tenant, record.Version, value)
		var refused *machine.Failure
		if err == nil || !errors.As(err, &refused) || refused.Code != failurepb.Code_CONFLICT {
			return err
		}
		select { // another node was first: this one hears of it in a moment
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// giveBack returns what was taken ahead and not used for a while, or all of it, and forgets tenants that do not ask any more.
func (c *Counter) giveBack(ctx context.Context, all bool) {
	c.mu.Lock()
	tenants := make([]string, 0, len(c.tenants))
	for tenant := range c.tenants {
		tenants = append(tenants, tenant)
	}
	c.mu.Unlock()
	for _, tenant := range tenants {
		c.giveBackOf(ctx, tenant, all)
	}
}

func (c *Counter) giveBackOf(ctx context.Context, tenant string, all bool) {
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	a, ok := c.enter(ctx, tenant)
	if !ok {
		return
	}
	defer c.forget(tenant, a)
	defer c.leave(a)
	now := time.Now()
	if !all && now.Sub(a.taken) < idle || a.left == 0 || !now.Before(a.ends) {
		return
	}
	unused, ends := a.left, a.ends
	a.left = 0 // whatever comes: an answer may be lost, and what was given back must not be used
	err := c.change(ctx, tenant, func(stored *directorypb.RequestCount) bool {
		stored.Count -= min(unused, stored.GetCount())
		return endOf(stored).Equal(ends)
	})
	if err != nil {
		c.logger.Debug("requests taken ahead stay counted", slog.String("tenant", tenant), slog.Any("err", err))
	}
}

// forget drops what is known of a tenant that has nothing taken ahead and that nobody asks for.
func (c *Counter) forget(tenant string, a *allowance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.users == 0 && a.left == 0 && time.Since(a.taken) >= idle {
		delete(c.tenants, tenant)
	}
}

func unenforceable() *machine.Failure {
	return failure.New(failurepb.Code_UNAVAILABLE, failure.MonthNotCounted)
}

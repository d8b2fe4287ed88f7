package spending_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/entity"
	"parley/actors/core/quota"
	"parley/cmd/parley/node/spending"
)

const (
	line = `{"budget":{"dailySpendLimit":0.1}}`
	all  = 100_000_000 // of 0.1 dollars
)

// wants has a call ask for all the money.
func wants(t *testing.T, door *spending.Door) (quota.Pass, error) {
	t.Helper()
	return door.Enter(t.Context(), &quota.Call{TenantID: "t", Domain: quota.LLM, Need: all / 10, Want: all})
}

// TestLineOfANodeThatDies: what comes free is not kept for calls of a dead node that wait: who lives and waits behind them has it.
func TestLineOfANodeThatDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := newAllowances(func() bool { return false })
		dying := &node{allowances: at}
		dead, door := newDoor(dying, policies(line)), newDoor(at, policies(line))
		defer door.Stop(context.WithoutCancel(t.Context()))
		defer dead.Stop(context.WithoutCancel(t.Context()))
		first, err := wants(t, door)
		require.NoError(t, err)
		go func() { _, _ = wants(t, dead) }()
		synctest.Wait()
		time.AfterFunc(2500*time.Millisecond, func() { dying.dead.Store(true) })
		time.AfterFunc(31*time.Second, func() { first.Settle(all/10, 1) })
		began := time.Now()
		second, err := wants(t, door)
		require.NoError(t, err)
		require.Equal(t, 31*time.Second, time.Since(began))
		second.Settle(0, 0)
	})
}

// sleeper is a way to the shard of a node that is paused for a while before it reads its first answer.
type sleeper struct {
	entity.Client
	first sync.Once
	until atomic.Int64
}

// Ask implements entity.Client.
func (s *sleeper) Ask(ctx context.Context, id string, command proto.Message) (proto.Message, error) {
	s.sleep()
	reply, err := s.Client.Ask(ctx, id, command)
	s.first.Do(func() { s.until.Store(time.Now().Add(45 * time.Second).UnixNano()) })
	s.sleep()
	return reply, err
}

func (s *sleeper) sleep() { time.Sleep(time.Until(time.Unix(0, s.until.Load()))) }

// TestPausedBeforeTheAnswer: a call whose node was paused for longer than the lease with which it was let in does not spend what is another's by
// then.
func TestPausedBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := newAllowances(func() bool { return false })
		pausing, door := newDoor(&sleeper{Client: at}, policies(line)), newDoor(at, policies(line))
		defer door.Stop(context.WithoutCancel(t.Context()))
		defer pausing.Stop(context.WithoutCancel(t.Context()))
		let := make(chan quota.Pass, 1)
		go func() {
			pass, err := wants(t, pausing)
			if err != nil {
				t.Error(err)
			}
			let <- pass
		}()
		synctest.Wait()
		other, err := wants(t, door)
		require.NoError(t, err)
		held, _ := other.Held()
		require.EqualValues(t, all-all/10, held, "the other one may cost what it needs")
		pass := <-let
		rest, _ := pass.Held()
		require.EqualValues(t, all/10, rest)
		other.Settle(held, 1)
		pass.Settle(rest, 1)
		require.EqualValues(t, all, at.used())
	})
}

// byTenant are the allowances of two tenants: that of one is out of reach from some time on.
type byTenant struct {
	*allowances
	other entity.Client
	gone  atomic.Bool
}

// Ask implements entity.Client.
func (b *byTenant) Ask(ctx context.Context, id string, command proto.Message) (proto.Message, error) {
	switch {
	case strings.HasSuffix(id, "_t"):
		return b.allowances.Ask(ctx, id, command)
	case b.gone.Load():
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return b.other.Ask(ctx, id, command)
}

// TestTenantOutOfReach: calls that cannot be settled, of a tenant whose allowance is out of reach, do not keep those of another from being renewed.
func TestTenantOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := func() bool { return false }
		at := &byTenant{allowances: newAllowances(never), other: newAllowances(never)}
		door := newDoor(at, func(string) []*quota.Policy { return policies(line)("t") })
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Minute)
		defer cancel()
		defer door.Stop(ctx)
		pass, err := wants(t, door)
		require.NoError(t, err)
		var calls sync.WaitGroup
		for range 300 {
			calls.Go(func() {
				lost, err := door.Enter(t.Context(), &quota.Call{TenantID: "other", Domain: quota.LLM})
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Second)
				lost.Settle(1, 1)
			})
		}
		time.AfterFunc(500*time.Millisecond, func() { at.gone.Store(true) })
		calls.Wait()
		for range 12 {
			time.Sleep(10 * time.Second)
			require.Equal(t, 1, at.running())
		}
		at.gone.Store(false)
		pass.Settle(0, 0)
	})
}

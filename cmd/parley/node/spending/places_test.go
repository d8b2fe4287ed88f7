package spending_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/quota"
	"parley/cmd/parley/node/spending"
	"parley/proto/allowancepb"
)

const places = `{"perRequest":{"maxConcurrentRequests":5}}`

// running is how many calls the allowance knows that are on their way.
func (a *allowances) running() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	state, _ := a.state.(*allowancepb.State)
	for _, call := range state.GetRunning() {
		if call.GetExpiresAt() > time.Now().UnixMilli() {
			n++
		}
	}
	return n
}

// TestPlaces: of a hundred calls through three nodes at once five are on their way at any time, while replies are lost and callers leave.
// Who does not wait is refused at once and comes again, who does has its turn, and none leaves its place taken.
func TestPlaces(t *testing.T) {
	for name, patient := range map[string]bool{"refused": false, "waits": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a seeded test
				draw := func(n int) int {
					mu.Lock()
					defer mu.Unlock()
					return random.IntN(n)
				}
				at := newAllowances(func() bool { return draw(10) == 0 })
				doors := []*spending.Door{newDoor(at, policies(places)), newDoor(at, policies(places)), newDoor(at, policies(places))}
				for _, door := range doors {
					defer func() { door.Stop(t.Context()) }()
				}
				now, most, made, refused, left := 0, 0, 0, 0, 0
				count := func(n *int, delta int) int {
					mu.Lock()
					defer mu.Unlock()
					*n += delta
					return *n
				}
				gone := errors.New("the client left")
				var calls sync.WaitGroup
				for i := range 100 {
					calls.Go(func() {
						ctx, leave := context.WithCancelCause(t.Context())
						defer leave(nil)
						if i%10 == 0 {
							time.AfterFunc(time.Duration(draw(30))*time.Millisecond, func() { leave(gone) })
						}
						enter := func() (quota.Pass, error) {
							return doors[i%3].Enter(ctx, &quota.Call{TenantID: "t", Domain: quota.LLM, Patient: patient})
						}
						pass, err := enter()
						for full := (*quota.Refusal)(nil); errors.As(err, &full); pass, err = enter() {
							require.Equal(t, "Concurrent requests (6) exceeds limit (5)", full.Message)
							require.Equal(t, time.Second, full.RetryAfter)
							count(&refused, 1)
							time.Sleep(full.RetryAfter)
						}
						if errors.Is(err, gone) {
							count(&left, 1)
							return
						}
						require.NoError(t, err)
						n := count(&now, 1)
						mu.Lock()
						most = max(most, n)
						mu.Unlock()
						time.Sleep(time.Duration(50+draw(100)) * time.Millisecond)
						count(&now, -1)
						count(&made, 1)
						pass.Settle(0, 0)
					})
				}
				calls.Wait()
				require.Equal(t, 5, most)
				require.Equal(t, 100, made+left)
				require.Equal(t, patient, refused == 0, "%d were refused", refused)
				time.Sleep(time.Minute) // what could not be settled is tried further
				require.Zero(t, at.running())
			})
		})
	}
}

// TestPlacesOfANodeThatDies: they are free when its lease is over, and not before; who waits for one that does not come free is told so.
func TestPlacesOfANodeThatDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := newAllowances(func() bool { return false })
		dying := &node{allowances: at}
		dead, door := newDoor(dying, policies(places)), newDoor(at, policies(places))
		llm := func(door *spending.Door, patient, inside bool) (quota.Pass, error) {
			return door.Enter(t.Context(), &quota.Call{TenantID: "t", Domain: quota.LLM, Patient: patient, Inside: inside})
		}
		for range 5 {
			_, err := llm(dead, false, false)
			require.NoError(t, err)
		}
		none, err := llm(door, false, true)
		require.NoError(t, err, "it is a part of one that is on its way")
		require.Nil(t, none)
		began := time.Now()
		_, err = llm(door, true, false)
		require.ErrorContains(t, err, "Concurrent requests (6) exceeds limit (5)")
		require.Equal(t, time.Minute, time.Since(began))
		dying.dead.Store(true)
		began = time.Now()
		pass, err := llm(door, true, false)
		require.NoError(t, err)
		require.InDelta(t, 25*time.Second, time.Since(began), float64(6*time.Second), "its lease was renewed up to ten seconds before")
		pass.Settle(0, 0)
		dead.Stop(t.Context())
		door.Stop(t.Context())
	})
}

package document

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// ward runs documents of a given time through a queue and notes in which order they begin, and when they end.
type ward struct {
	*queue
	running sync.WaitGroup
	mu      sync.Mutex
	begun   []string
	ended   map[string]time.Duration
}

func (w *ward) read(ctx context.Context, begin time.Time, tenant, name string, takes time.Duration) {
	w.running.Go(func() {
		leave, err := w.enter(ctx, tenant, patience)
		if err != nil {
			return
		}
		w.mu.Lock()
		w.begun = append(w.begun, name)
		w.mu.Unlock()
		time.Sleep(takes) // virtual time: what a worker takes
		leave()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ended[name] = time.Since(begin)
	})
	synctest.Wait()
}

// However many slow documents a tenant sends, another one's is read at once; those of several tenants take turns.
func TestTenantsShareWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, begin := &ward{queue: newQueue(maxWorkers), ended: make(map[string]time.Duration)}, time.Now()
		for number := range 14 {
			w.read(t.Context(), begin, "slow", fmt.Sprint("slow", number), mostCPU*time.Second)
		}
		w.read(t.Context(), begin, "good", "good0", time.Second)
		w.running.Wait()
		require.Equal(t, time.Second, w.ended["good0"], "as long as alone")
		require.Equal(t, 14*mostCPU*time.Second, w.ended["slow13"])

		w.begun, begin = nil, time.Now()
		for number := range 3 {
			for _, tenant := range []string{"a", "b", "c", "d"} {
				w.read(t.Context(), begin, tenant, fmt.Sprint(tenant, number), time.Second)
			}
		}
		w.read(t.Context(), begin, "late", "late0", time.Second)
		w.running.Wait()
		slices.Sort(w.begun[:2])
		require.Equal(t, []string{"a0", "b0"}, w.begun[:2])
		for _, tenant := range []string{"a", "b", "c", "d"} {
			require.Less(t, slices.Index(w.begun, "late0"), slices.Index(w.begun, tenant+"2"), "before the second that waits: %v", w.begun)
		}
		require.Empty(t, w.rest())
	})
}

// rest is what the queue still holds.
func (w *ward) rest() []string {
	w.queue.mu.Lock()
	defer w.queue.mu.Unlock()
	left := slices.Clone(w.queue.mu.tenants)
	for tenant := range w.queue.mu.held {
		left = append(left, tenant)
	}
	for tenant := range w.queue.mu.lines {
		left = append(left, tenant)
	}
	return left
}

// Who waits goes with its context, or after its patience, and takes no place with it.
func TestWaitersGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &ward{queue: newQueue(maxWorkers)}
		leave, err := w.enter(t.Context(), "a", time.Second)
		require.NoError(t, err)
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		errs := make(chan error, 2)
		go func() {
			_, waited := w.enter(ctx, "a", time.Hour)
			errs <- waited
		}()
		synctest.Wait()
		cancel(gone)
		require.ErrorIs(t, <-errs, gone)
		_, err = w.enter(t.Context(), "a", time.Minute)
		require.ErrorIs(t, err, ErrBusy)
		leave()
		require.Empty(t, w.rest())
		leave, err = w.enter(t.Context(), "a", time.Second)
		require.NoError(t, err)
		leave()
	})
}

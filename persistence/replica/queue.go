package replica

import "sync"

// queue hands batches from any goroutine to one. It is bounded indirectly: proposals (Config.MaxPending, the
// uncommitted size) and messages (Config.MaxInbox) are bounded before they get here.
type queue[T any] struct {
	mu     sync.Mutex
	filled sync.Cond
	items  []T
	free   []T
	closed bool
}

func newQueue[T any]() *queue[T] {
	q := &queue[T]{}
	q.filled.L = &q.mu
	return q
}

// push reports whether the items were accepted; a closed queue accepts none.
func (q *queue[T]) push(items ...T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.items = append(q.items, items...)
	q.filled.Signal()
	return true
}

// take waits for items and returns all of them; nothing once the queue is closed and empty.
func (q *queue[T]) take() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 && !q.closed {
		q.filled.Wait()
	}
	items := q.items
	q.items, q.free = q.free, nil
	return items
}

// recycle returns a slice from take for reuse.
func (q *queue[T]) recycle(items []T) {
	clear(items)
	q.mu.Lock()
	q.free = items[:0]
	q.mu.Unlock()
}

func (q *queue[T]) close() {
	q.mu.Lock()
	q.closed = true
	q.filled.Broadcast()
	q.mu.Unlock()
}

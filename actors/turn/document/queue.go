package document

import (
	"context"
	"slices"
	"sync"
	"time"
)

// queue shares places among tenants: those that wait are served in turn, and none has all places, so that one whose documents
// are slow leaves room for the others at any time. Safe for concurrent use.
type queue struct {
	each int // places that one tenant may have
	mu   struct {
		sync.Mutex
		free    int
		held    map[string]int    // places, by tenant
		lines   map[string][]call // who waits, by tenant, first come first
		tenants []string          // of lines, the next to be served first
	}
}

// call is closed when its place is there.
type call chan struct{}

// newQueue returns a queue for so many places. With a single one, each tenant may have it.
func newQueue(places int) *queue {
	q := &queue{each: max(places-1, 1)}
	q.mu.free, q.mu.held, q.mu.lines = places, make(map[string]int), make(map[string][]call)
	return q
}

// enter waits for a place, which leave frees: ErrBusy after patience.
func (q *queue) enter(ctx context.Context, tenant string, patience time.Duration) (leave func(), err error) {
	called := q.join(tenant)
	patient := time.NewTimer(patience)
	defer patient.Stop()
	select {
	case <-called:
		return func() { q.leave(tenant) }, nil
	case <-patient.C:
		err = ErrBusy
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if !q.quit(tenant, called) {
		q.leave(tenant) // it was called meanwhile
	}
	return nil, err
}

func (q *queue) join(tenant string) call {
	q.mu.Lock()
	defer q.mu.Unlock()
	called := make(call)
	if q.mu.lines[tenant] == nil {
		q.mu.tenants = append(q.mu.tenants, tenant)
	}
	q.mu.lines[tenant] = append(q.mu.lines[tenant], called)
	q.serveLocked()
	return called
}

func (q *queue) leave(tenant string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.free++
	if q.mu.held[tenant]--; q.mu.held[tenant] == 0 {
		delete(q.mu.held, tenant)
	}
	q.serveLocked()
}

// quit leaves the line; false if it is not in it any more.
func (q *queue) quit(tenant string, called call) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(q.mu.lines[tenant], called)
	if at < 0 {
		return false
	}
	q.removeLocked(tenant, at)
	return true
}

// serveLocked gives free places to the tenants that wait and may have one, in turn.
func (q *queue) serveLocked() {
	for q.mu.free > 0 {
		next := slices.IndexFunc(q.mu.tenants, func(tenant string) bool { return q.mu.held[tenant] < q.each })
		if next < 0 {
			return
		}
		tenant := q.mu.tenants[next]
		close(q.mu.lines[tenant][0])
		q.mu.free--
		q.mu.held[tenant]++
		if q.removeLocked(tenant, 0); q.mu.lines[tenant] != nil { // behind the others
			q.mu.tenants = append(slices.Delete(q.mu.tenants, next, next+1), tenant)
		}
	}
}

// removeLocked takes one out of a line.
func (q *queue) removeLocked(tenant string, at int) {
	q.mu.lines[tenant] = slices.Delete(q.mu.lines[tenant], at, at+1)
	if len(q.mu.lines[tenant]) == 0 {
		delete(q.mu.lines, tenant)
		q.mu.tenants = slices.DeleteFunc(q.mu.tenants, func(other string) bool { return other == tenant })
	}
}

package courier

import (
	"context"
	"slices"
	"sync"
)

// places is the room for attempts that are under way on this node.
type places struct {
	most int

	mu struct {
		sync.Mutex
		taken int
		slow  int // of them by endpoints that are slow
		queue []*waiting
	}
}

// waiting is somebody who waits for a place, in order of arrival. Each courier asks for no more places than it may have, so that
// order is fair.
type waiting struct {
	slow bool
	got  chan struct{}
}

func newPlaces(most int) *places { return &places{most: most} }

// share is how many places one endpoint has at most.
func (p *places) share(slow bool) int {
	if slow {
		return 1
	}
	return max(1, p.most/2)
}

// take waits for a place. false: ctx has ended first.
func (p *places) take(ctx context.Context, slow bool) bool {
	one := &waiting{slow: slow, got: make(chan struct{})}
	p.mu.Lock()
	p.mu.queue = append(p.mu.queue, one)
	p.grantLocked()
	p.mu.Unlock()
	select {
	case <-one.got:
		return true
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.mu.queue, one); i >= 0 {
		p.mu.queue = slices.Delete(p.mu.queue, i, i+1)
		return false
	}
	p.leaveLocked(slow) // it was granted at the same time
	return false
}

func (p *places) leave(slow bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaveLocked(slow)
}

func (p *places) leaveLocked(slow bool) {
	p.mu.taken--
	if slow {
		p.mu.slow--
	}
	p.grantLocked()
}

// grantLocked gives places to those who may have one, in order.
func (p *places) grantLocked() {
	kept := p.mu.queue[:0]
	for _, one := range p.mu.queue {
		if p.mu.taken >= p.most || one.slow && p.mu.slow >= p.share(false) {
			kept = append(kept, one)
			continue
		}
		p.mu.taken++
		if one.slow {
			p.mu.slow++
		}
		close(one.got)
	}
	clear(p.mu.queue[len(kept):])
	p.mu.queue = kept
}

package stranger

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// Default is the size of a budget that nobody has set.
	Default = 128 << 20
	// Free is what an answer may take without being counted.
	Free = 32 << 10
	// Hurry is how long the answer that was given the reserve may take to its end.
	Hurry = 30 * time.Second

	step = 64 << 10 // what is taken is rounded up to this
)

// Why an answer was given up. The texts are for models and people.
var (
	ErrBusy     = errors.New("this server is reading too many large answers at present; try again later")
	ErrTooLarge = errors.New("the answer is too large")
	ErrSlow     = errors.New("the answer is large, came too slowly and was given up")
)

// Budget is memory for answers. Safe for concurrent use.
type Budget struct {
	pool, reserve int64
	refused       *prometheus.CounterVec
	mu            struct {
		sync.Mutex
		held    int64 // of the pool
		most    int64 // the highest sum of pool and reserve
		last    *Answer
		tenants map[string]*tenant // those that hold or wait
		ring    []*tenant          // those that wait; the first is served next
	}
}

// tenant is guarded by its budget.
type tenant struct {
	name  string
	held  int64
	queue []*wait
}

type wait struct {
	answer *Answer
	more   int64
	ready  chan struct{} // closed when it was granted
}

// New returns a budget of a number of bytes.
func New(size int64) *Budget {
	b := &Budget{pool: size / 2, reserve: size - size/2, refused: newRefused()}
	b.mu.tenants = make(map[string]*tenant)
	return b
}

// Most is the highest number of bytes that were held at one time.
func (b *Budget) Most() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.most
}

// acquire waits until an answer has more bytes.
func (b *Budget) acquire(a *Answer, more int64) error {
	b.mu.Lock()
	if a.closed {
		b.mu.Unlock()
		return a.give(ErrBusy)
	}
	asked := &wait{answer: a, more: more, ready: make(chan struct{})}
	b.enqueueLocked(asked)
	b.serveLocked()
	b.mu.Unlock()
	select {
	case <-asked.ready:
		return nil
	case <-a.ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-asked.ready:
		return nil
	default:
	}
	b.withdrawLocked(asked)
	return a.give(ErrBusy)
}

// keep gives an answer more bytes of the pool, or says that there are none.
func (b *Budget) keep(a *Answer, more int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if owner := b.tenantLocked(a.tenant); len(owner.queue) == 0 && b.fitsLocked(owner, more) {
		b.grantLocked(owner, a, more)
		return true
	}
	b.forgetLocked(a.tenant)
	return false
}

// release takes bytes back, those of the reserve first.
func (b *Budget) release(a *Answer, less int64, closing bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if closing {
		a.closed, less = true, a.pooled+a.extra
	}
	extra := min(less, a.extra)
	pooled := min(less-extra, a.pooled)
	a.extra -= extra
	a.pooled -= pooled
	b.mu.held -= pooled
	if owner := b.mu.tenants[a.tenant]; owner != nil {
		owner.held -= pooled
	}
	if b.mu.last == a && a.extra == 0 {
		b.mu.last = nil
		a.hurry.Stop()
	}
	b.forgetLocked(a.tenant)
	b.serveLocked()
}

// serveLocked grants what can be granted, tenant by tenant.
func (b *Budget) serveLocked() {
	for b.serveOneLocked() {
	}
	if len(b.mu.ring) == 0 {
		return
	}
	first := b.mu.ring[0].queue[0]
	if b.mu.last == nil {
		b.mu.last = first.answer
		first.answer.hurry = time.AfterFunc(Hurry, func() { _ = first.answer.give(ErrSlow) })
		b.serveLocked()
	}
}

// serveOneLocked grants the first request that fits.
func (b *Budget) serveOneLocked() bool {
	for _, owner := range b.mu.ring {
		at := slices.IndexFunc(owner.queue, func(w *wait) bool { return w.answer == b.mu.last })
		if at < 0 && b.fitsLocked(owner, owner.queue[0].more) {
			at = 0
		}
		if at < 0 {
			continue
		}
		asked := owner.queue[at]
		b.withdrawLocked(asked)
		if at := slices.Index(b.mu.ring, owner); at >= 0 {
			b.mu.ring = append(slices.Delete(b.mu.ring, at, at+1), owner) // behind the others
		}
		b.grantLocked(owner, asked.answer, asked.more)
		close(asked.ready)
		return true
	}
	return false
}

// fitsLocked: what a tenant holds with it is not more than what is free then.
func (b *Budget) fitsLocked(owner *tenant, more int64) bool {
	return owner.held+more <= b.pool-b.mu.held-more
}

func (b *Budget) grantLocked(owner *tenant, a *Answer, more int64) {
	if a == b.mu.last {
		a.extra += more
	} else {
		a.pooled += more
		owner.held += more
		b.mu.held += more
		b.mu.tenants[owner.name] = owner
	}
	b.mu.most = max(b.mu.most, b.sumLocked())
}

func (b *Budget) tenantLocked(name string) *tenant {
	if b.mu.tenants[name] == nil {
		b.mu.tenants[name] = &tenant{name: name}
	}
	return b.mu.tenants[name]
}

func (b *Budget) forgetLocked(name string) {
	if owner := b.mu.tenants[name]; owner != nil && owner.held == 0 && len(owner.queue) == 0 {
		delete(b.mu.tenants, name)
	}
}

func (b *Budget) enqueueLocked(asked *wait) {
	owner := b.tenantLocked(asked.answer.tenant)
	if owner.queue = append(owner.queue, asked); len(owner.queue) == 1 {
		b.mu.ring = append(b.mu.ring, owner)
	}
}

func (b *Budget) withdrawLocked(asked *wait) {
	owner := b.mu.tenants[asked.answer.tenant]
	owner.queue = slices.DeleteFunc(owner.queue, func(w *wait) bool { return w == asked })
	if len(owner.queue) == 0 {
		b.mu.ring = slices.DeleteFunc(b.mu.ring, func(one *tenant) bool { return one == owner })
	}
	b.forgetLocked(owner.name)
}

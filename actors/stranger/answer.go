package stranger

import (
	"context"
	"io"
	"sync"
	"time"
)

// Answer is memory for one answer, until Close. A nil Answer bounds nothing. Safe for concurrent use.
type Answer struct {
	budget *Budget
	tenant string
	ctx    context.Context //nolint:containedctx // of the call, which the answer belongs to
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	need   int64
	asked  int64 // need, rounded
	waits  bool  // for memory
	failed error

	// Guarded by the budget.
	pooled, extra int64
	closed        bool
	hurry         *time.Timer // set while it has the reserve
}

type (
	answerKey struct{}
	tenantKey struct{}
)

// Of returns a context of calls that are made for a tenant.
func Of(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

// TenantOf is the tenant that calls are made for, "" = nobody said.
func TenantOf(ctx context.Context) string {
	name, _ := ctx.Value(tenantKey{}).(string)
	return name
}

// Open begins an answer. The call uses the context, which ends when the answer is given up.
func (b *Budget) Open(ctx context.Context) (context.Context, *Answer) {
	a := &Answer{budget: b, tenant: TenantOf(ctx)}
	ctx, a.cancel = context.WithCancelCause(ctx)
	a.ctx = context.WithValue(ctx, answerKey{}, a)
	return a.ctx, a
}

// From is the answer that a context belongs to, nil = none.
func From(ctx context.Context) *Answer {
	a, _ := ctx.Value(answerKey{}).(*Answer)
	return a
}

// Take waits until there is memory for so many bytes more. The error is why the answer is given up.
func (a *Answer) Take(bytes int64) error {
	if a == nil {
		return nil
	}
	more, err := a.count(bytes)
	switch {
	case err != nil:
		return err
	case more == 0:
		return nil
	case more > a.budget.reserve:
		return a.give(ErrTooLarge)
	}
	a.waiting(true)
	if err = a.budget.acquire(a, more); err == nil {
		a.waiting(false)
	}
	return err
}

func (a *Answer) waiting(now bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waits = now
}

// count adds to the need and returns what is to be asked for; more than there ever is = the answer is too large.
func (a *Answer) count(bytes int64) (int64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed != nil {
		return 0, a.failed
	}
	a.need += bytes
	whole := rounded(a.need)
	if whole > a.budget.reserve {
		return whole, nil
	}
	more := max(whole-a.asked, 0)
	a.asked += more
	return more, nil
}

func rounded(bytes int64) int64 {
	if bytes <= Free {
		return 0
	}
	return (bytes + step - 1) / step * step
}

// Give says that so many bytes are not used any more.
func (a *Answer) Give(bytes int64) {
	if a == nil {
		return
	}
	a.mu.Lock()
	a.need = max(a.need-bytes, 0)
	less := a.asked - rounded(a.need)
	a.asked -= less
	a.mu.Unlock()
	if less > 0 {
		a.budget.release(a, less, false)
	}
}

// Reset says that nothing is used any more: the call is made again.
func (a *Answer) Reset() {
	if a != nil {
		a.mu.Lock()
		all := a.need
		a.mu.Unlock()
		a.Give(all)
	}
}

// Keep takes so many bytes, without a wait, for as long as the answer is open, and says whether there are any.
func (a *Answer) Keep(bytes int64) bool {
	more, err := a.count(bytes)
	return err == nil && (more == 0 || more <= a.budget.reserve && a.budget.keep(a, more))
}

// Err is why the answer was given up, nil = it was not. Who reads it may not know yet that the time is over.
func (a *Answer) Err() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed == nil && a.waits && a.ctx.Err() != nil {
		return ErrBusy
	}
	return a.failed
}

// give gives the answer up.
func (a *Answer) give(why error) error {
	a.mu.Lock()
	if a.failed == nil {
		a.failed = why
		a.budget.refused.WithLabelValues(reasons()[why]).Inc()
	}
	why = a.failed
	a.mu.Unlock()
	a.cancel(why)
	return why
}

// Close gives everything back.
func (a *Answer) Close() {
	if a == nil {
		return
	}
	a.cancel(context.Canceled)
	a.budget.release(a, 0, true)
}

// Reader takes memory for what is read: cost bytes for each.
func (a *Answer) Reader(from io.Reader, cost int64) io.Reader {
	return &reader{from: from, answer: a, cost: cost}
}

type reader struct {
	from   io.Reader
	answer *Answer
	cost   int64
}

// Read implements io.Reader.
func (r *reader) Read(buffer []byte) (int, error) {
	count, err := r.from.Read(buffer)
	if wrong := r.answer.Take(int64(count) * r.cost); wrong != nil {
		return 0, wrong
	}
	return count, err
}

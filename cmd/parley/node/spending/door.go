// Package spending lets calls in that the budgets and quota policies of their tenant allow: it finds the policies in this node's copy of
// the directory and asks the tenant's allowance (package actors/allowance), which counts for the whole cluster.
package spending

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"parley/actors/allowance"
	"parley/actors/core/entity"
	"parley/actors/core/money"
	"parley/actors/core/quota"
	"parley/proto/allowancepb"
)

// Config is what a Door needs.
type Config struct {
	Entities entity.Client
	// NewID mints the id of a call, IDFrom makes that of a tenant's allowance.
	NewID  func(kind string) string
	IDFrom func(kind, text string) string
	// Policies are a tenant's, in the order in which they are merged; nil = it has none. It must cost next to nothing.
	Policies   func(tenantID string) []*quota.Policy
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil = nobody collects

	// Patience is how long a call waits for all that it wants before it takes what there is, Wait how long in all; Lease for how long a
	// node that is not heard of keeps what its calls hold. Defaults 2 s, 60 s, 30 s.
	Patience, Wait, Lease time.Duration
}

// Times of asking again while the allowance's owner cannot be reached, or has too much to do.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = 500 * time.Millisecond
	// settleWait is how long a settlement holds up its answer at most; it is tried further after that.
	settleWait = 10 * time.Second
	// askTimeout bounds one settlement, and a round of renewals.
	askTimeout = 5 * time.Second
	// tended bounds the tenants whose calls are renewed and settled at a time, settlements the settlements of one.
	tended, settlements = 256, 16
)

// Door implements quota.Door.
type Door struct {
	config Config

	mu   sync.Mutex
	open map[string]map[string]*pass // by tenant and call

	once        sync.Once          // of the stop
	cancel      context.CancelFunc // of what renews
	left        chan struct{}      // capacity 1: calls are to be settled in the background
	quit, ended chan struct{}
	unsettled   prometheus.Counter
}

// New starts a door.
func New(config Config) *Door {
	config.Patience, config.Wait = cmp.Or(config.Patience, 2*time.Second), cmp.Or(config.Wait, time.Minute)
	config.Lease = cmp.Or(config.Lease, 30*time.Second)
	d := &Door{
		config: config, open: map[string]map[string]*pass{}, left: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{}),
		unsettled: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_spend_unsettled_total", Help: "Calls whose cost was not counted by budgets before this node stopped.",
		}),
	}
	if config.Registerer != nil {
		config.Registerer.MustRegister(d.unsettled, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "parley_spend_open_calls", Help: "Calls that budgets and quotas count, from before they are let in until they are settled.",
		}, func() float64 { return float64(d.size()) }))
	}
	var ctx context.Context
	ctx, d.cancel = context.WithCancel(context.Background())
	go d.renew(ctx)
	return d
}

// Stop settles what is left until ctx ends, and stops the door. It may be called more than once.
func (d *Door) Stop(ctx context.Context) { d.once.Do(func() { d.stop(ctx) }) }

func (d *Door) stop(ctx context.Context) {
	close(d.quit)
	defer context.AfterFunc(ctx, d.cancel)() // what is under way may finish
	<-d.ended
	d.cancel()
	d.tend(ctx, false)
	if left := d.size(); left > 0 {
		d.unsettled.Add(float64(left))
		d.config.Logger.Warn("calls were not settled", slog.Int("calls", left))
	}
}

func (d *Door) size() (size int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, calls := range d.open {
		size += len(calls)
	}
	return size
}

// reserved is how many tokens of its rates a call takes until it is settled: its input and the most that it says of its output, so that
// calls that run at the same time do not come to more than a rate allows. A call that names more output than a rate allows at all
// takes all of it: it may say less.
func reserved(call *quota.Call, caps []*allowancepb.Cap) int64 {
	tokens := money.Add(call.InputTokens, call.OutputTokens)
	for _, limit := range caps {
		if limit.GetMeasure() == allowancepb.Measure_TOKENS && !limit.GetCounts() && limit.GetMost() >= 0 {
			tokens = min(tokens, max(call.InputTokens, limit.GetMost()))
		}
	}
	return tokens
}

// Guards implements quota.Door.
func (d *Door) Guards(tenantID string) bool { return len(d.config.Policies(tenantID)) > 0 }

// pass is a call, from before it is let in until it is settled. It implements quota.Pass.
type pass struct {
	door   *Door
	tenant string
	force  *quota.Force
	call   *allowancepb.Call // nil = nothing counts it
	held   int64
	binds  bool
	// wait is for how long it waits for a place among calls that may be on their way at once.
	wait    time.Duration
	counted time.Time // when what is kept was counted for it
	// over is what it came to, nil while it runs. door.mu guards it.
	over *allowancepb.Settled
}

// Enter implements quota.Door.
func (d *Door) Enter(ctx context.Context, call *quota.Call) (quota.Pass, error) {
	p, err := d.begin(ctx, call)
	if err != nil || p == nil || p.call == nil {
		return nil, err
	}
	return p, nil
}

// begin lets a call in. A nil pass: no policy says anything of it; one without a call: nothing counts it.
func (d *Door) begin(ctx context.Context, call *quota.Call) (*pass, error) {
	force := quota.InForce(d.config.Policies(call.TenantID), call)
	if force == nil {
		return nil, nil //nolint:nilnil // said above
	}
	force.Concern(call)
	if refused := force.CheckRequest(call); refused != nil {
		return nil, refused
	}
	p := &pass{door: d, tenant: call.TenantID, binds: force.Binds(), force: force}
	if call.Patient {
		p.wait = d.config.Wait
	}
	if !force.Counted() {
		return p, nil
	}
	p.call = &allowancepb.Call{
		Id: d.config.NewID("spend"), Want: max(call.Want, call.Need, 0), Need: max(call.Need, 0),
		Tokens: reserved(call, force.Caps), Caps: force.Caps, TenantId: call.TenantID, Files: call.Files, Bytes: call.Bytes, Sessions: call.Sessions,
	}
	d.keep(p)
	if err := p.enter(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

func (d *Door) keep(p *pass) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open[p.tenant] == nil {
		d.open[p.tenant] = map[string]*pass{}
	}
	d.open[p.tenant][p.call.GetId()] = p
}

func (d *Door) drop(p *pass) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open[p.tenant], p.call.GetId())
	if len(d.open[p.tenant]) == 0 {
		delete(d.open, p.tenant)
	}
}

// enter asks until the call is let in or refused. What cannot be said again is not left behind: a call that nobody waits for any more
// is settled with nothing.
func (p *pass) enter(ctx context.Context) error {
	reply, err := p.await(ctx)
	switch {
	case err != nil:
		p.leave()
		return err
	case reply.GetReached() != nil:
		p.door.drop(p)
		return quota.Reached(reply.GetReached(), reply.GetAmount(), time.Now().UnixMilli())
	}
	p.held = reply.GetHeld()
	return nil
}

// await asks until it is decided on the call. Who is let in that late that its node must have been paused asks again: the lease may be over.
func (p *pass) await(ctx context.Context) (*allowancepb.Reply, error) {
	d := p.door
	all, cancel := context.WithTimeout(ctx, d.config.Wait)
	defer cancel()
	pause, waited, began := firstPause, false, time.Now()
	var full *allowancepb.Reply
	for {
		once, end := context.WithTimeout(all, d.config.Patience)
		reply, err := p.try(once)
		impatient := once.Err() != nil
		end()
		switch {
		case err == nil && (reply.GetLetIn() && !impatient || reply.GetReached() != nil && (!reply.GetAgain() || time.Since(began) >= p.patience(reply.GetReached()))):
			return reply, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case all.Err() != nil && full != nil:
			return full, nil
		case all.Err() != nil && waited:
			return nil, &quota.Refusal{Message: "Budget is held by calls that run: try again", Spent: true, RetryAfter: time.Second}
		case all.Err() != nil:
			return nil, &quota.Refusal{Message: "Rate limit enforcement unavailable", Broken: true}
		case impatient && !p.fills():
			waited = true
			p.hurry()
			continue
		}
		waited = waited || err == nil && !p.fills()
		if full = nil; reply.GetReached() != nil {
			full = reply
		}
		select {
		case <-all.Done():
		case <-time.After(pause):
			pause = min(2*pause, lastPause)
		}
	}
}

// patience is for how long a call tries to come in under a limit that was reached a moment ago.
func (p *pass) patience(limit *allowancepb.Cap) time.Duration {
	if limit.GetUnit() == allowancepb.Unit_MOMENT {
		return p.wait
	}
	return p.door.config.Patience
}

// try asks once. What is kept is counted before, unless that was done a moment ago: of what others store meanwhile the allowance knows, since a
// moment is far less than a lease. But less may be kept by now: a call is let in by an old count, and not refused.
func (p *pass) try(ctx context.Context) (*allowancepb.Reply, error) {
	old := p.fills() && time.Since(p.counted) < p.door.config.Patience
	if p.fills() && !old {
		if err := p.recount(ctx); err != nil {
			return nil, err
		}
	}
	reply, err := p.ask(ctx, &allowancepb.Command{Body: &allowancepb.Command_Enter{Enter: &allowancepb.Enter{
		Call: p.call, LeaseMs: p.door.config.Lease.Milliseconds(),
	}}})
	if err != nil || reply.GetLetIn() {
		return reply, err
	}
	if p.counted = (time.Time{}); old {
		return p.try(ctx)
	}
	return reply, nil
}

// hurry has the call take what there is. The message may be on its way: it is not changed, but another one.
func (p *pass) hurry() {
	p.call = proto.CloneOf(p.call)
	p.call.Hurried = true
}

// leave has a call that was not let in, or of which that is not known, settled in the background.
func (p *pass) leave() {
	p.door.mu.Lock()
	p.over = &allowancepb.Settled{Id: p.call.GetId(), Unkept: true}
	p.door.mu.Unlock()
	select {
	case p.door.left <- struct{}{}:
	default:
	}
}

// Held implements quota.Pass.
func (p *pass) Held() (nano int64, binds bool) { return p.held, p.binds }

// Settle implements quota.Pass.
func (p *pass) Settle(cost, tokens int64) {
	p.end(&allowancepb.Settled{Id: p.call.GetId(), Cost: max(cost, 0), Tokens: max(tokens, 0)})
}

// end settles the call with what it came to.
func (p *pass) end(over *allowancepb.Settled) {
	p.door.mu.Lock()
	p.over = over
	p.door.mu.Unlock()
	p.settle()
}

// settle tries to settle the call for a while.
func (p *pass) settle() {
	ctx, cancel := context.WithTimeout(context.Background(), settleWait)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		if p.trySettle(ctx) == nil {
			return
		}
		select {
		case <-ctx.Done():
			p.door.config.Logger.Warn("a call could not be settled: it is tried further", slog.String("call", p.call.GetId()))
			return
		case <-time.After(pause):
		}
	}
}

func (p *pass) trySettle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err := p.ask(ctx, &allowancepb.Command{Body: &allowancepb.Command_Settle{Settle: p.over}})
	if err == nil {
		p.door.drop(p)
	}
	return err
}

func (p *pass) ask(ctx context.Context, command *allowancepb.Command) (*allowancepb.Reply, error) {
	return p.door.ask(ctx, p.tenant, command)
}

func (d *Door) ask(ctx context.Context, tenant string, command *allowancepb.Command) (*allowancepb.Reply, error) {
	command.Id = d.config.IDFrom(quota.Allowance, tenant)
	reply, err := entity.Ask[*allowancepb.Reply](ctx, d.config.Entities, command.GetId(), command)
	if err == nil && reply == nil {
		err = errors.New("an allowance gave no answer")
	}
	return reply, err
}

// renew says again and again which calls still run, and settles those that could not be settled.
func (d *Door) renew(ctx context.Context) {
	defer close(d.ended)
	tick := time.NewTicker(d.config.Lease / 3)
	defer tick.Stop()
	for {
		renews := false
		select {
		case <-d.quit:
			return
		case <-d.left:
		case <-tick.C:
			renews = true
		}
		once, cancel := context.WithTimeout(ctx, askTimeout) // the next renewal is not to be late
		d.tend(once, renews)
		cancel()
	}
}

// tend settles what is over, and renews what runs if it is time to. Tenants whose allowances are out of reach do not hold up others.
func (d *Door) tend(ctx context.Context, renews bool) {
	var tenants []func()
	d.mu.Lock()
	for tenant, calls := range d.open {
		var runs []string
		var over []func()
		for id, p := range calls {
			if p.over == nil {
				runs = append(runs, id)
				continue
			}
			over = append(over, func() { _ = p.trySettle(ctx) }) // the next time
		}
		tenants = append(tenants, func() {
			if renews && len(runs) > 0 {
				d.prolong(ctx, tenant, runs)
			}
			atOnce(settlements, over)
		})
	}
	d.mu.Unlock()
	atOnce(tended, tenants)
}

// prolong says that a tenant's calls still run, or wait.
func (d *Door) prolong(ctx context.Context, tenant string, ids []string) {
	for some := range slices.Chunk(ids, allowance.MaxRenewed) {
		_, err := d.ask(ctx, tenant, &allowancepb.Command{Body: &allowancepb.Command_Renew{Renew: &allowancepb.Renew{
			Ids: some, LeaseMs: d.config.Lease.Milliseconds(),
		}}})
		if err != nil {
			d.config.Logger.Warn("what calls hold could not be renewed", slog.Int("calls", len(some)), slog.Any("err", err))
		}
	}
}

// atOnce does all, so many at a time.
func atOnce(most int, all []func()) {
	room := make(chan struct{}, most)
	var done sync.WaitGroup
	for _, do := range all {
		room <- struct{}{}
		done.Go(func() {
			defer func() { <-room }()
			do()
		})
	}
	done.Wait()
}

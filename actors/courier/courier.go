package courier

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"parley/actors/core/entity"
	"parley/actors/core/subscription"
	"parley/actors/deliver"
	"parley/actors/kit"
	"parley/actors/webhook"
	"parley/proto/deliverypb"
	"parley/proto/failurepb"
	"parley/proto/webhookpb"
)

const (
	maxHeld = 512 // deliveries that a courier has in memory
	// slowFrom is how long an answer takes that makes an endpoint a slow one.
	slowFrom = time.Second
	// reportBatch is how many results are reported at a time.
	reportBatch = 256
	// reportAfter is how long results wait for others while further attempts are under way: each report is an append. What they are
	// about waits, too, and attempts that are not reported are made again after a crash.
	reportAfter = 10 * time.Millisecond
)

// courier serves one endpoint for one epoch of its shard. All but inbox belongs to the goroutine of run.
type courier struct {
	couriers *Couriers
	at       kit.Ref
	ctx      context.Context //nolint:containedctx // a courier's life, not a request
	cancel   context.CancelFunc
	woken    chan struct{}
	done     chan struct{}
	inbox
	unreported
	found

	held    []*webhookpb.Delivery // that are to be sent, in order
	about   map[string]bool       // what the attempts under way are about
	sending int
	came    chan result
	reports uint64            // that the entity has taken
	report  *webhookpb.Report // that the entity has not taken yet, as far as it is known
	doubted bool              // its outcome was not known once
	stored  bool              // a report was taken, since the last failure
	astray  bool              // the entity is not as it is known here: what was found out may be out of date
	behind  bool              // there is more than is held
}

// found is what a courier has found out about its endpoint.
type found struct {
	tenant string // whose it is; empty = not known yet
	heard  bool   // it has answered, or not in time
	slow   bool
}

// unreported is what has come of attempts and is not in a report yet.
type unreported struct {
	results []result
	since   time.Time // of the first
}

// inbox is what a courier is told from outside.
type inbox struct {
	mu    sync.Mutex
	fresh []*webhookpb.Delivery
	read  bool   // rows have to be read
	known uint64 // newest generation of the endpoint's record that somebody has spoken of
}

// result is what came of an attempt.
type result struct {
	delivery *webhookpb.Delivery
	report   *deliverypb.Report // nil = it was not made
	record   *webhookpb.Changed // of the endpoint, as it was then; nil = unknown
	gone     bool               // there is no such endpoint any more
}

// told takes what the rules say.
func (c *courier) told(look webhook.Look) {
	c.mu.Lock()
	c.known = max(c.known, look.Generation)
	if len(look.Fresh) == 0 || c.read || len(c.fresh)+len(look.Fresh) > maxHeld {
		c.fresh, c.read = nil, true // they are rows: whoever reads finds them
	} else {
		c.fresh = append(c.fresh, look.Fresh...)
	}
	c.mu.Unlock()
	select {
	case c.woken <- struct{}{}:
	default:
	}
}

func (c *courier) hasNews() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read || len(c.fresh) > 0
}

// takeNews takes over what was told. While rows have to be read, what is fresh waits there.
func (c *courier) takeNews() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.behind = c.behind || c.read || len(c.held)+len(c.fresh) > maxHeld
	if !c.behind {
		c.held = append(c.held, c.fresh...)
	}
	c.fresh, c.read = nil, false
}

// run serves the endpoint until nothing is left to do.
func (c *courier) run() {
	defer close(c.done)
	defer c.couriers.leave(c)
	defer c.settle()
	defer c.cancel()
	c.about = make(map[string]bool)
	for try := 1; c.ctx.Err() == nil; {
		c.takeNews()
		ended, err := c.step()
		switch {
		case ended:
			return
		case err == nil:
			continue
		case kit.NotOwner(err) || c.ctx.Err() != nil:
			return
		}
		c.couriers.config.Logger.Info("the deliveries of an endpoint are delayed", slog.String("endpoint", c.at.ID), slog.Any("err", err))
		if c.report == nil {
			c.held, c.behind = nil, true
		}
		if c.astray {
			c.astray = false
			c.takeResults()
			c.reap()
		}
		if c.stored { // nothing else says that it goes on: what is read and sent is sent again if its report is refused
			try, c.stored = 1, false
		}
		kit.Pause(c.ctx, try)
		try++
	}
}

// settle waits for the attempts under way: their context has ended.
func (c *courier) settle() {
	for ; c.sending > 0; c.sending-- {
		<-c.came
	}
}

// reap drops what came of the attempts under way.
func (c *courier) reap() {
	for c.sending > 0 {
		select {
		case one := <-c.came:
			c.ended(one)
		case <-c.ctx.Done():
			return
		}
	}
	c.takeResults()
}

// step does the next thing. It has ended when nothing is left.
func (c *courier) step() (ended bool, err error) {
	if c.report != nil {
		return false, c.store()
	}
	c.send()
	switch {
	case len(c.results) > 0 && c.sending > 0 && len(c.results) < reportBatch && time.Since(c.since) < reportAfter:
		c.wait(max(reportAfter-time.Since(c.since), time.Millisecond))
		return false, nil
	case len(c.results) > 0:
		return c.conclude()
	case c.sending > 0:
		c.wait(0)
		return false, nil
	case len(c.held) > 0:
		return false, nil
	case !c.behind && !c.lingered():
		return false, nil
	}
	return c.look()
}

// lingered waits a moment for more to do, and says that nothing came.
func (c *courier) lingered() bool {
	return !c.wait(c.couriers.config.Linger) && c.ctx.Err() == nil
}

// wait waits for a result or for news, 0 = as long as it takes. false: the time has passed.
func (c *courier) wait(most time.Duration) bool {
	var late <-chan time.Time
	if most > 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case one := <-c.came:
		c.ended(one)
		for more := true; more && len(c.results) < reportBatch; {
			select {
			case one = <-c.came:
				c.ended(one)
			default:
				more = false
			}
		}
	case <-c.woken:
	case <-c.ctx.Done():
	case <-late:
		return false
	}
	return true
}

// ended takes the result of an attempt. What it is about stays busy until the result is stored.
func (c *courier) ended(one result) {
	c.sending--
	if len(c.results) == 0 {
		c.since = time.Now()
	}
	c.results = append(c.results, one)
	if one.report != nil && one.report.GetFault() != deliverypb.Fault_TARGET_DISABLED {
		c.heard = true
		c.slow = !one.report.GetOk() && one.report.GetStatus() == 0 || one.report.GetTook() >= slowFrom.Milliseconds()
	}
}

// takeResults returns the results so far; what they are about is free again.
func (c *courier) takeResults() []result {
	taken := c.results
	c.results = nil
	for _, one := range taken {
		delete(c.about, one.delivery.GetAbout())
	}
	return taken
}

// send begins what may be sent now: what is about the same thing goes one after another.
func (c *courier) send() {
	share := c.couriers.share(c.slow || !c.heard) // one that was never heard may be dead
	if c.sending >= share {
		return // most of the time: the rest is not looked at
	}
	kept := c.held[:0]
	passed := map[string]bool{} // what is held back holds back what follows
	for i, d := range c.held {
		if c.sending >= share {
			kept = append(kept, c.held[i:]...)
			break
		}
		about := d.GetAbout()
		if about != "" && (c.about[about] || passed[about]) {
			kept = append(kept, d)
			passed[about] = true
			continue
		}
		c.sending++
		if about != "" {
			c.about[about] = true
		}
		place := deliver.Place{Tenant: c.tenantNow(), Target: c.at.ID, Slow: c.slow}
		c.couriers.wg.Go(func() { c.came <- c.attempt(d, place) })
	}
	clear(c.held[len(kept):])
	c.held = kept
}

// tenantNow is whose the endpoint is, which never changes.
func (c *courier) tenantNow() string {
	if records := c.couriers.config.Records(); records != nil && c.tenant == "" {
		c.tenant = records.Tenant(c.ctx, c.at.ID)
	}
	return c.tenant
}

// attempt makes one attempt, to the endpoint as it is now.
func (c *courier) attempt(d *webhookpb.Delivery, at deliver.Place) result {
	one := result{delivery: d}
	leave, ok := c.couriers.places.Take(c.ctx, at)
	if !ok {
		return one
	}
	defer leave()
	endpoint, err := c.open()
	switch {
	case err != nil:
		c.couriers.config.Logger.Warn("an endpoint cannot be read", slog.String("endpoint", c.at.ID), slog.Any("err", err))
		return one // not made: that says nothing of the endpoint. Looking again fails as well, and waits longer each time
	case endpoint == nil:
		one.gone = true
		return one
	}
	one.record = subscription.Changed(endpoint.Webhook).GetChanged()
	if !subscription.Active(endpoint.Webhook) {
		one.report = &deliverypb.Report{Fault: deliverypb.Fault_TARGET_DISABLED, Error: "Endpoint is disabled"}
		return one
	}
	message := &webhookpb.Message{Id: d.GetCall().GetId(), Type: d.GetCall().GetEvent(), Body: d.GetBody()}
	report := c.couriers.config.Try(c.ctx, endpoint, message)
	if c.ctx.Err() != nil {
		return one // nobody knows: the next owner tries again
	}
	one.report = report
	c.couriers.outcomes.WithLabelValues(outcome(report)).Inc()
	return one
}

func outcome(report *deliverypb.Report) string {
	switch {
	case report.GetOk():
		return "delivered"
	case report.GetFault() == deliverypb.Fault_BLOCKED:
		return "forbidden"
	case report.GetStatus() == 0:
		return "unanswered"
	}
	return "failed"
}

func (c *courier) open() (*subscription.Endpoint, error) {
	records := c.couriers.config.Records()
	if records == nil {
		return nil, context.Canceled
	}
	endpoint, err := records.Open(c.ctx, c.at.ID)
	if err != nil || endpoint == nil || endpoint.GetGeneration() >= c.newest() {
		return endpoint, err
	}
	// This node's copy is late: a secret that was replaced must not sign any more.
	if err = records.CatchUp(c.ctx); err != nil {
		return nil, err
	}
	return records.Open(c.ctx, c.at.ID)
}

// learn takes what the entity is now.
func (c *courier) learn(state *webhookpb.State) {
	c.reports = state.GetReports()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = max(c.known, state.GetGeneration())
}

func (c *courier) newest() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known
}

// conclude stores what came of attempts, and carries out what that says about the endpoint.
func (c *courier) conclude() (ended bool, err error) {
	report := &webhookpb.Report{Reports: c.reports}
	for _, one := range c.takeResults() {
		switch {
		case one.gone:
			return true, c.remove()
		case one.report != nil:
			report.Attempts = append(report.Attempts, &webhookpb.Attempt{
				Delivery: one.delivery, Report: one.report, Generation: one.record.GetGeneration(),
			})
			if one.record.GetGeneration() > report.GetRecord().GetGeneration() {
				report.Record = one.record
			}
		default:
			c.behind = true // it was not made
		}
	}
	if len(report.GetAttempts()) == 0 {
		return false, nil
	}
	c.report, c.doubted = report, false
	return false, c.store()
}

// store gives the entity the report. One that is not stored for a passing reason, or perhaps is, stays the next thing to do: to drop
// it would be to send the same again.
func (c *courier) store() error {
	state, err := c.ask(&webhookpb.Command{Body: &webhookpb.Command_Report{Report: c.report}})
	refused := kit.FailureOf(err)
	switch {
	case err != nil && refused == nil:
		c.doubted = true
		return err
	case refused != nil && refused.Code == failurepb.Code_CONFLICT && c.doubted:
		c.report, c.stored, c.behind = nil, true, true // it was taken; a look says what follows from it
		c.reports++
		return nil
	case refused != nil:
		c.report, c.astray = nil, true
		return err
	}
	c.report, c.stored = nil, true
	return c.carryOut(state)
}

// carryOut writes what the deliveries say about the endpoint into its record.
func (c *courier) carryOut(state *webhookpb.State) error {
	wish := state.GetWish()
	records := c.couriers.config.Records()
	if wish == nil || records == nil {
		return nil
	}
	if err := records.Settle(c.ctx, c.at.ID, wish); err != nil {
		return err
	}
	_, err := c.ask(&webhookpb.Command{Body: &webhookpb.Command_Told{Told: &webhookpb.Told{Number: wish.GetNumber()}}})
	return err
}

func (c *courier) remove() error {
	_, err := c.at.Ask(c.ctx, &webhookpb.Command{Id: c.at.ID, Body: &webhookpb.Command_Remove{Remove: &webhookpb.Remove{}}})
	return err
}

// ask gives the entity a command and returns its state.
func (c *courier) ask(command *webhookpb.Command) (*webhookpb.State, error) {
	command.Id = c.at.ID
	answer, err := c.at.Ask(c.ctx, command)
	if err != nil {
		return nil, err
	}
	reply, _ := answer.(*webhookpb.Reply)
	c.learn(reply.GetState())
	return reply.GetState(), nil
}

const forever = 1 << 62

// look reads what is to be done; if that is nothing the courier rests.
func (c *courier) look() (ended bool, err error) {
	endpoint, err := c.open()
	if err != nil {
		return false, err
	}
	if endpoint == nil {
		return true, c.remove()
	}
	now := time.Now()
	until := now.UnixMilli()
	if !subscription.Active(endpoint.Webhook) {
		until = forever // all that waits has failed
	}
	work, err := entity.Read[*webhookpb.WorkReply](c.ctx, c.couriers.config.Client, &webhookpb.WorkQuery{
		Id: c.at.ID, Until: until, Limit: maxHeld / 2, SettledBefore: now.Add(-c.couriers.config.Keep).UnixMilli(),
	})
	if kit.IsCode(err, failurepb.Code_NOT_FOUND) {
		return true, nil // it was removed
	}
	if err != nil {
		return false, err
	}
	state := work.GetState()
	c.learn(state)
	if endpoint.GetGeneration() > state.GetGeneration() {
		command := subscription.Changed(endpoint.Webhook)
		if state, err = c.ask(command); err != nil {
			return false, err
		}
	}
	if err = c.carryOut(state); err != nil {
		return false, err
	}
	if err = c.trim(work); err != nil {
		return false, err
	}
	c.held, c.behind = append(c.held, work.GetDue()...), len(work.GetDue()) > 0
	if c.behind {
		return false, nil
	}
	return c.rest(work)
}

// trim removes what is old.
func (c *courier) trim(work *webhookpb.WorkReply) error {
	due := work.GetState().GetTrimAt()
	if due == 0 || due > time.Now().UnixMilli() {
		return nil
	}
	_, err := c.ask(&webhookpb.Command{Body: &webhookpb.Command_Trim{Trim: &webhookpb.Trim{
		Revision: work.GetState().GetRevision(), Marks: work.GetOld(), More: len(work.GetOld()) > 0,
	}}})
	return err
}

// rest ends the courier's work until something is due, unless something has happened meanwhile.
func (c *courier) rest(work *webhookpb.WorkReply) (ended bool, err error) {
	state, err := c.ask(&webhookpb.Command{Body: &webhookpb.Command_Rest{Rest: &webhookpb.Rest{
		Seq: work.GetState().GetLastSeq(), LookAt: work.GetNextAt(),
	}}})
	if err != nil {
		return false, err
	}
	if state.GetLooking() {
		c.behind = true
		return false, nil
	}
	return c.couriers.leave(c), nil
}

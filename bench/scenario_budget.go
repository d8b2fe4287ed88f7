package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// What bench-priced of people.yaml costs, in nano-dollars a token, and how much output a node meters at once
// (turn.meter_tokens).
const (
	inputNano  = 1_000
	outputNano = 10_000
	meterStep  = 256 * outputNano
)

// firstBudget is the budget that the conversation begins with, in nano-dollars: some ten turns.
const firstBudget = 20 * meterStep

// budgetRun is many callers that send to one conversation, and raise its budget when it is reached.
type budgetRun struct {
	nodeClient

	options *Options
	live    *progress
	id      string
	money   sync.RWMutex // held while the budget that was reached is raised and the cut turn continued; read-held by senders

	mu struct {
		sync.Mutex
		random                              *rand.Rand
		sent, accepted                      int
		reached, refused, raised, continued int
		unknown                             int // attempts with an unknown outcome
		tally                               *tally
	}
}

// runBudget sends -count messages to one conversation whose budget is reached again and again, while owners are killed.
// At the end the log is checked against the budget, and against what the model charged.
func runBudget(ctx context.Context, o *Options, live *progress) (*Report, error) {
	if o.cluster == nil {
		return nil, errOwnNodes
	}
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	o.Seed = cmp.Or(o.Seed, rand.Uint64())
	r := &budgetRun{nodeClient: nodeClient{c}, options: o, live: live}
	r.mu.random, r.mu.tally = rand.New(rand.NewPCG(o.Seed, 3)), newTally()
	r.id, err = r.createWith(o.Agent, map[string]any{"budget": budgetOf(firstBudget)})
	if err != nil {
		return nil, err
	}
	live.phase("sending")
	began := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var callers sync.WaitGroup
	for range o.Concurrency {
		callers.Go(func() {
			if failed := r.sendAll(ctx); failed != nil {
				cancel(failed)
			}
		})
	}
	story, err := r.killOwners(ctx)
	callers.Wait()
	if err = cmp.Or(context.Cause(ctx), err); err != nil {
		return nil, err
	}
	took := time.Since(began)
	report := newReport(o, r.mu.tally, took)
	report.Seed, report.Story = o.Seed, story
	return report, r.audit(ctx, report)
}

func budgetOf(nano int64) map[string]any {
	return map[string]any{"maxCostUsd": float64(nano) / 1e9, "onReach": "pause"}
}

// draw returns a random number below n.
func (r *budgetRun) draw(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.random.IntN(n)
}

func (r *budgetRun) count(what *int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*what++
}

// next returns the number of the next message, and the length of its answer: mostly short, sometimes more than a
// metering step or two.
func (r *budgetRun) next() (n, say int, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.sent == r.options.Count {
		return 0, 0, false
	}
	r.mu.sent++
	say = 1 + r.mu.random.IntN(40)
	if r.mu.random.IntN(10) == 0 {
		say = 200 + r.mu.random.IntN(600)
	}
	return r.mu.sent, say, true
}

func (r *budgetRun) sendAll(ctx context.Context) error {
	for ctx.Err() == nil {
		n, say, more := r.next()
		if !more {
			return nil
		}
		began := time.Now()
		if err := r.send(ctx, n, say); err != nil {
			return fmt.Errorf("message %d: %w", n, err)
		}
		r.mu.Lock()
		r.mu.accepted++
		r.mu.tally.add(nil, time.Since(began))
		r.mu.Unlock()
		r.live.count(nil)
	}
	return nil
}

// send sends one message until it is accepted. Each attempt has its own account with the model, because an attempt with
// an unknown outcome may have been accepted.
func (r *budgetRun) send(ctx context.Context, n, say int) error {
	deadline := time.Now().Add(r.options.Timeout)
	host := r.draw(len(r.hosts))
	for attempt := 1; time.Now().Before(deadline) && ctx.Err() == nil; attempt++ {
		var answer turnAnswer
		text := fmt.Sprintf("case=m%d_%d say=%d pace=1ms", n, attempt, say)
		r.money.RLock()
		_, err := r.attempt(host, &request{
			method: "POST", path: "/conversations/" + r.id + "/messages", body: message(text), want: 200,
			read: func(text []byte) error { return json.Unmarshal(text, &answer) },
		})
		r.money.RUnlock()
		var failed *callError
		switch {
		case err == nil:
			return r.judge(ctx, &answer)
		case !errors.As(err, &failed):
			return err
		case failed.Status == 402:
			r.count(&r.mu.refused)
			if err = r.refill(ctx, false); err != nil {
				return err
			}
		case failed.Code == codeBusy:
			sleepUntil(ctx, time.Now().Add(time.Duration(1+r.draw(10))*time.Millisecond))
		case failed.Status == 0 || failed.Status == 503:
			r.count(&r.mu.unknown)
			host = (host + 1) % len(r.hosts)
			sleepUntil(ctx, time.Now().Add(firstRetryPause))
		default:
			return err
		}
	}
	return cmp.Or(ctx.Err(), errors.New("nobody takes it"))
}

// judge handles the end of a turn: every other one that the budget cut is continued once the budget is raised.
// Sometimes the budget is raised while a turn runs.
func (r *budgetRun) judge(ctx context.Context, answer *turnAnswer) error {
	switch answer.StopReason {
	case "end_turn":
		if r.draw(20) > 0 {
			return nil
		}
		return r.raise(math.MaxInt64)
	case "budget_reached":
		r.count(&r.mu.reached)
		return r.refill(ctx, r.draw(2) == 0)
	default:
		return fmt.Errorf("the turn ended %q", answer.StopReason)
	}
}

// refill raises a budget that was reached, while no caller sends, and may continue the turn that it cut.
func (r *budgetRun) refill(ctx context.Context, proceed bool) error {
	r.money.Lock()
	defer r.money.Unlock()
	err := r.raise(meterStep)
	if err == nil && proceed {
		err = r.proceed(ctx)
	}
	return err
}

// raise raises the budget unless more than enough of it is left.
func (r *budgetRun) raise(enough int64) error {
	found, err := r.read(0, r.id)
	if err != nil {
		return err
	}
	spent, limit := nanoOf(found.Conversation.SpentUSD), nanoOf(found.Conversation.Budget.MaxCostUSD)
	if limit-spent > enough {
		return nil // another caller has raised it already
	}
	more := limit + int64(1+r.draw(10))*meterStep
	body, err := json.Marshal(map[string]any{"budget": budgetOf(more)})
	if err != nil {
		return fmt.Errorf("raise budget: %w", err)
	}
	if _, err = r.any(0, &request{method: "PATCH", path: "/conversations/" + r.id, body: body, want: 200}); err != nil {
		return fmt.Errorf("raise budget from %d to %d, spent %d: %w", limit, more, spent, err)
	}
	r.count(&r.mu.raised)
	return nil
}

// proceed continues the turn that was cut, if no other came in between.
func (r *budgetRun) proceed(ctx context.Context) error {
	_, err := r.attempt(r.draw(len(r.hosts)), &request{method: "POST", path: "/conversations/" + r.id + "/continue", want: 200})
	var failed *callError
	switch {
	case err == nil:
		r.count(&r.mu.continued)
		return nil
	case errors.As(err, &failed) && (failed.Status == 0 || failed.Status == 503 || failed.Status == 409 || failed.Status == 402):
		return ctx.Err() // the message itself was accepted
	default:
		return fmt.Errorf("continue: %w", err)
	}
}

// killOwners kills the conversation's owner after every so many messages, at some point of a turn.
func (r *budgetRun) killOwners(ctx context.Context) ([]string, error) {
	var story []string
	for kill := range r.options.Faults {
		due := (kill + 1) * r.options.Count / (r.options.Faults + 1)
		for r.takenSoFar() < due {
			if !sleepUntil(ctx, time.Now().Add(2*time.Millisecond)) {
				return story, nil
			}
		}
		sleepUntil(ctx, time.Now().Add(time.Duration(r.draw(100))*time.Millisecond))
		name, err := r.ownerOfAny(r.id)
		if err != nil {
			return story, err
		}
		victim := r.options.cluster.Node(name)
		if victim == nil {
			return story, fmt.Errorf("the conversation is served by %q, which is no node of this run", name)
		}
		at := time.Now()
		if err = victim.Kill(); err == nil {
			err = victim.Start(ctx)
		}
		if err == nil {
			err = r.options.cluster.settle(ctx, settleWithin)
		}
		if err != nil {
			return story, cmp.Or(context.Cause(ctx), err)
		}
		story = append(story, fmt.Sprintf("%s killed %s after %d messages", at.Format("15:04:05.000"), name, r.takenSoFar()))
	}
	return story, nil
}

func (r *budgetRun) takenSoFar() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.accepted
}

// audit waits until nothing is running, and checks the results.
func (r *budgetRun) audit(ctx context.Context, report *Report) error {
	found, err := r.awaitIdle(ctx, 0, r.id)
	if err != nil {
		return err
	}
	for r.options.standin.Model.Open() > 0 {
		if !sleepUntil(ctx, time.Now().Add(10*time.Millisecond)) {
			return ctx.Err()
		}
	}
	events, err := r.log(0, r.id)
	if err != nil {
		return err
	}
	book := newMoneyBook(firstBudget)
	for i := range events {
		book.event(&events[i])
	}
	calls := r.options.standin.Model.Calls()
	book.close(calls, nanoOf(found.Conversation.SpentUSD))
	report.Faults = append(report.Faults, book.faults[:min(len(book.faults), 20)]...)
	numbers := map[string]float64{
		"messages": float64(r.mu.accepted), "attempts of unknown outcome": float64(r.mu.unknown), "budget reached": float64(r.mu.reached),
		"refused 402": float64(r.mu.refused), "budget raised": float64(r.mu.raised), "turns continued": float64(r.mu.continued),
		"model calls": float64(len(calls)), "model calls lost or cut": float64(book.open), "turns recovered": float64(book.recovered),
		"spent, USD": float64(book.spent) / 1e9, "the model charged, USD": float64(book.charged) / 1e9,
		"overshoot, largest, metering steps":             max(float64(book.overshoot), 0) / meterStep,
		"charged twice, USD":                             float64(book.twice) / 1e9,
		"kept for a lost or cut call, largest, in steps": float64(book.kept) / meterStep,
	}
	for name, n := range numbers {
		report.Numbers[name] = n
	}
	return nil
}

// nanoOf converts dollars to nano-dollars.
func nanoOf(usd float64) int64 {
	if usd < 0 {
		return int64(usd*1e9 - 0.5)
	}
	return int64(usd*1e9 + 0.5)
}

// caseOf returns the account that a message names, "" = none.
func caseOf(content string) string {
	at := slices.IndexFunc(strings.Fields(content), func(word string) bool { return strings.HasPrefix(word, "case=") })
	if at < 0 {
		return ""
	}
	return strings.TrimPrefix(strings.Fields(content)[at], "case=")
}

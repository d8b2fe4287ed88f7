package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"parley/bench/nodes"
	"parley/bench/standin"
)

const (
	// mostSaid is the most tokens of output that a call of spending asks for.
	mostSaid = 64
	// worthSaid is how many tokens of output must be affordable beside its input, or a call is not made.
	worthSaid = 16
	// budgetPerCall is the budget for each call, in nano-dollars: it does for some three in five.
	budgetPerCall = 200_000
	// spentWithin is how long the usage of a node that was started again may take to be counted.
	spentWithin = 30 * time.Second
)

// spending is many calls at once through all nodes, which share a daily budget.
type spending struct {
	nodeClient

	options *Options
	model   *standin.Server
	key     string // of the model
	limit   int64  // nano-dollars a day

	mu struct {
		sync.Mutex
		random            *rand.Rand
		answered, refused int
		unknown           int   // attempts with an unknown outcome
		acknowledged      int64 // what answered calls cost, as their answers say
		tally             *tally
		faults            []string
	}
}

// runSpending makes -count calls at once against a daily budget that does for a part of them, and kills a node in the middle. Then what
// the survivors, and the node when it is back, say was spent is compared with what was answered and what the model charged.
func runSpending(ctx context.Context, o *Options, live *progress) (*Report, error) {
	if o.cluster == nil || len(o.cluster.Nodes()) < 2 {
		return nil, errors.New("a node is killed and another one asked: -nodes must be at least 2")
	}
	c, err := newClientAPI(o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	o.Seed = cmp.Or(o.Seed, rand.Uint64())
	r := &spending{nodeClient: nodeClient{c}, options: o, limit: int64(max(o.Count, 1)) * budgetPerCall}
	r.mu.random, r.mu.tally = rand.New(rand.NewPCG(o.Seed, 5)), newTally()
	if r.model, err = standin.Start(ctx, 0); err != nil {
		return nil, err
	}
	defer func() { _ = r.model.Close() }() // its error does not matter
	if err = r.prepare(ctx); err != nil {
		return nil, err
	}
	live.phase("calling")
	began := time.Now()
	var callers sync.WaitGroup
	left := make(chan struct{}, max(o.Count, 1))
	for range cap(left) {
		left <- struct{}{}
	}
	close(left)
	for caller := range o.Concurrency {
		callers.Go(func() {
			for range left {
				r.call(ctx, caller)
				live.count(nil)
			}
		})
	}
	victim := o.cluster.Nodes()[r.draw(len(o.cluster.Nodes()))]
	story, err := r.kill(ctx, victim)
	callers.Wait()
	if err != nil {
		return nil, err
	}
	report := newReport(o, r.mu.tally, time.Since(began))
	report.Seed, report.Story = o.Seed, []string{story}
	live.phase("comparing")
	return report, r.audit(ctx, report, victim)
}

// prepare makes the model and the budget, and has every node know both: a call through each of them is answered, and counts.
func (r *spending) prepare(ctx context.Context) (err error) {
	if r.key, err = recordModel(r.client, r.model.ModelURL(), "llm", map[string]any{"inputTokenPer1M": inputNano / 1e3, "outputTokenPer1M": outputNano / 1e3}); err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"daily_limit_usd": float64(r.limit) / 1e9})
	if err == nil {
		err = r.client.call("POST", "/budgets", body, 201, nil)
	}
	if err != nil {
		return fmt.Errorf("POST /budgets: %w", err)
	}
	deadline := time.Now().Add(spentWithin)
	for host := range r.hosts {
		for {
			used, configured, err := r.status(host)
			if err == nil && configured {
				_, err = r.attempt(host, r.request(1, func(cost int64) { r.note(cost, time.Now()) }))
			}
			if err == nil && configured {
				break
			}
			if time.Now().After(deadline) || !sleepUntil(ctx, time.Now().Add(firstRetryPause)) {
				return fmt.Errorf("%s does not know the budget (%d spent): %w", r.hosts[host].Addr, used, err)
			}
		}
	}
	return nil
}

func (r *spending) draw(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.random.IntN(n)
}

// request is a call that says so many tokens. paid is told what the answer says that it took.
func (r *spending) request(say int, paid func(cost int64)) *request {
	return &request{
		method: "POST", path: "/chat/completions", want: 200,
		body: fmt.Appendf(nil, `{"model":%q,"stream":true,"stream_options":{"include_usage":true},"max_tokens":%d,`+
			`"messages":[{"role":"user","content":"case=calls say=%d pace=2ms"}]}`, r.key, mostSaid, say),
		read: func(answer []byte) error {
			usage := answer[max(bytes.LastIndex(answer, []byte(`"usage":{`)), 0):]
			prompt, told := number(usage, `"prompt_tokens":`)
			output, told2 := number(usage, `"completion_tokens":`)
			if !told || !told2 || !bytes.Contains(usage, []byte("data: [DONE]")) {
				return &callError{Code: "stream broke off"} // as if there had been no answer
			}
			paid(costOf(standin.Call{Prompt: int64(prompt), Output: int64(output)}))
			return nil
		},
	}
}

func (r *spending) note(cost int64, began time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.answered++
	r.mu.acknowledged += cost
	r.mu.tally.add(nil, time.Since(began))
}

func (r *spending) fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.mu.faults) < 20 {
		r.mu.faults = append(r.mu.faults, fmt.Sprintf(format, args...))
	}
}

// call makes one call until it is answered or refused, at one node after another.
func (r *spending) call(ctx context.Context, host int) {
	began, say := time.Now(), 1+r.draw(mostSaid)
	for ; ctx.Err() == nil && time.Since(began) < r.options.Timeout; host++ {
		order := r.request(say, func(cost int64) { r.note(cost, began) })
		_, err := r.attempt(host%len(r.hosts), order)
		var failed *callError
		switch {
		case err == nil:
			return
		case errors.As(err, &failed) && failed.Status == 429:
			r.refused(host, failed, order)
			return
		case errors.As(err, &failed) && (failed.Status == 0 || failed.Status >= 500):
			r.mu.Lock()
			r.mu.unknown++
			r.mu.Unlock()
			sleepUntil(ctx, time.Now().Add(firstRetryPause))
		default:
			r.fault("a call failed: %v", err)
			return
		}
	}
	r.fault("a call was not answered within %v", time.Since(began).Round(time.Second))
}

// refused checks that there was not enough money for a call that was refused. What is spent only grows, so what is read now is an upper
// bound of what was spent when it was refused. The call needs its input, of which a token is taken to be 3.5 bytes, and some output.
func (r *spending) refused(host int, said *callError, call *request) {
	used, _, err := r.status(host)
	r.mu.Lock()
	r.mu.refused++
	r.mu.Unlock()
	need := inputNano*(int64(len(call.body))/3) + worthSaid*outputNano
	if err != nil || r.limit-used >= need {
		r.fault("%s while %d nano-dollars of %d were left (%v)", said.Code, r.limit-used, r.limit, err)
	}
}

// status is what was spent today as a node says, or the next one that can.
func (r *spending) status(host int) (used int64, configured bool, err error) {
	var said struct {
		Configured bool `json:"configured"`
		PerDay     struct {
			Used float64 `json:"used_usd"`
		} `json:"per_day"`
	}
	_, err = r.any(host, &request{method: "GET", path: "/budgets/status", want: 200, read: func(text []byte) error { return json.Unmarshal(text, &said) }})
	return nanoOf(said.PerDay.Used), said.Configured, err
}

// kill kills a node once half of the calls that the budget does for are answered.
func (r *spending) kill(ctx context.Context, victim *nodes.Node) (string, error) {
	for {
		r.mu.Lock()
		acknowledged, answered := r.mu.acknowledged, r.mu.answered
		r.mu.Unlock()
		if acknowledged >= r.limit/2 {
			at := time.Now()
			return fmt.Sprintf("%s killed %s after %d answers", at.Format("15:04:05.000"), victim.Name, answered), victim.Kill()
		}
		if !sleepUntil(ctx, time.Now().Add(time.Millisecond)) {
			return "", ctx.Err()
		}
	}
}

// audit compares what was spent with what was answered and what the model charged: at the survivors, and then at all nodes.
func (r *spending) audit(ctx context.Context, report *Report, victim *nodes.Node) error {
	for r.model.Model.Open() > 0 {
		if !sleepUntil(ctx, time.Now().Add(10*time.Millisecond)) {
			return ctx.Err()
		}
	}
	var charged int64
	for _, call := range r.model.Model.Calls() {
		charged += costOf(call)
	}
	spent := r.compare("after the kill", func(n *nodes.Node) bool { return n != victim })
	if err := victim.Start(ctx); err != nil {
		return err
	}
	if err := r.options.cluster.settle(ctx, settleWithin); err != nil {
		return err
	}
	again := r.compare("with the node back", func(*nodes.Node) bool { return true })
	booked := r.booked(ctx, charged)
	if r.mu.refused == 0 {
		r.fault("nothing was refused: the budget was not reached")
	}
	if again < spent {
		r.fault("%d nano-dollars were spent, and then %d", spent, again)
	}
	report.Faults = append(report.Faults, r.mu.faults...)
	for name, n := range map[string]float64{
		"answered": float64(r.mu.answered), "refused": float64(r.mu.refused), "attempts of unknown outcome": float64(r.mu.unknown),
		"daily budget, USD": float64(r.limit) / 1e9, "spent, USD": float64(again) / 1e9,
		"answered calls cost, USD":                                float64(r.mu.acknowledged) / 1e9,
		"the model charged, calls of the dead node among it, USD": float64(charged) / 1e9,
		"usage, USD":                                                float64(booked) / 1e9,
		"overspent, metering steps (target 1)":                      max(float64(again-r.limit), 0) / meterStep,
		"left of the budget, USD":                                   max(float64(r.limit-again), 0) / 1e9,
		"answered and not counted by the budget, USD (target 0)":    max(float64(r.mu.acknowledged-again), 0) / 1e9,
		"answered and not counted by the analytics, USD (target 0)": max(float64(r.mu.acknowledged-booked), 0) / 1e9,
	} {
		report.Numbers[name] = n
	}
	return nil
}

// compare checks what these nodes say was spent, and returns the most.
func (r *spending) compare(when string, asked func(*nodes.Node) bool) (most int64) {
	for host, node := range r.options.cluster.Nodes() {
		if !asked(node) {
			continue
		}
		spent, _, err := r.status(host)
		if err != nil || spent < r.mu.acknowledged || spent > r.limit+meterStep {
			r.fault("%s, %s says that %d nano-dollars were spent; calls for %d were answered, the budget is %d (%v)", when, node.Name, spent, r.mu.acknowledged, r.limit, err)
		}
		most = max(most, spent)
	}
	return most
}

// booked waits until every node's analytics have what was answered, and returns the least that one has. None has more than the model charged.
func (r *spending) booked(ctx context.Context, charged int64) int64 {
	deadline := time.Now().Add(spentWithin)
	for {
		least, most, failed := int64(1)<<62, int64(0), error(nil)
		for host := range r.hosts {
			var said struct {
				Totals struct {
					Cost float64 `json:"cost"`
				} `json:"totals"`
			}
			_, err := r.any(host, &request{
				method: "GET", path: "/analytics/usage?model=" + r.key, want: 200, read: func(text []byte) error { return json.Unmarshal(text, &said) },
			})
			failed = cmp.Or(failed, err)
			least, most = min(least, nanoOf(said.Totals.Cost)), max(most, nanoOf(said.Totals.Cost))
		}
		if failed == nil && least >= r.mu.acknowledged && most <= charged {
			return least
		}
		if time.Now().After(deadline) || !sleepUntil(ctx, time.Now().Add(100*time.Millisecond)) {
			r.fault("usage of %d to %d nano-dollars was counted; calls for %d were answered, the model charged %d (%v)", least, most, r.mu.acknowledged, charged, failed)
			return least
		}
	}
}

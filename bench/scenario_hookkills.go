package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	hookConversations = 200
	hookEndpoints     = 20
	hookKillRate      = 40 // turns a second
)

// hookLedger is what every endpoint has heard, each event as it came first.
type hookLedger struct {
	mu    sync.Mutex
	seen  []map[string]struct{} // ids by endpoint
	ends  []map[string][]uint64 // ends of turns by endpoint and conversation, in the order in which they came
	again int                   // events that came again
}

func newHookLedger(endpoints int) *hookLedger {
	l := &hookLedger{}
	for range endpoints {
		l.seen, l.ends = append(l.seen, map[string]struct{}{}), append(l.ends, map[string][]uint64{})
	}
	return l
}

func (l *hookLedger) take(event hookEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, again := l.seen[event.endpoint][event.id]; again {
		l.again++
		return
	}
	l.seen[event.endpoint][event.id] = struct{}{}
	l.ends[event.endpoint][event.conversation] = append(l.ends[event.endpoint][event.conversation], event.end)
}

func (l *hookLedger) heard() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, seen := range l.seen {
		n += len(seen)
	}
	return n
}

// compare counts what is lost, not in the log, or in another order than there.
func (l *hookLedger) compare(log map[string][]uint64) (found hookFaults) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for endpoint, ends := range l.ends {
		for id, heard := range ends {
			if _, is := log[id]; !is {
				found.unknown += len(heard)
			}
		}
		for id, said := range log {
			heard := ends[id]
			if slices.Equal(heard, said) {
				continue
			}
			missing, extra := without(said, heard), without(heard, said)
			found.lost, found.unknown = found.lost+len(missing), found.unknown+len(extra)
			if !slices.Equal(without(said, missing), without(heard, extra)) {
				found.disordered++
			}
			if len(found.examples) < 10 {
				found.examples = append(found.examples, fmt.Sprintf(
					"endpoint %d, %s: %d of %d ends not heard (at %v), %d unknown to the log", endpoint, id, len(missing), len(said), places(said, missing), len(extra)))
			}
		}
	}
	return found
}

// hookFaults is how what was heard differs from the logs.
type hookFaults struct {
	lost, unknown, disordered int
	examples                  []string
}

// without is what is in one list and not in another.
func without(all, others []uint64) []uint64 {
	there := make(map[uint64]bool, len(others))
	for _, other := range others {
		there[other] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(one uint64) bool { return there[one] })
}

func places(all, of []uint64) (at []int) {
	for _, one := range of {
		at = append(at, slices.Index(all, one))
	}
	return at
}

// runHookKills kills random nodes while conversations run and endpoints listen. Every end of a turn that the log knows must be heard by
// every endpoint, no other, and in the log's order within each conversation.
func runHookKills(ctx context.Context, o *Options, live *progress) (*Report, error) {
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	ledger := newHookLedger(hookEndpoints)
	r, err := newHookReceiver(ctx, hookEndpoints, ledger.take)
	if err != nil {
		return nil, err
	}
	defer r.close()
	tenants, err := hookTenants(ctx, o, r, hookEndpoints)
	if err != nil {
		return nil, err
	}
	h := tenants[0]
	many := o.Records
	if many == 0 {
		many = hookConversations
	}
	ids, err := h.sessions(ctx, live, many)
	if err != nil {
		return nil, err
	}
	rate := o.Rate
	if rate == 0 {
		rate = hookKillRate
	}
	var acked atomic.Int64
	refused := struct {
		sync.Mutex
		by map[string]int
	}{by: map[string]int{}}
	talking, stop := context.WithCancel(ctx)
	defer stop()
	var talks sync.WaitGroup
	start := time.Now()
	every := time.Duration(float64(many) / rate * float64(time.Second))
	for i, id := range ids {
		talks.Go(func() {
			for n := 0; sleepUntil(talking, start.Add(time.Duration(n)*every+time.Duration(i)*every/time.Duration(many))); n++ {
				_, failed := h.api.attempt((i+n)%len(h.api.hosts), &request{
					method: "POST", path: "/agents/responses", body: h.turnBody(id), want: 200, read: answered,
				})
				live.count(failed)
				if failed == nil {
					acked.Add(1)
					continue
				}
				refused.Lock()
				refused.by[failed.Error()]++
				refused.Unlock()
			}
		})
	}
	k := &hookKiller{cluster: o.cluster, random: rand.New(rand.NewPCG(o.Seed, 0))}
	killed := k.run(ctx, live, start.Add(o.Duration))
	stop()
	talks.Wait()
	took := time.Since(start)
	if killed == nil {
		killed = o.cluster.settle(ctx, settleWithin)
	}
	if killed != nil {
		return nil, killed
	}
	report := newReport(o, newTally(), took)
	report.OK, report.PerSecond, report.Seed, report.Story, report.Latencies = acked.Load(), float64(acked.Load())/took.Seconds(), o.Seed, k.story, nil
	for what, n := range refused.by {
		report.Numbers["turns without an answer, "+what] = float64(n)
	}
	return report, h.audit(ctx, live, report, ids, ledger)
}

// audit compares what was heard with the logs, once nothing is under way.
func (h *hookTenant) audit(ctx context.Context, live *progress, report *Report, ids []string, ledger *hookLedger) error {
	live.phase("reading logs")
	log := make(map[string][]uint64, len(ids))
	total := 0
	for _, id := range ids {
		ends, err := h.idleEnds(ctx, id)
		if err != nil {
			return fmt.Errorf("log of %s: %w", id, err)
		}
		log[id] = ends
		total += len(ends)
	}
	live.phase("waiting for what was told")
	want := total * len(ledger.seen)
	for last, quiet := 0, time.Now(); ledger.heard() < want && time.Since(quiet) < 90*time.Second; {
		if now := ledger.heard(); now != last {
			last, quiet = now, time.Now()
		}
		if !sleepUntil(ctx, time.Now().Add(100*time.Millisecond)) {
			return ctx.Err()
		}
	}
	found := ledger.compare(log)
	report.Numbers["turns' ends in the logs"], report.Numbers["events heard"] = float64(total), float64(ledger.heard())
	report.Numbers["events heard again"] = float64(ledger.again)
	report.Numbers["lost (target 0)"], report.Numbers["unknown to the log (target 0)"] = float64(found.lost), float64(found.unknown)
	report.Numbers["conversations in another order (target 0)"] = float64(found.disordered)
	report.Faults = append(report.Faults, found.examples...)
	if found.unknown > 0 && len(found.examples) == 0 { // of conversations that have no log
		report.Faults = append(report.Faults, fmt.Sprintf("%d ends of turns of unknown conversations were heard", found.unknown))
	}
	if int64(total) < report.OK {
		report.Faults = append(report.Faults, fmt.Sprintf("%d turns were answered, the logs know of %d", report.OK, total))
	}
	return nil
}

// idleEnds is the ends of a conversation's turns, once none is under way.
func (h *hookTenant) idleEnds(ctx context.Context, id string) ([]uint64, error) {
	deadline := time.Now().Add(settleWithin)
	for {
		ends, idle, err := h.ends(id)
		if err == nil && idle {
			return ends, nil
		}
		if err == nil {
			err = errors.New("a turn is under way")
		}
		if time.Now().After(deadline) || !sleepUntil(ctx, time.Now().Add(100*time.Millisecond)) {
			return nil, err
		}
	}
}

func (h *hookTenant) ends(id string) (ends []uint64, idle bool, err error) {
	idle = true
	for after, more := uint64(0), true; more; {
		err = h.api.call("GET", fmt.Sprintf("/agents/sessions/%s/events?limit=1000&after=%d", id, after), nil, 200, func(answer []byte) error {
			var page struct {
				Data []struct {
					Seq       uint64
					Type      string
					CreatedAt string `json:"created_at"`
					Data      struct {
						StopReason string `json:"stop_reason"`
					}
				}
				HasMore bool `json:"has_more"`
			}
			if failed := json.Unmarshal(answer, &page); failed != nil {
				return failed
			}
			for _, event := range page.Data {
				after = event.Seq
				switch event.Type {
				case "session.status_running", "user.message":
					idle = false
				case "session.status_idle":
					idle = true
					ends = append(ends, turnEnd(event.CreatedAt, event.Data.StopReason))
				}
			}
			more = page.HasMore
			return nil
		})
		if err != nil {
			return nil, false, err
		}
	}
	return ends, idle, nil
}

// hookKiller kills random nodes and starts them again.
type hookKiller struct {
	cluster *cluster
	random  *rand.Rand
	story   []string
}

func (k *hookKiller) run(ctx context.Context, live *progress, until time.Time) error {
	between := func(least, most time.Duration) time.Time {
		return time.Now().Add(least + time.Duration(k.random.Int64N(int64(most-least))))
	}
	for n := 1; ; n++ {
		live.phase(fmt.Sprintf("kill %d", n))
		at := between(2*time.Second, 8*time.Second)
		if at.After(until) {
			sleepUntil(ctx, until)
			return ctx.Err()
		}
		if !sleepUntil(ctx, at) {
			return ctx.Err()
		}
		all := k.cluster.Nodes()
		victim := all[k.random.IntN(len(all))]
		k.story = append(k.story, time.Now().Format("15:04:05.000 ")+"kill "+victim.Name)
		if err := victim.Kill(); err != nil {
			return err
		}
		sleepUntil(ctx, between(0, 4*time.Second))
		if err := victim.Start(ctx); err != nil {
			return err
		}
	}
}

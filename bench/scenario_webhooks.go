package bench

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// hookPart is one of the scenarios of webhooks.
type hookPart struct {
	name    string
	nodes   int
	environ []string // of the nodes
	run     func(context.Context, *Options, *progress) (*Report, error)
}

func hookParts() []hookPart {
	return []hookPart{
		{"cost", 1, nil, runHookCost},
		{"latency", 3, nil, runHookLatency},
		{"rate", 1, nil, runHookRate},
		{"dead", 1, []string{"WEBHOOK_TIMEOUT_MS=1000"}, runHookDead},
		{"kills", 3, nil, runHookKills},
		{"burst", 1, []string{"WEBHOOK_TIMEOUT_MS=1000", "WEBHOOK_RETRY_SCHEDULE_SECONDS=5,5,5,5,10,10,10"}, runHookBurst},
	}
}

// hookPartOf is the part that -scenario names.
func hookPartOf(o *Options) (hookPart, error) {
	var names []string
	for _, part := range hookParts() {
		if part.name == o.Scenario {
			return part, nil
		}
		names = append(names, part.name)
	}
	return hookPart{}, fmt.Errorf("-scenario must be one of %s", strings.Join(names, ", "))
}

// hookOptions sets what the part of webhooks asks for.
func (o *Options) hookOptions(s scenario, placed bool) error {
	if s.world != worldHooks {
		return nil
	}
	part, err := hookPartOf(o)
	if err != nil {
		return err
	}
	if !placed {
		o.Nodes = part.nodes
	}
	o.environ = append(part.environ, hookSecret)
	return nil
}

// runWebhooks measures what events cost and how they come to their receivers, which are on this machine, in this process.
func runWebhooks(ctx context.Context, o *Options, live *progress) (*Report, error) {
	part, err := hookPartOf(o)
	if err != nil {
		return nil, err
	}
	if o.cluster == nil {
		return nil, errOwnNodes
	}
	return part.run(ctx, o, live)
}

const idled = "session.idled"

// hookTenants makes tenants with endpoints that hear a type of events; the endpoints are numbered through all of them.
func hookTenants(ctx context.Context, o *Options, r *hookReceiver, each ...int) (all []*hookTenant, err error) {
	number := 0
	for i, endpoints := range each {
		h, err := newHookTenant(ctx, o, fmt.Sprintf("hooks-%d", i))
		if err != nil {
			return nil, err
		}
		for range endpoints {
			if err = h.hear(r, number, idled); err != nil {
				return nil, err
			}
			number++
		}
		if err = h.known(ctx); err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	return all, nil
}

// runHookCost compares turns that nobody is told of with turns that one endpoint is told of, slice by slice. A slice of told turns
// has not ended before its receiver has heard of all of them. Turns whose receiver answers nothing show what they cost
// without the attempts.
func runHookCost(ctx context.Context, o *Options, live *progress) (*Report, error) {
	r, err := newHookReceiver(ctx, 2, nil)
	if err != nil {
		return nil, err
	}
	defer r.close()
	r.silent[1].Store(true)
	tenants, err := hookTenants(ctx, o, r, 0, 1, 1)
	if err != nil {
		return nil, err
	}
	var told atomic.Int64
	rivals := []*rival{{name: "untold"}, {name: "told"}, {name: "told, without the attempts"}}
	const each = 4
	for i, one := range rivals {
		ids, failed := tenants[i].sessions(ctx, live, each*o.Concurrency)
		if failed != nil {
			return nil, failed
		}
		one.op = func(caller, n int) error {
			failed := tenants[i].turn(ids[caller*each+n%each])
			if failed == nil && i == 1 {
				told.Add(1)
			}
			return failed
		}
	}
	rivals[1].settle = func() { r.awaitPosts(ctx, told.Load(), time.Minute) }
	if err = contest(ctx, o, live, rivals); err != nil {
		return nil, err
	}
	report := contestReport(o, rivals)
	cost := func(one *rival) float64 { return one.cpu / float64(max(one.total.ok, 1)) }
	for i, name := range map[int]string{1: "told over untold", 2: "told over untold, without the attempts"} {
		name = "processor time, " + name
		lower, median, upper := rivals[i].cost(rivals[0])
		report.Numbers[name+" (target 1.15)"] = cost(rivals[i]) / cost(rivals[0])
		report.Numbers[name+", of neighbouring slices: lower quartile"] = lower
		report.Numbers[name+", of neighbouring slices: median"] = median
		report.Numbers[name+", of neighbouring slices: upper quartile"] = upper
	}
	if heard := r.posts.Load(); heard < told.Load() {
		report.Faults = append(report.Faults, fmt.Sprintf("%d turns were told of, %d were heard of", told.Load(), heard))
	}
	return report, nil
}

// runHookLatency measures from an event's time, which is before its turn's end is stored, to its receiver, when there is nothing
// else to do: with an endpoint that was just told of something, and with one at rest.
func runHookLatency(ctx context.Context, o *Options, live *progress) (*Report, error) {
	heard := make(chan hookEvent, 1)
	r, err := newHookReceiver(ctx, 1, func(event hookEvent) { heard <- event })
	if err != nil {
		return nil, err
	}
	defer r.close()
	tenants, err := hookTenants(ctx, o, r, 1)
	if err != nil {
		return nil, err
	}
	const conversations = 24
	ids, err := tenants[0].sessions(ctx, live, conversations)
	if err != nil {
		return nil, err
	}
	report := newReport(o, newTally(), time.Second)
	delete(report.Latencies, "request")
	began := time.Now()
	count := o.Count
	if count == 0 {
		count = 200
	}
	// A courier stays for half a second: more than that in between, and there is none.
	for name, pause := range map[string]time.Duration{"busy endpoint": 100 * time.Millisecond, "endpoint at rest": 700 * time.Millisecond} {
		live.phase(name)
		own := newTally()
		for n := range count + conversations { // each conversation once before it counts
			if err = tenants[0].turn(ids[n%conversations]); err != nil {
				return nil, err
			}
			select {
			case event := <-heard:
				if n >= conversations {
					own.add(nil, event.heard.Sub(event.told))
				}
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(o.Timeout):
				report.Faults = append(report.Faults, "an event was not heard of")
				return report, nil
			}
			live.count(nil)
			wait := pause
			if n < conversations {
				wait = 0
			}
			sleepUntil(ctx, time.Now().Add(wait))
		}
		report.OK += own.ok
		measured := latency(own.latency)
		report.Latencies[name] = measured
		report.Numbers[name+": p50 ms (target 5)"], report.Numbers[name+": p99 ms (target 50)"] = measured.P50, measured.P99
	}
	report.Seconds = time.Since(began).Seconds()
	report.PerSecond = float64(report.OK) / report.Seconds
	return report, nil
}

// hookLoad has turns of several tenants in progress, as fast as their events are heard of: never more than ahead are not.
type hookLoad struct {
	r       *hookReceiver
	tenants []*hookTenant
	ids     [][]string
	each    int64 // endpoints of a tenant
	ahead   int64
	told    atomic.Int64
}

func (l *hookLoad) op(ctx context.Context) operation {
	return func(caller, n int) error {
		for l.told.Load()-l.r.posts.Load() > l.ahead && sleepUntil(ctx, time.Now().Add(time.Millisecond)) {
		}
		i := (caller + n) % len(l.tenants)
		err := l.tenants[i].turn(l.ids[i][caller])
		if err == nil {
			l.told.Add(l.each)
		}
		return err
	}
}

// runHookRate measures how many deliveries a second come to 64 endpoints that answer at once.
func runHookRate(ctx context.Context, o *Options, live *progress) (*Report, error) {
	const endpoints = 64
	r, err := newHookReceiver(ctx, endpoints, nil)
	if err != nil {
		return nil, err
	}
	defer r.close()
	l := &hookLoad{r: r, each: endpoints / 2, ahead: 4 * endpoints * endpoints}
	if l.tenants, err = hookTenants(ctx, o, r, endpoints/2, endpoints/2); err != nil {
		return nil, err
	}
	own := *o
	own.Concurrency = min(o.Concurrency, 16)
	for _, h := range l.tenants {
		ids, err := h.sessions(ctx, live, own.Concurrency)
		if err != nil {
			return nil, err
		}
		l.ids = append(l.ids, ids)
	}
	var before int64
	var cpu time.Duration
	var began time.Time
	load := &load{options: &own, live: live, op: l.op(ctx), begin: func() {
		before, cpu, began = r.posts.Load(), processorTime(o), time.Now()
	}}
	total, _ := load.run(ctx)
	posts, took := r.posts.Load()-before, time.Since(began)
	cpu = processorTime(o) - cpu
	report := newReport(&own, total, took)
	report.Numbers["deliveries per second (target 3000)"] = float64(posts) / took.Seconds()
	report.Numbers["server CPU us per delivery, turns included"] = float64(cpu.Microseconds()) / float64(max(posts, 1))
	report.Numbers["server cores"] = cpu.Seconds() / took.Seconds()
	live.phase("the rest")
	if told, heard := l.told.Load(), r.awaitPosts(ctx, l.told.Load(), time.Minute); heard < told {
		report.Faults = append(report.Faults, fmt.Sprintf("%d events were told, %d heard", told, heard))
	}
	return report, nil
}

// runHookDead compares the time that 63 endpoints wait for their events while one more answers nothing with that while it is disabled,
// in turns.
func runHookDead(ctx context.Context, o *Options, live *progress) (*Report, error) {
	const endpoints = 64
	alive, dead := newWaits(), newWaits()
	var into atomic.Pointer[waits]
	r, err := newHookReceiver(ctx, endpoints, func(event hookEvent) {
		if w := into.Load(); w != nil && event.endpoint != 0 {
			w.add(event.heard.Sub(event.told))
		}
	})
	if err != nil {
		return nil, err
	}
	defer r.close()
	r.silent[0].Store(true)
	tenants, err := hookTenants(ctx, o, r, endpoints/2, endpoints/2)
	if err != nil {
		return nil, err
	}
	var ids [][]string
	for _, h := range tenants {
		own, failed := h.sessions(ctx, live, o.Concurrency)
		if failed != nil {
			return nil, failed
		}
		ids = append(ids, own)
	}
	own := *o
	if own.Rate == 0 {
		own.Rate = 20
	}
	total := newTally()
	l := &load{options: &own, live: live, op: func(caller, n int) error {
		i := (caller + n) % len(tenants)
		return tenants[i].turn(ids[i][caller])
	}}
	const slices, pause = 6, 2 * time.Second
	began := time.Now()
	for n := range slices {
		status, w := "disabled", alive
		if n%2 == 1 {
			status, w = "active", dead
		}
		body := fmt.Appendf(nil, `{"status":%q}`, status)
		if err = tenants[0].api.call("PATCH", "/webhooks/"+tenants[0].endpoints[0], body, 200, nil); err != nil {
			return nil, err
		}
		live.phase(status)
		l.phase(ctx, time.Now().Add(o.WarmUp), 0)
		into.Store(w)
		total.merge(l.phase(ctx, time.Now().Add(o.Duration/slices), 0))
		sleepUntil(ctx, time.Now().Add(pause)) // what was told in this slice is heard in it
		into.Store(nil)
	}
	report := newReport(&own, total, time.Since(began))
	report.Latencies["63 alive"], report.Latencies["63 alive, one dead"] = alive.latency(), dead.latency()
	report.Numbers["p99, one dead over none (target 1.2)"] = dead.latency().P99 / max(alive.latency().P99, 0.001)
	if _, failing, err := tenants[0].health(tenants[0].endpoints[0]); err != nil || failing == "" {
		report.Faults = append(report.Faults, fmt.Sprintf("the dead endpoint is not seen to fail: %v", err))
	}
	return report, nil
}

// failsWithin bounds the time until an endpoint that does not answer shows as failing.
const failsWithin = 30 * time.Second

// runHookBurst tells an endpoint that does not answer in time of -count events, lets it recover, and accounts for all of them.
func runHookBurst(ctx context.Context, o *Options, live *progress) (*Report, error) {
	heard := struct {
		sync.Mutex
		ids map[string]int
	}{ids: map[string]int{}}
	r, err := newHookReceiver(ctx, 1, func(event hookEvent) {
		heard.Lock()
		defer heard.Unlock()
		heard.ids[event.id]++
	})
	if err != nil {
		return nil, err
	}
	defer r.close()
	r.silent[0].Store(true)
	tenants, err := hookTenants(ctx, o, r, 1)
	if err != nil {
		return nil, err
	}
	h := tenants[0]
	ids, err := h.sessions(ctx, live, 8*o.Concurrency)
	if err != nil {
		return nil, err
	}
	own := *o
	if own.Count == 0 {
		own.Count = 100_000
	}
	memory := watchBurst(ctx, o)
	before := memory.now()
	l := &load{options: &own, live: live, op: func(caller, n int) error { return h.turn(ids[caller*8+n%8]) }}
	own.WarmUp = 0
	total, took := l.run(ctx)
	report := newReport(&own, total, took)
	peak := memory.most()
	live.phase("until the first attempt has failed")
	status, failing, err := h.health(h.endpoints[0])
	for end := time.Now().Add(failsWithin); err == nil && failing == "" && time.Now().Before(end) && sleepUntil(ctx, time.Now().Add(50*time.Millisecond)); {
		status, failing, err = h.health(h.endpoints[0])
	}
	if err != nil || failing == "" {
		report.Faults = append(report.Faults, fmt.Sprintf("the endpoint's health says nothing: %s %v", status, err))
	}
	live.phase("recovering")
	r.silent[0].Store(false)
	recovering := time.Now()
	count := func() int64 {
		heard.Lock()
		defer heard.Unlock()
		return int64(len(heard.ids))
	}
	var last int64
	for quiet := time.Now(); count() < total.ok && time.Since(quiet) < 90*time.Second; {
		if now := count(); now != last {
			last, quiet = now, time.Now()
		}
		if !sleepUntil(ctx, time.Now().Add(50*time.Millisecond)) {
			break
		}
	}
	recovered := time.Since(recovering)
	drained := memory.most()
	failed, err := h.deliveries(h.endpoints[0], "failed", own.Count+1)
	if err != nil {
		return nil, err
	}
	for _, ops := range o.Ops {
		collect(ctx, ops)
	}
	sleepUntil(ctx, time.Now().Add(o.Settle))
	told, delivered := total.ok, count()
	report.Numbers["events"], report.Numbers["heard"], report.Numbers["given up, and listed so"] = float64(told), float64(delivered), float64(failed)
	report.Numbers["heard twice"] = float64(r.posts.Load() - delivered)
	report.Numbers["heard per second once it recovers"] = float64(delivered) / recovered.Seconds()
	report.Numbers["MB resident before"], report.Numbers["MB resident, most during the burst"] = before, peak
	report.Numbers["MB resident, most until all were heard"], report.Numbers["MB resident after"] = drained, memory.now()
	if delivered+int64(failed) < told {
		report.Faults = append(report.Faults, fmt.Sprintf("%d of %d events are neither heard nor listed as failed", told-delivered-int64(failed), told))
	}
	if _, failing, err = h.health(h.endpoints[0]); err != nil || failing != "" {
		report.Faults = append(report.Faults, fmt.Sprintf("the endpoint still counts as failing since %s: %v", failing, err))
	}
	return report, nil
}

// burstMemory looks at the resident memory of the nodes.
type burstMemory struct {
	options *Options
	peak    atomic.Int64
}

func watchBurst(ctx context.Context, o *Options) *burstMemory {
	m := &burstMemory{options: o}
	go func() {
		for sleepUntil(ctx, time.Now().Add(100*time.Millisecond)) {
			m.now()
		}
	}()
	return m
}

// now is in MB.
func (m *burstMemory) now() float64 {
	var sum int64
	for _, n := range m.options.cluster.Nodes() {
		if usage, err := n.Usage(); err == nil {
			sum += usage.RSS
		}
	}
	for {
		peak := m.peak.Load()
		if sum <= peak || m.peak.CompareAndSwap(peak, sum) {
			return float64(sum) / 1e6
		}
	}
}

func (m *burstMemory) most() float64 { return float64(m.peak.Load()) / 1e6 }

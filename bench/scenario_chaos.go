package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"parley/bench/nodes"
)

// runChaos puts a load on nodes while faults are injected, and finally checks everything against the ledger.
func runChaos(ctx context.Context, o *Options, live *progress) (*Report, error) {
	if o.cluster == nil {
		return nil, errOwnNodes
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	if o.Faults == 0 {
		const pace = 8 * time.Second
		o.Faults = max(1, int(o.Duration/pace))
	}
	plan := planFaults(o.Seed, o.Faults, o.Duration, len(o.cluster.Nodes()), faultKinds(o.Network, len(o.cluster.Nodes())))
	c, err := newCrowd(ctx, o, live, cmp.Or(o.Records, 200), func(n int) string {
		if n%10 == 9 {
			return agentBudget
		}
		return ""
	})
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := c.follow(ctx, o.Followers*len(c.ledgers)); err != nil {
		return nil, err
	}
	c.cancels, c.reads = 0.1, 0.1
	start := time.Now()
	c.client.begin(start)
	stop := background(ctx, c.loadOf())
	m := &faultInjector{cluster: o.cluster, live: live}
	m.run(ctx, start, plan)
	sleepUntil(ctx, start.Add(o.Duration))
	m.heal(ctx)
	total := stop()
	report := newReport(o, total, time.Since(start))
	c.client.report(report, time.Now())
	report.Concurrency, report.Seed, report.Story, report.Faults = len(c.ledgers), o.Seed, m.story, m.faults
	report.Numbers["faults made"] = float64(len(plan))
	report.Numbers["conversations"] = float64(len(c.ledgers))
	report.Numbers["followers"] = float64(len(c.watches))
	for why, n := range c.streamEnds() {
		report.Numbers["streams "+why] = float64(n)
	}
	if err := c.lastTurns(ctx); err != nil {
		report.Faults = append(report.Faults, err.Error())
	}
	report.Faults = append(report.Faults, c.audit(ctx)...)
	acknowledged := 0
	for _, l := range c.ledgers {
		acknowledged += len(l.mu.acks)
	}
	report.Numbers["turns acknowledged and found"] = float64(acknowledged)
	excuse(report)
	return report, ctx.Err()
}

// excuse removes unavailability from the errors, since nodes were down, and reports it as a number. Wrong answers stay
// errors.
func excuse(r *Report) {
	for code, n := range r.Errors {
		if strings.HasPrefix(code, "503") || strings.HasPrefix(code, "connection") || code == "timeout" || code == codeBusy {
			r.Numbers["turns given up, "+code] = float64(n)
			delete(r.Errors, code)
		}
	}
}

// lastTurns sends a message to every conversation after the cluster has recovered. One that fails is stuck.
func (c *crowd) lastTurns(ctx context.Context) error {
	c.cancels = 0
	return prepare(ctx, c.live, "last turns", len(c.ledgers), func(n int) error {
		if err := c.ledgers[n].turn(); err != nil {
			c.ledgers[n].fault("stuck: it takes no message after the faults: %v", err)
		}
		return nil
	})
}

// faultInjector injects faults, and reports what it did.
type faultInjector struct {
	cluster *cluster
	live    *progress
	story   []string
	faults  []string
}

func (m *faultInjector) tell(format string, args ...any) {
	m.story = append(m.story, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (m *faultInjector) run(ctx context.Context, start time.Time, plan []planned) {
	for n, p := range plan {
		if !sleepUntil(ctx, start.Add(p.at)) {
			return
		}
		m.live.phase(fmt.Sprintf("fault %d: %s", n+1, p.kind))
		m.tell("%s", p)
		if err := m.make(ctx, p); err != nil {
			m.faults = append(m.faults, fmt.Sprintf("%s: %v", p, err))
		}
		m.live.phase("quiet")
	}
}

// make injects one fault and undoes it. Every node runs when it returns, if it can.
func (m *faultInjector) make(ctx context.Context, p planned) error {
	all := m.cluster.Nodes()
	victim := all[p.victims[0]]
	switch p.kind {
	case killNode, bounceNode, killTwo:
		for _, v := range p.victims {
			if err := all[v].Kill(); err != nil {
				return err
			}
		}
		sleepUntil(ctx, time.Now().Add(p.lasts))
		return m.cluster.Start(ctx)
	case loseDisk:
		return m.loseDisk(ctx, victim, p.lasts)
	case freezeNode:
		if err := victim.Pause(); err != nil {
			return err
		}
		sleepUntil(ctx, time.Now().Add(p.lasts))
		return victim.Resume()
	case restartNode:
		limit, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := victim.Terminate(limit); err != nil {
			return errors.Join(err, victim.Kill(), victim.Start(ctx))
		}
		return victim.Start(ctx)
	default:
		err := m.cut(ctx, p, victim)
		sleepUntil(ctx, time.Now().Add(p.lasts))
		return errors.Join(err, m.cluster.Heal(ctx))
	}
}

// loseDisk removes a node's data. A second disk must not be lost before the first node has recovered, or data would
// really be lost.
func (m *faultInjector) loseDisk(ctx context.Context, victim *nodes.Node, lasts time.Duration) error {
	const patience = 30 * time.Second
	if err := m.cluster.settle(ctx, patience); err != nil {
		m.tell("%s keeps its disk: %v", victim.Name, err)
		return nil
	}
	if err := errors.Join(victim.Kill(), victim.Wipe()); err != nil {
		return err
	}
	sleepUntil(ctx, time.Now().Add(lasts))
	if err := victim.Start(ctx); err != nil {
		return err
	}
	return m.cluster.settle(ctx, settleWithin)
}

func (m *faultInjector) cut(ctx context.Context, p planned, victim *nodes.Node) error {
	all := m.cluster.Nodes()
	if p.kind == isolateNode {
		return m.cluster.Isolate(ctx, victim)
	}
	if p.kind == partNodes {
		other := all[p.victims[1]]
		return errors.Join(m.cluster.Cut(ctx, victim, other), m.cluster.Cut(ctx, other, victim))
	}
	var failed error
	for _, other := range all {
		switch {
		case other == victim:
		case p.kind == muteNode:
			failed = errors.Join(failed, m.cluster.Cut(ctx, victim, other))
		default:
			failed = errors.Join(failed, m.cluster.Cut(ctx, other, victim))
		}
	}
	return failed
}

// heal undoes all remaining faults, and waits until the cluster has settled.
func (m *faultInjector) heal(ctx context.Context) {
	m.live.phase("healing")
	err := m.cluster.Heal(ctx)
	for _, n := range m.cluster.Nodes() {
		if n.Paused() {
			err = errors.Join(err, n.Resume())
		}
	}
	err = errors.Join(err, m.cluster.Start(ctx))
	at := time.Now()
	err = errors.Join(err, m.cluster.settle(ctx, settleWithin))
	if err != nil {
		m.faults = append(m.faults, "after all faults: "+err.Error())
	}
	m.tell("all nodes run; settled after %v", time.Since(at).Round(time.Millisecond))
}

// keep writes what is known about a faulty conversation to a file beside the nodes' logs, and returns its path.
func (c *crowd) keep(l *ledger, events []logEvent) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (agent %s)\n\nits log:\n%s\nwhat was sent:\n", l.id, l.agent, describe(events))
	l.mu.Lock()
	names := []string{"unknown", "refused", "done"}
	for _, text := range slices.Sorted(maps.Keys(l.mu.tries)) {
		fmt.Fprintf(&b, "%s: %s\n", text, names[l.mu.tries[text]])
	}
	b.WriteString("\nwhat was acknowledged:\n")
	for _, ack := range l.mu.acks {
		fmt.Fprintf(&b, "%+v\n", ack)
	}
	l.mu.Unlock()
	path := filepath.Join(c.options.cluster.dir, l.id+".txt")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		return "its history could not be kept: " + err.Error()
	}
	return "its history is in " + path
}

package bench

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"parley/bench/nodes"
)

// background runs a load until the returned function is called, which returns what it measured.
func background(ctx context.Context, l *load) (stop func() *tally) {
	ctx, cancel := context.WithCancel(ctx)
	result := make(chan *tally, 1)
	go func() { result <- l.phase(ctx, time.Time{}, 0) }() // ends with ctx
	return func() *tally {
		cancel()
		return <-result
	}
}

// loadOf is the load of a crowd: as many callers as conversations, each with its own.
func (c *crowd) loadOf() *load {
	o := *c.options
	o.Concurrency, o.Duration, o.Count = len(c.ledgers), 0, 0
	return &load{options: &o, live: c.live, op: c.turn}
}

// runFailover kills the owner of the most conversations, again and again, and times for each of its conversations the
// next accepted command that was sent after the kill, and for each of their followers the next event that was created
// after it.
func runFailover(ctx context.Context, o *Options, live *progress) (*Report, error) {
	if o.cluster == nil {
		return nil, errOwnNodes
	}
	c, err := newCrowd(ctx, o, live, cmp.Or(o.Records, 64), nil)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err = c.follow(ctx, o.Followers*len(c.ledgers)); err != nil {
		return nil, err
	}
	stop := background(ctx, c.loadOf())
	start := time.Now()
	if err = everyTurn(ctx, c); err != nil {
		stop()
		return nil, err
	}
	c.client.begin(time.Now())
	story, err := c.killOwners(ctx, cmp.Or(o.Faults, 10))
	end := time.Now()
	total := stop()
	if err != nil {
		return nil, err
	}
	report := newReport(o, total, time.Since(start))
	report.Concurrency, report.Story = len(c.ledgers), story
	report.Faults = c.audit(ctx)
	report.Latencies["next accepted command"] = latency(c.first.h)
	report.Latencies["next event"] = latency(c.heard.h)
	report.Spreads = append(report.Spreads, newSpread("next accepted command", c.first.h), newSpread("next event", c.heard.h))
	report.Numbers["owners killed"] = float64(len(story))
	c.client.report(report, end)
	return report, ctx.Err()
}

// everyTurn runs one turn in each conversation, so that the owner of each is known.
func everyTurn(ctx context.Context, c *crowd) error {
	return prepare(ctx, c.live, "first turns", len(c.ledgers), func(n int) error { return c.ledgers[n].turn() })
}

func (c *crowd) killOwners(ctx context.Context, kills int) ([]string, error) {
	var story []string
	cluster := c.options.cluster
	for n := range kills {
		c.live.phase(fmt.Sprintf("kill %d of %d", n+1, kills))
		if err := everyTurn(ctx, c); err != nil { // finds the current owners
			return nil, err
		}
		owners := c.owners()
		names := slices.SortedFunc(maps.Keys(owners), func(a, b string) int { return cmp.Or(owners[b]-owners[a], cmp.Compare(a, b)) })
		victim := cluster.Node(names[0])
		if victim == nil {
			return nil, fmt.Errorf("conversations are served by %q, which is no node of this run", names[0])
		}
		at := time.Now()
		if err := victim.Kill(); err != nil {
			return nil, err
		}
		affected, wait := c.ownerKilled(victim.Name, at)
		wait()
		story = append(story, fmt.Sprintf("%s killed %s, which owned %d conversations; all accept commands after %v",
			at.Format("15:04:05.000"), victim.Name, affected, time.Since(at).Round(time.Millisecond)))
		if err := victim.Start(ctx); err != nil {
			return nil, err
		}
		if err := cluster.settle(ctx, settleWithin); err != nil {
			return nil, err
		}
	}
	return story, nil
}

// runRolling restarts all nodes one after another under load and compares latencies with those before.
func runRolling(ctx context.Context, o *Options, live *progress) (*Report, error) {
	if o.cluster == nil {
		return nil, errOwnNodes
	}
	c, err := newCrowd(ctx, o, live, cmp.Or(o.Records, 400), nil)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err = c.follow(ctx, o.Followers); err != nil {
		return nil, err
	}
	if err = everyTurn(ctx, c); err != nil {
		return nil, err
	}
	l := c.loadOf()
	live.phase("before")
	before := l.phase(ctx, time.Now().Add(o.WarmUp), 0)
	c.client.begin(time.Now())
	start := time.Now()
	stop := background(ctx, l)
	story, err := c.restartAll(ctx)
	took := time.Since(start)
	during := stop()
	if err != nil {
		return nil, err
	}
	report := newReport(o, during, took)
	report.Concurrency, report.Story = len(c.ledgers), story
	c.client.report(report, time.Now())
	b, d := latency(before.latency), latency(during.latency)
	report.Latencies = map[string]Latency{"turn before": b, "turn during restarts": d}
	report.Numbers["added latency, p99 ms"] = d.P99 - b.P99
	report.Numbers["added latency, largest ms"] = d.Max - b.Max
	for why, n := range c.streamEnds() {
		report.Numbers["streams "+why] = float64(n)
	}
	report.Faults = c.audit(ctx)
	return report, ctx.Err()
}

func (c *crowd) restartAll(ctx context.Context) ([]string, error) {
	var story []string
	for _, n := range c.options.cluster.Nodes() {
		told, err := c.restart(ctx, n, c.options.cluster.settle)
		if err != nil {
			return nil, err
		}
		story = append(story, told)
	}
	return story, nil
}

// restart stops a node gracefully, starts it again, and waits for the cluster.
func (c *crowd) restart(ctx context.Context, n *nodes.Node, await func(context.Context, time.Duration) error) (story string, err error) {
	c.live.phase("restarting " + n.Name)
	at := time.Now()
	limit, cancel := context.WithTimeout(ctx, time.Minute)
	err = n.Terminate(limit)
	cancel()
	if err != nil {
		return "", err
	}
	stopped := time.Now()
	if err := n.Start(ctx); err != nil {
		return "", err
	}
	ready := time.Now()
	if err := await(ctx, settleWithin); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s restarted %s: stopped after %v, ready after %v more, settled after %v more", at.Format("15:04:05.000"),
		n.Name, stopped.Sub(at).Round(time.Millisecond), ready.Sub(stopped).Round(time.Millisecond), time.Since(ready).Round(time.Millisecond)), nil
}

// runJoin fills a cluster, puts a load on it, adds a node, and waits until the new node serves its share.
func runJoin(ctx context.Context, o *Options, live *progress) (*Report, error) {
	if o.cluster == nil {
		return nil, errOwnNodes
	}
	if err := fill(ctx, o, live); err != nil {
		return nil, err
	}
	c, err := newCrowd(ctx, o, live, cmp.Or(o.Records, 256), nil)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err = everyTurn(ctx, c); err != nil {
		return nil, err
	}
	l := c.loadOf()
	live.phase("before")
	before := l.phase(ctx, time.Now().Add(o.WarmUp), 0)
	c.client.begin(time.Now())
	live.phase("a node joins")
	start := time.Now()
	stop := background(ctx, l)
	joined, err := o.cluster.Add(ctx)
	if err == nil {
		err = joined.Start(ctx)
	}
	ready := time.Since(start)
	var share int
	if err == nil {
		share, err = awaitShare(ctx, o, joined.Name)
	}
	took := time.Since(start)
	during := stop()
	if err != nil {
		return nil, err
	}
	report := newReport(o, during, took)
	c.client.report(report, time.Now())
	b, d := latency(before.latency), latency(during.latency)
	report.Concurrency = len(c.ledgers)
	report.Latencies = map[string]Latency{"turn before": b, "turn meanwhile": d}
	report.Numbers["p99 meanwhile over p99 before"] = d.P99 / b.P99
	report.Numbers["ready after, s"] = ready.Seconds()
	report.Numbers["serving its share after, s"] = took.Seconds()
	report.Numbers["shards it owns"] = float64(share)
	if err := o.cluster.settle(ctx, o.Timeout); err != nil {
		report.Faults = append(report.Faults, err.Error())
	}
	report.Faults = append(report.Faults, c.audit(ctx)...)
	return report, ctx.Err()
}

// fill writes long messages until the cluster holds -state-bytes of state.
func fill(ctx context.Context, o *Options, live *progress) error {
	const (
		messageBytes = 64_000
		writers      = 16
	)
	c, err := newClient(o)
	if err != nil {
		return err
	}
	defer c.close()
	ids, err := conversations(ctx, c, live, 256)
	if err != nil {
		return err
	}
	// Incompressible text; otherwise there would be little state.
	body := []byte(fmt.Sprintf(`{"message":%q,"stream":false}`, noise(messageBytes)))
	turns := int(o.StateBytes / messageBytes)
	var mu sync.Mutex
	next := 0
	limited := *o
	limited.Concurrency, limited.Count, limited.WarmUp, limited.Rate = writers, max(turns, 1), 0, 0
	l := &load{options: &limited, live: live, op: func(int, int) error {
		mu.Lock()
		id := ids[next%len(ids)]
		next++
		mu.Unlock()
		return c.call("POST", "/conversations/"+id+"/messages", body, 200, completed)
	}}
	live.preparing("filling", limited.Count)
	total := l.phase(ctx, time.Time{}, int64(limited.Count))
	if len(total.errors) > 0 {
		return fmt.Errorf("fill with state: %v", total.errors)
	}
	return ctx.Err()
}

// awaitShare waits until a node owns as many shards as the least loaded node of an even spread.
func awaitShare(ctx context.Context, o *Options, name string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	for {
		for _, n := range o.cluster.Nodes() {
			s, err := fetchStatus(ctx, n.OpsURL())
			if err != nil {
				continue
			}
			if owned := s.owned(name); owned > 0 && owned >= len(s.Shards)/len(o.cluster.Nodes()) {
				return owned, nil
			}
		}
		if !sleepUntil(ctx, time.Now().Add(100*time.Millisecond)) {
			return 0, fmt.Errorf("%s does not get its share within %v", name, o.Timeout)
		}
	}
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// runUpgrade restarts all nodes one after another from the program of the release before into this one, back, and into this
// one again, under turns, streams, tasks and background runs. Nothing may fail, and nothing may be lost.
func runUpgrade(ctx context.Context, o *Options, live *progress) (report *Report, err error) {
	if o.cluster == nil || o.From == "" {
		return nil, errors.New("it starts its nodes itself, from the release of -from: -nodes and -from are needed")
	}
	c, err := newCrowd(ctx, o, live, o.Records, nil)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err = c.follow(ctx, o.Followers); err != nil {
		return nil, err
	}
	api, err := newClientAPI(o)
	if err != nil {
		return nil, err
	}
	defer api.close()
	working, stopJobs := context.WithCancel(ctx)
	defer stopJobs()
	work, err := startJobs(working, o, c.client, api)
	if err != nil {
		return nil, err
	}
	defer work.close()
	c.client.begin(time.Now())
	start := time.Now()
	stop := background(ctx, c.loadOf())
	story, err := c.upgrade(ctx)
	took, during := time.Since(start), stop()
	stopJobs()
	work.running.Wait()
	if err != nil {
		return nil, err
	}
	report = newReport(o, during, took)
	report.Concurrency, report.Story = len(c.ledgers), story
	c.client.report(report, time.Now())
	for why, n := range c.streamEnds() {
		report.Numbers["streams "+why] = float64(n)
	}
	report.Faults = c.audit(ctx)
	work.audit(ctx, report)
	return report, ctx.Err()
}

// upgrade brings all nodes into this release, back, and into this release for good. Only then may the feature level rise.
func (c *crowd) upgrade(ctx context.Context) (story []string, err error) {
	cluster := c.options.cluster
	before, err := cluster.levels(ctx)
	if err != nil {
		return nil, err
	}
	for _, pass := range []struct {
		what, binary string
		environ      []string
	}{
		{"upgraded", "", []string{preserveDowngrade}}, {"taken back", c.options.From, nil}, {"upgraded for good", "", nil},
	} {
		for _, n := range cluster.Nodes() {
			n.Binary, n.Environ = pass.binary, pass.environ
			told, failed := c.restart(ctx, n, cluster.replicate)
			if failed != nil {
				return nil, fmt.Errorf("%s: %w", pass.what, failed)
			}
			story = append(story, pass.what+": "+told)
		}
		if err = cluster.settle(ctx, settleWithin); err != nil { // so that every node owns shards in the next pass
			return nil, fmt.Errorf("%s: %w", pass.what, err)
		}
		at, failed := cluster.levels(ctx)
		switch {
		case failed != nil:
			return nil, failed
		case pass.environ != nil && at.cluster != before.cluster:
			return nil, fmt.Errorf("%s: the feature level is %d already, it was %d", pass.what, at.cluster, before.cluster)
		}
	}
	told, err := cluster.levelled(ctx)
	if err != nil || told == before.newest { // the release before has all features as well
		return story, err
	}
	story = append(story, fmt.Sprintf("the feature level is %d, it was %d", told, before.cluster))
	return append(story, "a node of the release before is kept out"), c.keptOut(ctx)
}

// preserveDowngrade keeps the feature level of a cluster down.
const preserveDowngrade = "PARLEY_CLUSTER_PRESERVE_DOWNGRADE=true"

// keptOutFor is how long a node of a release that is too old is watched; others are ready in a tenth of that.
const keptOutFor = 3 * time.Second

// keptOut starts a node with the release before, which must not get ready, and with this one again.
func (c *crowd) keptOut(ctx context.Context) error {
	cluster := c.options.cluster
	n := cluster.Nodes()[len(cluster.Nodes())-1]
	limit, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := n.Terminate(limit); err != nil {
		return err
	}
	n.Binary = c.options.From
	if err := n.Launch(); err != nil { //nolint:contextcheck // a process outlives the call that starts it
		return err
	}
	for end := time.Now().Add(keptOutFor); time.Now().Before(end) && sleepUntil(ctx, time.Now().Add(50*time.Millisecond)); {
		if n.Ready(ctx) {
			return fmt.Errorf("%s is taken in with the release before, which lacks features in use", n.Name)
		}
	}
	if err := n.Kill(); err != nil {
		return err
	}
	n.Binary = ""
	if err := n.Start(ctx); err != nil {
		return err
	}
	return cluster.settle(ctx, settleWithin)
}

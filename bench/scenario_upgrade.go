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

// upgrade brings all nodes into this release, back, and into this release for good.
func (c *crowd) upgrade(ctx context.Context) (story []string, err error) {
	cluster := c.options.cluster
	for _, pass := range []struct{ what, binary string }{
		{"upgraded", ""}, {"taken back", c.options.From}, {"upgraded for good", ""},
	} {
		for _, n := range cluster.Nodes() {
			n.Binary = pass.binary
			told, failed := c.restart(ctx, n, cluster.replicate)
			if failed != nil {
				return nil, fmt.Errorf("%s: %w", pass.what, failed)
			}
			story = append(story, pass.what+": "+told)
		}
		if err = cluster.settle(ctx, settleWithin); err != nil { // so that every node owns shards in the next pass
			return nil, fmt.Errorf("%s: %w", pass.what, err)
		}
	}
	return story, nil
}

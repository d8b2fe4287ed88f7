package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errOwnNodes is the error of scenarios that need to control the nodes.
var errOwnNodes = errors.New("this takes nodes that the harness starts itself: -nodes")

// runIdle measures the resource usage of idle nodes.
func runIdle(ctx context.Context, o *Options, live *progress) (*Report, error) {
	if o.cluster == nil {
		return nil, errOwnNodes
	}
	live.phase("waiting for quiet")
	if !sleepUntil(ctx, time.Now().Add(o.Settle)) {
		return nil, ctx.Err()
	}
	live.measuring(o)
	all := o.cluster.Nodes()
	before := make([]time.Duration, len(all))
	for i, n := range all {
		usage, err := n.Usage()
		if err != nil {
			return nil, err
		}
		before[i] = usage.CPU
	}
	start := time.Now()
	if !sleepUntil(ctx, start.Add(o.Duration)) {
		return nil, ctx.Err()
	}
	took := time.Since(start)
	report := newReport(o, newTally(), took)
	report.Latencies, report.Concurrency = nil, 0
	var sum, most float64
	for i, n := range all {
		usage, err := n.Usage()
		if err != nil {
			return nil, err
		}
		cores := (usage.CPU - before[i]).Seconds() / took.Seconds()
		sum += cores
		most = max(most, float64(usage.RSS)/1e6)
		report.Numbers[fmt.Sprintf("%s: cores", n.Name)] = cores
		report.Numbers[fmt.Sprintf("%s: MB resident", n.Name)] = float64(usage.RSS) / 1e6
	}
	report.Numbers["cores of all nodes together"] = sum
	report.Numbers["MB resident of the largest"] = most
	report.OK = int64(len(all))
	return report, nil
}

package bench

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// ordinary returns a message of ordinary length.
func ordinary() []byte {
	const times = 4
	return message(strings.TrimSpace(strings.Repeat("a question of ordinary length, such as people ask of an assistant. ", times)))
}

// runLong sends one more message to a conversation of -messages messages, and a first and a tenth one to others, in turn.
func runLong(ctx context.Context, o *Options, live *progress) (*Report, error) {
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	a := nodeClient{c}
	before := heap(ctx, o)
	long, err := a.createWith(o.Agent, nil)
	if err != nil {
		return nil, err
	}
	live.preparing("writing messages", o.Messages/2)
	body := ordinary()
	began := time.Now()
	for range o.Messages / 2 {
		if err = c.call("POST", "/conversations/"+long+"/messages", body, 200, completed); err != nil {
			return nil, err
		}
		live.count(nil)
	}
	wrote := time.Since(began)
	grown := heap(ctx, o)
	live.phase("measuring")
	total, one, other, full := newTally(), newHistogram(), newHistogram(), newHistogram()
	// A conversation that just fills the window: the difference from it is what the history beyond the window costs.
	const windowful = 60
	short, err := a.createWith(o.Agent, nil)
	for range windowful {
		if err == nil {
			err = c.call("POST", "/conversations/"+short+"/messages", body, 200, completed)
		}
	}
	began = time.Now()
	for n := 0; n < o.Count && err == nil && ctx.Err() == nil; n++ {
		var fresh string
		if fresh, err = a.createWith(o.Agent, nil); err != nil {
			break
		}
		for id, h := range map[string]interface{ RecordValue(int64) error }{long: one, fresh: other, short: full} {
			at := time.Now()
			if err = c.call("POST", "/conversations/"+id+"/messages", body, 200, completed); err != nil {
				break
			}
			took := time.Since(at)
			total.add(nil, took)
			_ = h.RecordValue(max(took.Microseconds(), 1)) // a call of a minute would have failed
		}
	}
	if err != nil {
		return nil, err
	}
	report := newReport(o, total, time.Since(began))
	report.Latencies = map[string]Latency{
		fmt.Sprintf("one more to %d messages", o.Messages): latency(one), "the first of a new one": latency(other),
		"one more to a full window": latency(full),
	}
	report.Numbers["long over new, p50"] = latency(one).P50 / latency(other).P50
	report.Numbers["long over new, mean"] = latency(one).Mean / latency(other).Mean
	report.Numbers["long over full window, p50"] = latency(one).P50 / latency(full).P50
	report.Numbers["writing it, turns per second"] = float64(o.Messages/2) / wrote.Seconds()
	report.Numbers["heap before, MB"], report.Numbers["heap after writing it, MB"] = before/1e6, grown/1e6
	report.Numbers["heap at the end, MB"] = heap(ctx, o) / 1e6
	return report, ctx.Err()
}

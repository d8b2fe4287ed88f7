package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// names asks every node for its own name: the list of agents is always answered locally.
func (c *client) names() ([]string, error) {
	var names []string
	for host := range c.hosts {
		by, err := c.attempt(host, &request{method: "GET", path: "/agents", want: 200})
		if err != nil {
			return nil, fmt.Errorf("ask %s for its name: %w", c.options.URLs[host], err)
		}
		if by == "" {
			return nil, fmt.Errorf("%s does not say who served a request (X-Served-By)", c.options.URLs[host])
		}
		names = append(names, by)
	}
	return names, nil
}

// ownerOf returns the index of the node that owns a conversation.
func (c *client) ownerOf(id string, names []string) (int, error) {
	by, err := c.attempt(0, &request{method: "GET", path: "/conversations/" + id, want: 200})
	if err != nil {
		return 0, fmt.Errorf("ask who owns %s: %w", id, err)
	}
	at := slices.Index(names, by)
	if at < 0 {
		return 0, fmt.Errorf("%s is owned by %q, which is none of %v", id, by, names)
	}
	return at, nil
}

// runForward measures the same requests alternately at their owner and at another node: the cost of forwarding.
func runForward(ctx context.Context, o *Options, live *progress) (*Report, error) {
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if len(c.hosts) < 2 {
		return nil, errors.New("forwarding takes several nodes: -nodes or several -url")
	}
	names, err := c.names()
	if err != nil {
		return nil, err
	}
	ids, err := conversations(ctx, c, live, cmp.Or(o.Records, 48))
	if err != nil {
		return nil, err
	}
	send := []byte(`{"message":"ping","stream":false}`)
	read := func(answer []byte) error {
		if !bytes.Contains(answer, []byte(`"conversation"`)) {
			return &callError{Status: 200, Code: "bad answer"}
		}
		return nil
	}
	kinds := map[string]func(id string) *request{
		"read": func(id string) *request {
			return &request{method: "GET", path: "/conversations/" + id + "?limit=1", want: 200, read: read}
		},
		"turn": func(id string) *request {
			return &request{method: "POST", path: "/conversations/" + id + "/messages", body: send, want: 200, read: completed}
		},
	}
	total := newTally()
	report := newReport(o, total, time.Second)
	report.Latencies = map[string]Latency{}
	live.phase("measuring")
	start := time.Now()
	for kind, of := range kinds {
		local, forwarded := newTally(), newTally()
		for n := range cmp.Or(o.Count, 3000) {
			if ctx.Err() != nil {
				break
			}
			id := ids[n%len(ids)]
			owner, failed := c.ownerOf(id, names)
			if failed != nil {
				return nil, failed
			}
			other := (owner + 1 + n/len(ids)%(len(names)-1)) % len(names)
			pair := []int{owner, other}
			if n%2 == 1 {
				slices.Reverse(pair) // in alternating order
			}
			for _, host := range pair {
				began := time.Now()
				_, failed := c.attempt(host, of(id))
				into := local
				if host == other {
					into = forwarded
				}
				into.add(failed, time.Since(began))
				live.count(failed)
			}
		}
		l, f := latency(local.latency), latency(forwarded.latency)
		report.Latencies[kind+" at its owner"], report.Latencies[kind+" forwarded"] = l, f
		report.Numbers[kind+": added by forwarding, p50 ms"] = f.P50 - l.P50
		report.Numbers[kind+": added by forwarding, p99 ms"] = f.P99 - l.P99
		total.merge(local)
		total.merge(forwarded)
	}
	report.Seconds = time.Since(start).Seconds()
	report.OK, report.PerSecond, report.Concurrency = total.ok, float64(total.ok)/report.Seconds, 1
	return report, ctx.Err()
}

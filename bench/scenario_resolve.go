package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// resolveRun is a set of conversations that each wait for an approval.
type resolveRun struct {
	nodeClient

	options  *Options
	live     *progress
	made     int
	tally    *tally
	restart  *hdrhistogram.Histogram
	failover *hdrhistogram.Histogram
	mu       sync.Mutex
	faults   []string
}

// waiting is one of these conversations.
type waiting struct{ id, action, of string }

// runResolve resolves pending actions after every node was killed and started again, and right after the owner was
// killed. A resolution counts until the answer says that the turn, which then runs its tool, has ended; after a kill of
// the owner it counts from the kill.
func runResolve(ctx context.Context, o *Options, live *progress) (*Report, error) {
	if o.cluster == nil {
		return nil, errOwnNodes
	}
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	r := &resolveRun{nodeClient: nodeClient{c}, options: o, live: live, tally: newTally(), restart: newHistogram(), failover: newHistogram()}
	began := time.Now()
	for round := range cmp.Or(o.Faults, 1) {
		live.phase(fmt.Sprintf("round %d of %d: restart", round+1, o.Faults))
		if err := r.afterRestart(ctx); err != nil {
			return nil, err
		}
		if len(o.cluster.Nodes()) < 3 {
			continue
		}
		live.phase(fmt.Sprintf("round %d of %d: failover", round+1, o.Faults))
		if err := r.afterFailover(ctx); err != nil {
			return nil, err
		}
	}
	report := newReport(o, r.tally, time.Since(began))
	report.Concurrency = cmp.Or(o.Records, 24)
	report.Latencies = map[string]Latency{"after restart": latency(r.restart)}
	if r.failover.TotalCount() > 0 {
		report.Latencies["after the owner's death, from the kill"] = latency(r.failover)
		report.Spreads = append(report.Spreads, newSpread("after the owner's death", r.failover))
	}
	report.Faults = append(r.faults, r.auditTools()...)
	return report, ctx.Err()
}

// wait brings each conversation to wait for an approval.
func (r *resolveRun) wait(ctx context.Context) ([]waiting, error) {
	all := make([]waiting, cmp.Or(r.options.Records, 24))
	first := r.made
	r.made += len(all)
	err := prepare(ctx, r.live, "asking for approvals", len(all), func(n int) error {
		id, err := r.createWith(r.options.Agent, nil)
		if err != nil {
			return err
		}
		w := waiting{id: id, of: fmt.Sprintf("r%d", first+n)}
		err = r.call("POST", "/conversations/"+id+"/messages", message("case="+w.of+" tools=pay"), 200, func(text []byte) error {
			var answer struct {
				Pending []struct{ ID string } `json:"pendingActions"`
			}
			if json.Unmarshal(text, &answer) != nil || len(answer.Pending) != 1 {
				return fmt.Errorf("the turn does not wait: %.300s", text)
			}
			w.action = answer.Pending[0].ID
			return nil
		})
		all[n] = w
		return err
	})
	return all, err
}

// afterRestart kills all nodes, starts them, and resolves one action after another.
func (r *resolveRun) afterRestart(ctx context.Context) error {
	all, err := r.wait(ctx)
	if err != nil {
		return err
	}
	cluster := r.options.cluster
	for _, n := range cluster.Nodes() {
		if err := n.Kill(); err != nil {
			return err
		}
	}
	if err := cluster.Start(ctx); err != nil {
		return err
	}
	if err := cluster.settle(ctx, settleWithin); err != nil {
		return err
	}
	r.close() // stale connections, each of which would have to fail first
	for n, w := range all {
		began := time.Now()
		_, err := r.any(n, r.resolution(w))
		r.note(r.restart, err, time.Since(began))
	}
	return ctx.Err()
}

func (r *resolveRun) resolution(w waiting) *request {
	const allow = `{"resolution":{"type":"tool_approval","decision":"allow"}}`
	path := "/conversations/" + w.id + "/actions/" + w.action
	return &request{method: "POST", path: path, body: []byte(allow), want: 200, read: completed}
}

// afterFailover kills the owner of the most and at once resolves all of its conversations at the others.
func (r *resolveRun) afterFailover(ctx context.Context) error {
	all, err := r.wait(ctx)
	if err != nil {
		return err
	}
	owned, victim := map[string][]waiting{}, ""
	for _, w := range all {
		name, failed := r.ownerOfAny(w.id)
		if failed != nil {
			return failed
		}
		owned[name] = append(owned[name], w)
		if len(owned[name]) > len(owned[victim]) {
			victim = name
		}
	}
	node := r.options.cluster.Node(victim)
	if node == nil {
		return fmt.Errorf("conversations are served by %q, which is no node of this run", victim)
	}
	killed := time.Now()
	if err := node.Kill(); err != nil {
		return err
	}
	var resolving sync.WaitGroup
	for n, w := range owned[victim] {
		resolving.Go(func() { r.note(r.failover, r.resolve(ctx, n, w), time.Since(killed)) })
	}
	resolving.Wait()
	if err := node.Start(ctx); err != nil {
		return err
	}
	return r.options.cluster.settle(ctx, settleWithin)
}

// resolve resolves the action at any node that can. If an earlier attempt succeeded but its response was lost, it waits
// for the turn to end.
func (r *resolveRun) resolve(ctx context.Context, host int, w waiting) error {
	attempts, err := r.any(host, r.resolution(w))
	var failed *callError
	if attempts > 1 && errors.As(err, &failed) && failed.Status == 409 {
		_, err = r.awaitIdle(ctx, host, w.id)
	}
	return err
}

func (r *resolveRun) note(h *hdrhistogram.Histogram, err error, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.add(err, took)
	if err == nil {
		record(h, took)
	}
	r.live.count(err)
}

// auditTools checks that each approved tool ran once.
func (r *resolveRun) auditTools() []string {
	runs := map[string]int{}
	for _, run := range r.options.standin.Tools.Runs() {
		runs[run.Case] += run.Effects
	}
	var faults []string
	for n := range r.made {
		if name := fmt.Sprintf("r%d", n); runs[name] > 1 {
			faults = append(faults, fmt.Sprintf("the tool of %s ran %d times", name, runs[name]))
		}
	}
	return faults
}

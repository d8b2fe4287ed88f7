package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// followRun is a fleet of followers of event streams.
type followRun struct {
	options  *Options
	live     *progress
	closing  atomic.Bool
	opened   atomic.Int64
	reopened atomic.Int64
	mu       struct {
		sync.Mutex
		delivery *hdrhistogram.Histogram
		sent     map[string]time.Time // conversation: when its current message was sent
		faults   []string
		errors   map[string]int64
		arrived  int // followers that saw the current round's last event
	}
	round chan struct{}  // one token for each follower that saw the round's end
	again chan *follower // followers whose stream ended and is reopened elsewhere; as large as the number of followers
}

// runFollow opens followers (idle), then sends messages and times each event from the send to each follower.
func runFollow(ctx context.Context, o *Options, live *progress) (*Report, error) {
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	ids, err := conversations(ctx, c, live, cmp.Or(o.Records, 1))
	if err != nil {
		return nil, err
	}
	fleet, err := newFleet(o)
	if err != nil {
		return nil, err
	}
	r := &followRun{options: o, live: live, round: make(chan struct{}, o.Concurrency), again: make(chan *follower, o.Concurrency)}
	stopReopening := r.reopen(ctx, fleet)
	r.mu.delivery, r.mu.sent, r.mu.errors = newHistogram(), map[string]time.Time{}, map[string]int64{}
	idle := serverStats(ctx, o)
	if err = r.openAll(ctx, fleet, ids); err != nil {
		stopReopening()
		fleet.close()
		return nil, err
	}
	sleepUntil(ctx, time.Now().Add(o.Settle))
	holding := serverStats(ctx, o)
	start := time.Now()
	delivered, err := r.rounds(ctx, c, ids)
	took := time.Since(start)
	r.closing.Store(true)
	stopReopening()
	fleet.close()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	report := &Report{
		Concurrency: o.Concurrency, Seconds: took.Seconds(), OK: delivered, PerSecond: float64(delivered) / took.Seconds(),
		Latencies: map[string]Latency{"event to follower": latency(r.mu.delivery)}, Numbers: map[string]float64{},
		Errors: r.mu.errors, Faults: r.mu.faults,
	}
	report.Numbers["followers open"] = float64(r.opened.Load())
	if o.RetryFor > 0 {
		report.Numbers["streams opened again"] = float64(r.reopened.Load())
	}
	idle.difference(report, serverStats(ctx, o))
	if len(idle) > 0 && len(holding) > 0 {
		report.Numbers["server bytes per idle follower"] = (holding[statMemory] - idle[statMemory]) / float64(o.Concurrency)
	}
	return report, ctx.Err()
}

// reopen reopens ended streams at the next node, until the returned function is called.
func (r *followRun) reopen(ctx context.Context, f *fleet) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for range openers {
		running.Go(func() {
			for {
				select {
				case follower := <-r.again:
					sleepUntil(ctx, follower.due)
					follower.host = (follower.host + 1) % len(f.hosts)
					request := followRequest(r.options, f.hosts[follower.host], follower.id, follower.checker.seq)
					if err := f.openAt(follower.host, follower.n, request, follower); err != nil {
						follower.end(time.Now(), 0, nil, err)
					}
				case <-ctx.Done():
					return
				}
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}

func (r *followRun) openAll(ctx context.Context, f *fleet, ids []string) error {
	r.live.phase("opening followers")
	start := time.Now()
	err := prepare(ctx, r.live, "opening followers", r.options.Concurrency, func(i int) error {
		at := start.Add(r.options.Ramp * time.Duration(i) / time.Duration(r.options.Concurrency))
		if !sleepUntil(ctx, at) {
			return ctx.Err()
		}
		id := ids[i%len(ids)]
		return f.open(i, followRequest(r.options, f.hosts[i%len(f.hosts)], id, 0), &follower{run: r, n: i, id: id, host: i % len(f.hosts)})
	})
	if err != nil {
		return fmt.Errorf("open followers: %w", err)
	}
	deadline := time.Now().Add(r.options.Timeout)
	for r.opened.Load() < int64(r.options.Concurrency) {
		if time.Now().After(deadline) || !sleepUntil(ctx, time.Now().Add(10*time.Millisecond)) {
			return fmt.Errorf("only %d of %d followers were let in: %v", r.opened.Load(), r.options.Concurrency, r.refusals())
		}
	}
	return nil
}

func (r *followRun) refusals() map[string]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.errors
}

// followRequest asks for the event stream after a seq.
func followRequest(o *Options, host, id string, after uint64) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "GET %s/conversations/%s/events/stream HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n", o.BasePath, id, host)
	if o.Token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", o.Token)
	}
	if after > 0 {
		fmt.Fprintf(&b, "Last-Event-ID: %d\r\n", after)
	}
	b.WriteString("\r\n")
	return []byte(b.String())
}

// rounds repeatedly sends one message to each conversation and waits until every follower has seen the turn's end.
func (r *followRun) rounds(ctx context.Context, c *client, ids []string) (int64, error) {
	send := []byte(`{"message":"ping","stream":false}`)
	var delivered int64
	for round := range cmp.Or(r.options.Rounds, 5) {
		r.live.phase(fmt.Sprintf("live round %d", round+1))
		err := prepare(ctx, r.live, "live", len(ids), func(i int) error {
			r.mu.Lock()
			r.mu.sent[ids[i]] = time.Now()
			r.mu.Unlock()
			return c.call("POST", "/conversations/"+ids[i]+"/messages", send, 200, completed)
		})
		if err != nil {
			return delivered, fmt.Errorf("send: %w", err)
		}
		timeout := time.NewTimer(r.options.Timeout)
		for seen := range r.options.Concurrency {
			select {
			case <-r.round:
				delivered++
			case <-timeout.C:
				timeout.Stop()
				return delivered, fmt.Errorf("only %d of %d followers saw round %d", seen, r.options.Concurrency, round+1)
			case <-ctx.Done():
				timeout.Stop()
				return delivered, ctx.Err()
			}
		}
		timeout.Stop()
	}
	return delivered, nil
}

// follower is one event stream.
type follower struct {
	run     *followRun
	n       int
	id      string
	open    bool
	host    int
	since   time.Time // when its stream ended first; zero while it is open
	due     time.Time
	checker eventChecker
}

func (f *follower) comment(_ time.Time, text []byte) {
	if strings.TrimSpace(string(text)) != "open" {
		return
	}
	if f.open {
		f.checker.reopened()
		f.run.reopened.Add(1)
	} else {
		f.open = true
		f.run.opened.Add(1)
	}
	f.since = time.Time{}
}

func (f *follower) frame(now time.Time, fr frame) {
	seq := f.checker.frame(fr)
	r := f.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.checker.fault != "" {
		if len(r.mu.faults) < 20 {
			r.mu.faults = append(r.mu.faults, fmt.Sprintf("follower %d: %s", f.n, f.checker.fault))
		}
		f.checker.fault = ""
		return
	}
	if seq == 0 {
		return
	}
	record(r.mu.delivery, now.Sub(r.mu.sent[f.id]))
	if string(fr.event) == "session.status_idle" {
		r.round <- struct{}{} // does not block: a follower sees one end per round
	}
}

func (f *follower) end(now time.Time, status int, body []byte, err error) {
	r := f.run
	if r.closing.Load() {
		return
	}
	if f.since.IsZero() {
		f.since = now
	}
	if f.open && (status == 0 || status == 200 || status == 503) && now.Sub(f.since) < r.options.RetryFor {
		if f.due = now; f.since != now {
			f.due = now.Add(longestRetryPause)
		}
		r.again <- f // has room for all
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case status != 200 && status != 0:
		r.mu.errors[errorCode(status, body)]++
	case err != nil && !errors.Is(err, net.ErrClosed):
		r.mu.errors["stream: "+err.Error()]++
	default:
		r.mu.errors["stream ended"]++
	}
}

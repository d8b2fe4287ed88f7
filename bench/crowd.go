package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"
)

// Agents of bench.yaml that scenarios choose.
const agentBudget = "bench-budget"

// crowd is a set of conversations under load, each with followers. Everything that is done is recorded and audited at
// the end.
type crowd struct {
	options *Options
	live    *progress
	client  *client
	streams *fleet
	ledgers []*ledger
	watches []*watch
	cancels float64 // share of turns that are cancelled
	reads   float64 // share of turns that are read back

	patience time.Duration // how long the audit waits for missing events

	ctx     context.Context //nolint:containedctx // of the openers, which the crowd owns
	stop    context.CancelFunc
	closing atomic.Bool
	soon    chan *watch // to open now
	later   chan *watch // to open after a pause
	running sync.WaitGroup

	mu struct {
		sync.Mutex
		ends map[string]int64 // why streams ended
	}
	first, heard distribution // failover: next accepted command, next event
}

type distribution struct {
	sync.Mutex
	h *hdrhistogram.Histogram
}

func (c *crowd) measured(d *distribution, took time.Duration) {
	d.Lock()
	defer d.Unlock()
	record(d.h, took)
}

// newCrowd creates conversations, and followers spread over all nodes. agentOf may choose the agent of a conversation.
func newCrowd(ctx context.Context, o *Options, live *progress, conversations int, agentOf func(n int) string) (*crowd, error) {
	caller, err := newClient(o)
	if err != nil {
		return nil, err
	}
	streams, err := newFleet(o)
	if err != nil {
		return nil, err
	}
	c := &crowd{options: o, live: live, client: caller, streams: streams, patience: catchUp}
	c.ctx, c.stop = context.WithCancel(ctx)
	c.first.h, c.heard.h = newHistogram(), newHistogram()
	c.mu.ends = map[string]int64{}
	c.ledgers = make([]*ledger, conversations)
	err = prepare(ctx, live, "creating conversations", conversations, func(n int) error {
		agent := o.Agent
		if agentOf != nil {
			agent = cmp.Or(agentOf(n), o.Agent)
		}
		id, failed := caller.create(caller.createBodyFor(agent))
		l := &ledger{crowd: c, n: n, id: id, agent: agent}
		l.mu.tries = map[string]outcome{}
		c.ledgers[n] = l
		return failed
	})
	if err != nil {
		c.close()
		return nil, fmt.Errorf("create conversations: %w", err)
	}
	return c, nil
}

// openers is how many goroutines open streams of each urgency: opening only blocks for the connect.
const openers = 8

// follow opens n followers, spread over conversations and nodes, and waits until all are connected.
func (c *crowd) follow(ctx context.Context, n int) error {
	c.live.phase("opening followers")
	room := n + len(c.ledgers)*len(c.options.URLs) // and the fresh ones of the audit
	c.soon, c.later = make(chan *watch, room), make(chan *watch, room)
	for _, queue := range []chan *watch{c.soon, c.later} {
		for range openers {
			c.running.Go(func() { c.open(queue) })
		}
	}
	for i := range n {
		// Each round over the conversations begins at a different node.
		c.watch(c.ledgers[i%len(c.ledgers)], (i+i/len(c.ledgers))%len(c.options.URLs))
	}
	return c.awaitOpen(ctx, c.watches)
}

func (c *crowd) watch(l *ledger, host int) *watch {
	w := &watch{crowd: c, ledger: l, number: len(c.watches)}
	w.mu.host = host
	c.watches = append(c.watches, w)
	c.soon <- w
	return w
}

func (c *crowd) awaitOpen(ctx context.Context, watches []*watch) error {
	deadline := time.Now().Add(30 * time.Second)
	for _, w := range watches {
		for !w.isOpen() {
			if time.Now().After(deadline) || !sleepUntil(ctx, time.Now().Add(5*time.Millisecond)) {
				return fmt.Errorf("not all followers were let in: %v", c.streamEnds())
			}
		}
	}
	return nil
}

func (w *watch) isOpen() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.opened
}

func (c *crowd) open(queue chan *watch) {
	for {
		select {
		case w := <-queue:
			w.follow()
		case <-c.ctx.Done():
			return
		}
	}
}

// reopen queues a watch whose stream has ended. The queues have room for all: none is in a queue twice.
func (c *crowd) reopen(w *watch, later bool) {
	if later {
		c.later <- w
		return
	}
	c.soon <- w
}

// ended counts why a stream ended.
func (c *crowd) ended(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.ends[why]++
}

func (c *crowd) streamEnds() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	ends := map[string]int64{}
	for why, n := range c.mu.ends {
		ends[why] = n
	}
	return ends
}

// turn is the operation of a load in which caller n has conversation n.
func (c *crowd) turn(caller, _ int) error {
	l := c.ledgers[caller]
	err := l.turn()
	if err == nil && c.reads > 0 && rand.Float64() < c.reads {
		l.readBack()
	}
	return err
}

// cancelSometimes cancels a share of the turns at any node, and returns a function that waits for the response.
func (c *crowd) cancelSometimes(l *ledger) (wait func()) {
	if c.cancels == 0 || rand.Float64() >= c.cancels {
		return func() {}
	}
	var ended sync.WaitGroup
	ended.Go(func() {
		const latest = 300 * time.Millisecond
		sleepUntil(c.ctx, time.Now().Add(rand.N(latest)))
		// Whatever the response, the log shows whether everything was in order.
		_, _ = c.client.attempt(rand.IntN(len(c.client.hosts)), &request{method: "POST", path: "/conversations/" + l.id + "/cancel", want: 200})
	})
	return ended.Wait
}

// ownerKilled notifies all conversations of a node that it was killed, and returns how many there are. wait returns
// when each of them has had a command accepted.
func (c *crowd) ownerKilled(owner string, at time.Time) (affected int, wait func()) {
	var ended sync.WaitGroup
	hit := map[*ledger]bool{}
	for _, l := range c.ledgers {
		if l.owner() == owner {
			hit[l] = true
		}
	}
	for _, w := range c.watches {
		if hit[w.ledger] {
			w.ownerKilled(at)
		}
	}
	for l := range hit {
		ended.Go(func() { l.ownerKilled(at) })
	}
	return len(hit), ended.Wait
}

// owners counts conversations by the node that last served them.
func (c *crowd) owners() map[string]int {
	owners := map[string]int{}
	for _, l := range c.ledgers {
		owners[l.owner()]++
	}
	return owners
}

// catchUp is how long followers and nodes may take to agree once the load has ended.
const catchUp = time.Minute

// audit checks every conversation after the load: its log against the ledger, the copies of all nodes against each
// other, what followers saw, and new followers at every node.
func (c *crowd) audit(ctx context.Context) []string {
	c.live.phase("checking")
	opened := len(c.watches)
	if c.soon != nil {
		for _, l := range c.ledgers {
			for host := range c.options.URLs {
				c.watch(l, host)
			}
		}
	}
	watches := map[*ledger][]*watch{}
	for _, w := range c.watches {
		watches[w.ledger] = append(watches[w.ledger], w)
	}
	found := make([][]string, len(c.ledgers))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	deadline := time.Now().Add(c.patience + time.Duration(len(c.watches)-opened)*time.Millisecond)
	for i, l := range c.ledgers {
		group.Go(func() error {
			found[i] = c.auditOne(ctx, l, watches[l], deadline)
			c.live.count(nil)
			return nil
		})
	}
	_ = group.Wait() // none of them returns an error
	var faults []string
	for i, l := range c.ledgers {
		l.mu.Lock()
		faults = append(faults, l.mu.faults...)
		l.mu.Unlock()
		faults = append(faults, found[i]...)
	}
	return faults
}

func (c *crowd) auditOne(ctx context.Context, l *ledger, watches []*watch, deadline time.Time) []string {
	var faults []string
	say := func(text string) { faults = append(faults, l.id+": "+text) }
	events, err := c.settledLog(ctx, l, deadline)
	if err != nil {
		say(err.Error())
		return faults
	}
	l.mu.Lock()
	for _, fault := range auditLog(events, l.mu.tries, l.mu.acks) {
		say(fault)
	}
	l.mu.Unlock()
	if l.agent == agentBudget {
		for _, fault := range c.auditRecord(l, events) {
			say(fault)
		}
	}
	for _, w := range watches {
		fault := w.behind(events)
		for fault != "" && time.Now().Before(deadline) && sleepUntil(ctx, time.Now().Add(20*time.Millisecond)) {
			fault = w.behind(events)
		}
		if fault != "" {
			say(fault)
		}
	}
	if len(faults) > 0 && c.options.cluster != nil {
		faults = append(faults, c.keep(l, events))
	}
	return faults
}

// settledLog waits until the conversation is idle and every node shows the same log.
func (c *crowd) settledLog(ctx context.Context, l *ledger, deadline time.Time) ([]logEvent, error) {
	for {
		events, err := c.sameLog(l)
		if err == nil {
			if last := len(events); last == 0 || events[last-1].Type == "session.status_idle" || !slices.ContainsFunc(events, isRunning) {
				return events, nil
			}
			if a := auditLog(events, nil, nil); !slices.ContainsFunc(a, isStuck) {
				return events, nil
			}
			err = fmt.Errorf("stuck: its last event is %d %s", events[len(events)-1].Seq, events[len(events)-1].Type)
		}
		if time.Now().After(deadline) || !sleepUntil(ctx, time.Now().Add(50*time.Millisecond)) {
			return nil, err
		}
	}
}

func isRunning(e logEvent) bool { return e.Type == "session.status_running" }
func isStuck(fault string) bool { return len(fault) > 5 && fault[:5] == "stuck" }

func (c *crowd) sameLog(l *ledger) ([]logEvent, error) {
	var first []logEvent
	for host := range c.client.hosts {
		events, err := l.events(host, 0)
		if err != nil {
			return nil, fmt.Errorf("%s does not show its log: %w", c.options.URLs[host], err)
		}
		if host == 0 {
			first = events
			continue
		}
		if fault := auditCopies(first, events); fault != "" {
			return nil, errors.New(fault)
		}
	}
	return first, nil
}

func (c *crowd) auditRecord(l *ledger, events []logEvent) []string {
	var answer struct {
		Conversation struct {
			SpentUSD float64 `json:"spentUsd"`
			Budget   *struct {
				MaxCostUSD float64 `json:"maxCostUsd"`
			} `json:"budget"`
		} `json:"conversation"`
	}
	_, err := c.client.attempt(0, &request{
		method: "GET", path: "/conversations/" + l.id, want: 200,
		read: func(text []byte) error { return json.Unmarshal(text, &answer) },
	})
	if err != nil {
		return []string{"its record cannot be read: " + err.Error()}
	}
	if answer.Conversation.Budget == nil {
		return []string{"its budget is gone"}
	}
	return auditBudget(events, answer.Conversation.Budget.MaxCostUSD, answer.Conversation.SpentUSD)
}

// close ends all streams.
func (c *crowd) close() {
	c.closing.Store(true)
	c.stop()
	c.running.Wait()
	c.streams.close()
	c.client.close()
}

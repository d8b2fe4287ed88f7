package placement

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/follow"
	"parley/cluster"
	"parley/cluster/shard"
	"parley/proto/conversationpb"
)

// The chaos: conversations speak, their owners change, connections break, members come and go; followers on two nodes
// check every word. PARLEY_PLACEMENT_CHAOS_SEED and PARLEY_PLACEMENT_CHAOS_DURATION make it another or a longer one.

// conversation is the truth about one conversation.
type conversation struct {
	id string
	in shard.ID

	mu      sync.Mutex
	epoch   uint64
	owner   string // "" = nobody right now
	lastSeq uint64
	run     string
	text    []byte
	sinks   map[*feedOf]bool // of the owner
}

// textAt is what a run says at an offset: every byte can be checked.
func textAt(run string, offset int) byte {
	return "abcdefghijklmnopqrstuvwxyz"[(len(run)*7+offset*11)%26]
}

// speak does something, if somebody owns the conversation.
func (c *conversation) speak(dice *rand.Rand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owner == "" {
		return
	}
	change := &conversationpb.Change{Epoch: c.epoch}
	switch {
	case c.run == "":
		c.run, c.text = fmt.Sprintf("run_%d", c.lastSeq), nil
		change.RunStarted = &conversationpb.RunStarted{RunId: c.run}
	case dice.IntN(10) == 0:
		c.lastSeq++
		change.Events = []*conversationpb.Event{{Seq: c.lastSeq, RunId: c.run}}
		c.run, c.text = "", nil
	default:
		change.Delta = &conversationpb.Delta{RunId: c.run, Offset: uint64(len(c.text))}
		for range 1 + dice.IntN(20) {
			c.text = append(c.text, textAt(c.run, len(c.text)))
		}
		change.Delta.Text = string(c.text[change.Delta.GetOffset():])
	}
	for f := range c.sinks {
		f.sink.Change(change)
	}
}

// moveTo makes another node the owner. A run that was under way begins again there.
func (c *conversation) moveTo(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for f := range c.sinks {
		f.sink.Closed(notOwned{})
	}
	clear(c.sinks)
	c.owner = node
	if node != "" {
		c.epoch++
		c.run, c.text = "", nil
	}
}

// chaosShell is the shell of one node over the one truth.
type chaosShell struct {
	*shell
	name          string
	conversations map[string]*conversation
}

func (s *chaosShell) Follow(_ context.Context, _ uint32, id string, sink follow.Sink) (*conversationpb.Snapshot, func(), error) {
	c := s.conversations[id]
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owner != s.name {
		return nil, nil, notOwned{}
	}
	f := &feedOf{sink: sink}
	c.sinks[f] = true
	cancel := func() {
		go func() { // like the feeds': it never waits
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.sinks, f)
		}()
	}
	return &conversationpb.Snapshot{Epoch: c.epoch, LastSeq: c.lastSeq, RunId: c.run, Text: string(c.text)}, cancel, nil
}

// checker is a follower that follows anew whenever it is told that it has ended.
type checker struct {
	t       *testing.T
	from    *System
	c       *conversation
	follows atomic.Int64
	changes atomic.Int64

	mu      sync.Mutex
	current *attempt
	epoch   uint64
	lastSeq uint64
	run     string
	text    []byte
}

// attempt is one follow of a checker. What was given up must not speak for the next one.
type attempt struct {
	k     *checker
	held  []*conversationpb.Change // heard before the snapshot
	begun bool
	over  bool
	ended chan struct{}
}

func (a *attempt) Change(change *conversationpb.Change) {
	a.k.mu.Lock()
	defer a.k.mu.Unlock()
	switch {
	case a.k.current != a:
	case a.over:
		a.k.t.Errorf("%s: a change after the end", a.k.c.id)
	case a.begun:
		a.k.apply(change)
	default:
		a.held = append(a.held, change)
	}
}

func (a *attempt) Closed(error) {
	a.k.mu.Lock()
	defer a.k.mu.Unlock()
	if a.over {
		a.k.t.Errorf("%s: ended twice", a.k.c.id)
		return
	}
	a.over = true
	close(a.ended)
}

func (k *checker) apply(change *conversationpb.Change) {
	k.changes.Add(1)
	if change.GetEpoch() != k.epoch {
		k.t.Errorf("%s: epoch %d in a follow of epoch %d", k.c.id, change.GetEpoch(), k.epoch)
	}
	for _, e := range change.GetEvents() {
		if e.GetSeq() != k.lastSeq+1 {
			k.t.Errorf("%s: event %d after event %d", k.c.id, e.GetSeq(), k.lastSeq)
		}
		k.lastSeq = e.GetSeq()
		k.run, k.text = "", nil
	}
	if s := change.GetRunStarted(); s != nil {
		k.run, k.text = s.GetRunId(), nil
	}
	if d := change.GetDelta(); d != nil {
		if d.GetRunId() != k.run || d.GetOffset() != uint64(len(k.text)) {
			k.t.Errorf("%s: text of %s at %d, where %s has %d bytes", k.c.id, d.GetRunId(), d.GetOffset(), k.run, len(k.text))
		}
		k.text = append(k.text, d.GetText()...)
		k.checkText()
	}
}

func (k *checker) checkText() {
	for i, b := range k.text {
		if b != textAt(k.run, i) {
			k.t.Errorf("%s: wrong text of %s at %d", k.c.id, k.run, i)
			return
		}
	}
}

// follow follows until the end of ctx.
func (k *checker) follow(ctx context.Context) {
	for ctx.Err() == nil {
		k.c.mu.Lock()
		to := cluster.Owner{Node: k.c.owner, Shard: k.c.in, Epoch: shard.Epoch(k.c.epoch)}
		k.c.mu.Unlock()
		a := &attempt{k: k, ended: make(chan struct{})}
		k.mu.Lock()
		k.current = a
		k.mu.Unlock()
		limit, stop := context.WithTimeout(ctx, 5*time.Second)
		snapshot, cancel, err := k.from.Follow(limit, to, k.c.id, a)
		stop()
		if err != nil {
			nap(ctx, time.Millisecond)
			continue
		}
		k.begin(a, snapshot)
		select {
		case <-a.ended:
		case <-ctx.Done():
		}
		cancel()
	}
}

func (k *checker) begin(a *attempt, snapshot *conversationpb.Snapshot) {
	k.follows.Add(1)
	k.mu.Lock()
	defer k.mu.Unlock()
	if snapshot.GetLastSeq() < k.lastSeq {
		k.t.Errorf("%s: the snapshot is at %d, heard was %d", k.c.id, snapshot.GetLastSeq(), k.lastSeq)
	}
	k.epoch, k.lastSeq, k.run, k.text = snapshot.GetEpoch(), snapshot.GetLastSeq(), snapshot.GetRunId(), []byte(snapshot.GetText())
	k.checkText()
	a.begun = true
	for _, change := range a.held {
		k.apply(change)
	}
}

func nap(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func TestFollowersHearEveryWordOnce(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("PARLEY_PLACEMENT_CHAOS_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	duration, err := time.ParseDuration(os.Getenv("PARLEY_PLACEMENT_CHAOS_DURATION"))
	if err != nil {
		duration = 4 * time.Second
	}
	t.Logf("PARLEY_PLACEMENT_CHAOS_SEED=%d PARLEY_PLACEMENT_CHAOS_DURATION=%v", seed, duration)
	dice := rand.New(rand.NewPCG(seed, 1))

	w := newWorld(t)
	conversations := map[string]*conversation{}
	for i := range 12 {
		c := &conversation{id: fmt.Sprint("conv_", i), in: shard.ID(i%4 + 1), owner: "b", epoch: 1, sinks: map[*feedOf]bool{}}
		conversations[c.id] = c
	}
	nodes := map[string]*node{}
	for _, name := range []string{"a", "b", "c"} {
		nodes[name] = w.start(name, func(c *Config) {
			c.Serve = &chaosShell{shell: newShell(), name: name, conversations: conversations}
			c.NewsPause = 2 * time.Millisecond
			c.Silence = 5 * time.Second // this machine is busy
		})
	}
	for _, from := range nodes {
		for to := range nodes {
			if from.member.Name != to {
				linked(t, from.System, to)
			}
		}
	}

	ctx, stop := context.WithCancel(t.Context())
	var speakers, followers sync.WaitGroup
	var checkers []*checker
	for _, c := range conversations {
		for range 2 { // followers
			k := &checker{t: t, from: nodes["a"].System, c: c}
			checkers = append(checkers, k)
			followers.Go(func() { k.follow(ctx) })
		}
		words := rand.New(rand.NewPCG(seed, uint64(len(checkers))))
		speaking, quiet := context.WithTimeout(ctx, duration)
		defer quiet()
		speakers.Go(func() {
			for speaking.Err() == nil {
				c.speak(words)
				if words.IntN(4) == 0 {
					nap(speaking, time.Duration(words.IntN(2000))*time.Microsecond)
				}
			}
		})
	}
	faults := 0
	for end := time.Now().Add(duration); time.Now().Before(end); faults++ {
		w.fault(ctx, dice, nodes, conversations)
		nap(ctx, time.Duration(dice.IntN(60))*time.Millisecond)
	}
	speakers.Wait()
	for _, c := range conversations {
		if c.owner == "" {
			c.moveTo("c")
		}
	}
	// In the end everybody has everything.
	for _, k := range checkers {
		require.Eventually(t, func() bool {
			k.c.mu.Lock()
			defer k.c.mu.Unlock()
			k.mu.Lock()
			defer k.mu.Unlock()
			return k.current.begun && k.lastSeq == k.c.lastSeq && k.run == k.c.run && bytes.Equal(k.text, k.c.text)
		}, patience, time.Millisecond, "%s", k.c.id)
	}
	stop()
	followers.Wait()
	var follows, changes int64
	for _, k := range checkers {
		follows += k.follows.Load()
		changes += k.changes.Load()
	}
	t.Logf("%d faults, %d follows, %d changes heard", faults, follows, changes)
	for _, n := range nodes {
		idle(t, n)
	}
}

// fault makes one thing go wrong.
func (w *world) fault(ctx context.Context, dice *rand.Rand, nodes map[string]*node, conversations map[string]*conversation) {
	victim := nodes[[]string{"a", "b", "c"}[dice.IntN(3)]]
	switch dice.IntN(6) {
	case 0, 1:
		w.wires.drop(victim.member.Address)
	case 2:
		w.wires.block(victim.member.Address, true)
		w.wires.drop(victim.member.Address)
		nap(ctx, time.Duration(dice.IntN(100))*time.Millisecond)
		w.wires.block(victim.member.Address, false)
	case 3:
		w.leave(victim.member.Name)
		nap(ctx, time.Duration(dice.IntN(20))*time.Millisecond)
		w.join(victim.member)
	default:
		in := shard.ID(dice.IntN(4) + 1)
		to := []string{"b", "c", ""}[dice.IntN(3)]
		for _, c := range conversations {
			if c.in == in {
				c.moveTo(to)
			}
		}
	}
}

package actors

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/conversation"
	"parley/actors/turn"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/logpb"
)

// simCluster is a shard that one of several nodes leads, as the log sees it: who leads changes at once, and the nodes hear
// of it when they do. Only the leader's appends and reads succeed; what the leader began before it was deposed is
// written before, or never.
type simCluster struct {
	journal *journal

	mu     sync.Mutex
	random *rand.Rand
	leader *simNode
	term   uint64
}

// simNode is a node of a simCluster, and its journal.
type simNode struct {
	cluster *simCluster
	name    string
	system  *System

	mu   sync.Mutex
	news []uint64 // terms led, 0 = not any more; in order, to be told
	wg   sync.WaitGroup
}

func newSimCluster(seed uint64) *simCluster {
	return &simCluster{journal: newJournal(), random: rand.New(rand.NewPCG(seed, 1))}
}

func (r *simCluster) draw(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.random.IntN(n)
}

// join makes a node with the real rules, runner and live streams.
func (r *simCluster) join(t *testing.T, name string, speak speaker, ids IDs) *simNode {
	t.Helper()
	c := &simNode{cluster: r, name: name}
	streams := NewLiveStreams(LiveStreamsConfig{})
	runner, err := turn.New(turn.Config{
		Agents: oneAgent{}, History: noHistory{}, Publisher: streams,
		Providers: map[agentpb.Provider]model.Provider{agentpb.Provider_SCRIPTED: speak},
	})
	require.NoError(t, err)
	limits := lasting()
	limits.Outcomes = 256 // here more happens within a command's time than may
	c.system, err = New(Config{
		Node: name, Journal: c, IDs: ids, LiveStreams: streams, AppendTimeout: 3 * time.Second,
		Kinds:  []Kind{Conversations(conversation.New(limits), runner, streams, nil)},
		Logger: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug})).With(slog.String("node", name)),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		c.wg.Wait()
		c.system.Stop(context.Background())
	})
	return c
}

// elect makes a node the leader. It hears of it soon; the former leader when hearing has passed.
func (r *simCluster) elect(next *simNode, hearing time.Duration) {
	r.mu.Lock()
	former := r.leader
	r.term++
	r.leader = next
	term := r.term
	r.mu.Unlock()
	if former != nil {
		former.tell(0, hearing)
	}
	next.tell(term, time.Duration(r.draw(20))*time.Millisecond)
}

// tell brings news to a node, in order.
func (c *simNode) tell(term uint64, after time.Duration) {
	c.mu.Lock()
	c.news = append(c.news, term)
	c.mu.Unlock()
	c.wg.Add(1)
	time.AfterFunc(after, func() {
		defer c.wg.Done()
		c.hear()
	})
}

// hear acts on all news but what somebody else acts on already.
func (c *simNode) hear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.news) > 0 {
		term := c.news[0]
		c.news = c.news[1:]
		if term == 0 {
			c.system.Disown(testShard)
		} else {
			c.system.Own(testShard, term)
		}
	}
}

// leads waits a network's time and says whether the node still leads. One that is cut off does not get an answer, until
// it hears that it is deposed.
func (c *simNode) leads(ctx context.Context) error {
	select {
	case <-time.After(time.Duration(c.cluster.draw(3000)) * time.Microsecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	c.cluster.mu.Lock()
	leads, hangs := c.cluster.leader == c, c.cluster.random.IntN(2) == 0
	c.cluster.mu.Unlock()
	if leads {
		return nil
	}
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return fmt.Errorf("%s: %w", c.name, ErrNotOwner)
}

func (c *simNode) Load(ctx context.Context, in uint32, id string) (Head, bool, error) {
	if err := c.leads(ctx); err != nil {
		return Head{}, false, err
	}
	return c.cluster.journal.Load(ctx, in, id)
}

func (c *simNode) Running(ctx context.Context, in uint32, list string, visit func(string)) error {
	if err := c.leads(ctx); err != nil {
		return err
	}
	return c.cluster.journal.Running(ctx, in, list, visit)
}

func (c *simNode) Due(ctx context.Context, in uint32, query DueQuery, visit func(string)) error {
	return c.cluster.journal.Due(ctx, in, query, visit)
}

func (c *simNode) Listed(ctx context.Context, in uint32, query ListedQuery, visit func(ListedRow)) error {
	if !query.Stale {
		if err := c.leads(ctx); err != nil {
			return err
		}
	}
	return c.cluster.journal.Listed(ctx, in, query, visit)
}

func (c *simNode) Confirm(ctx context.Context, _ uint32) error { return c.leads(ctx) }

func (c *simNode) Owns(_ uint32, epoch uint64) bool {
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	return c.cluster.leader == c && c.cluster.term == epoch
}

// Append writes if the node leads at the moment of writing, and says so most of the time.
func (c *simNode) Append(ctx context.Context, in uint32, entry *logpb.Append) (*logpb.Result, error) {
	r := c.cluster
	select {
	case <-time.After(time.Duration(r.draw(5000)) * time.Microsecond):
	case <-ctx.Done():
		if r.draw(2) == 0 { // it was on its way
			r.write(c, in, entry)
		}
		return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, ctx.Err())
	}
	result := r.write(c, in, entry)
	switch luck := r.draw(100); {
	case result == nil && luck < 30:
		return nil, ErrOutcomeUnknown
	case result == nil && luck < 60:
		<-ctx.Done()
		return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, ctx.Err())
	case result == nil:
		return nil, ErrNotOwner
	case luck < 2:
		return nil, ErrOutcomeUnknown
	}
	return result, nil
}

// write applies an entry unless its node does not lead.
func (r *simCluster) write(by *simNode, in uint32, entry *logpb.Append) *logpb.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leader != by {
		return nil
	}
	return r.journal.apply(in, entry)
}

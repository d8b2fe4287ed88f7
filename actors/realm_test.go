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

// realm is a shard that one of several nodes leads, as the log sees it: who leads changes at once, and the nodes hear
// of it when they do. Only the leader's appends and reads succeed; what the leader began before it was deposed is
// written before, or never.
type realm struct {
	journal *journal

	mu     sync.Mutex
	random *rand.Rand
	leader *citizen
	term   uint64
}

// citizen is a node of a realm, and its journal.
type citizen struct {
	realm  *realm
	name   string
	system *System

	mu   sync.Mutex
	news []uint64 // terms led, 0 = not any more; in order, to be told
	wg   sync.WaitGroup
}

func newRealm(seed uint64) *realm {
	return &realm{journal: newJournal(), random: rand.New(rand.NewPCG(seed, 1))}
}

func (r *realm) draw(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.random.IntN(n)
}

// join makes a node with the real rules, runner and feeds.
func (r *realm) join(t *testing.T, name string, speak speaker, ids IDs) *citizen {
	t.Helper()
	c := &citizen{realm: r, name: name}
	feeds := NewFeeds(FeedsConfig{})
	runner, err := turn.New(turn.Config{
		Agents: oneAgent{}, History: noHistory{}, Publisher: feeds,
		Providers: map[agentpb.Provider]model.Provider{agentpb.Provider_SCRIPTED: speak},
	})
	require.NoError(t, err)
	limits := lasting()
	limits.Outcomes = 256 // here more happens within a command's time than may
	c.system, err = New(Config{
		Node: name, Journal: c, IDs: ids, Feeds: feeds, AppendTimeout: 3 * time.Second,
		Kinds:  []Kind{Conversations(conversation.New(limits), runner, feeds, nil)},
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
func (r *realm) elect(next *citizen, hearing time.Duration) {
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
func (c *citizen) tell(term uint64, after time.Duration) {
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
func (c *citizen) hear() {
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
func (c *citizen) leads(ctx context.Context) error {
	select {
	case <-time.After(time.Duration(c.realm.draw(3000)) * time.Microsecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	c.realm.mu.Lock()
	leads, hangs := c.realm.leader == c, c.realm.random.IntN(2) == 0
	c.realm.mu.Unlock()
	if leads {
		return nil
	}
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return fmt.Errorf("%s: %w", c.name, ErrNotOwner)
}

func (c *citizen) Load(ctx context.Context, in uint32, id string) (Head, bool, error) {
	if err := c.leads(ctx); err != nil {
		return Head{}, false, err
	}
	return c.realm.journal.Load(ctx, in, id)
}

func (c *citizen) Running(ctx context.Context, in uint32, list string, visit func(string)) error {
	if err := c.leads(ctx); err != nil {
		return err
	}
	return c.realm.journal.Running(ctx, in, list, visit)
}

func (c *citizen) Due(ctx context.Context, in uint32, query DueQuery, visit func(string)) error {
	return c.realm.journal.Due(ctx, in, query, visit)
}

func (c *citizen) Confirm(ctx context.Context, _ uint32) error { return c.leads(ctx) }

func (c *citizen) Owns(_ uint32, epoch uint64) bool {
	c.realm.mu.Lock()
	defer c.realm.mu.Unlock()
	return c.realm.leader == c && c.realm.term == epoch
}

// Append writes if the node leads at the moment of writing, and says so most of the time.
func (c *citizen) Append(ctx context.Context, in uint32, entry *logpb.Append) (*logpb.Result, error) {
	r := c.realm
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
func (r *realm) write(by *citizen, in uint32, entry *logpb.Append) *logpb.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leader != by {
		return nil
	}
	return r.journal.apply(in, entry)
}

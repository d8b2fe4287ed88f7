package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/core/follow"
	"parley/cluster/shard"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

type notOwner struct {
	shard uint32
	epoch uint64
	owner string
}

func (notOwner) Error() string                { return "not the owner" }
func (n notOwner) NotOwner() (uint32, uint64) { return n.shard, n.epoch }
func (n notOwner) Owner() string              { return n.owner }

type lost struct{}

func (lost) Error() string { return "connection lost" }
func (lost) Lost() bool    { return true }

type refusal struct{ code failurepb.Code }

func (r refusal) Error() string { return r.code.String() }

// node is a Local and a Remote whose answers are given.
type node struct {
	mu      sync.Mutex
	calls   []string
	answers []error     // of the next calls; then nil
	hang    bool        // calls hang until their context ends
	sink    follow.Sink // of the newest follow
	gone    int         // follows that were cancelled
}

func (n *node) answer(ctx context.Context, call string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, call)
	if n.hang {
		n.mu.Unlock()
		<-ctx.Done()
		n.mu.Lock()
		return ctx.Err()
	}
	if len(n.answers) == 0 {
		return nil
	}
	err := n.answers[0]
	n.answers = n.answers[1:]
	return err
}

func (n *node) follow(ctx context.Context, call string, sink follow.Sink) (*conversationpb.Snapshot, func(), error) {
	if err := n.answer(ctx, call); err != nil {
		return nil, nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sink = sink
	return &conversationpb.Snapshot{LastSeq: 7}, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.gone++
	}, nil
}

func (n *node) Ask(ctx context.Context, in uint32, id string, command proto.Message) (proto.Message, error) {
	return &conversationpb.Reply{}, n.answer(ctx, fmt.Sprint("ask ", in, " ", id)+repeated(command))
}

// repeated tells a command that says that it comes again.
func repeated(command proto.Message) string {
	if c, ok := command.(*conversationpb.Command); ok && c.GetRepeated() {
		return " again"
	}
	return ""
}

func (n *node) Read(ctx context.Context, in uint32, query proto.Message) (proto.Message, error) {
	return query, n.answer(ctx, fmt.Sprint("read ", in))
}

func (n *node) Call(ctx context.Context, from string, _ proto.Message) (proto.Message, error) {
	return &nodepb.Done{}, n.answer(ctx, "call from "+from)
}

func (n *node) Follow(ctx context.Context, in uint32, id string, sink follow.Sink) (*conversationpb.Snapshot, func(), error) {
	return n.follow(ctx, fmt.Sprint("follow ", in, " ", id), sink)
}

type far struct{ node }

func (f *far) Ask(ctx context.Context, to Owner, id string, command proto.Message) (proto.Message, error) {
	return &conversationpb.Reply{}, f.answer(ctx, fmt.Sprint("ask ", to.Node, " ", to.Epoch, " ", id)+repeated(command))
}

func (f *far) Read(ctx context.Context, to Owner, query proto.Message) (proto.Message, error) {
	return query, f.answer(ctx, fmt.Sprint("read ", to.Node))
}

func (f *far) Call(ctx context.Context, node string, _ proto.Message) (proto.Message, error) {
	return &nodepb.Done{}, f.answer(ctx, "call "+node)
}

func (f *far) Follow(ctx context.Context, to Owner, id string, sink follow.Sink) (*conversationpb.Snapshot, func(), error) {
	return f.follow(ctx, fmt.Sprint("follow ", to.Node, " ", to.Epoch, " ", id), sink)
}

type fixture struct {
	*Router
	local  *node
	remote *far
	owners *Owners
	id     string
	in     shard.ID
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	shards, ok := shard.New(16)
	require.True(t, ok)
	f := &fixture{local: &node{}, remote: &far{}, owners: &Owners{}, id: shards.MintIn("conv", 5, &[24]byte{}), in: 5}
	var err error
	f.Router, err = New(Config{
		Node: "n1", Shards: shards, Local: f.local, Remote: f.remote, Owners: f.owners,
		Refuse: func(code failurepb.Code, _ failure.Reason) error { return refusal{code} },
	})
	require.NoError(t, err)
	f.owned("n1", 1)
	return f
}

func (f *fixture) owned(by string, epoch shard.Epoch) {
	f.owners.Set(Owner{Node: by, Shard: f.in, Epoch: epoch})
}

func (f *fixture) ask(t *testing.T) error {
	t.Helper()
	_, _, err := f.Ask(t.Context(), f.id, &conversationpb.Command{})
	return err
}

func TestCallsGoToTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		_, servedBy, err := f.Ask(t.Context(), f.id, &conversationpb.Command{})
		require.NoError(t, err)
		require.Equal(t, "n1", servedBy)
		_, _, err = f.Read(t.Context(), f.in, &nodepb.StateQuery{})
		require.NoError(t, err)
		s, err := f.Follow(t.Context(), f.id, nil)
		require.NoError(t, err)
		require.EqualValues(t, 7, s.Snapshot.GetLastSeq())
		require.Equal(t, "n1", s.Node)
		_, err = f.Call(t.Context(), "n1", &nodepb.SetNodeState{})
		require.NoError(t, err)
		require.Equal(t, []string{"ask 5 " + f.id, "read 5", "follow 5 " + f.id, "call from n1"}, f.local.calls)

		f.owned("n2", 2)
		_, servedBy, err = f.Ask(t.Context(), f.id, &conversationpb.Command{})
		require.NoError(t, err)
		require.Equal(t, "n2", servedBy)
		query := &nodepb.StateQuery{Id: "x"}
		answer, servedBy, err := f.Read(t.Context(), f.in, query)
		require.NoError(t, err)
		require.Equal(t, "n2", servedBy)
		require.Same(t, query, answer)
		s, err = f.Follow(t.Context(), f.id, &sink{})
		require.NoError(t, err)
		require.Equal(t, "n2", s.Node)
		s.Cancel()
		_, err = f.Call(t.Context(), "n3", &nodepb.SetNodeState{})
		require.NoError(t, err)
		require.Equal(t, []string{"ask n2 2 " + f.id, "read n2", "follow n2 2 " + f.id, "call n3"}, f.remote.calls)
	})
}

// TestWhatIsRepeated: what was not done, and what lost its owner; nothing else.
func TestWhatIsRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		answers []error
		calls   int
		want    error
	}{
		"not the owner":  {[]error{fmt.Errorf("ask: %w", notOwner{}), notOwner{}}, 3, nil},
		"owner lost":     {[]error{fmt.Errorf("ask: %w", lost{}), lost{}}, 3, nil},
		"a timeout":      {[]error{context.DeadlineExceeded}, 1, context.DeadlineExceeded},
		"a refusal":      {[]error{refusal{failurepb.Code_CONVERSATION_BUSY}}, 1, refusal{failurepb.Code_CONVERSATION_BUSY}},
		"not for always": {slices.Repeat([]error{lost{}}, 1000), 0, refusal{failurepb.Code_UNAVAILABLE}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, owner := range []string{"n1", "n2"} {
					f := newFixture(t)
					f.owned(owner, 2)
					f.local.answers, f.remote.answers = slices.Clone(c.answers), slices.Clone(c.answers)
					start := time.Now()
					require.ErrorIs(t, f.ask(t), c.want)
					calls := len(f.local.calls) + len(f.remote.calls)
					if c.calls > 0 {
						require.Equal(t, c.calls, calls)
						continue
					}
					require.InDelta(t, 2, time.Since(start).Seconds(), 0.01)
					require.InDelta(t, 25, calls, 5, "pauses grow")
				}
			})
		})
	}
}

// TestRepeatsSaySo: a command that comes again says so.
func TestRepeatsSaySo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.owned("n2", 2)
		f.remote.answers = []error{notOwner{}, lost{}, notOwner{}, nil}
		command := &conversationpb.Command{}
		_, _, err := f.Ask(t.Context(), f.id, command)
		require.NoError(t, err)
		ask := "ask n2 2 " + f.id
		require.Equal(t, []string{ask, ask + " again", ask + " again", ask + " again"}, f.remote.calls)
		require.False(t, command.GetRepeated(), "the caller's own stays as it is")

		f.remote.hang = true
		time.AfterFunc(time.Minute, func() { f.owned("n1", 3) }) // which ends the call that hangs
		_, _, err = f.Ask(t.Context(), f.id, command)
		require.NoError(t, err)
		require.Equal(t, []string{"ask 5 " + f.id + " again"}, f.local.calls)
	})
}

// TestANewerOwnerIsAskedAtOnce, whoever says so.
func TestANewerOwnerIsAskedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		start := time.Now()
		f.local.answers = []error{fmt.Errorf("ask: %w", notOwner{shard: 5, epoch: 3, owner: "n2"})}
		_, servedBy, err := f.Ask(t.Context(), f.id, &conversationpb.Command{})
		require.NoError(t, err)
		require.Equal(t, "n2", servedBy)
		require.Zero(t, time.Since(start))
		require.Equal(t, []string{"ask n2 3 " + f.id + " again"}, f.remote.calls)

		// What is not newer is not believed, nor what was not asked for.
		for _, hint := range []notOwner{{5, 3, "n9"}, {5, 2, "n9"}, {6, 9, "n9"}, {5, 9, ""}} {
			f.remote.answers = []error{hint}
			_, servedBy, err = f.Ask(t.Context(), f.id, &conversationpb.Command{})
			require.NoError(t, err)
			require.Equal(t, "n2", servedBy, "%v", hint)
		}

		// An owner that is cut off or stopped does not answer; the call goes to its successor.
		f.remote.hang = true
		time.AfterFunc(time.Minute, func() { f.owned("n1", 4) })
		start = time.Now()
		_, servedBy, err = f.Ask(t.Context(), f.id, &conversationpb.Command{})
		require.NoError(t, err)
		require.Equal(t, "n1", servedBy)
		require.Equal(t, time.Minute, time.Since(start))
	})
}

func TestShardWithoutAnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.owners.Unset(Owner{Node: "n1", Shard: 5, Epoch: 2})
		start := time.Now()
		require.Equal(t, refusal{failurepb.Code_UNAVAILABLE}, f.ask(t))
		require.Equal(t, 2*time.Second, time.Since(start))
		_, err := f.ReadAll(t.Context(), []shard.ID{5}, nil)
		require.Equal(t, refusal{failurepb.Code_UNAVAILABLE}, err)

		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, _, err = f.Ask(ctx, f.id, &conversationpb.Command{})
		require.ErrorIs(t, err, context.DeadlineExceeded)

		time.AfterFunc(500*time.Millisecond, func() { f.owned("n1", 3) })
		start = time.Now()
		require.NoError(t, f.ask(t))
		require.Equal(t, 500*time.Millisecond, time.Since(start), "asked the moment it is known")

		alone := *f.Router
		alone.config.Remote = nil
		f.owned("n9", 4)
		_, _, err = alone.Ask(t.Context(), f.id, &conversationpb.Command{})
		require.Equal(t, refusal{failurepb.Code_UNAVAILABLE}, err)
		_, err = alone.Call(t.Context(), "n9", &nodepb.SetNodeState{})
		require.Equal(t, refusal{failurepb.Code_UNAVAILABLE}, err)
	})
}

// TestALongWaitOutlivesSeveralOwners: each change of the owner has its own time.
func TestALongWaitOutlivesSeveralOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.remote.hang = true
		f.owned("n2", 2)
		go func() {
			for epoch := shard.Epoch(3); epoch < 9; epoch++ {
				time.Sleep(5 * time.Second)
				was, _ := f.owners.Owner(f.in)
				f.owners.Unset(was)
				time.Sleep(900 * time.Millisecond)
				f.owned(fmt.Sprint("n", 2+epoch%2), epoch)
			}
			time.Sleep(5 * time.Second)
			f.owned("n1", 9)
		}()
		require.NoError(t, f.ask(t))
		require.Len(t, f.remote.calls, 7)
	})
}

// silent is lost after nothing was heard for a while.
type silent struct {
	lost
	since time.Duration
}

func (s silent) Silent() time.Duration { return s.since }

// slow is a Remote and a Local whose attempts take their time and come to nothing.
type slow struct {
	node
	attempts []attempt // the last again and again
	made     int
}

type attempt struct {
	takes time.Duration
	err   error
}

func (s *slow) try() error {
	now := s.attempts[min(s.made, len(s.attempts)-1)]
	s.made++
	time.Sleep(now.takes)
	return now.err
}

func (s *slow) Ask(context.Context, uint32, string, proto.Message) (proto.Message, error) {
	return &conversationpb.Reply{}, s.try()
}

func (s *slow) Read(context.Context, uint32, proto.Message) (proto.Message, error) {
	return &nodepb.Done{}, s.try()
}

// TestWhatCountsAsTimeWithoutAnOwner: whatever a call waits for, but not the time in which an owner worked on it.
func TestWhatCountsAsTimeWithoutAnOwner(t *testing.T) {
	deposed, unreached := notOwner{}, notOwner{}
	for name, c := range map[string]struct {
		attempts []attempt
		want     time.Duration // until it is refused
	}{
		"nothing reaches it":              {[]attempt{{100 * time.Millisecond, unreached}}, 2 * time.Second},
		"it fell silent at once":          {[]attempt{{1500 * time.Millisecond, silent{since: 1600 * time.Millisecond}}, {0, unreached}}, 2 * time.Second},
		"it fell silent later":            {[]attempt{{1900 * time.Millisecond, silent{since: 1500 * time.Millisecond}}, {0, unreached}}, 2400 * time.Millisecond},
		"it worked for long, and died":    {[]attempt{{time.Minute, lost{}}, {0, unreached}}, time.Minute + 2*time.Second},
		"it worked for a while, and died": {[]attempt{{time.Second, lost{}}, {0, unreached}}, 3 * time.Second},
		"it was deposed":                  {[]attempt{{time.Second, deposed}, {0, unreached}}, 2 * time.Second},
		"it was deposed late":             {[]attempt{{1900 * time.Millisecond, deposed}, {0, unreached}}, 2400 * time.Millisecond},
		"it was deposed after long":       {[]attempt{{time.Minute, deposed}, {0, unreached}}, time.Minute + 2*time.Second},
		"it is deposed over and over":     {[]attempt{{700 * time.Millisecond, deposed}}, 2100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				shell := &slow{attempts: c.attempts}
				f.config.Local = shell
				start := time.Now()
				require.Equal(t, refusal{failurepb.Code_UNAVAILABLE}, f.ask(t))
				require.InDelta(t, c.want.Seconds(), time.Since(start).Seconds(), 0.11)
				require.GreaterOrEqual(t, time.Since(start), c.want)
				shell.made, start = 0, time.Now()
				_, err := f.ReadAll(t.Context(), []shard.ID{f.in}, func([]shard.ID) proto.Message { return &nodepb.Done{} })
				require.Equal(t, refusal{failurepb.Code_UNAVAILABLE}, err)
				require.InDelta(t, c.want.Seconds(), time.Since(start).Seconds(), 0.11)
			})
		})
	}
}

func TestWhatIsNoID(t *testing.T) {
	f := newFixture(t)
	for _, id := range []string{"", "conv_", "conv_short", "conv_" + string(make([]byte, 21)), f.id + "x", "\xff\xfe"} {
		_, _, err := f.Ask(t.Context(), id, &conversationpb.Command{})
		require.Equal(t, refusal{failurepb.Code_NOT_FOUND}, err, "%q", id)
		_, err = f.Follow(t.Context(), id, nil)
		require.Equal(t, refusal{failurepb.Code_NOT_FOUND}, err, "%q", id)
	}
	require.Empty(t, f.local.calls)
}

type sink struct {
	mu      sync.Mutex
	changes int
	closed  []error
}

func (s *sink) Change(*conversationpb.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
}

func (s *sink) Closed(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = append(s.closed, reason)
}

// TestAFollowEndsWithItsOwner: also when the owner cannot say so.
func TestAFollowEndsWithItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.owned("n2", 2)
		heard := &sink{}
		_, err := f.Follow(t.Context(), f.id, heard)
		require.NoError(t, err)
		f.remote.sink.Change(&conversationpb.Change{})
		f.owned("n3", 3)
		synctest.Wait()
		f.remote.sink.Change(&conversationpb.Change{})
		f.remote.sink.Closed(errors.New("late"))
		require.Equal(t, 1, heard.changes)
		require.Len(t, heard.closed, 1)
		require.True(t, again(heard.closed[0]))
		require.Equal(t, 1, f.remote.gone)

		// The owner says so itself.
		heard = &sink{}
		s, err := f.Follow(t.Context(), f.id, heard)
		require.NoError(t, err)
		f.remote.sink.Closed(notOwner{})
		f.owned("n2", 4)
		synctest.Wait()
		require.Equal(t, []error{notOwner{}}, heard.closed)
		require.Equal(t, 1, f.remote.gone)
		s.Cancel()
		require.Equal(t, 2, f.remote.gone)

		// The follower leaves.
		heard = &sink{}
		s, err = f.Follow(t.Context(), f.id, heard)
		require.NoError(t, err)
		s.Cancel()
		f.owned("n3", 5)
		synctest.Wait()
		require.Empty(t, heard.closed)
		require.Equal(t, 3, f.remote.gone)
	})
}

func TestReadAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		var all []shard.ID
		for in := shard.ID(1); in <= 16; in++ {
			all = append(all, in)
			f.owners.Set(Owner{Node: fmt.Sprint("n", 1+in%3), Shard: in, Epoch: 2})
		}
		f.owners.Unset(Owner{Node: "n2", Shard: 1, Epoch: 2})
		time.AfterFunc(time.Second, func() { f.owners.Set(Owner{Node: "n3", Shard: 1, Epoch: 3}) })
		f.remote.answers = []error{notOwner{}, lost{}}
		query := func(of []shard.ID) proto.Message {
			return &nodepb.StateQuery{Id: strings.Trim(fmt.Sprint(of), "[]")}
		}
		parts, err := f.ReadAll(t.Context(), all, query)
		require.NoError(t, err)
		var covered []shard.ID
		for _, part := range parts {
			covered = append(covered, part.Shards...)
			require.True(t, proto.Equal(query(part.Shards), part.Answer))
			for _, in := range part.Shards {
				owner, _ := f.owners.Owner(in)
				require.Equal(t, owner.Node, part.Node)
			}
		}
		slices.Sort(covered)
		require.Equal(t, all, covered)
		require.Equal(t, []string{"read 3"}, f.local.calls)
		require.Len(t, f.remote.calls, 5)

		f.local.answers = []error{refusal{failurepb.Code_STORAGE_FAILED}}
		f.remote.hang = true
		_, err = f.ReadAll(t.Context(), all, query)
		require.Equal(t, refusal{failurepb.Code_STORAGE_FAILED}, err)
	})
}

func TestOwners(t *testing.T) {
	var o Owners
	_, known := o.Owner(1)
	require.False(t, known)
	_, known, changed := o.Watch(1)
	require.False(t, known)
	require.True(t, o.Set(Owner{Node: "a", Shard: 1, Epoch: 5}))
	<-changed
	_, _, changed = o.Watch(1)
	require.True(t, o.Set(Owner{Node: "b", Shard: 2, Epoch: 1}))
	for _, old := range []Owner{{"a", 1, 5}, {"c", 1, 4}, {"c", 1, 5}, {"", 1, 6}} {
		require.False(t, o.Set(old), "%v", old)
	}
	for _, other := range []Owner{{"c", 1, 9}, {"a", 1, 4}, {"", 1, 9}} {
		require.False(t, o.Unset(other), "%v", other)
	}
	owner, known := o.Owner(1)
	require.True(t, known)
	require.Equal(t, Owner{Node: "a", Shard: 1, Epoch: 5}, owner)
	select {
	case <-changed:
		require.Fail(t, "nothing changed")
	default:
	}
	require.True(t, o.Unset(Owner{Node: "a", Shard: 1, Epoch: 5}))
	<-changed
	owner, known, _ = o.Watch(1)
	require.False(t, known)
	require.Equal(t, Owner{Shard: 1, Epoch: 5}, owner, "the epoch is remembered")
	require.True(t, o.Set(Owner{Node: "a", Shard: 1, Epoch: 5}), "and it may come back")
	_, known = o.Owner(2)
	require.True(t, known)
}

// TestWithoutAnOwner is what readiness asks: a shard that changes hands is without an owner since the last one went.
func TestWithoutAnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Owners
		require.Greater(t, o.Without(1), 24*time.Hour, "never seen")
		_, _, _ = o.Watch(1)
		require.Greater(t, o.Without(1), 24*time.Hour, "waited for, still never seen")
		a := Owner{Node: "a", Shard: 1, Epoch: 5}
		require.True(t, o.Set(a))
		time.Sleep(time.Second)
		require.Zero(t, o.Without(1))
		require.True(t, o.Unset(a))
		time.Sleep(time.Second)
		require.Equal(t, time.Second, o.Without(1))
		require.True(t, o.Set(Owner{Node: "b", Shard: 1, Epoch: 6}))
		require.Zero(t, o.Without(1))
	})
}

func TestConfigIsChecked(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "required")
	f := newFixture(t)
	bad := f.config
	bad.OwnerWait = -1
	_, err = New(bad)
	require.ErrorContains(t, err, "negative")
}

func BenchmarkForwarded(b *testing.B) {
	shards, _ := shard.New(16)
	owners := &Owners{}
	owners.Set(Owner{Node: "n2", Shard: 5, Epoch: 1})
	remote := &quiet{}
	r, err := New(Config{
		Node: "n1", Shards: shards, Local: &node{}, Remote: remote, Owners: owners,
		Refuse: func(code failurepb.Code, _ failure.Reason) error { return refusal{code} },
	})
	require.NoError(b, err)
	id := shards.MintIn("conv", 5, &[24]byte{})
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := r.Ask(b.Context(), id, nil); err != nil {
			b.Fatal(err)
		}
	}
}

type quiet struct{ far }

func (*quiet) Ask(context.Context, Owner, string, proto.Message) (proto.Message, error) {
	return nil, nil //nolint:nilnil // nothing to say
}

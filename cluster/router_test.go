package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/cluster/shard"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

type notOwner struct{}

func (notOwner) Error() string              { return "not the owner" }
func (notOwner) NotOwner() (uint32, uint64) { return 1, 1 }

type refusal struct{ code failurepb.Code }

func (r refusal) Error() string { return r.code.String() }

// node is a Local and a Remote whose answers are given.
type node struct {
	calls   []string
	answers []error // of the next calls; then nil
}

func (n *node) answer(call string) error {
	n.calls = append(n.calls, call)
	if len(n.answers) == 0 {
		return nil
	}
	err := n.answers[0]
	n.answers = n.answers[1:]
	return err
}

func (n *node) Ask(_ context.Context, in uint32, id string, _ proto.Message) (proto.Message, error) {
	return &conversationpb.Reply{}, n.answer(fmt.Sprint("ask ", in, " ", id))
}

func (n *node) Follow(_ context.Context, in uint32, id string, _ Sink) (*conversationpb.Snapshot, func(), error) {
	return &conversationpb.Snapshot{LastSeq: 7}, func() {}, n.answer(fmt.Sprint("follow ", in, " ", id))
}

type far struct{ node }

func (f *far) Ask(_ context.Context, to Owner, id string, _ proto.Message) (proto.Message, error) {
	return &conversationpb.Reply{}, f.answer(fmt.Sprint("ask ", to.Node, " ", to.Epoch, " ", id))
}

func (f *far) Follow(_ context.Context, to Owner, id string, _ Sink) (*conversationpb.Snapshot, func(), error) {
	return &conversationpb.Snapshot{}, func() {}, f.answer(fmt.Sprint("follow ", to.Node, " ", to.Epoch, " ", id))
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
		Node: "n1", Shards: shards, Local: f.local, Remote: f.remote, Leaders: f.owners,
		Refuse: func(code failurepb.Code, _ string) error { return refusal{code} },
	})
	require.NoError(t, err)
	f.owners.Set(Owner{Node: "n1", Shard: 5, Epoch: 1})
	return f
}

func (f *fixture) ask(t *testing.T) error {
	t.Helper()
	_, err := f.Ask(t.Context(), f.id, &conversationpb.Command{})
	return err
}

func TestCallsGoToTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		require.NoError(t, f.ask(t))
		snapshot, _, err := f.Follow(t.Context(), f.id, nil)
		require.NoError(t, err)
		require.EqualValues(t, 7, snapshot.GetLastSeq())
		require.Equal(t, []string{"ask 5 " + f.id, "follow 5 " + f.id}, f.local.calls)
		f.owners.Set(Owner{Node: "n2", Shard: 5, Epoch: 2})
		require.NoError(t, f.ask(t))
		_, _, err = f.Follow(t.Context(), f.id, nil)
		require.NoError(t, err)
		require.Equal(t, []string{"ask n2 2 " + f.id, "follow n2 2 " + f.id}, f.remote.calls)
	})
}

func TestOnlyNotOwnerIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.local.answers = []error{fmt.Errorf("ask: %w", notOwner{}), notOwner{}}
		require.NoError(t, f.ask(t))
		require.Len(t, f.local.calls, 3)

		f.local.calls, f.local.answers = nil, []error{context.DeadlineExceeded}
		require.ErrorIs(t, f.ask(t), context.DeadlineExceeded)
		require.Len(t, f.local.calls, 1)

		broken := errors.New("broken")
		f.local.calls, f.local.answers = nil, []error{broken}
		_, _, err := f.Follow(t.Context(), f.id, nil)
		require.ErrorIs(t, err, broken)
		require.Len(t, f.local.calls, 1)
	})
}

func TestShardWithoutAnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.owners.Set(Owner{Shard: 5, Epoch: 2})
		start := time.Now()
		require.Equal(t, refusal{failurepb.Code_UNAVAILABLE}, f.ask(t))
		require.InDelta(t, 2, time.Since(start).Seconds(), 0.2)

		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := f.Ask(ctx, f.id, &conversationpb.Command{})
		require.ErrorIs(t, err, context.DeadlineExceeded)

		time.AfterFunc(500*time.Millisecond, func() { f.owners.Set(Owner{Node: "n1", Shard: 5, Epoch: 3}) })
		start = time.Now()
		require.NoError(t, f.ask(t))
		require.Less(t, time.Since(start), 700*time.Millisecond)

		alone := *f.Router
		alone.config.Remote = nil
		f.owners.Set(Owner{Node: "n9", Shard: 5, Epoch: 4})
		_, err = alone.Ask(t.Context(), f.id, &conversationpb.Command{})
		require.Equal(t, refusal{failurepb.Code_UNAVAILABLE}, err)
	})
}

func TestWhatIsNoID(t *testing.T) {
	f := newFixture(t)
	for _, id := range []string{"", "conv_", "conv_short", "conv_" + string(make([]byte, 21)), f.id + "x", "\xff\xfe"} {
		_, err := f.Ask(t.Context(), id, &conversationpb.Command{})
		require.Equal(t, refusal{failurepb.Code_NOT_FOUND}, err, "%q", id)
		_, _, err = f.Follow(t.Context(), id, nil)
		require.Equal(t, refusal{failurepb.Code_NOT_FOUND}, err, "%q", id)
	}
	require.Empty(t, f.local.calls)
}

func TestOwners(t *testing.T) {
	var o Owners
	_, known := o.Owner(1)
	require.False(t, known)
	require.True(t, o.Set(Owner{Node: "a", Shard: 1, Epoch: 5}))
	require.True(t, o.Set(Owner{Node: "b", Shard: 2, Epoch: 1}))
	require.False(t, o.Set(Owner{Node: "c", Shard: 1, Epoch: 4}), "old news")
	owner, known := o.Owner(1)
	require.True(t, known)
	require.Equal(t, Owner{Node: "a", Shard: 1, Epoch: 5}, owner)
	require.True(t, o.Set(Owner{Shard: 1, Epoch: 5}), "lost, and no newer one known")
	_, known = o.Owner(1)
	require.False(t, known)
	_, known = o.Owner(2)
	require.True(t, known)
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

package records

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/catalog"
	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/cluster"
	"parley/cluster/shard"
	"parley/cmd/parley/node/reads"
	"parley/persistence"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

// owner is a node that is alone.
type owner struct {
	cluster.Local
	store *persistence.Store
	reads *reads.Answerer
}

// Read implements cluster.Local.
func (o *owner) Read(ctx context.Context, in uint32, query proto.Message) (proto.Message, error) {
	return o.reads.Read(ctx, in, query)
}

// Call implements cluster.Local.
func (o *owner) Call(ctx context.Context, _ string, request proto.Message) (proto.Message, error) {
	answer, _, err := Answer(ctx, o.store, request)
	return answer, err
}

// newAlone is the records of a node that is no cluster, and its store.
func newAlone(t *testing.T) (*Store, *persistence.Store) {
	t.Helper()
	store, err := persistence.Open(t.Context(), persistence.Options{Dir: t.TempDir(), Shards: 1})
	require.NoError(t, err)
	t.Cleanup(store.Stop)
	store.Start()
	require.NoError(t, store.WaitReady(t.Context()))
	shards, ok := shard.New(1)
	require.True(t, ok)
	kinds, err := reads.NewEntities(nil)
	require.NoError(t, err)
	owners := &cluster.Owners{}
	owners.Set(cluster.Owner{Node: "n1", Shard: shard.Directory, Epoch: 1})
	router, err := cluster.New(cluster.Config{
		Node: "n1", Shards: shards, Local: &owner{store: store, reads: reads.NewAnswerer(reads.NewReader(store, shards), kinds)}, Owners: owners,
		Refuse: func(code failurepb.Code, reason failure.Reason) error { return failure.New(code, reason) },
	})
	require.NoError(t, err)
	r, stop := New(Config{Store: store, Router: router, Owners: owners, Others: func() []string { return nil }})
	t.Cleanup(func() { stop(context.WithoutCancel(t.Context())) })
	return r, store
}

// TestLostAnswers: a write of which the answer was lost is made again, and takes what it has written itself for no
// conflict; what somebody else has written is one.
func TestLostAnswers(t *testing.T) {
	r, store := newAlone(t)
	ctx := t.Context()
	_, err := r.Put(ctx, identity.Users, "u", 0, []byte("a"))
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		put  *nodepb.PutRecord
		mine bool
	}{
		"its own":             {&nodepb.PutRecord{Key: "u", Value: []byte("a")}, true},
		"another's":           {&nodepb.PutRecord{Key: "u", Value: []byte("b")}, false},
		"there is a newer":    {&nodepb.PutRecord{Key: "u", Value: []byte("a"), ExpectedVersion: math.MaxUint64}, false},
		"removed":             {&nodepb.PutRecord{Key: "gone", Delete: true, ExpectedVersion: 3}, true},
		"not removed":         {&nodepb.PutRecord{Key: "u", Delete: true, ExpectedVersion: 3}, false},
		"removed by somebody": {&nodepb.PutRecord{Key: "gone", Value: []byte("a"), ExpectedVersion: 3}, false},
	} {
		t.Run(name, func(t *testing.T) {
			tc.put.Collection = identity.Users
			conflict, err := putRecord(ctx, store, tc.put)
			require.NoError(t, err)
			require.True(t, conflict.GetConflict())
			reply, err := r.own(ctx, tc.put, conflict)
			require.NoError(t, err)
			require.Equal(t, !tc.mine, reply.GetConflict())
		})
	}
}

// TestTurnThatNeverComes: who gives up waiting to write leaves no trace.
func TestTurnThatNeverComes(t *testing.T) {
	r, _ := newAlone(t)
	scope := collection.Scope(catalog.Models, "t")
	leave, err := r.turns.take(t.Context(), scope)
	require.NoError(t, err)
	brief, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.Guarded(brief, scope, func() (*collection.Write, error) { return nil, errors.New("not its turn") })
	require.ErrorIs(t, err, context.Canceled)
	leave()
	require.Empty(t, r.turns.lines)
}

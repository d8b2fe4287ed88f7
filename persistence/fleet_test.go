package persistence_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"parley/persistence"
	"parley/persistence/persistencetest"
	"parley/proto/logpb"
)

const fleetCluster = "test-cluster"

// fleet is some stores of one cluster, over a network in memory. Node 1 begins it.
type fleet struct {
	t       *testing.T
	network *persistencetest.Network

	mu    sync.Mutex
	nodes map[uint64]*fleetNode
}

type fleetNode struct {
	fs    vfs.FS
	store *persistence.Store // nil while it is down
}

func newFleet(t *testing.T, nodes ...uint64) *fleet {
	t.Helper()
	f := &fleet{t: t, network: persistencetest.NewNetwork(t), nodes: map[uint64]*fleetNode{}}
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	t.Cleanup(func() {
		for id := range f.running() {
			f.down(id)
		}
		f.network.Close()
	})
	for _, id := range nodes {
		f.up(id, vfs.NewMem())
	}
	return f
}

func (f *fleet) options(id uint64, fs vfs.FS) persistence.Options {
	o := small(fs)
	o.NodeID, o.ClusterID, o.Join = id, fleetCluster, id != 1
	o.Transport, o.TickInterval = f.network.Endpoint(id), 20*time.Millisecond
	return o
}

// up starts a node on a file system, which may hold what it had when it went down.
func (f *fleet) up(id uint64, fs vfs.FS) *persistence.Store {
	f.t.Helper()
	s, err := persistence.Open(f.t.Context(), f.options(id, fs))
	require.NoError(f.t, err)
	f.run(id, fs, s)
	return s
}

func (f *fleet) run(id uint64, fs vfs.FS, s *persistence.Store) {
	f.mu.Lock()
	f.nodes[id] = &fleetNode{fs: fs, store: s}
	f.mu.Unlock()
	s.Start()
	f.network.Endpoint(id).Bind(s)
}

func (f *fleet) down(id uint64) {
	s := f.store(id)
	f.network.Endpoint(id).Bind(nil)
	f.mu.Lock()
	f.nodes[id].store = nil
	f.mu.Unlock()
	s.Stop()
}

func (f *fleet) store(id uint64) *persistence.Store {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[id].store
}

// running are the stores of the nodes that are up.
func (f *fleet) running() map[uint64]*persistence.Store {
	f.mu.Lock()
	defer f.mu.Unlock()
	up := map[uint64]*persistence.Store{}
	for id, n := range f.nodes {
		if n.store != nil {
			up[id] = n.store
		}
	}
	return up
}

// leader is the store that leads a group.
func (f *fleet) leader(group uint32) (*persistence.Store, error) {
	for id, s := range f.running() {
		if node, _, ok := s.Leader(group); ok && node == id {
			return s, nil
		}
	}
	return nil, fmt.Errorf("nobody leads %d", group)
}

// try runs do at the leader of a group until it succeeds.
func (f *fleet) try(group uint32, do func(*persistence.Store) error) error {
	err := eventuallyNil(func() error {
		s, err := f.leader(group)
		if err != nil {
			return err
		}
		return do(s)
	})
	if err == nil {
		return nil
	}
	for id, s := range f.running() {
		r, statusErr := status(s, group)
		f.t.Logf("node %d: %+v, %v", id, r, statusErr)
	}
	return err
}

func (f *fleet) at(group uint32, do func(*persistence.Store) error) {
	f.t.Helper()
	require.NoError(f.t, f.try(group, do))
}

func (f *fleet) change(group uint32, kind persistence.ChangeKind, node uint64) {
	f.t.Helper()
	f.at(group, func(s *persistence.Store) error {
		members, err := f.members(s, group)
		if err != nil {
			return err
		}
		if f.changed(members, kind, node) {
			return nil
		}
		return s.ChangeMembers(f.t.Context(), group, persistence.Change{Kind: kind, Node: node, Expect: &members})
	})
}

func (f *fleet) changed(m persistence.Members, kind persistence.ChangeKind, node uint64) bool {
	voter, learner := slices.Contains(m.Voters, node), slices.Contains(m.Learners, node)
	switch kind {
	case persistence.AddLearner:
		return learner
	case persistence.Promote:
		return voter
	default:
		return !voter && !learner
	}
}

func (f *fleet) members(s *persistence.Store, group uint32) (persistence.Members, error) {
	r, err := status(s, group)
	return r.Members, err
}

func status(s *persistence.Store, group uint32) (persistence.ReplicaStatus, error) {
	all, err := s.Replicas(ctx)
	if err != nil {
		return persistence.ReplicaStatus{}, err
	}
	i := slices.IndexFunc(all, func(r persistence.ReplicaStatus) bool { return r.Group == group })
	if i < 0 {
		return persistence.ReplicaStatus{}, fmt.Errorf("no replica of %d", group)
	}
	return all[i], nil
}

// grow makes nodes voters of all groups.
func (f *fleet) grow(nodes ...uint64) {
	f.t.Helper()
	for group := range uint32(4) {
		for _, id := range nodes {
			f.change(group, persistence.AddLearner, id)
			f.change(group, persistence.Promote, id)
		}
	}
}

// append writes to a conversation wherever its shard is led. It repeats what the log left open; the compare decides.
func (f *fleet) append(group uint32, id string, seq uint64) {
	f.t.Helper()
	f.at(group, func(s *persistence.Store) error { return f.tryAppend(s, group, id, seq) })
}

func (f *fleet) tryAppend(s *persistence.Store, group uint32, id string, seq uint64) error {
	_, epoch, _ := s.Leader(group)
	a := &logpb.Append{
		Id: id, Create: seq == 0, ExpectedSeq: max(seq, 1) - 1, Epoch: epoch, Head: fmt.Appendf(nil, "head %d", seq),
		Events:   [][]byte{[]byte(crashEvent(id, seq))},
		Listings: []*logpb.Listing{{List: "updated", Score: int64(seq), Member: id}},
		Counts:   []*logpb.Count{{Name: "events", Delta: 1}},
	}
	if seq == 0 {
		a.Counts = append(a.Counts, &logpb.Count{Name: "conversations", Delta: 1})
	} else {
		a.Listings = append(a.Listings, &logpb.Listing{List: "updated", Score: int64(seq) - 1, Member: id, Delete: true})
	}
	r, err := s.Append(ctx, group, a)
	switch {
	case err != nil:
		return err
	case r.GetOutcome() == logpb.Outcome_APPLIED, r.GetOutcome() != logpb.Outcome_FENCED && r.GetSeq() == seq:
		return nil
	default:
		return fmt.Errorf("append %d to %s: %s at %d", seq, id, r.GetOutcome(), r.GetSeq())
	}
}

// put writes a directory record wherever the directory is led.
func (f *fleet) put(key, value string) {
	f.t.Helper()
	f.at(0, func(s *persistence.Store) error {
		r, _ := s.Directory().Get("test", key)
		if string(r.Value) == value {
			return nil
		}
		_, err := s.Directory().Put(ctx, "test", key, r.Version, []byte(value))
		return err
	})
}

// sees waits until a node's directory says so.
func (f *fleet) sees(id uint64, key, value string) {
	f.t.Helper()
	require.NoError(f.t, eventuallyNil(func() error {
		if r, _ := f.store(id).Directory().Get("test", key); string(r.Value) != value {
			return errors.New("not yet")
		}
		return nil
	}), "node %d", id)
}

// caught waits until a node's replicas have applied what the leaders have.
func (f *fleet) caught(id uint64, groups ...uint32) {
	f.t.Helper()
	for _, group := range groups {
		f.at(group, func(leader *persistence.Store) error {
			want, err := status(leader, group)
			if err != nil {
				return err
			}
			got, err := status(f.store(id), group)
			if err != nil {
				return err
			}
			if !got.Initialised || got.Applied < want.Applied {
				return fmt.Errorf("node %d is at %d of %d", id, got.Applied, want.Applied)
			}
			return nil
		})
	}
}

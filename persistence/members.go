package persistence

import (
	"context"
	"fmt"
	"sync"
	"time"

	"parley/persistence/keys"
	"parley/persistence/replica"
)

// ReplicaStatus is what this node knows of one group that it holds, at one moment.
type ReplicaStatus struct {
	Group uint32
	// Leading is true while this node serves as the leader; Leader is who leads as far as it has heard, 0 = not known.
	Leading bool
	Leader  uint64
	// Term is the epoch of the leadership when leading, else the newest one known.
	Term uint64
	// Applied is the position of the state, First and Last are the ends of the log, which is empty when First is above
	// Last.
	Applied, First, Last uint64
	LogBytes             uint64
	// StateBytes is about the size of the state on disk. It lags some seconds, and misses what lies in a write buffer.
	StateBytes uint64
	// Initialised is false for a replica that waits for its first snapshot.
	Initialised bool
	// Members are those that this node has heard of.
	Members Members
	// Lags are the other members as their leader sees them. Only the leader has them.
	Lags []Lag
}

// Members are the nodes that hold a replica of a group.
type Members struct{ Voters, Learners []uint64 }

// Lag is how far a member is behind the leader.
type Lag struct {
	Node    uint64
	Entries uint64
	Active  bool // it answered within an election timeout
}

// ChangeKind is what happens to a member. A new voter comes in two steps: AddLearner, and Promote once it has caught up.
type ChangeKind = replica.ChangeKind

// Kinds of membership changes.
const (
	AddLearner = replica.AddLearner
	Promote    = replica.Promote
	Remove     = replica.Remove
)

// Change is one step of a membership change.
type Change struct {
	Kind ChangeKind
	Node uint64
	// Expect are the members without which the change is refused (ErrConflict); nil takes them as they are.
	Expect *Members
}

// Replicas returns what this node holds, by group. It asks the logs' loop: not for every request.
func (s *Store) Replicas(ctx context.Context) ([]ReplicaStatus, error) {
	if !s.uses.enter() {
		return nil, ErrStopped
	}
	defer s.uses.leave()
	all, err := s.driver.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("status of replicas: %w", err)
	}
	s.sizes.mu.Lock()
	defer s.sizes.mu.Unlock()
	if err := s.measure(all); err != nil {
		return nil, err
	}
	out := make([]ReplicaStatus, len(all))
	for i := range all {
		r := &all[i]
		out[i] = ReplicaStatus{
			Group: uint32(r.Group), Leading: r.Leading, Leader: uint64(r.Leader), Term: r.Term, Applied: r.Applied, First: r.First, Last: r.Last,
			LogBytes: r.LogBytes, StateBytes: s.sizes.bytes[r.Group], Initialised: r.Initialised,
			Members: Members{Voters: convert[uint64](r.Members.Voters), Learners: convert[uint64](r.Members.Learners)},
		}
		for _, lag := range r.Lags {
			out[i].Lags = append(out[i].Lags, Lag{Node: uint64(lag.Node), Entries: lag.Entries, Active: lag.Active})
		}
	}
	return out, nil
}

// sizes are those of the groups' states, looked at now and then: it takes a look at the tables.
type sizes struct {
	mu    sync.Mutex
	seen  time.Time
	bytes map[replica.GroupID]uint64
}

const sizesInterval = 5 * time.Second

// measure looks at the sizes of the groups, if that was not done just now.
func (s *Store) measure(all []replica.Status) error {
	if len(all) == len(s.sizes.bytes) && time.Since(s.sizes.seen) < sizesInterval {
		return nil
	}
	s.sizes.seen, s.sizes.bytes = time.Now(), make(map[replica.GroupID]uint64, len(all))
	for i := range all {
		n, err := s.db.EstimateDiskUsage(keys.Span(uint32(all[i].Group)))
		if err != nil {
			return readError("size", err)
		}
		s.sizes.bytes[all[i].Group] = n
	}
	return nil
}

// ChangeMembers makes one change to the members of a group that this node leads, and returns once it is in force here.
// ErrBusy asks to come back: another change is under way, or a learner that is to be promoted is behind. ErrConflict and
// ErrUnsafe refuse. Otherwise its errors are those of Append.
func (s *Store) ChangeMembers(ctx context.Context, group uint32, c Change) error {
	change := replica.Change{Kind: c.Kind, Node: replica.NodeID(c.Node)}
	if c.Expect != nil {
		change.Expect = &replica.Members{Voters: convert[replica.NodeID](c.Expect.Voters), Learners: convert[replica.NodeID](c.Expect.Learners)}
	}
	if err := s.driver.ChangeMembers(ctx, replica.GroupID(group), change); err != nil {
		return fmt.Errorf("change members of shard %d: %w", group, s.elsewhere(err, group))
	}
	return nil
}

// TransferLeader hands the leadership of a group that this node leads to another voter, and returns once this node knows
// of it. Writes are refused (ErrNotLeader) meanwhile. ErrTransferFailed says that this node still leads.
func (s *Store) TransferLeader(ctx context.Context, group uint32, to uint64) error {
	if err := s.driver.TransferLeader(ctx, replica.GroupID(group), replica.NodeID(to)); err != nil {
		return fmt.Errorf("transfer shard %d: %w", group, s.elsewhere(err, group))
	}
	return nil
}

// DropReplica destroys this node's replica of a group of which it is no member any more. asOf is how far the leader had
// applied the log when this node was not among its members. ErrStillMember refuses; no replica is no error.
func (s *Store) DropReplica(ctx context.Context, group uint32, asOf uint64) error {
	if err := s.driver.Drop(ctx, replica.GroupID(group), asOf); err != nil {
		return fmt.Errorf("drop replica of shard %d: %w", group, err)
	}
	return nil
}

// Leader is the node that leads a group and its epoch, as far as this node knows.
func (s *Store) Leader(group uint32) (node, term uint64, ok bool) {
	leader, term, ok := s.driver.Leader(replica.GroupID(group))
	return uint64(leader), term, ok
}

// Hosts is true while this node holds a whole replica of a group, which may be behind.
func (s *Store) Hosts(group uint32) bool { return s.driver.Hosts(replica.GroupID(group)) }

func convert[To, From ~uint64](from []From) []To {
	to := make([]To, len(from))
	for i, n := range from {
		to[i] = To(n)
	}
	return to
}

package persistence

import (
	"context"
	"fmt"
	"sync"
	"time"

	"parley/persistence/keys"
	"parley/persistence/replica"
)

// ReplicaStatus is this node's knowledge of one of its replicas at one moment.
type ReplicaStatus struct {
	Group uint32
	// Leading is true while this node serves as the leader. Leader is the leader as far as this node knows, 0 = not
	// known.
	Leading bool
	Leader  uint64
	// Term is the epoch of the leadership when leading, else the newest one known.
	Term uint64
	// Applied is the position of the state. First and Last are the ends of the log, which is empty when First is above
	// Last.
	Applied, First, Last uint64
	LogBytes             uint64
	// StateBytes is the approximate size of the state on disk. It may be some seconds old, and excludes write buffers.
	StateBytes uint64
	// Initialised is false for a replica that waits for its first snapshot.
	Initialised bool
	// Members are the members as far as this node knows.
	Members Members
	// Lags are the other members as seen by their leader; empty elsewhere.
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

// ChangeKind is a kind of membership change. A new voter is added in two steps: AddLearner, then Promote once it has
// caught up.
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
	// Expect is what the members must be; otherwise the change is refused with ErrConflict. nil skips the check.
	Expect *Members
}

// LogDelay is how long it took of late, in the mean, until entries of the log were durable on this node's disk; 0 = too little was written
// to say.
func (s *Store) LogDelay() time.Duration { return s.driver.LogDelay() }

// Replicas returns the status of this node's replicas, by group. It goes through the raft loop, so it is not for every
// request.
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

// sizes caches the sizes of the groups' states, since measuring them has to inspect the tables.
type sizes struct {
	mu    sync.Mutex
	seen  time.Time
	bytes map[replica.GroupID]uint64
}

const sizesInterval = 5 * time.Second

// measure updates the sizes of the groups, unless that was done recently.
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

// ChangeMembers makes one change to the members of a group that this node leads, and returns once it is in effect here.
// ErrBusy asks to retry later: another change is in progress, or a learner that is to be promoted is behind.
// ErrConflict and ErrUnsafe refuse the change. The other errors are those of Append.
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

// TransferLeader transfers the leadership of a group that this node leads to another voter, and returns once this node
// knows the new leader. Writes are refused (ErrNotLeader) meanwhile. ErrTransferFailed means that this node still
// leads.
func (s *Store) TransferLeader(ctx context.Context, group uint32, to uint64) error {
	if err := s.driver.TransferLeader(ctx, replica.GroupID(group), replica.NodeID(to)); err != nil {
		return fmt.Errorf("transfer shard %d: %w", group, s.elsewhere(err, group))
	}
	return nil
}

// TryLeader returns nil if a voter would take over the leadership of a group, which this node leads, without delay: it is hardly behind,
// and stores an entry, which is appended for that, within most or about as fast as a majority. Nothing is refused meanwhile.
// ErrTransferFailed means that it would not.
func (s *Store) TryLeader(ctx context.Context, group uint32, to uint64, most time.Duration) error {
	if err := s.driver.TryLeader(ctx, replica.GroupID(group), replica.NodeID(to), most); err != nil {
		return fmt.Errorf("try node %d for shard %d: %w", to, group, s.elsewhere(err, group))
	}
	return nil
}

// DropReplica deletes this node's replica of a group that it is no longer a member of. asOf is an index up to which the
// leader had applied the log when this node was not among the members. ErrStillMember refuses. A missing replica is no
// error.
func (s *Store) DropReplica(ctx context.Context, group uint32, asOf uint64) error {
	if err := s.driver.Drop(ctx, replica.GroupID(group), asOf); err != nil {
		return fmt.Errorf("drop replica of shard %d: %w", group, err)
	}
	return nil
}

// Leader returns the leader of a group and its epoch, as far as this node knows.
func (s *Store) Leader(group uint32) (node, term uint64, ok bool) {
	leader, term, ok := s.driver.Leader(replica.GroupID(group))
	return uint64(leader), term, ok
}

// Hosts reports whether this node holds a complete replica of a group, which may lag behind.
func (s *Store) Hosts(group uint32) bool { return s.driver.Hosts(replica.GroupID(group)) }

func convert[To, From ~uint64](from []From) []To {
	to := make([]To, len(from))
	for i, n := range from {
		to[i] = To(n)
	}
	return to
}

package replica

import (
	"errors"
	"fmt"
)

var (
	// ErrNotLeader answers a call that only the leader of a group can serve; nothing was written. The error is a
	// *NotLeaderError, which names the leader if it is known.
	ErrNotLeader = errors.New("not the leader of the group")
	// ErrOutcomeUnknown answers a proposal that was accepted and may or may not be applied: leadership was lost, the
	// wait was cut short, or the store failed.
	ErrOutcomeUnknown = errors.New("outcome of the proposal is unknown")
	// ErrStopped answers everything after Stop, or before Start.
	ErrStopped = errors.New("replica driver is stopped")
	// ErrFailed answers every write after a failed commit, until the node is restarted.
	ErrFailed = errors.New("store failed, no writes until restart")
	// ErrBusy answers a proposal that does not fit into the bounded queue of its group, or a membership change while
	// another is in progress; nothing was written.
	ErrBusy = errors.New("too many proposals in flight")
	// ErrUnknownGroup answers a group that this node does not hold.
	ErrUnknownGroup = errors.New("unknown group")
	// ErrTooLarge answers a proposal above Config.MaxProposalBytes; nothing was written.
	ErrTooLarge = errors.New("proposal too large")
	// ErrConflict answers a membership change whose Change.Expect does not match the members; nothing was done.
	ErrConflict = errors.New("members are not the expected ones")
	// ErrUnsafe answers a membership change that would leave no majority of active voters; nothing was done.
	ErrUnsafe = errors.New("change would leave no majority of live voters")
	// ErrStillMember answers a Drop of a replica that leads, hears from a leader, or has a log that goes beyond asOf.
	ErrStillMember = errors.New("replica is still in use")
	// ErrInconsistent is returned by Open for a store that this driver cannot have written.
	ErrInconsistent = errors.New("inconsistent store")
)

// NotLeaderError is the ErrNotLeader of one group.
type NotLeaderError struct {
	Group GroupID
	// Leader is 0 while no leader is known, or while the known one has not caught up with its predecessors yet.
	Leader NodeID
}

// Error names the group and the leader.
func (e *NotLeaderError) Error() string {
	if e.Leader == 0 {
		return fmt.Sprintf("group %d: %v (leader unknown)", e.Group, ErrNotLeader)
	}
	return fmt.Sprintf("group %d: %v (leader is node %d)", e.Group, ErrNotLeader, e.Leader)
}

// Unwrap makes errors.Is(err, ErrNotLeader) true.
func (e *NotLeaderError) Unwrap() error { return ErrNotLeader }

func inconsistent(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInconsistent, fmt.Sprintf(format, args...))
}

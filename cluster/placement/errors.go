package placement

import (
	"errors"
	"fmt"
	"math"
	"time"

	"parley/cluster/shard"
	"parley/proto/nodepb"
)

// notOwnerError says that nothing was done.
type notOwnerError struct {
	shard uint32
	epoch uint64
	owner string // who owns the shard under the epoch, "" = not known
	why   string
}

func (e *notOwnerError) Error() string { return e.why }

// NotOwner names the shard and the newest epoch known of it, 0 = none.
func (e *notOwnerError) NotOwner() (in uint32, epoch uint64) { return e.shard, e.epoch }

// Owner is who owns the shard under that epoch, "" = not known.
func (e *notOwnerError) Owner() string { return e.owner }

func notSent(node string, in uint32, why string) error {
	return &notOwnerError{shard: in, why: fmt.Sprintf("node %s was not asked: %s", node, why)}
}

// lostError says that a call may have been done, and that no answer will come.
type lostError struct {
	node, why string
	silent    time.Duration
}

func (e *lostError) Error() string { return fmt.Sprintf("node %s is lost: %s", e.node, e.why) }

// Lost is true.
func (e *lostError) Lost() bool { return true }

// Silent is for how long nothing had been heard of the node when it was given up.
func (e *lostError) Silent() time.Duration { return e.silent }

// unknownSilence stands for one of which nobody here knows how long it lasted.
const unknownSilence = time.Duration(math.MaxInt64)

// encode turns an error of this node's shell into what crosses the wire. "Not the owner" takes along who is.
func (s *System) encode(in uint32, err error) *nodepb.Response {
	var notOwner interface {
		NotOwner() (in uint32, epoch uint64)
	}
	if !errors.As(err, &notOwner) {
		return &nodepb.Response{Outcome: &nodepb.Response_Fault{Fault: s.config.Encode(err)}}
	}
	answer := &nodepb.NotOwner{Shard: in}
	_, answer.Epoch = notOwner.NotOwner()
	owner, known := s.config.Owners.Owner(shard.ID(in))
	if known && owner.Node != s.config.Name && uint64(owner.Epoch) >= answer.Epoch {
		answer.Epoch, answer.Owner = uint64(owner.Epoch), owner.Node
	}
	return &nodepb.Response{Outcome: &nodepb.Response_NotOwner{NotOwner: answer}}
}

// decode is the error that another node answered with.
func (s *System) decode(from string, response *nodepb.Response) error {
	switch outcome := response.GetOutcome().(type) {
	case *nodepb.Response_NotOwner:
		n := outcome.NotOwner
		return &notOwnerError{
			shard: n.GetShard(), epoch: n.GetEpoch(), owner: n.GetOwner(),
			why: fmt.Sprintf("node %s does not own shard %d", from, n.GetShard()),
		}
	case *nodepb.Response_Fault:
		return s.config.Decode(outcome.Fault)
	default:
		return fmt.Errorf("node %s answered what this one does not understand", from)
	}
}

func fault(text string) *nodepb.Response {
	return &nodepb.Response{Outcome: &nodepb.Response_Fault{Fault: &nodepb.Fault{Message: text}}}
}

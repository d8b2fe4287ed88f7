package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"parley/actors"
	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/actors/core/follow"
	"parley/cmd/parley/node/reads"
	"parley/cmd/parley/node/records"
	"parley/persistence"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

// local implements cluster.Local: commands go to the shell, queries to the store, calls to the node itself.
type local struct {
	*reads.Answerer
	system *actors.System
	node   *Node
}

// Ask gives an entity a command.
func (l *local) Ask(ctx context.Context, in uint32, id string, command proto.Message) (proto.Message, error) {
	return l.system.Ask(ctx, in, id, command)
}

// Follow subscribes to an entity.
func (l *local) Follow(ctx context.Context, in uint32, id string, sink follow.Sink) (*conversationpb.Snapshot, func(), error) {
	return l.system.Follow(ctx, in, id, sink)
}

// Read answers a query about a shard, with "not the owner" if this node does not lead it.
func (l *local) Read(ctx context.Context, in uint32, query proto.Message) (proto.Message, error) {
	answer, err := l.Answerer.Read(ctx, in, query)
	if errors.Is(err, persistence.ErrNotLeader) || errors.Is(err, persistence.ErrUnknownGroup) {
		return nil, fmt.Errorf("%w: %w", &actors.NotOwnerError{Shard: in}, err)
	}
	return answer, err
}

// Call changes this node for the placement loop or an operator.
func (l *local) Call(ctx context.Context, from string, request proto.Message) (proto.Message, error) {
	if answer, known, err := records.Answer(ctx, l.node.store, request); known {
		return answer, err
	}
	var err error
	switch r := request.(type) {
	case *nodepb.ChangeMembers:
		err = l.node.changeMembers(ctx, r)
	case *nodepb.TransferLeader:
		err = l.node.handOver(ctx, r.GetShard(), r.GetTo(), handing{atRest: r.GetAtRest()})
	case *nodepb.DropReplica:
		err = l.node.store.DropReplica(ctx, r.GetShard(), r.GetAsOf())
	case *nodepb.SetNodeState: // of a node of an earlier release; this one writes the record itself
		err = l.node.setNodeState(ctx, r.GetName(), r.GetState())
	default:
		err = fmt.Errorf("this version does not know the call %s of %s", request.ProtoReflect().Descriptor().FullName(), from)
	}
	if err != nil {
		return nil, callFault(err)
	}
	return &nodepb.Done{}, nil
}

// callFault turns temporary errors into failures that another node can decode.
func callFault(err error) error {
	for _, passing := range []error{
		persistence.ErrBusy, persistence.ErrNotLeader, persistence.ErrTransferFailed, persistence.ErrConflict,
		persistence.ErrUnsafe, persistence.ErrStillMember, errTurnsRun,
	} {
		if errors.Is(err, passing) {
			return failure.New(failurepb.Code_UNAVAILABLE, failure.NodeCallFailed).Param("problem", err)
		}
	}
	return err
}

func (n *Node) changeMembers(ctx context.Context, r *nodepb.ChangeMembers) error {
	kind, ok := map[nodepb.ChangeMembers_Change]persistence.ChangeKind{
		nodepb.ChangeMembers_ADD_LEARNER: persistence.AddLearner,
		nodepb.ChangeMembers_PROMOTE:     persistence.Promote,
		nodepb.ChangeMembers_REMOVE:      persistence.Remove,
	}[r.GetChange()]
	if !ok {
		return fmt.Errorf("this version does not know the membership change %d", r.GetChange())
	}
	return n.store.ChangeMembers(ctx, r.GetShard(), persistence.Change{
		Kind: kind, Node: r.GetNode(),
		Expect: &persistence.Members{Voters: r.GetExpectVoters(), Learners: r.GetExpectLearners()},
	})
}

// setNodeState records a node's state, at any node: the record is written wherever the directory is led by then. A record that
// was changed at the same time is read again.
func (n *Node) setNodeState(ctx context.Context, name, state string) error {
	if state != stateActive && state != stateDraining {
		return failure.New(failurepb.Code_VALIDATION, failure.NoSuchNodeState).Param("state", state)
	}
	if n.directory.accounts.Load() == nil {
		return failure.New(failurepb.Code_UNAVAILABLE, failure.NodeStarting)
	}
	store := n.directory.records
	if err := store.CatchUp(ctx); err != nil {
		return err
	}
	for {
		record, version, err := n.nodeRecord(name)
		switch {
		case err != nil:
			return err
		case version == 0:
			return failure.New(failurepb.Code_NOT_FOUND, failure.NoSuchNode).Param("node", name)
		case record.State == state:
			return nil
		}
		record.State = state
		value, err := json.Marshal(record)
		if err != nil {
			return fmt.Errorf("record of node %s: %w", name, err)
		}
		if _, err = store.Put(ctx, nodesCollection, name, version, value); !collection.IsConflict(err) || ctx.Err() != nil {
			return err
		}
	}
}

// drain starts or ends the draining of any node of the cluster.
func (n *Node) drain(ctx context.Context, name string, drain bool) error {
	if drain {
		return n.setNodeState(ctx, name, stateDraining)
	}
	return n.setNodeState(ctx, name, stateActive)
}

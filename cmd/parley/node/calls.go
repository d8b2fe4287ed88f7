package node

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"parley/actors"
	"parley/actors/core/failure"
	"parley/actors/core/follow"
	"parley/cluster/shard"
	"parley/cmd/parley/node/reads"
	"parley/cmd/parley/node/records"
	"parley/persistence"
	"parley/persistence/directory"
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
	case *nodepb.SetNodeState:
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

func (n *Node) setNodeState(ctx context.Context, name, state string) error {
	record, version, err := n.nodeRecord(name)
	switch {
	case err != nil:
		return err
	case version == 0:
		return failure.New(failurepb.Code_NOT_FOUND, failure.NoSuchNode).Param("node", name)
	case state != stateActive && state != stateDraining:
		return failure.New(failurepb.Code_VALIDATION, failure.NoSuchNodeState).Param("state", state)
	case record.State == state:
		return nil
	}
	record.State = state
	err = n.putNodeRecord(ctx, name, record, version)
	if errors.Is(err, directory.ErrConflict) {
		return failure.New(failurepb.Code_UNAVAILABLE, failure.NodeRecordChanged)
	}
	return err
}

// drain starts or ends the draining of any node of the cluster: the owner of the directory records it.
func (n *Node) drain(ctx context.Context, name string, drain bool) error {
	state := stateActive
	if drain {
		state = stateDraining
	}
	owner, known := n.owners.Owner(shard.Directory)
	if !known {
		return failure.New(failurepb.Code_UNAVAILABLE, failure.DirectoryWithoutOwner)
	}
	_, err := n.router.Call(ctx, owner.Node, &nodepb.SetNodeState{Name: name, State: state})
	return err
}

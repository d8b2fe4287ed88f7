package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"parley/actors"
	"parley/actors/conversation"
	"parley/actors/core/failure"
	"parley/actors/deliver"
	"parley/actors/machine"
	"parley/actors/queue"
	"parley/actors/run"
	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
	"parley/proto/runpb"
)

func runNotFound() *machine.Failure {
	return failure.New(failurepb.Code_RUN_NOT_FOUND, failure.RunNotFound)
}

// newRunKinds makes background runs, and the queues of projects, entities of the shell. The kind of conversations comes to
// tell them what they wait for. open decrypts the secrets of callbacks.
func (n *Node) newRunKinds(
	guard *deliver.Guard, of conversation.Limits, conversations *actors.Kind, open func(sealed []byte, about string) ([]byte, error),
) ([]actors.Kind, error) {
	settings := n.config.Client
	poster, err := deliver.NewPoster(deliver.PosterConfig{Guard: guard, Timeout: settings.CallbackTimeout, Carry: true})
	if err != nil {
		return nil, err
	}
	limits := run.DefaultLimits()
	limits.InputBytes, limits.MetadataBytes = of.MessageBytes, of.MetadataBytes
	limits.ContextBytes = 2 * of.ContextBytes
	limits.CallbackTimeout = max(limits.CallbackTimeout, 2*settings.CallbackTimeout)
	lines := queue.DefaultLimits()
	lines.Concurrency, lines.MaxQueued = settings.RunConcurrency, settings.MaxQueuedRuns
	if err = errors.Join(limits.Validate(), lines.Validate()); err != nil {
		return nil, err
	}
	runs, err := actors.NewRuns(run.New(limits), queue.New(lines), actors.RunsConfig{
		Agents: versions{n.agents}, Records: n.reads, Queues: queues{n}, Poster: poster, OpenSecret: open,
		Logger: n.log, Registerer: n.metrics,
	})
	if err != nil {
		return nil, err
	}
	runs.Watch(conversations)
	return runs.Kinds(), nil
}

// queues is the router as the shell's actors.Queues. The router is there before any shard is owned.
type queues struct{ node *Node }

// Queue asks the owner of a project's queue.
func (q queues) Queue(
	ctx context.Context, tenantID, projectID string, command *runpb.QueueCommand,
) (*runpb.QueueReply, error) {
	command = proto.CloneOf(command)
	command.QueueId = ids{q.node.shards}.NewIDFrom("queue", machine.ListPart(tenantID)+"/"+machine.ListPart(projectID))
	reply, _, err := askEntity[*runpb.QueueReply](ctx, q.node.router, command.GetQueueId(), command)
	return reply, err
}

// Run asks the owner of a run.
func (q queues) Run(ctx context.Context, command *runpb.Command) (*runpb.Reply, error) {
	reply, _, err := askEntity[*runpb.Reply](ctx, q.node.router, command.GetRunId(), command)
	return reply, err
}

// runs is the router as the edge's endpoint.Runs.
type runs struct{ route }

func isRun(id string) bool { return strings.HasPrefix(id, "run_") }

// Ask routes a command to its run's owner. A run that has a result is answered with it.
func (r *runs) Ask(ctx context.Context, command *runpb.Command) (*runpb.Reply, error) {
	if _, valid := r.shards.Of(command.GetRunId()); !valid || !isRun(command.GetRunId()) {
		return nil, runNotFound()
	}
	reply, node, err := askEntity[*runpb.Reply](ctx, r.router, command.GetRunId(), command)
	endpoint.ServedBy(ctx, node)
	if err != nil {
		return nil, err
	}
	if reply.GetRun().GetHasResult() && reply.GetResult() == nil {
		return r.Run(ctx, command.GetRunId())
	}
	return reply, nil
}

// Run asks the owner for a run with its result.
func (r *runs) Run(ctx context.Context, id string) (*runpb.Reply, error) {
	if _, valid := r.shards.Of(id); !valid || !isRun(id) {
		return nil, runNotFound()
	}
	reply, err := ask[*nodepb.RunReply](ctx, r.route, id, &nodepb.RunQuery{Id: id})
	if err != nil {
		return nil, err
	}
	return &runpb.Reply{Run: reply.GetRun(), Result: reply.GetResult()}, nil
}

// Run reads a run with its result, of one moment. What was said in a session that is deleted is not told any more.
func (r *reader) Run(ctx context.Context, query *nodepb.RunQuery) (*nodepb.RunReply, error) {
	in, valid := r.shards.Of(query.GetId())
	if !valid || !isRun(query.GetId()) {
		return nil, runNotFound()
	}
	view, head, err := r.viewOf(ctx, uint32(in), query.GetId(), runNotFound())
	if err != nil {
		return nil, err
	}
	defer func() { _ = view.Close() }() // a snapshot is given back; there is nothing to lose
	reply := &nodepb.RunReply{Run: &runpb.State{}}
	if err = proto.Unmarshal(head.Value, reply.Run); err != nil {
		return nil, fmt.Errorf("decode head: %w", err)
	}
	if !reply.GetRun().GetHasResult() {
		return reply, nil
	}
	_, found, err := view.Head(reply.GetRun().GetConversationId())
	if err != nil {
		return nil, readFault("read head", err)
	}
	if !found {
		reply.Run.HasResult = false
		return reply, nil
	}
	row, found, err := view.Item(query.GetId(), run.TableResults, []byte(run.ResultKey))
	result := &conversationpb.TurnResult{}
	if err = errors.Join(err, proto.Unmarshal(row, result)); err != nil {
		return nil, readFault("read result", err)
	}
	if found {
		reply.Result = result
	}
	return reply, nil
}

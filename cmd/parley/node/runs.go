package node

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	"parley/actors"
	"parley/actors/conversation"
	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/actors/deliver"
	"parley/actors/machine"
	"parley/actors/queue"
	"parley/actors/run"
	"parley/proto/failurepb"
	"parley/proto/runpb"
)

func runNotFound() *machine.Failure {
	return failure.New(failurepb.Code_RUN_NOT_FOUND, failure.RunNotFound)
}

// newRunKinds makes background runs, and the queues of projects, entities of the shell. The kind of conversations comes to
// tell them what they wait for. open decrypts the secrets of callbacks.
func (n *Node) newRunKinds(
	guard *deliver.Guard, deliveries *actors.Deliveries, of conversation.Limits, conversations *actors.Kind,
	open func(sealed []byte, about string) ([]byte, error),
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
	reach := &client{n}
	runs, err := actors.NewRuns(run.New(limits), actors.RunsConfig{
		Agents: versions{n.agents}, Records: n.reads, Queues: queues{reach, ids{n.shards}}, Poster: poster, Deliveries: deliveries,
		OpenSecret: open, Logger: n.log, Registerer: n.metrics,
	})
	if err != nil {
		return nil, err
	}
	runs.Watch(conversations)
	granting, err := actors.NewPool(actors.PoolConfig{
		Gauge: "parley_actors_queue_workers", Help: "Queues of background runs that are worked on.", Logger: n.log, Registerer: n.metrics,
	})
	if err != nil {
		return nil, err
	}
	kind := runs.Kind()
	kind.Command, kind.Missing, kind.Queries = (*runpb.Command)(nil), runNotFound, run.Queries()
	return []actors.Kind{kind, queue.New(lines, reach, granting)}, nil
}

// queues is the client as the shell's actors.Queues.
type queues struct {
	entity.Client

	ids ids
}

// Queue asks the owner of a project's queue.
func (q queues) Queue(
	ctx context.Context, tenantID, projectID string, command *runpb.QueueCommand,
) (*runpb.QueueReply, error) {
	command = proto.CloneOf(command)
	command.QueueId = q.ids.NewIDFrom("queue", machine.ListPart(tenantID)+"/"+machine.ListPart(projectID))
	return entity.Ask[*runpb.QueueReply](ctx, q, command.GetQueueId(), command)
}

// Run gives a command to a run.
func (q queues) Run(ctx context.Context, command *runpb.Command) (*runpb.Reply, error) {
	return entity.Ask[*runpb.Reply](ctx, q, command.GetRunId(), command)
}

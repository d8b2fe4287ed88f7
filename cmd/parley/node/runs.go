package node

import (
	"errors"

	"parley/actors"
	"parley/actors/conversation"
	"parley/actors/deliver"
	"parley/actors/queue"
	"parley/actors/run"
	"parley/cmd/parley/node/ids"
)

// newRunKinds makes the kinds of background runs and of the projects' run queues. The kind of conversations is
// told which of them wait for it.
func (n *Node) newRunKinds(
	deliveries *actors.Deliveries, of conversation.Limits, conversations *actors.Kind,
) ([]actors.Kind, error) {
	settings := n.config.Client
	poster, err := deliver.NewPoster(deliver.PosterConfig{Guard: n.outbound.guard, Timeout: settings.CallbackTimeout, Carry: true})
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
	workers, err := n.newPool("parley_actors_driven_runs", "Background runs that are driven on this node.")
	if err != nil {
		return nil, err
	}
	granting, err := n.newPool("parley_actors_queue_workers", "Queues of background runs that are worked on.")
	if err != nil {
		return nil, err
	}
	reach, mint := &client{n}, ids.New(n.shards)
	run.Watch(conversations, workers)
	return []actors.Kind{run.New(limits, run.Config{
		Agents: n.directory.agents.Versions(), Records: n.shell.reads, Client: reach, Pool: workers, OpenSecret: n.directory.seal.Open,
		QueueID: func(tenantID, projectID string) string {
			return queueOf(mint, tenantID, projectID)
		},
		Callbacks: deliveries.Callbacks(actors.CallbacksConfig{
			Poster: poster, Name: "parley_actors_run_callbacks_total", Help: "Attempts to call back for a run, by outcome.",
			Registerer: n.metrics,
		}),
	}), queue.New(lines, reach, granting)}, nil
}

// newPool makes the pool of a kind of entities, with a metric of its workers.
func (n *Node) newPool(gauge, help string) (*actors.Pool, error) {
	return actors.NewPool(actors.PoolConfig{Gauge: gauge, Help: help, Logger: n.log, Registerer: n.metrics})
}

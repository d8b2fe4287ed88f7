package node

import (
	"parley/actors"
	"parley/actors/conversation"
	"parley/actors/deliver"
	"parley/actors/task"
)

// newTaskKind makes the kind of background tasks. The kind of conversations is told which of them wait for it.
func (n *Node) newTaskKind(deliveries *actors.Deliveries, of conversation.Limits, conversations *actors.Kind) (actors.Kind, error) {
	poster, err := deliver.NewPoster(deliver.PosterConfig{Guard: n.outbound.guard, Timeout: n.config.Tasks.CallbackTimeout})
	if err != nil {
		return actors.Kind{}, err
	}
	limits := task.DefaultLimits()
	limits.InputBytes, limits.MetadataBytes = of.MessageBytes, of.MetadataBytes
	limits.CommentBytes = min(limits.CommentBytes, of.MessageBytes)
	limits.CallbackTimeout = max(limits.CallbackTimeout, 2*n.config.Tasks.CallbackTimeout)
	if err = limits.Validate(); err != nil {
		return actors.Kind{}, err
	}
	workers, err := n.newPool("parley_actors_driven_tasks", "Background tasks whose runs are driven on this node.")
	if err != nil {
		return actors.Kind{}, err
	}
	task.Watch(conversations, workers)
	return task.New(limits, task.Config{
		Agents: n.directory.agents.Versions(), Records: n.shell.reads, Pool: workers,
		Secret: n.config.Tasks.CallbackSecret.Reveal(),
		Callbacks: deliveries.Callbacks(actors.CallbacksConfig{
			Poster: poster, Name: "parley_actors_task_callbacks_total", Help: "Attempts to call back for a task, by outcome.",
			Registerer: n.metrics,
		}),
	}), nil
}

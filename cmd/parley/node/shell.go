package node

import (
	"context"
	"fmt"

	"parley/actors"
	"parley/actors/conversation"
	"parley/actors/deliver"
	"parley/actors/idempotency"
	"parley/actors/provider"
	"parley/actors/turn"
	"parley/actors/turn/document"
	"parley/actors/turn/model"
	"parley/cluster"
	"parley/cluster/shard"
)

// shell is the entities of this node: the system that runs them and how they are read.
type shell struct {
	system *actors.System
	kinds  *entities
	reads  *reader
}

// outbound is what calls to models, tools and callbacks are made with.
type outbound struct {
	guard     *deliver.Guard
	providers model.Providers
	circuits  *provider.Circuits // of all calls of models
}

func (n *Node) startActors(context.Context) error {
	records, err := n.config.AgentRecords()
	if err != nil {
		return err
	}
	n.directory.agents = newRegistry(records)
	if n.directory.seal, err = newSealer(n.config, n.links == nil); err != nil {
		return err
	}
	shards, ok := shard.New(n.store.Identity().Shards)
	n.shards = shards
	if !ok {
		return fmt.Errorf("%d shards", n.store.Identity().Shards)
	}
	n.shell.reads = &reader{store: n.store, shards: shards}
	streams := actors.NewLiveStreams(actors.LiveStreamsConfig{Registerer: n.metrics})
	kinds, err := n.newKinds(streams)
	if err != nil {
		return err
	}
	if n.shell.kinds, err = newEntities(kinds); err != nil {
		return err
	}
	n.shell.system, err = actors.New(actors.Config{
		Node: n.config.Node.Name, Journal: journal{n.store}, IDs: shardIDs{shards}, LiveStreams: streams,
		Kinds:         kinds,
		IdleAfter:     n.config.Actors.IdleTimeout,
		MaxActive:     max(1, n.config.Actors.MaxActive/shards.Count()),
		MaxQueued:     n.config.Actors.Mailbox,
		AppendTimeout: n.config.Actors.AppendTimeout,
		Logger:        n.log, Registerer: n.metrics,
	})
	if err != nil {
		return err
	}
	n.later(n.shell.system.Stop)
	n.later(n.storage.changes.follow(n.leaderChanged))
	return nil
}

// newKinds makes the kinds of entities that the shell runs. Conversations come first: the others work in them.
func (n *Node) newKinds(streams *actors.LiveStreams) ([]actors.Kind, error) {
	limits := conversationLimits(n.config)
	if err := limits.Validate(); err != nil {
		return nil, err
	}
	if err := n.openOutbound(); err != nil {
		return nil, err
	}
	runner, err := n.newRunner(streams)
	if err != nil {
		return nil, err
	}
	listener, err := newRatings(n.config, n.directory.agents, n.outbound.guard, n.log)
	if err != nil {
		return nil, err
	}
	n.later(listener.stop)
	conversations := actors.Conversations(conversation.New(limits), runner, streams, listener)
	deliveries, err := actors.NewDeliveries(actors.DeliveriesConfig{Logger: n.log, Registerer: n.metrics})
	if err != nil {
		return nil, err
	}
	tasks, err := n.newTaskKind(deliveries, limits)
	if err != nil {
		return nil, err
	}
	runs, err := n.newRunKinds(deliveries, limits, &conversations)
	if err != nil {
		return nil, err
	}
	return append([]actors.Kind{conversations, tasks, idempotency.New(idempotency.DefaultMaxAnswer)}, runs...), nil
}

// openOutbound makes the guard of outbound calls and the providers of models.
func (n *Node) openOutbound() error {
	guard, err := newGuard(n.config)
	if err != nil {
		return err
	}
	circuits := provider.NewCircuits(n.config.Gateway.BreakerThreshold, n.config.Gateway.BreakerReset)
	providers := model.New(model.Config{Guard: guard, Circuits: circuits, MaxStreamBytes: int64(n.config.Turn.MaxStream), Logger: n.log, Registerer: n.metrics})
	n.outbound = outbound{guard: guard, providers: providers, circuits: circuits}
	n.later(func(context.Context) { providers.Close() })
	return nil
}

// newRunner makes what runs turns.
func (n *Node) newRunner(streams *actors.LiveStreams) (*turn.Runner, error) {
	box, err := n.newTools()
	if err != nil {
		return nil, err
	}
	return turn.New(turn.Config{
		Agents: versions{n.directory.agents}, History: n.shell.reads, Providers: n.outbound.providers, Publisher: streams,
		Tools: box, Files: turnFiles{n}, Documents: document.Text, Open: n.directory.seal.Open,
		MaxConcurrent: n.config.Turn.MaxConcurrent, MaxRounds: n.config.Turn.MaxRounds, MaxText: int(n.config.Turn.MaxAnswer),
		Timeout: n.config.Turn.Timeout, MeterTokens: n.config.Turn.MeterTokens,
		MaxToolResult: int(n.config.Tools.MaxResult), MaxTurnResults: int(n.config.Tools.MaxTurnResults),
		MaxParallelTools: n.config.Tools.MaxParallel, ToolTimeout: n.config.Tools.Timeout,
		Logger: n.log, Registerer: n.metrics,
	})
}

// newRouter routes to this node's own shards and, through remote, to those of other nodes.
func (n *Node) newRouter(remote cluster.Remote) error {
	var err error
	n.router, err = cluster.New(cluster.Config{
		Node: n.config.Node.Name, Shards: n.shards, Local: n.local(), Remote: remote, Owners: &n.owners, Refuse: refuse,
		OwnerWait: n.config.Cluster.OwnerWait, Registerer: n.metrics,
	})
	if err != nil {
		return err
	}
	n.storage.files = newFiles(n.route(), n.storage.filePace.flow)
	return nil
}

func (n *Node) route() route {
	return route{node: n.config.Node.Name, router: n.router, owners: &n.owners, shards: n.shards, store: n.store}
}

func (n *Node) local() *local {
	return &local{answerer: &answerer{n.shell.reads, n.shell.kinds}, system: n.shell.system, node: n}
}

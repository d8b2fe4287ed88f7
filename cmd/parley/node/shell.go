package node

import (
	"context"
	"fmt"

	"parley/actors"
	"parley/actors/allowance"
	"parley/actors/approval"
	"parley/actors/attempt"
	"parley/actors/audit"
	"parley/actors/conversation"
	"parley/actors/courier"
	"parley/actors/decision"
	"parley/actors/deliver"
	"parley/actors/idempotency"
	"parley/actors/meter"
	"parley/actors/provider"
	"parley/actors/stranger"
	"parley/actors/trace"
	"parley/actors/turn"
	"parley/actors/turn/document"
	"parley/actors/turn/model"
	"parley/actors/turn/tool"
	"parley/cluster"
	"parley/cluster/shard"
	"parley/cmd/parley/node/configure"
	"parley/cmd/parley/node/files"
	"parley/cmd/parley/node/ids"
	"parley/cmd/parley/node/ratings"
	"parley/cmd/parley/node/reads"
	"parley/cmd/parley/node/registry"
	"parley/cmd/parley/node/seal"
	"parley/cmd/parley/node/spending"
	"parley/proto/tracepb"
)

// shell is the entities of this node: the system that runs them and how they are read.
type shell struct {
	system *actors.System
	kinds  *reads.Entities
	reads  *reads.Reader
}

// outbound is what calls to models, tools and callbacks are made with.
type outbound struct {
	guard     *deliver.Guard
	providers model.Providers
	circuits  *provider.Circuits // of all calls of models
	answers   *stranger.Budget   // memory for what all of these answer
	couriers  *courier.Couriers  // tell webhook endpoints
	tools     *tool.Toolbox      // of the turns, and of people who try a tool
	door      *spending.Door     // of all calls that budgets and quotas count
	shields   *aegis             // judge what agents and callers read, call and say
}

func (n *Node) startActors(context.Context) error {
	records, err := n.config.AgentRecords()
	if err != nil {
		return err
	}
	n.directory.agents = registry.New(records)
	if n.directory.seal, err = seal.New(n.config, n.links == nil); err != nil {
		return err
	}
	shards, ok := shard.New(n.store.Identity().Shards)
	n.shards = shards
	if !ok {
		return fmt.Errorf("%d shards", n.store.Identity().Shards)
	}
	n.shell.reads = reads.NewReader(n.store, shards)
	streams := actors.NewLiveStreams(actors.LiveStreamsConfig{Registerer: n.metrics})
	kinds, err := n.newKinds(streams) //nolint:contextcheck // a mail client is tried on its settings only: nothing is sent
	if err != nil {
		return err
	}
	if n.shell.kinds, err = reads.NewEntities(kinds); err != nil {
		return err
	}
	n.shell.system, err = actors.New(actors.Config{
		Node: n.config.Node.Name, Journal: journal{n.store}, IDs: ids.NewForShards(shards), LiveStreams: streams,
		Kinds:         kinds,
		Outbox:        actors.OutboxConfig{Listeners: listeners{n}, Client: &client{n}},
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
	limits := configure.Conversations(n.config)
	limits.PushTimeout = max(limits.PushTimeout, 2*n.config.Client.CallbackTimeout)
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
	listener, err := ratings.New(n.config, n.directory.agents, n.outbound.guard, n.log)
	if err != nil {
		return nil, err
	}
	n.later(listener.Stop)
	conversations := actors.Conversations(conversation.New(limits), runner, streams, listener)
	deliveries, err := actors.NewDeliveries(actors.DeliveriesConfig{Logger: n.log, Registerer: n.metrics, Elsewhere: (&client{n}).tell})
	if err != nil {
		return nil, err
	}
	tasks, err := n.newTaskKind(deliveries, limits, &conversations)
	if err != nil {
		return nil, err
	}
	runs, err := n.newRunKinds(deliveries, limits, &conversations)
	if err != nil {
		return nil, err
	}
	for i := range runs {
		streams.List(&runs[i])
	}
	if err = n.tellPushes(deliveries, &conversations, limits.PushTimeout); err != nil {
		return nil, err
	}
	webhooks, err := n.newWebhookKind()
	if err != nil {
		return nil, err
	}
	mails, err := n.newMailKind(deliveries)
	if err != nil {
		return nil, err
	}
	return append([]actors.Kind{conversations, tasks, idempotency.New(idempotency.DefaultMaxAnswer), decision.New(), allowance.New(), approval.New(), attempt.New(), audit.New(), meter.New(), trace.New(traced()), trace.NewThreads(), webhooks, mails}, runs...), nil
}

// openOutbound makes the guard of outbound calls and the providers of models.
func (n *Node) openOutbound() error {
	guard, err := configure.Guard(n.config)
	if err != nil {
		return err
	}
	circuits := provider.NewCircuits(n.config.Gateway.BreakerThreshold, n.config.Gateway.BreakerReset)
	answers := stranger.New(int64(n.config.Outbound.AnswerMemory))
	answers.Observe(n.metrics)
	providers := model.New(model.Config{Guard: guard, Circuits: circuits, Answers: answers, MaxStreamBytes: int64(n.config.Turn.MaxStream), Logger: n.log, Registerer: n.metrics})
	n.outbound = outbound{guard: guard, providers: providers, circuits: circuits, answers: answers}
	n.later(func(context.Context) { providers.Close() })
	return nil
}

// newRunner makes what runs turns.
func (n *Node) newRunner(streams *actors.LiveStreams) (*turn.Runner, error) {
	box, err := n.newTools()
	if err != nil {
		return nil, err
	}
	n.outbound.tools, n.outbound.shields, n.outbound.door = box, n.newAegis(), n.newDoor()
	return turn.New(turn.Config{
		Door:   n.outbound.door,
		Agents: n.directory.agents.Versions(), History: n.shell.reads, Providers: n.outbound.providers, Publisher: streams,
		Tools: box, Files: turnFiles{n}, Images: turnFiles{n}, Documents: document.Text, Open: n.directory.seal.Open, Guard: n.outbound.shields,
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
	n.storage.files = files.New(n.route(), n.storage.filePace.Flow)
	return nil
}

func (n *Node) route() reads.Route {
	return reads.NewRoute(n.config.Node.Name, n.router, &n.owners, n.shards, n.store)
}

func (n *Node) local() *local {
	return &local{Answerer: n.answerer(), system: n.shell.system, node: n}
}

func (n *Node) answerer() *reads.Answerer { return reads.NewAnswerer(n.shell.reads, n.shell.kinds) }

// traced is where the conversations are that traces show.
func traced() trace.Conversations {
	return trace.Conversations{At: conversation.CreatedAt, List: func(q *tracepb.ThreadsQuery) string {
		return conversation.SessionList{TenantID: q.GetTenantId(), ProjectID: q.GetProjectId(), ByUser: !q.GetAnybody(), UserID: q.GetUserId()}.Name()
	}}
}

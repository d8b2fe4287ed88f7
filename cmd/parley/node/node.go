// Package node is the composition root: it builds the parts of a node, joins them and says in which order they start
// and stop. It is the only package that imports across the four sides. It holds no rules: what it adds are adapters
// between one side's concrete type and the small interface that another side declares.
package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"parley/actors"
	"parley/actors/conversation"
	"parley/actors/core/feature"
	"parley/actors/core/identity"
	"parley/actors/deliver"
	"parley/actors/idempotency"
	"parley/actors/provider"
	"parley/actors/turn"
	"parley/actors/turn/document"
	"parley/actors/turn/model"
	"parley/cluster"
	"parley/cluster/peer"
	"parley/cluster/shard"
	"parley/cmd/parley/config"
	"parley/httpedge"
	"parley/httpedge/convapi"
	"parley/httpedge/endpoint"
	"parley/httpedge/gateway"
	"parley/httpedge/hook"
	"parley/httpedge/limit"
	"parley/httpedge/opsapi"
	"parley/httpedge/sse"
	"parley/httpedge/token"
	"parley/httpedge/web"
	"parley/persistence"
)

// Node is a running node.
type Node struct {
	config      *config.Config
	log         *slog.Logger
	metrics     *prometheus.Registry
	descriptors descriptors

	listener, opsListener net.Listener
	serverTLS, clientTLS  *tls.Config   // between nodes; nil = in the clear
	dial                  peer.DialFunc // nil = TCP
	origin                origin
	links                 *links // nil on a node that is alone
	store                 *persistence.Store
	opened                atomic.Pointer[persistence.Store] // the store, for those who may come before it
	owners                cluster.Owners
	router                *cluster.Router
	files                 *files
	filePace              filePace
	changes               *changes
	agents                *registry
	records               *records
	seal                  *sealer
	guard                 *deliver.Guard
	providers             model.Providers
	circuits              *provider.Circuits                // of all calls of models
	accounts              atomic.Pointer[identity.Accounts] // nil until the directory is open
	tokens                *token.Authenticator
	gateway               *gateway.API
	shards                shard.Map
	features              *feature.Gate // what all nodes of the cluster have
	system                *actors.System
	reads                 *reader
	kinds                 *entities
	hub                   *sse.Hub
	server                *httpedge.Server
	ops                   *opsapi.Server
	failed                chan error // a reason to end the process
	// undo stops what was started, the last first.
	undo []func(context.Context)

	mu         sync.Mutex
	ready      bool
	stopping   bool
	firstToken string             // API token that this start has made, until it is shown
	showToken  func(token string) // nil = nobody wants it yet
}

// Run starts a node, hands it to started (nil is fine), serves until ctx ends or a part fails, and stops it within the
// configured grace. The error says what failed.
func Run(ctx context.Context, c *config.Config, log *slog.Logger, started func(*Node)) error {
	n, err := Start(ctx, c, log)
	if err != nil {
		return err
	}
	if started != nil {
		started(n)
	}
	var failed error
	select {
	case <-ctx.Done():
	case <-n.server.Done():
		failed = fmt.Errorf("http listener: %w", n.server.Err())
	case failed = <-n.failed:
	}
	log.Info("stopping", slog.Duration("grace", c.ShutdownGrace))
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.ShutdownGrace)
	defer cancel()
	return errors.Join(failed, n.Stop(grace))
}

// Start opens the data directory and the listeners and returns when the node serves. What was started is stopped again
// when a later step fails.
func Start(ctx context.Context, c *config.Config, log *slog.Logger) (*Node, error) {
	return start(ctx, c, log, nil)
}

// start is Start with another network to the other nodes; nil is TCP.
func start(ctx context.Context, c *config.Config, log *slog.Logger, dial peer.DialFunc) (_ *Node, err error) {
	n := &Node{config: c, log: log, metrics: prometheus.NewRegistry(), failed: make(chan error, 1), dial: dial, features: feature.NewGate(feature.Base)}
	n.metrics.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), levelGauge(n.features),
	)
	defer func() {
		if err != nil {
			n.unwind(context.WithoutCancel(ctx))
		}
	}()
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"look at the data directory", n.checkLevel},
		{"share file descriptors", n.takeDescriptors},
		{"listen", n.listen},
		{"operations listener", n.startOps},
		{"join the cluster", n.joinCluster},
		{"open store", n.openStore},
		{"start conversations", n.startActors},
		{"join the members", n.startLinks},
		{"start the directory", n.startDirectory},
		{"recover the log", n.startStore},
		{"learn the feature level", n.startLevel},
		{"make the first tenant", n.startBootstrap},
		{"start streams", n.startHub},
		{"start placement", n.startPlacing},
		{"start http server", n.startServer},
	} {
		if err := step.do(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	n.mu.Lock()
	n.ready = true
	n.mu.Unlock()
	home := n.store.Identity()
	log.Info("ready", slog.String("node", c.Node.Name), slog.String("cluster", home.ClusterID), slog.Int("shards", home.Shards),
		slog.String("listen", n.Addr().String()), slog.String("ops_listen", n.OpsAddr().String()))
	return n, nil
}

// Addr is the address of the API.
func (n *Node) Addr() net.Addr { return n.listener.Addr() }

// OpsAddr is the address of the operations surface.
func (n *Node) OpsAddr() net.Addr { return n.opsListener.Addr() }

// Stop stops the node gracefully: no new requests, turns may finish, streams end cleanly, data is flushed. When ctx
// ends, what is left is left to recovery, as after a crash. It is safe twice.
func (n *Node) Stop(ctx context.Context) error {
	n.mu.Lock()
	already := n.stopping
	n.stopping = true
	n.mu.Unlock()
	if already {
		return nil
	}
	n.unwind(ctx)
	n.log.Info("stopped")
	return nil
}

func (n *Node) unwind(ctx context.Context) {
	for i := len(n.undo) - 1; i >= 0; i-- {
		n.undo[i](ctx)
	}
	n.undo = nil
}

func (n *Node) later(stop func(context.Context)) { n.undo = append(n.undo, stop) }

// unready says why the node should get no traffic, or nil.
func (n *Node) unready() error {
	n.mu.Lock()
	ready, stopping := n.ready, n.stopping
	n.mu.Unlock()
	switch {
	case stopping:
		return errors.New("stopping")
	case !ready:
		return errors.New("starting")
	case n.links == nil && !n.store.Ready():
		return errors.New("a shard has no leader")
	case !n.store.Settled():
		return errors.New("the log is being recovered")
	}
	for in := range n.shards.Count() + 1 {
		owner, known := n.owners.Owner(shard.ID(in))
		if !known {
			return fmt.Errorf("shard %d has no owner", in)
		}
		if !n.reaches(owner.Node) {
			return fmt.Errorf("shard %d is owned by %s, which is not reached", in, owner.Node)
		}
	}
	return nil
}

// fail ends the process for a reason that a part found while running.
func (n *Node) fail(err error) {
	select {
	case n.failed <- err:
	default: // one reason is enough
	}
}

// storeIf is the store once it is open.
func (n *Node) storeIf() *persistence.Store { return n.opened.Load() }

// listen binds both addresses before anything is opened: a taken port is the commonest mistake.
func (n *Node) listen(ctx context.Context) error {
	var network net.ListenConfig
	var err error
	if n.listener, err = network.Listen(ctx, "tcp", n.config.Listen); err != nil {
		return err
	}
	if n.opsListener, err = network.Listen(ctx, "tcp", n.config.OpsListen); err != nil {
		return errors.Join(err, n.listener.Close())
	}
	n.later(func(context.Context) {
		// Whoever serves on them has closed them already, when it came to that.
		_ = n.listener.Close()
		_ = n.opsListener.Close()
	})
	return nil
}

func (n *Node) startOps(context.Context) error {
	ops, err := opsapi.New(opsConfig(n.config, n.descriptors), opsapi.Parts{
		Listener: n.opsListener, Ready: n.unready, Gatherer: n.metrics, Logger: n.log,
		Admin: opsapi.Admin{Status: n.statusNow, Drain: n.drain, Backup: n.backup, Accounts: n.accounts.Load},
	})
	if err != nil {
		return err
	}
	n.ops = ops
	n.later(func(ctx context.Context) {
		if err := ops.Stop(ctx); err != nil {
			n.log.Warn("stop operations listener", slog.Any("err", err))
		}
	})
	return ops.Start()
}

func (n *Node) openStore(ctx context.Context) error {
	options := storeOptions(n.config, n.descriptors)
	options.Logger, options.Registerer = n.log, n.metrics
	n.changes = newChanges()
	options.OnLeader = n.changes.add
	options.OnFileBytes = n.filePace.flow
	n.later(n.filePace.stop)
	if n.links != nil {
		options.ClusterID, options.NodeID, options.Join, options.Shards = n.origin.cluster, n.origin.node, n.origin.join, n.origin.shards
		options.TickInterval = n.config.Cluster.ElectionTimeout / electionTicks
		options.Transport, options.OnChange = logTransport{n.links.peers}, n.links.poke
	}
	n.tighten(n.config.DataDir)
	store, err := persistence.Open(ctx, options)
	if err != nil {
		return err
	}
	n.store = store
	n.opened.Store(store)
	n.later(func(context.Context) { store.Stop() })
	return nil
}

func (n *Node) startActors(context.Context) error {
	records, err := n.config.AgentRecords()
	if err != nil {
		return err
	}
	n.agents = newRegistry(records)
	if n.seal, err = newSealer(n.config, n.links == nil); err != nil {
		return err
	}
	shards, ok := shard.New(n.store.Identity().Shards)
	n.shards = shards
	if !ok {
		return fmt.Errorf("%d shards", n.store.Identity().Shards)
	}
	n.reads = &reader{store: n.store, shards: shards}
	streams := actors.NewLiveStreams(actors.LiveStreamsConfig{Registerer: n.metrics})
	guard, err := newGuard(n.config)
	if err != nil {
		return err
	}
	n.circuits = provider.NewCircuits(n.config.Gateway.BreakerThreshold, n.config.Gateway.BreakerReset)
	providers := model.New(model.Config{Guard: guard, Circuits: n.circuits, MaxStreamBytes: int64(n.config.Turn.MaxStream), Logger: n.log, Registerer: n.metrics})
	n.later(func(context.Context) { providers.Close() })
	box, err := n.newTools(guard)
	if err != nil {
		return err
	}
	listener, err := newRatings(n.config, n.agents, guard, n.log)
	if err != nil {
		return err
	}
	n.later(listener.stop)
	runner, err := turn.New(turn.Config{
		Agents: versions{n.agents}, History: n.reads, Providers: providers, Publisher: streams,
		Tools: box, Files: turnFiles{n}, Documents: document.Text, Open: n.seal.Open,
		MaxConcurrent: n.config.Turn.MaxConcurrent, MaxRounds: n.config.Turn.MaxRounds, MaxText: int(n.config.Turn.MaxAnswer),
		Timeout: n.config.Turn.Timeout, MeterTokens: n.config.Turn.MeterTokens,
		MaxToolResult: int(n.config.Tools.MaxResult), MaxTurnResults: int(n.config.Tools.MaxTurnResults),
		MaxParallelTools: n.config.Tools.MaxParallel, ToolTimeout: n.config.Tools.Timeout,
		Logger: n.log, Registerer: n.metrics,
	})
	if err != nil {
		return err
	}
	kinds, err := n.newKinds(runner, streams, listener, guard)
	if err != nil {
		return err
	}
	n.providers, n.guard = providers, guard
	if n.kinds, err = newEntities(kinds); err != nil {
		return err
	}
	n.system, err = actors.New(actors.Config{
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
	n.later(n.system.Stop)
	n.later(n.changes.follow(n.leaderChanged))
	return nil
}

// newKinds makes the sorts of entities that the shell hosts. Conversations come first: the others work in them.
func (n *Node) newKinds(runner *turn.Runner, streams *actors.LiveStreams, listener *ratings, guard *deliver.Guard) ([]actors.Kind, error) {
	limits := conversationLimits(n.config)
	if err := limits.Validate(); err != nil {
		return nil, err
	}
	conversations := actors.Conversations(conversation.New(limits), runner, streams, listener)
	deliveries, err := actors.NewDeliveries(actors.DeliveriesConfig{Logger: n.log, Registerer: n.metrics})
	if err != nil {
		return nil, err
	}
	tasks, err := n.newTaskKind(guard, deliveries, limits)
	if err != nil {
		return nil, err
	}
	runs, err := n.newRunKinds(guard, deliveries, limits, &conversations, n.seal.Open)
	if err != nil {
		return nil, err
	}
	return append([]actors.Kind{conversations, tasks, idempotency.New(idempotency.DefaultMaxAnswer)}, runs...), nil
}

// leaderChanged makes this node own a shard, or give it up, and tells the others.
func (n *Node) leaderChanged(change leaderChange) {
	in := shard.ID(change.group)
	owner := cluster.Owner{Node: n.config.Node.Name, Shard: in, Epoch: shard.Epoch(change.epoch)}
	if change.leader {
		if in != shard.Directory {
			n.system.Own(change.group, change.epoch)
		}
		n.owners.Set(owner)
	} else {
		n.owners.Unset(owner)
		if in != shard.Directory {
			n.system.Disown(change.group)
		}
	}
	if n.links != nil {
		n.links.poke()
	}
}

// electionTicks are the log's ticks without a word from a leader after which another is elected.
const electionTicks = 10

// recoverTimeout bounds the start of the log: opening has replayed what there was, what is left is to lead.
const recoverTimeout = time.Minute

func (n *Node) startStore(ctx context.Context) error {
	n.store.Start() //nolint:contextcheck // the store lives until Stop, not as long as its start
	if n.links != nil {
		return nil // whether it gets ready depends on the others: until then requests are answered 503
	}
	ctx, cancel := context.WithTimeout(ctx, recoverTimeout)
	defer cancel()
	return n.store.WaitReady(ctx)
}

// newRouter joins this node's own side with the way to the others.
func (n *Node) newRouter(remote cluster.Remote) error {
	var err error
	n.router, err = cluster.New(cluster.Config{
		Node: n.config.Node.Name, Shards: n.shards, Local: n.local(), Remote: remote, Owners: &n.owners, Refuse: refuse,
		OwnerWait: n.config.Cluster.OwnerWait, Registerer: n.metrics,
	})
	if err != nil {
		return err
	}
	n.files = newFiles(n.route(), n.filePace.flow)
	return nil
}

func (n *Node) route() route {
	return route{node: n.config.Node.Name, router: n.router, owners: &n.owners, shards: n.shards, store: n.store}
}

func (n *Node) local() *local {
	return &local{answerer: &answerer{n.reads, n.kinds}, system: n.system, node: n}
}

func (n *Node) startHub(context.Context) error {
	reach := &client{n}
	reads, conversations := endpoint.NewReader(reach), &runtime{reach, n.router}
	var err error
	n.hub, err = sse.New(hubConfig(n.config), convapi.NewUpstream(conversations, reads), n.log, n.metrics)
	if err != nil {
		return err
	}
	if err := n.hub.Start(); err != nil {
		return err
	}
	return n.buildServer(conversations, reads, ids{n.shards}) //nolint:contextcheck // nothing is requested yet
}

func (n *Node) buildServer(conversations *runtime, reads endpoint.Reader, mint ids) error {
	authenticator, stopAuth, err := newAuthenticator(n.config, n.log, n.metrics)
	if err != nil {
		return err
	}
	n.later(func(context.Context) { stopAuth() })
	authenticator.Start()
	n.startTokens()
	limiter, err := limit.New(limitConfig(n.config), n.metrics)
	if err != nil {
		return err
	}
	hooks, err := hook.New(hookConfig(n.config), n.log, n.metrics)
	if err != nil {
		return err
	}
	n.later(func(context.Context) { hooks.Stop() })
	n.server, err = httpedge.New(httpConfig(n.config, n.descriptors), httpedge.Parts{
		Listener: n.listener, Node: n.config.Node.Name,
		Authenticator: token.First(n.tokens, hooks.Authenticator(authenticator)), Limiter: hooks.Limiter(limiter),
		Idempotency: &keptRequests{router: n.router, ids: mint, keep: n.config.Client.IdempotencyTTL, seal: n.seal},
		Logger:      n.log, Registerer: n.metrics,
	})
	if err != nil {
		return err
	}
	printer, err := newPrinter(n.config)
	if err != nil {
		return err
	}
	settings := apiConfig(n.config)
	if err := settings.Validate(); err != nil {
		return err
	}
	surface := convapi.New(settings, convapi.Parts{
		Runtime: conversations, Reader: reads, Agents: n.agents, IDs: mint, Hub: n.hub,
		Files: n.files, Tasks: endpoint.NewTasks(&client{n}), Entities: &client{n}, PDF: printer,
		Authorizer: hooks.Authorizer(), CheckCallback: checkCallback(n.guard), Features: n.features,
	}).Surface()
	if err := n.server.Mount(settings.BasePath, surface); err != nil {
		return err
	}
	if err := n.mountClient(conversations, reads, mint, hooks.Authorizer()); err != nil {
		return err
	}
	return n.mountPage(settings.BasePath, surface)
}

func (n *Node) mountPage(basePath string, surface endpoint.Surface) error {
	if !n.config.HTTP.Page {
		return nil
	}
	files, err := web.Files(basePath)
	if err != nil {
		return err
	}
	page, err := httpedge.Files(files, surface)
	if err != nil {
		return err
	}
	page.Rows = append(page.Rows, web.ClusterRow(n.view))
	return n.server.Mount("", page)
}

// startServer is the last step: from here on requests come in. On the way down it is the first: new commands are refused
// while running turns finish, and their streams and waiting callers still hear it; then the streams end, then the server.
func (n *Node) startServer(context.Context) error {
	n.later(func(ctx context.Context) {
		n.leave(ctx)
		turns, cancel := context.WithDeadline(ctx, n.turnsUntil(ctx))
		n.system.Stop(turns)
		n.hub.Finish(turns) // of turns that run on other nodes
		if err := n.gateway.Stop(turns); err != nil {
			n.log.Warn("stop the gateway", slog.Any("err", err))
		}
		cancel()
		if err := n.hub.Stop(ctx); err != nil {
			n.log.Warn("stop streams", slog.Any("err", err))
		}
		if err := n.server.Stop(ctx); err != nil {
			n.log.Warn("stop http server", slog.Any("err", err))
		}
	})
	return n.server.Start()
}

// turnsUntil leaves a fifth of the grace to what comes after the turns.
func (n *Node) turnsUntil(ctx context.Context) time.Time {
	end, ok := ctx.Deadline()
	if !ok {
		return time.Now().Add(n.config.ShutdownGrace)
	}
	return end.Add(-time.Until(end) / 5)
}

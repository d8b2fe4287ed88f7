// Package node is the composition root: it builds the parts of a node, connects them and defines the order in which they start and
// stop. It and the packages below it are the only ones that import all four sides. They hold no rules, only adapters from one side's
// concrete type to the small interface that another side declares. What is more than a few lines is a package below: records (the
// directory), registry (agents and models), reads (queries), files, usage, ratings, seal, report, configure (settings of each part).
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"parley/actors/core/feature"
	"parley/cluster"
	"parley/cluster/peer"
	"parley/cluster/shard"
	"parley/cmd/parley/config"
	"parley/cmd/parley/node/configure"
	"parley/persistence"
)

// Node is a running node.
type Node struct {
	lifecycle

	config      *config.Config
	log         *slog.Logger
	metrics     *prometheus.Registry
	descriptors configure.Descriptors
	network     network
	links       *links        // nil on a node that is alone
	features    *feature.Gate // what all nodes of the cluster support
	owners      cluster.Owners
	shards      shard.Map
	router      *cluster.Router
	store       *persistence.Store
	storage     storage
	directory   recorded
	outbound    outbound
	shell       shell
	edge        edge
	firstToken  firstToken
}

// Run starts a node, calls started with it (may be nil), serves until ctx ends or a part fails, and stops the node within the
// configured grace period. It returns the error of the part that failed.
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
	case <-n.edge.server.Done():
		failed = fmt.Errorf("http listener: %w", n.edge.server.Err())
	case failed = <-n.failed:
	}
	if failed == nil && c.ShutdownDelay > 0 {
		log.Info("not ready, stopping soon", slog.Duration("delay", c.ShutdownDelay))
		n.retire()
		failed = n.serveOn(c.ShutdownDelay)
	}
	log.Info("stopping", slog.Duration("grace", c.ShutdownGrace))
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.ShutdownGrace)
	defer cancel()
	return errors.Join(failed, n.Stop(grace))
}

// serveOn serves for some time, or until a part of the node fails.
func (n *Node) serveOn(delay time.Duration) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-n.edge.server.Done():
		return fmt.Errorf("http listener: %w", n.edge.server.Err())
	case err := <-n.failed:
		return err
	}
}

// Start opens the data directory and the listeners and returns once the node serves. When a step fails, the steps before it
// are undone.
func Start(ctx context.Context, c *config.Config, log *slog.Logger) (*Node, error) {
	return start(ctx, c, log, nil)
}

// start is Start with a dial function for connections to other nodes; nil = TCP.
func start(ctx context.Context, c *config.Config, log *slog.Logger, dial peer.DialFunc) (_ *Node, err error) {
	n := &Node{
		lifecycle: lifecycle{failed: make(chan error, 1)}, network: network{dial: dial},
		config: c, log: log, metrics: prometheus.NewRegistry(), features: feature.NewGate(feature.Oldest),
	}
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
		{"share file descriptors", func(ctx context.Context) error { n.descriptors = configure.TakeDescriptors(ctx, c, log); return nil }},
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
	n.started()
	home := n.store.Identity()
	log.Info("ready", slog.String("node", c.Node.Name), slog.String("cluster", home.ClusterID), slog.Int("shards", home.Shards),
		slog.String("listen", n.Addr().String()), slog.String("ops_listen", n.OpsAddr().String()))
	return n, nil
}

// Addr is the address of the API.
func (n *Node) Addr() net.Addr { return n.network.listener.Addr() }

// OpsAddr is the address of the operations listener.
func (n *Node) OpsAddr() net.Addr { return n.network.opsListener.Addr() }

// Stop stops the node gracefully: it takes no new requests, lets turns finish, ends streams cleanly and flushes data. What has
// not finished when ctx ends is recovered at the next start, as after a crash. Further calls do nothing.
func (n *Node) Stop(ctx context.Context) error {
	if !n.beginStop() {
		return nil
	}
	n.unwind(ctx)
	n.log.Info("stopped")
	return nil
}

// unready returns why the node should get no traffic, nil if it should.
func (n *Node) unready() error {
	if err := n.serving(); err != nil {
		return err
	}
	switch {
	case n.links == nil && !n.store.Ready():
		return errors.New("a shard has no leader")
	case !n.store.Settled():
		return errors.New("the log is being recovered")
	}
	for in := range n.shards.Count() + 1 {
		// A shard that changes hands has no owner for some milliseconds, and so has a link that is made anew. Calls wait that long: a load
		// balancer shall not take the node out for it.
		if n.owners.Without(shard.ID(in)) > n.config.Cluster.OwnerWait {
			return fmt.Errorf("shard %d has no owner", in)
		}
		if owner, known := n.owners.Owner(shard.ID(in)); known && !n.reaches(owner.Node) {
			return fmt.Errorf("shard %d is owned by %s, which is not reached", in, owner.Node)
		}
	}
	return nil
}

package node

import (
	"context"
	"encoding/json"
	"fmt"

	"parley/cluster/balance"
	"parley/cluster/shard"
)

// startPlacing starts the placement loop, which spreads shards over nodes. It acts only on the owner of the directory.
func (n *Node) startPlacing(context.Context) error {
	if n.links == nil {
		return nil
	}
	policy := shard.DefaultPolicy()
	policy.Replication, policy.DeadAfter = n.config.Cluster.Replication, n.config.Cluster.ReplaceAfter
	policy.MinFree = uint64(n.config.Storage.MinFree)
	loop, err := balance.New(balance.Config{
		Board: n.links.board, Nodes: nodeRecords{n}, Router: n.router, Leading: n.ownsDirectory,
		Shards: n.shards.Count(), Policy: policy, Logger: n.log, Registerer: n.metrics,
	})
	if err != nil {
		return err
	}
	loop.Start() //nolint:contextcheck // it lives until Stop, not as long as the start
	n.links.loop.Store(loop)
	n.later(func(context.Context) { loop.Stop() })
	return nil
}

func (n *Node) ownsDirectory() bool {
	owner, known := n.owners.Owner(shard.Directory)
	return known && owner.Node == n.config.Node.Name && n.store.Settled()
}

// nodeRecords implements balance.Nodes over the directory.
type nodeRecords struct{ node *Node }

// Records implements balance.Nodes.
func (r nodeRecords) Records(context.Context) ([]balance.Record, error) {
	var all []balance.Record
	for _, stored := range r.node.store.Directory().List(nodesCollection) {
		var record nodeRecord
		if err := json.Unmarshal(stored.Value, &record); err != nil {
			return nil, fmt.Errorf("record of node %s: %w", stored.Key, err)
		}
		all = append(all, balance.Record{Name: stored.Key, Node: record.Node, Draining: record.State == stateDraining})
	}
	return all, nil
}

// Register implements balance.Nodes.
func (r nodeRecords) Register(ctx context.Context, name string, node uint64) error {
	record, version, err := r.node.nodeRecord(name)
	if err != nil {
		return err
	}
	if version == 0 {
		record.State = stateActive
	}
	record.Node = node
	return r.node.putNodeRecord(ctx, name, record, version)
}

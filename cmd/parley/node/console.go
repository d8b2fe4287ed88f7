package node

import (
	"context"

	"parley/actors/core/follow"
	"parley/actors/inference"
	"parley/actors/machine"
	"parley/cluster/shard"
	"parley/cmd/parley/node/ids"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/web"
	"parley/persistence"
)

// consoleParts is what the routes of pages need of the node.
func (n *Node) consoleParts(mint ids.IDs, caller *inference.Caller) handler.Console {
	return handler.Console{
		Topic: n.edge.live.Topic, Usage: n.visitUsage, Cluster: n.clusterView, Trials: &trials{n, caller, mint.NewID},
		Queue: func(tenantID, projectID string) string { return queueOf(mint, tenantID, projectID) },
	}
}

// queueOf is the id of the queue of a project's runs.
func queueOf(mint ids.IDs, tenantID, projectID string) string {
	return mint.NewIDFrom("queue", machine.ListPart(tenantID)+"/"+machine.ListPart(projectID))
}

func (n *Node) visitUsage(ctx context.Context, name, from, to string, visit func(member string, numbers []int64) (more bool)) error {
	route := n.route()
	return route.Usage(ctx, name, from, to, func(row persistence.SumRow) bool { return visit(row.Member, row.Values) })
}

// clusterView is what pages show of the cluster. A node that is alone is all of it.
func (n *Node) clusterView() handler.ClusterView {
	known := n.view(context.Background(), "")
	view := handler.ClusterView{Node: known.Node, Nodes: []handler.NodeView{}, Shards: []handler.ShardView{}}
	leads := 0
	for _, in := range n.shardNumbers() {
		owner, _ := n.owners.Owner(shard.ID(in))
		view.Shards = append(view.Shards, handler.ShardView{Shard: in, Owner: owner.Node})
		if owner.Node == known.Node {
			leads++
		}
	}
	for _, node := range known.Nodes {
		view.Nodes = append(view.Nodes, handler.NodeView{Name: node.Name, State: string(node.State), Leads: node.Leads, Replicas: node.Replicas})
	}
	if len(view.Nodes) == 0 {
		view.Nodes = append(view.Nodes, handler.NodeView{Name: known.Node, State: string(web.NodeUp), Leads: leads, Replicas: len(view.Shards)})
	}
	return view
}

// shardNumbers are the shards in which conversations live.
func (n *Node) shardNumbers() (all []uint32) {
	for in := range n.shards.Count() {
		all = append(all, uint32(in)+1)
	}
	return all
}

// followFeed subscribes to the rows of a project's lists at the owner of a shard.
func (n *Node) followFeed(ctx context.Context, in uint32, tenantID, projectID string, sink follow.Sink) (cancel func(), err error) {
	followed, err := n.router.FollowIn(ctx, shard.ID(in), follow.Feed(in, tenantID, projectID), sink)
	if err != nil {
		return nil, err
	}
	return followed.Cancel, nil
}

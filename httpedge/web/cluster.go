package web

import (
	"context"

	"parley/httpedge/endpoint"
)

// View is the cluster as shown by the page.
type View struct {
	Node string `json:"node"` // the answering node
	// Owner is the node that owns the requested conversation; empty if none was requested, or it has no owner now.
	Owner string     `json:"owner,omitempty"`
	Epoch uint64     `json:"epoch,omitempty"` // of the owner
	Nodes []NodeView `json:"nodes"`           // sorted by name; empty on a node that is alone
}

// NodeView is a node as seen by the answering one.
type NodeView struct {
	Name     string    `json:"name"`
	State    NodeState `json:"state"`
	URL      string    `json:"url,omitempty"` // of its HTTP listener, for links
	Leads    int       `json:"leads"`         // shards that it owns
	Replicas int       `json:"replicas"`      // shards that it holds
}

// NodeState is the state of a node.
type NodeState string

// States of nodes.
const (
	NodeUp       NodeState = "up"
	NodeDown     NodeState = "down"     // not reachable
	NodeDraining NodeState = "draining" // moves its shards away
	NodeLeaving  NodeState = "leaving"  // stops or restarts
)

// ClusterPath is the path of the View.
const ClusterPath = "/cluster.json"

type clusterIn struct {
	Conversation string `query:"conversation" doc:"Id of the conversation whose owner is wanted"`
}

type clusterHandler struct {
	view func(ctx context.Context, conversationID string) View
}

// ClusterRoute is the route of the View. It is for the page only and not documented. conversationID is as sent by the
// client, "" for none. view must return at once, from what the node knows.
func ClusterRoute(view func(ctx context.Context, conversationID string) View) endpoint.Route {
	return endpoint.On("GET "+ClusterPath, "page:read", clusterHandler{view}.getCluster,
		endpoint.Public(), endpoint.Hidden(), endpoint.Tag("Pages"), endpoint.Summary("The nodes, as the page shows them"))
}

func (c clusterHandler) getCluster(ctx context.Context, in *clusterIn) (*View, error) {
	view := c.view(ctx, in.Conversation)
	if view.Nodes == nil {
		view.Nodes = []NodeView{}
	}
	return &view, nil
}

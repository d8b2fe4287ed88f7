package web

import (
	"context"

	"parley/httpedge/endpoint"
)

// View is what the page shows of the cluster.
type View struct {
	Node string `json:"node"` // that answers
	// Owner is the node that owns the conversation asked for; empty = none was asked for, or it has none right now.
	Owner string     `json:"owner,omitempty"`
	Epoch uint64     `json:"epoch,omitempty"` // of the owner
	Nodes []NodeView `json:"nodes"`           // sorted by name; empty on a node that is alone
}

// NodeView is a node as the one that answers sees it.
type NodeView struct {
	Name     string    `json:"name"`
	State    NodeState `json:"state"`
	URL      string    `json:"url,omitempty"` // of its HTTP listener, for links
	Leads    int       `json:"leads"`         // shards that it owns
	Replicas int       `json:"replicas"`      // shards that it holds
}

// NodeState is how a node is.
type NodeState string

// States of nodes.
const (
	NodeUp       NodeState = "up"
	NodeDown     NodeState = "down"     // not heard of
	NodeDraining NodeState = "draining" // gives up what it holds
	NodeLeaving  NodeState = "leaving"  // stops, or restarts
)

// ClusterPath is where the page asks for a View.
const ClusterPath = "/cluster.json"

type clusterIn struct {
	Conversation string `query:"conversation" doc:"Id of the conversation whose owner is wanted"`
}

type clusterRoute struct {
	view func(ctx context.Context, conversationID string) View
}

// ClusterRow is the route of View, for the page alone: it is in no document. conversationID is as the client sent it,
// "" when it asks for none. view must answer at once, from what the node knows.
func ClusterRow(view func(ctx context.Context, conversationID string) View) endpoint.Row {
	return endpoint.On("GET "+ClusterPath, "page:read", clusterRoute{view}.getCluster,
		endpoint.Public(), endpoint.Hidden(), endpoint.Tag("Pages"), endpoint.Summary("The nodes, as the page shows them"))
}

func (c clusterRoute) getCluster(ctx context.Context, in *clusterIn) (*View, error) {
	view := c.view(ctx, in.Conversation)
	if view.Nodes == nil {
		view.Nodes = []NodeView{}
	}
	return &view, nil
}

package node

import (
	"parley/actors/core/quota"
	"parley/cmd/parley/node/ids"
	"parley/cmd/parley/node/spending"
)

// newDoor makes what lets calls in that budgets and quotas count, for turns and for the gateway. The edge stops it, before what
// counts is stopped; a node that did not come so far does it here.
func (n *Node) newDoor() *spending.Door {
	mint := ids.New(n.shards)
	door := spending.New(spending.Config{
		Entities: &client{n}, NewID: mint.NewID, IDFrom: mint.NewIDFrom, Logger: n.log, Registerer: n.metrics,
		Policies: func(tenantID string) []*quota.Policy { return n.directory.policies.Of(tenantID) }, // the directory is opened later
	})
	n.later(door.Stop)
	return door
}

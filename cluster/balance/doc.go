// Package balance is the placement loop: it observes the cluster, has shard.Plan say what the next safe steps are, has
// the nodes concerned make them, and observes again.
//
// One loop acts in a cluster, on the node that owns the directory; the others only watch. It keeps nothing but the
// records of nodes, so whichever node takes over goes on from what it sees. Every step says which members it is meant
// for and is refused by a shard that has others: two loops that act for a moment, or one that sees old news, do no
// harm.
//
// It does not decide where things belong (cluster/shard) and changes no log itself: the nodes do (Config.Router).
package balance

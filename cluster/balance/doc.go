// Package balance is the placement loop. It observes the cluster, computes the next safe steps with shard.Plan, has the nodes
// concerned carry them out, and starts over.
//
// In a cluster one loop acts, on the node that owns the directory; the loops of the other nodes only watch. A loop stores nothing
// but the records of nodes, so a successor continues from what it observes. Every step names the members it was planned for, and
// a shard with other members refuses it. Two loops that act at the same time, or one that acts on outdated reports, therefore do
// no harm.
//
// A node whose log is much slower than those of others leads nothing, for a minute at first, and longer each time: judgeLogs.
//
// The package does not decide where replicas belong (package shard does) and does not change a log itself: it asks the nodes to
// (Config.Router).
package balance

// Package feature says what the nodes of a cluster may expect of each other while releases run side by side.
//
// A release that sends messages or writes records which the release before does not understand does so only from a level on
// that every node of the cluster has. The level of a cluster only rises: once a feature is on, records that need it may have
// been written, and a node of an older release can no longer be started. etcd (cluster version) and CockroachDB (version
// gates) do the same.
package feature

import "sync/atomic"

// Level numbers the releases whose nodes differ in what they understand. A level includes all levels below.
type Level uint32

// Levels, append-only.
const (
	// Base is what every release understands that says nothing of levels.
	Base Level = iota
	// WholeCommands allows commands that carry the creation of their entity, and the entities that came with them (deliveries).
	WholeCommands
	// Webhooks allows what came with webhooks: rows of outboxes, endpoints and their deliveries, and the log of decisions.
	Webhooks
	// Console allows what came with the console: licence keys of tenants, and reads that add up usage where it is.
	Console
	// Aegis allows what came with shields: their verdicts among decisions, approvals, and allowances, by which budgets are kept.
	Aegis
	// Meters allows meters, which count the usage of gateway calls, and traces that programs report.
	Meters
	// PackedUsage allows packs, in which shards keep the usage of past days.
	PackedUsage
)

// Oldest is the level of the release before this one. Nodes that have less are refused: what they lack is used without asking.
const Oldest = WholeCommands

// Newest is the level that this release has.
const Newest = PackedUsage

// Gate is the level of the cluster as a node knows it. It may lag behind, and never runs ahead. The zero value is at Base. It is
// safe for concurrent use.
type Gate struct{ level atomic.Uint32 }

// NewGate returns a gate at a level.
func NewGate(at Level) *Gate {
	g := &Gate{}
	g.Raise(at)
	return g
}

// Level returns the level that every node of the cluster is known to have.
func (g *Gate) Level() Level { return Level(g.level.Load()) }

// On reports whether what came with a level may be used.
func (g *Gate) On(level Level) bool { return g.Level() >= level }

// Raise lifts the gate to a level. It never lowers it.
func (g *Gate) Raise(level Level) {
	for {
		now := g.level.Load()
		if uint32(level) <= now || g.level.CompareAndSwap(now, uint32(level)) {
			return
		}
	}
}

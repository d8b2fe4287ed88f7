// Package membership knows which nodes are there: a gossip (memberlist) of names, starts and addresses.
//
// A member is a hint for routing and placement, never a right: who may write is decided by the log. The package finds
// the other nodes from a list of seeds and finds them again after a partition, refuses nodes of other clusters, and
// tells when another process goes by this node's name. It is the only importer of memberlist.
//
// Invariants: Members and Known are snapshots that never change; OnChange comes from one goroutine, after the snapshot
// that it is about; no callback of ours runs under the gossip's lock.
package membership

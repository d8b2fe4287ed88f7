// Package membership knows which nodes are live. It gossips their names, starts and addresses (memberlist).
//
// Membership is a hint for routing and placement and grants no rights: who may write is decided by the log. The package finds
// the other nodes from a list of seeds, finds them again after a partition, refuses nodes of other clusters, and detects when
// another process uses this node's name. It is the only importer of memberlist.
//
// Invariants: Members and Known are immutable snapshots; OnChange is called from one goroutine, after the snapshot was stored; no
// callback runs under the gossip's lock.
package membership

// Package cluster routes a call to the node that owns the shard it concerns.
//
// A Router maps an id to its shard, looks the owner up in Owners, and hands the call to the shell of this node (Local) or of
// another one (Remote). "Not the owner" means that nothing was done, and the call goes to the next owner. An owner that was lost
// before it answered may have carried the call out. It goes to the next owner as well, because reads change nothing and every
// command carries an id that the conversation remembers: a repeated command is answered with its first outcome. Nothing else is
// ever repeated. A node that was asked by another one serves the call or refuses it; it never forwards it.
//
// A Board keeps the last report of every node and the list of live members. It updates Owners, and the placement loop (package
// balance) observes it.
//
// The package does not decide who owns a shard, keeps no state of entities, and bounds every wait: a call to a shard without an
// owner fails with UNAVAILABLE and never hangs.
package cluster

// Package cluster takes a call to the node that owns what it is about.
//
// A Router finds an id's shard, asks Owners who owns it, and hands the call to the shell of this node (Local) or of
// another (Remote). "Not the owner" means that nothing was done: the call goes to the next owner. An owner that was lost
// before it answered may have done it: the call goes to the next owner as well, because reads change nothing and every
// command carries an id that the conversation remembers, so that it is answered with its first outcome. Nothing else is
// ever repeated, and a node that is asked by another serves or refuses; it never passes the call on.
//
// A Board keeps what every node last reported and who is there. It tells Owners what follows, and is what the placement
// loop (package balance) observes.
//
// It decides nothing about ownership, keeps no state about entities, and gives up in time: a shard without an owner
// answers UNAVAILABLE, never a hang.
package cluster

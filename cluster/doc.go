// Package cluster takes a command or a follow to the node that owns the entity.
//
// A Router finds an id's shard, asks Leaders who owns it, and hands the call to the shell of this node (Local) or of
// another (Remote). The answer "not the owner" means that nothing was done, so the call is made again when a newer
// owner is known; nothing else is ever repeated: a timeout may hide a command that was applied, and whoever sent it
// repeats it with the same command id.
//
// It decides nothing about ownership, keeps no state about entities, and gives up in time: a shard without an owner
// answers UNAVAILABLE, never a hang.
package cluster

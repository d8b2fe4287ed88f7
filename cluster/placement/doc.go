// Package placement reaches the entities of other nodes. It runs protoactor-go's cluster on our own membership and shard owners,
// and implements the Remote of cluster.Router on top of it.
//
// Every node has a permanent actor s<shard> for every shard, the gate, through which the other nodes reach the entities of that
// shard. A gate never blocks and never stops: it hands each call to a goroutine of its own, and the shell behind it decides
// whether the node owns the shard. The members and the table of owners are given. The engine's own gossip, identity cache, futures
// and retries are not used (cluster/DESIGN.md says why).
//
// Two nodes are joined by a link: one connection in each direction, a heartbeat that proves both, and whatever waits for the other
// side. A link is up or down. When it goes down, for whatever reason and in whichever direction, everything that waits ends at
// once: calls fail as Lost, follows are closed. It comes up again under a new generation, and messages of older generations are
// dropped. So no caller waits for a node that will not answer, and no message is handled twice.
//
// A call fails with NotOwner (nothing was done, also if the node could not be reached), with Lost (it may have been carried out),
// with the context's error, or with the failure that the other node's shell returned.
//
// The package does not decide who owns a shard, repeats nothing, and keeps no state beyond a link's lifetime.
package placement

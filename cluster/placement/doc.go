// Package placement reaches the entities of other nodes: protoactor-go's cluster on our membership and shard owners,
// and the Remote of cluster.Router on top of it.
//
// Every node has a permanent actor s<shard> for every shard, the gate, through which all others reach what lives there.
// A gate never blocks and never stops: it hands each call to a goroutine of its own, and the shell behind it says
// whether the node owns the shard. Members come from a list that is given, owners from a table that is given; the
// engine's own gossip, identity cache, futures and retries are not used (cluster/DESIGN.md says why).
//
// Between two nodes there is a link: one connection each way, a beat that proves both, and whatever waits for the other
// side. A link is up or it is down. When it goes down, for whatever reason and in whichever direction, everything that
// waited is told at once: calls are Lost, follows are closed. It comes up again under a new generation, and what an
// older one still brings is dropped. So nothing waits for a node that will not answer, and nothing is heard twice.
//
// Errors of a call: NotOwner (nothing was done, also when the node could not be reached), Lost (it may have been done),
// the context's, or what the other node's shell answered.
//
// It decides nothing about ownership, repeats nothing, and keeps no state that outlives a link.
package placement

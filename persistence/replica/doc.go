// Package replica runs all raft groups of one node: it is the only door to the raft engine.
//
// A group is one replicated log with one state machine behind it. A proposal is appended to the log of the group's leader, replicated, made
// durable on a majority, applied to the state machine, and only then answered. All groups of a node share one Pebble: the log rows of this
// package and the state rows of the [StateMachine] sit side by side, so one write-ahead log orders them all.
//
// # Goroutines
//
// Three goroutines serve every group, however many there are, and hand work to each other in batches:
//
//	raft loop   steps the raft nodes; nobody else touches them. Takes proposals, messages, reads; sends messages; hands out storage work.
//	append      writes entries and hard states of all groups in ONE Pebble batch with ONE fsync (none when nobody waits for durability).
//	apply       applies committed entries through the StateMachine, with the applied index in the same batch, without a sync of its own.
//
// Snapshots to and from other nodes run on their own goroutines, so a slow one does not delay the others.
//
// # Members
//
// A joining node holds no groups. The first message of the leader that adds it as a learner creates a replica without
// state ([Status].Initialised is false); a snapshot brings the state; once the replica has caught up it may be promoted
// to a voter. A removed node receives nothing more, and may not learn of its removal: whoever manages the members tells
// it to Drop the replica. Term and vote are kept, see rows.go. Membership changes go one at a time, compare and swap
// ([Change].Expect), and are refused where they would leave no majority that answers.
//
// # Invariants
//
//   - An acknowledged proposal is durable in the log of a majority and applied on the node that answered.
//   - Entries become visible to raft only after the batch that holds them is committed.
//   - The applied index and the state it belongs to are one batch; an entry is never applied twice, not even across restarts.
//   - A log is cut only behind state that precedes the cut in the write-ahead log.
//   - After a failed commit nothing is written until restart: waiting proposals are answered [ErrOutcomeUnknown], new
//     ones [ErrFailed].
//   - A replica without state votes for nobody: it could elect a leader that lacks what this node helped to commit before it was dropped.
//   - A replica is dropped only if its log ends before the removal of this node and no leader sends it anything, so
//     whatever it acknowledged to a leader stays true.
//   - Installing a snapshot either completes or is redone at the next start; the vote and the log are never lost in
//     between.
//
// # Not its job
//
// It does not know what an entry means, who may propose it, where a conversation lives, how bytes travel between nodes
// (see [Transport]), or how Pebble is opened. It never retries a proposal: the caller does, and relies on
// compare-and-append.
package replica

// Package actors is the shell around the rules: it activates entities and gives each of them one command at a time.
//
// An entity (a conversation, a run, a task, ...) is an actor that exists while it is used. It loads its head
// record, lets its machine decide a command, appends the events to the Journal, and only after the append does it answer,
// notify followers and run effects. Rules are in the entity packages and are pure; storage is behind Journal; nothing here
// knows HTTP or nodes.
//
// The parts:
//
//   - System is the front door: Own, Disown, Drain and Undrain (leadership), Ask (commands), Follow (live
//     streams), Stop.
//   - A host is one permanent actor per shard. Only it can reach the shard's activations: it starts them, forwards commands
//     to them and retires them.
//   - An activation (the engine calls it a grain) is one actor per active entity, the same type for every machine.
//   - A term is the time during which this node owns a shard under one epoch.
//   - LiveStreams carry events and text of conversations to followers, past the mailboxes.
//   - Conversations wires the conversation rules to the turn runner and the live streams.
//   - Due times survive the activation: a sweep of each owned shard sends the entities in a Kind's Due list their command.
//     Timers of the rules are only for what may be lost.
//
// Invariants:
//
//   - Nothing is visible outside before it is durable, except Decision.Urgent and streamed text.
//   - An append names the epoch under which the shard is owned; an activation of an older epoch decides nothing.
//   - Answers are linearizable: each follows an append, a read, or the journal's confirmation.
//   - Text is published only under a fresh proof of ownership, and never after the ownership term has ended.
//   - After an append with an unknown outcome the state is dropped and read again. If it has changed by then, waiting
//     callers are told to ask again.
//   - Work that a state says is open is carried out by the shard's owner, and restarted if it was lost (Kind.Lost).
//   - An activation is reached only through its host, so none stops with an unanswered command in its mailbox.
//   - Every queue is bounded. When one is full, the caller gets UNAVAILABLE.
//
// What an entity needs outside of it (a run its turn, a delivery its address) is done by workers: Pool runs one for each entity,
// Deliveries the attempts of all callbacks. A worker keeps nothing: its commands carry ids made of its entity's, so a repeat is
// answered with the first outcome, and whoever owns the shard next starts a worker that goes on from wherever the last one died.
//
// It does not decide who owns a shard, route between nodes, or run turns.
package actors

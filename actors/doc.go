// Package actors is the shell around the rules: it gives every entity a place to live, one command at a time.
//
// An entity (a conversation, a task; later a webhook, a flow, ...) is an actor that exists while it is used. It loads its head
// record, asks its machine what a command means, appends the events to the Journal, and only when the append has
// returned does it answer, tell followers and run effects. Rules are in the entity packages and are pure; storage is
// behind Journal; nothing here knows HTTP or nodes.
//
// The parts:
//
//   - System is the front door: Own, Disown, Drain and Undrain (leadership), Ask (commands), Follow (live
//     streams), Stop.
//   - A host is one permanent actor per shard. It alone knows the shard's activations: it starts, forwards, retires them.
//   - A activation is one actor per active entity, the same type for every machine.
//   - LiveStreams carry what happens on conversations to followers, token by token, past the mailboxes.
//   - Conversations wires the conversation rules to the turn runner and the live streams.
//   - Tasks wires the task rules to conversations of the same shard and to callbacks.
//   - For time that must outlive the activation, a sweep of each owned shard gives those in a Kind's Due list their
//     command; timers of the rules are only for what may be lost.
//
// Invariants:
//
//   - Nothing is seen outside before it is durable, except Decision.Urgent and streamed text.
//   - An append names the epoch under which the shard is owned; a activation of an older epoch decides nothing.
//   - An answer is as new as its question: it comes after an append, a read, or the journal's confirmation.
//   - Text is published only under a fresh proof of ownership, and nothing of an ownership term that is over.
//   - After an append whose outcome is not known the state is forgotten and read again. If it has moved on by then, who
//     waits is sent to ask again.
//   - What a state says is open is worked on: by who owns the shard now, and after a loss within its epoch (Kind.Lost) again.
//   - A activation is only ever reached through its host, so none is stopped with a command in its mailbox unanswered.
//   - Every queue has a bound, and whoever finds it full is answered UNAVAILABLE.
//
// A task has a driver while a run of it is open: a goroutine that gives the conversation its commands and waits for the
// turn. It keeps nothing: its commands carry ids made of task and run, so the conversation answers a repeat with the first
// outcome, and whoever owns the shard next starts a driver that goes on from wherever the last one died. It needs no router,
// because task and conversation share a shard, and so an owner. A background run is driven likewise (see package run); only
// its project's queue may live elsewhere.
//
// It does not decide who owns a shard, route between nodes, or run turns.
package actors

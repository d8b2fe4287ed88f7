// Package kit has the building blocks of an entity. An entity is one folder under actors, pure like package machine, that
// declares one Entity value: the shell (package actors) runs it, the node answers its reads, and no other code depends on it.
//
// # How to add an entity
//
//  1. proto/<name>pb/<name>.proto: State (with last_seq), Event (with seq and created_at, a oneof body), Command (with a oneof
//     body), Reply, and for each read a query message (with the entity's id) and a reply message. `make generate`.
//  2. actors/<name>/machine.go: the rules as a Rules value. Transitions is the state table: one row for each command and the
//     phases in which it is accepted, ignored or refused. A handler gets a Step: it reads the state, emits events, adds what
//     else becomes of the command (see below), or returns a failure. Apply folds an event into the state; Project says which
//     rows of storage follow.
//  3. actors/<name>/queries.go: one function for each read, registered with Read (an entity, at one moment) or Scan (lists and
//     counters over all shards). The caller's side is entity.Read with the query's message: no interface, no adapter.
//  4. actors/<name>/entity.go: func New(...) kit.Entity joins them with the worker, the due times and the list names. What has to
//     run outside the entity (waiting for a turn, calling an address) is a worker that runs in a Pool, which the node provides.
//  5. actors/<name>/<name>_test.go: machinetest.Suite with Scripts (examples) and Table, which checks that the state table says
//     for each phase and command what happens, and prints it to states.md; a random walk where order matters.
//  6. cmd/parley/node/node.go: add the Entity to newKinds. Routes: see package endpoint.
//
// Package idempotency is the smallest example, queue one whose effect tells other entities, run one with a worker, conversation
// the largest.
//
// # What a handler can say
//
// Emit adds an event, Remove ends the entity. Effect is what is to be done once the events are durable, Urgent what must not wait
// for that: then Decision.IfUnwritten may answer when they cannot be made durable. The sender is answered with Decision.Reply,
// else with what Rules.Reply makes of the state. With Await nobody is answered yet: a later command's Settle, or SettleRefused,
// answers all who wait for the key. A failure undoes all of it.
//
// Handlers are functions of a Step, or methods of the package's own request, which embeds a *Step beside the limits (package
// task). What several commands have in common is a function that takes a handler and returns one, so that it shows in the table:
// in package conversation, once (a repeat is answered, not carried out) and opens (the command makes its conversation and adds
// files before it is decided; its rows begin at Absent).
//
// A step costs one allocation, and none for up to three events. State folds events only when it is asked for.
package kit

// Package trace holds the rules of the sessions that programs report (package actors/core/tracing), and of the threads that these name.
//
// A session is an entity, whose id follows from its tenant, project and session id. Its head has its fields and totals, its items are
// its events; the journal keeps no history of it. A batch of events is one append, of which those that are known change nothing.
//
// A thread is an entity of its own that only says that it is there: its place in the list of its project. Its sessions are the members
// of a list, by their shards, so that it does not grow with them, and what it comes to is added up when it is read. A session joins its
// thread before it is stored, so no session is in a thread that nobody can find. One without a thread is in the list of threads itself.
//
// The turns of conversations are sessions, too, and conversations threads. Nothing of them is stored here: a page of threads has the
// places of both lists, and who asked reads the turns where they are.
//
// Both entities are removed when nothing was heard of them for as long as they are kept.
package trace

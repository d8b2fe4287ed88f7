// Package a2a is how other agents talk to the agents of a project: A2A, in versions 0.3 and 1.0 at once (document 1, "Agents and
// A2A"; document 3, section 9).
//
// A context is a session, and a task is one turn of it: task_<conversation>_<index> names the turn by the place of its answer in
// the list of messages. Nothing of a task is stored but who is to be told of it: whatever is said of one is read from its conversation, at any node and after
// any restart. So a session of the Client API goes on over A2A, and the other way round.
//
// Package protocol has what stands on the wire, package tasks maps conversations to tasks without asking anybody.
package a2a

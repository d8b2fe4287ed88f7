// Package task is background tasks: an agent is given an input, works on it in a conversation of the task's own, and leaves a
// result. The rules are pure; entity.go joins them with the worker of background runs and with callbacks.
//
// pending, running, then completed, failed, canceled, or waiting_for_input when the agent asks. A user's comment makes a
// task pending again from any state, and it runs anew: the comment answers the agent's question, or is the next message.
// What comes while a run is open is said when that has ended. At most one run is open. states.md is the state table.
//
// A run is a turn of the conversation. The rules open it; the worker of background runs (effect Drive) creates the conversation,
// sends the message or answers the question, waits for the turn and tells the rules (Started, Ended). Its commands have ids made
// of task and run, so a worker that starts over after a crash does nothing twice. Unlike a run of the Client API, the run of a task
// is not stored by itself: it would be a second state of the same turn, to be kept in step with the task's across crashes. The task
// keeps what matters of it; it does not count in the project's queue, and it does not hold its conversation, so that others may
// take part there: the conversation tells the task when a person has acted (Resumed, see Watch), and should the word be lost, the task
// looks by itself, ever more rarely. Open runs stand in ListRunning, where a new owner of the shard
// finds them; callbacks and looks at paused turns are due times in ListDue.
//
// A callback tells the newest state that somebody waits for (completed, failed, waiting_for_input). It is a delivery (package
// delivery) that is part of the task's state; a newer one takes its place.
package task

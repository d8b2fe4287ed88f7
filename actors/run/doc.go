// Package run is background runs, the rules and their worker: an agent is given a message in a session, and works on it while nobody waits.
//
// queued, running, then succeeded, failed or canceled; requires_action while a person must act. A run is made by Create,
// which is answered once the run is admitted: it has its place in the project's queue (package queue), and holds its
// conversation, so that no other turn begins there. What is refused by either leaves no run behind.
//
// The rules say what the state is; a worker (effect Drive) does what the state asks for and reports it: it joins the queue,
// holds, sends the message, waits for the turn, lets go. Its commands have ids made of the run's, so one that starts over
// after a crash does nothing twice. Runs that need a worker stand in ListRunning, where a new owner of the shard finds
// them. A run that waits for its place, or for a person, needs none: the queue tells it (Placed), the conversation tells it
// (Look), and should either word be lost, it looks by itself at due times (ListDue), ever more rarely.
//
// A run that waits for a person gives its place back and goes on holding its conversation. When the person has acted the
// turn goes on at once, so the run takes a place that may be one too many: others wait until it is not.
//
// The hold is released before the end is told, so who waited for the end can send the next message; a crash between the
// two finds the same end again in the conversation's records.
//
// Each change of state that somebody may wait for is told to the run's callback address by a delivery of its own (package
// delivery), which is part of the run's state: five attempts at most. Runs are removed some time after their end.
package run

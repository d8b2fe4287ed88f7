// Package conversation is the rules of a conversation: one turn at a time, cancel, recovery, budget, title, pin,
// metadata, and the rows by which it is listed. It is a machine.Machine over package conversationpb: pure, one file
// per command, state.go for what events do, project.go for the rows that follow.
//
// Transitions, with the row of document 2, section A, "States and transitions" that each one serves ("-" where the
// document is silent and the architecture decides):
//
//	state    command                 condition                      next     events                       row
//	none     create                                                 idle     created (0)                  -
//	idle     send                    budget left                    running  user.message, running        idle, send
//	idle     send                    budget used up                 idle     refused BUDGET_REACHED       402
//	idle     cancel                                                 idle     none: nothing to cancel      cancel
//	running  send                                                   running  refused CONVERSATION_BUSY    409
//	running  finish                  holds the lease                idle     agent.message?, idle         -
//	running  finish budget_reached   budget pauses                  idle     the same, continuable        budget reached
//	running  finish                  cancelled, taken over lately   idle     the same, settled later      running, cancel
//	running  finish                  any other run or epoch         running  refused STALE_TURN           -
//	running  cancel                  the first                      running  cancel_requested             running, cancel
//	running  cancel                  again                          running  none, waits like the first   running, cancel
//	idle     cancel                  run taken over lately          idle     none: waits for silence      cancel
//	running  cancel_timeout          cancelled                      running  none: settled false          running, cancel
//	running  cancel_timeout final    cancelled                      idle     idle (cancelled)             running, cancel
//	running  recover                 lease of an older epoch        running  recovered                    -
//	running  recover                 the same, ended too often      idle     idle (error interrupted)     -
//	running  recover                 cancelled                      idle     idle (cancelled)             -
//	running  recover                 lease of this epoch            running  none: resume                 -
//	running  delete                  only_idle                      running  refused CONVERSATION_BUSY    bulk-delete
//	waiting  send                                                   waiting  refused ACTION_PENDING       409
//	waiting  cancel                                                 idle     idle (cancelled)             cancel
//	any      update                  changes something              same     updated                      budget raised
//	any      send, cancel, update    the command came before        same     none: answered as it was     -
//	any      delete                                                 none     none: everything goes        delete
//	any      await_run               the run is active              same     none: waits                  -
//
// A run is taken over when its lease is of an older epoch. Whoever held that may not know yet that it is no owner any
// more, and stream on: for Limits.TakeoverSilence after this epoch began, no cancel of such a run is settled.
//
// How a conversation comes to wait, and everything that resolves it, belongs to the rules of pending actions, which
// are not here yet; the state already has their place.
//
// Invariants: event numbers have no gap and begin at 1 after the created event's 0; there is a lease exactly while
// the conversation runs; what was spent never falls; message numbers are never used again. The scripts in testdata
// hold every row of this table, the random walk in the tests holds the invariants.
//
// Messages that come out of Decide and Evolve (events, replies, effects, state) point into one another: nobody may
// change them.
//
// The package does not read clocks, mint ids, store, stream or run turns, and it does not invent titles: a
// conversation without one stays so.
package conversation

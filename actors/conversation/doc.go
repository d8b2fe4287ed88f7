// Package conversation is the rules of a conversation: one turn at a time, its tools, its pauses for people, its money,
// cancel, recovery, title, pin, metadata, files, background runs, the rows by which it is listed and those of what it used.
// It is a machine.Machine over package conversationpb: pure, one file per command, state.go for what events do, project.go
// for the rows that follow.
//
// states.md is the state table that runs (machine.go), by phase. What follows adds the conditions, and the row of document 2,
// section A, "States and transitions" that each transition serves ("-" where the document is silent and the architecture
// decides). Its idle is the phases idle and cut, its running the phases running and cancelling:
//
//	state    command                 condition                      next     events                       row
//	none     create                                                 idle     created (0)                  -
//	none     send, hold              opens with create              as idle  created, then as idle        a response in a new session
//	any      send, edit, hold        opens with files               as ever  file.added, then as ever     files with a message
//	idle     send                    budget left                    running  user.message, running        idle, send
//	idle     send                    budget used up                 idle     refused BUDGET_REACHED       402
//	idle     cancel                                                 idle     none: nothing to cancel      cancel
//	any      cancel                  names a turn that is over      same     none: nothing to cancel      cancel
//	running  send                                                   running  refused CONVERSATION_BUSY    409
//	running  send on_busy queue      room in the queue              running  message.queued                       -
//	running  send on_busy interrupt  the same                       running  cancel_requested, message.queued     -
//	waiting  send on_busy queue      the same                       waiting  message.queued                       -
//	waiting  send on_busy interrupt                                 running  action.cancelled, agent.message, idle, then as idle  -
//	any      cancel                  names a queued turn            same     message.unqueued                     -
//	any      what leaves it at rest  messages are queued            running  the same, user.message, running      -
//	idle     send, edit, ...         messages are queued            same     refused CONVERSATION_BUSY            -
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
//	running  recover                 the same, attempts died too often  idle  idle (error interrupted)    -
//	running  recover                 cancelled                      idle     idle (cancelled)             -
//	running  recover                 lease of this epoch            running  none: resume                 -
//	running  delete                  only_idle                      running  refused CONVERSATION_BUSY    bulk-delete
//	running  progress use, results   the runner can go on           running  agent.tool_use or _result    -
//	running  progress use, results   only people can move it        waiting  the same, action.requested, waiting  running, pauses
//	running  progress doubt          the same                       waiting  action.requested, waiting    -
//	running  progress                the step was journalled before same     none: answered as it was     -
//	running  progress                any other run, epoch or step   running  refused STALE_TURN           -
//	running  progress reserve        more than before is left       running  budget.reserved              running, budget reached
//	running  recover                 calls open, a call under way   running  recovered, session.usage: in doubt, charged  -
//	waiting  send                    pendingActionPolicy refuse     waiting  refused ACTION_PENDING       409
//	waiting  send                    pendingActionPolicy cancel     running  action.cancelled, agent.message, idle, then as idle  409
//	waiting  resolve                 others are pending             waiting  action.resolved              waiting, resolve
//	waiting  resolve                 the last one                   running  action.resolved, running     waiting, resolve
//	waiting  resolve, due            its time is over               waiting or running  action.expired, running  waiting, lapses
//	waiting  resolve, due            the same, time-out cancels     idle     action.expired, agent.message, idle  waiting, lapses
//	any      resolve                 not pending, or lapsed         same     refused ACTION_NOT_PENDING, _EXPIRED  409, 410
//	waiting  cancel                                                 idle     action.cancelled, agent.message, idle  cancel
//	waiting  continue                                               waiting  refused ACTION_PENDING       409
//	idle     continue                budget left, continuable       running  running                      budget-stopped, continue
//	idle     continue                budget used up                 idle     refused BUDGET_REACHED       402
//	idle     continue                nothing was cut                idle     refused NOTHING_TO_CONTINUE  409
//	idle     send, ...               continuable                    running  as ever: the cut turn is over  -
//	any      forget                  the tool is remembered         same     tool.forgotten               remembered-tools
//	idle     regenerate              of the newest answer           running  running                      regenerate
//	idle     regenerate              any other message              idle     refused INVALID_MESSAGE_TARGET 409
//	running  finish                  regenerate, with an answer     idle     agent.message in its place   regenerate
//	running  finish                  regenerate, did not get there  idle     idle: the old answer stays   regenerate
//	running  finish                  of a budget that was raised    running  agent.partial: it goes on    budget raised
//	idle     edit                    of a user message              running  truncated, user.message, running edit
//	any      rate                    of an answer that is whole     same     message.feedback             feedback
//	any      regenerate, edit, rate  read before a rewrite          same     refused UNAVAILABLE          -
//	any      add_file                the agent takes it             same     file.added                   files
//	any      remove_file                                            same     file.removed                 files
//	any      due                     files are past their time      same     file.removed                 retentionDays
//	idle     hold                    as for a message, or continue  idle     held (not public)            document 1, background runs
//	any      hold                    held by this run               same     none: answered as it was     -
//	any      hold                    held by another run            same     refused CONVERSATION_BUSY    409 agent_run_conflict
//	any      hold release            by the run that holds it       same     held, released (not public)  -
//	any      hold release            any other run                  same     none: answered as it is      -
//	any      send, continue, ...     held, not on the run's behalf  same     refused CONVERSATION_BUSY    409 agent_run_conflict
//	any      send, continue, ...     on behalf of a run that let go same     refused STALE_TURN           -
//	any      delete                  only_idle, held                same     refused CONVERSATION_BUSY    409 agent_run_conflict
//	any      set_title               none, or the first message's    same     updated, session.usage       titles
//	any      update                  changes something              same     updated                      budget raised
//	any      send, cancel, update    the command came before        same     none: answered as it was     -
//	any      set_push                       the turn runs or waits  same     push set (not public)        A2A
//	any      remove_push                    it is there             same     push removed (not public)    A2A
//	any      what ends or pauses a turn     it has pushes           as ever  the same, push due (not public)  A2A
//	any      pushed, due                    an attempt is known, or due  same  push due, or over (not public)  A2A
//	any      delete                                                 none     none: everything goes        delete
//	none     delete                  a repeat of the command        none     none: answered as it was     delete
//	any      await_run               the run is active              same     none: waits                  -
//
// A run is taken over when its lease has an older epoch. The former owner may not know yet that it has lost the shard and
// may still be streaming: for Limits.TakeoverSilence after this epoch began, no cancel of such a run is settled.
//
// A turn has one lease from its message to its end. It journals steps (tool uses and results) as rows that are removed with
// it, and parks the lease (State.paused) while it waits for people or, cut off by the budget, for more money: then it does
// not run and needs no recovery. Its text so far is stored as a message, which the final answer replaces. Each resume resets
// the count of attempts, and a runner from before the pause that repeats a step gets the reply that the turn paused.
//
// Money: the usage of a journalled step is spent with the step; the model call under way is spent with the report or, if
// none can come, with its whole grant (Lease.reserved_nano_usd). TurnEnded.usage is the whole turn's, so it adds the
// difference to Lease.usage. Grants never exceed the budget, and a call may exceed its grant by at most one metering step:
// that is how far the budget can be overspent.
//
// Usage is aggregated by hour (machine.UsageSum) with the event that charges it, so that each model call is counted exactly
// once, whatever is retried: a journalled step's with the step, the rest with the end, a lost call's with the recovery, a
// title's with the title. It is attributed to the model, and to the user and token that started or last continued the turn
// (Lease.by_user, by_token). Combined usage of two models (a title's and its turn's) is attributed to the turn's model. The
// rows outlive the conversation.
//
// A background run holds the conversation from its admission to its end (State.background_run), so that no other turn comes
// in between; the public log has no event for it. Actions of its turns can still be resolved, cancelled and expire. The
// outcome of hold is stored for repeats, that of hold release is not: a release is idempotent.
//
// Pushes (State.pushes) are the addresses that are told when a turn ends or pauses (push.go): a delivery of each is stored with
// that, attempts to one address follow each other, and an address goes once the end of its turn is told or given up.
//
// Messages that wait for their turns are in the head (State.queue), with ids from the beginning. The append after which nothing
// keeps the first one waiting begins its turn (next): a turn that ends in any way, a background run that lets go, a budget that is
// raised. A turn that waits for a person or can be continued keeps them waiting.
//
// Runtime contexts, the conversation's and the turn's own, are bytes that the edge has encrypted. Their size is bounded here;
// only the runner reads them.
//
// A call that may have run (its runner was lost) and is not idempotent gets need OUTCOME with TurnRecovered. No remembered
// approval and no time-out runs it again, only a person.
//
// Invariants: event numbers have no gap and start at 1 after the created event's 0; there is a lease exactly while the
// conversation runs; the amount spent never decreases; messages are numbered 1, 2, 3, ... without a gap, and each answer
// follows the message it answers. The scripts in testdata test every row of this table, the random walk tests the
// invariants.
//
// A message's number is its position. A new answer takes the position of the one it replaces and an edited message that of
// the old one, each with a new id; all messages after an edited one are removed. The sender of a command reads messages that
// the head does not hold beforehand (Target): State.rewritten, the newest event that replaced a message, shows whether they
// may have changed since. Then the command is refused as UNAVAILABLE, and the sender reads again.
//
// The bytes of a file are committed by the append that adds the file and removed by the one that removes it; a deleted
// conversation's files are deleted with it. Messages keep the names of removed files.
//
// Messages that Decide and Evolve return (events, replies, effects, state) share memory: they must not be modified.
//
// The package does not read clocks, mint ids, store, stream or run turns, and it does not invent titles: it takes one
// from the runner for a conversation that has none, and says that it is not the client's.
package conversation

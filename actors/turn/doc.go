// Package turn runs turns: an answer of an agent to one message, from the model's first token to the report, with the
// tools that the model asks for in between.
//
// A turn is a goroutine of its own, started by the conversation after the right to run it is durable. It reads as much
// of the history as fits into the model's context window, calls the model, streams the text to the Publisher as it
// comes, runs tools, and ends with one report to the conversation, or with a pause that the conversation has stored
// already. What is said is durable only through the conversation. A report is repeated until it is taken or refused: what a
// model said is not lost because a disk was full for a minute.
//
// # Steps
//
// A model call that asks for tools is journalled (Job.Progress) before any of them runs, and each result as it comes.
// The answer of the journal says how the turn goes on: which calls are to be run, or that it waits for a person; then the
// run ends without a report. When the turn is resumed, or recovered after its runner was lost, the next run reads the
// steps back and goes on from there: no step is done twice. A call without a result may have run when its runner was lost.
// It is run again, with the same idempotency key, if its tool says that this does no harm; else the turn pauses for a
// person. A step whose answer was lost is given again under the same number, and the rules answer it alike.
//
// # Money
//
// Where the conversation has a budget, money is asked for before each model call: the prompt and one metering step. While
// the model answers, its output is metered, shown or not (arguments of tool calls, thoughts), the next step is asked for when
// half of the last is used, and the call is cut when it has used what it was granted. The provider's own cap is lowered to
// what the budget has left, so the meter is the second fence, not the only one. A model that is faster than the journal
// waits for it. What a call consumed is settled once: with its step, or with the report. Where the provider did not say,
// because the call was cut, the meter's count stands for it. A call that is lost with its process is charged by the
// rules, as what it was granted.
//
// # Invariants
//
//   - After Stop has returned, nothing of the run is published any more; its report holds exactly what was published since
//     the turn was resumed, after what it had said before. Tools that ran are stopped before the report, what they still
//     bring is not journalled, and a title that is being made is given up.
//   - An abandoned run (the node lost the shard, or stops) publishes and reports nothing: its next owner goes on with it.
//   - No tool runs whose call is not journalled, and none whose result no model would read.
//   - A run ends: by the model, a person who is waited for, a timeout, the cap on rounds, text or money, Stop, or Release.
//   - Results of one call, and arguments and results of a turn, are bounded; so are the tools that run at one time.
//   - Every goroutine is counted, or waited for by one that is; Drain returns when there is none.
//
// # Runtime contexts
//
// What the turn's caller hands to tools and connected agents (package runtimecontext) comes sealed. It is opened when the
// turn begins, and again when it goes on elsewhere, and is in memory for that long. A turn whose context cannot be opened ends
// in an error: without it the tools would be asked in nobody's name.
//
// # Titles and files
//
// A conversation's first turn may make its title, by a small model call beside the answer: it goes with the report if it
// is ready, else it is told afterwards, and holds up nothing. It is not made when the budget cannot bear it, and its
// failure is silent. A connected agent is not asked for one: the first words of the message are it. Images go to models that take them, newest message first; of other files the text, under a label
// that says where it comes from; of a file that is neither, its name and why.
//
// The package decides nothing about a conversation and stores nothing.
package turn

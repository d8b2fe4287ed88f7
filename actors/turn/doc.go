// Package turn runs turns: an answer of an agent to one message, from the model's first token to the report, with the
// tools that the model asks for in between.
//
// A turn is a goroutine that the conversation starts once the turn lease is durable. It reads as much of the history as
// fits into the model's context window, calls the model, streams the text to the Publisher, runs tools, and ends with one
// report to the conversation, or with a pause that the conversation has already stored. Text becomes durable only through
// the conversation. A report is retried until it is accepted or refused, so that an answer is not lost because a disk was
// full for a minute.
//
// # Steps
//
// A model call that asks for tools is journalled (Job.Progress) before any of them runs, and each result as it comes.
// The rules' reply says which calls to run, or that the turn waits for a person; then the run ends without a report. When
// the turn is resumed, or recovered after its runner was lost, the next run reads the steps back and continues from there:
// no step is done twice. A call without a result may have run when its runner was lost. If its tool is idempotent it is run
// again with the same idempotency key; otherwise the turn pauses for a person. A step whose reply was lost is sent again
// under the same number and gets the same reply. A step also holds what only the model's provider can read of the call
// (model.Answer.State), for the requests that follow in the turn.
//
// # Money
//
// If the conversation has a budget, a grant is requested before each model call: the prompt and one metering step. While
// the model answers, all its output is metered, including tool arguments and reasoning; the next step is requested when
// half of the last is used, and the call is cancelled when output comes that its grant does not pay. The provider's output cap is lowered to
// the rest of the budget, so the meter is a second limit. A model that is faster than the journal waits for it. A call's
// usage is settled once: with its step, or with the report. If the provider did not report usage because the call was cut,
// the meter's count is used. A call that is lost with its process is charged its whole grant by the rules.
//
// # Invariants
//
//   - After Stop has returned, the run publishes nothing more; its report holds exactly the text published before. Running
//     tools are stopped before the report, their late results are not journalled, and a pending title is cancelled.
//   - An abandoned run (the node lost the shard, or stops) publishes and reports nothing: the next owner continues it.
//   - No tool runs before its call is journalled, or if no model would read its result.
//   - A run ends: by the model, a pause for a person, a timeout, a limit on rounds, text or money, Stop, or Release.
//   - Results of one call, and arguments and results of a turn, are bounded; so are the tools that run at one time.
//   - Every goroutine is counted, or waited for by one that is; Drain returns when there is none.
//
// # Runtime contexts
//
// The context that the turn's caller passes to tools and connected agents (package runtimecontext) arrives encrypted. It is
// decrypted when the turn starts, and again when it continues on another node, and is kept in memory only for that time. A
// turn whose context cannot be decrypted ends in an error: without it tools would be called without the caller's identity.
//
// # Titles and files
//
// A conversation's first turn may generate its title by a small model call in parallel with the answer. The title is part of
// the report if it is ready by then; otherwise it is stored afterwards, and delays nothing. It is skipped when the budget
// does not allow it, and its failure is silent. Connected agents get the first words of the message as the title. Images are
// sent to models that accept them, newest message first; other files as extracted text, labelled with their name; of files
// without text only the name and the reason.
//
// The package decides nothing about a conversation and stores nothing.
package turn

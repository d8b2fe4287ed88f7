// Package turn runs turns: one answer of an agent to one message, from the model's first token to the report.
//
// A turn is a goroutine of its own, started by the conversation after the right to run it is durable. It reads as much
// of the history as fits into the model's context window, calls the model, streams the text to the Publisher as it
// comes, and ends with exactly one report to the conversation, which alone makes the answer durable. The report is
// repeated until it is taken or refused: what a model said is not lost because a disk was full for a minute.
//
// Invariants:
//
//   - After Stop has returned, nothing of the run is published any more; its report holds exactly what was published.
//   - An abandoned run (the node lost the shard, or stops) publishes and reports nothing: its next owner repeats it.
//   - A run ends: by the model, a timeout, the cap on rounds or text, Stop, or Release.
//   - Every goroutine is counted; Drain returns when there is none.
//
// It decides nothing about a conversation and stores nothing. Tools are not run here yet: a model that asks for one is
// told that there is none.
package turn

// Package model is the door to language models: one Provider interface and one file per adapter. The clients for Go that the services publish
// are not used: of their fifteen megabytes of source a turn needs to write one object, and it reads the answers by itself (below). To compile them took
// a third of the time of a first build. The tests hold every request and answer to the letter, and package inference its table of parameters to
// those of the clients. Everything else about a call is the same for all providers: time limits, retries, size limits, what an
// error may say. That is the business of package provider. An adapter writes the request and reads the answer; failure.go words what goes wrong for turns.
// Answers of Chat Completions are read by package dialect/chat, as the gateway reads them: of that dialect there are many imitators.
//
// Answers of Responses and Messages are read in recorder_read.go: what the services' own clients do not expect they drop, and an answer of
// which something was dropped looks whole. A value is taken from any of its places; the last place counts for calls and usage, and of a
// text that was heard in part the rest is added. An answer is complete only where the protocol says so: an end that is not known is an
// error in the provider's words. A document in place of a stream is read. A Messages answer that pauses is asked for again, with what was
// said, and is one call.
//
// What only the provider can read of an answer that asks for tools (thoughts, their signatures, what its own tools found) is Answer.State:
// where it stands among text and calls, and what it is. It goes back, as it came and in its place, with the further requests of the turn, and to
// no other provider or model. What is longer than 256 KiB is dropped.
//
// # The scripted provider is not a language model
//
// It is a built-in stand-in, so that a fresh checkout can be tried, tested and measured without a network, a key or a bill. It
// understands nothing. With a Script in the agent's configuration it does exactly what the script says: words, delays, tool
// calls, failures, usage. Without one it picks one of a few canned replies by looking for key words in the newest user
// message, says in the reply that it is a stand-in, and streams it word by word at a set rate. It counts words as tokens. The
// same request always gets the same answer. When a Script sets `tokens`, the words are numbered ("w1 w2 w3 ...") so that a
// reader of the stream can tell a gap, a repeat and a swap. Words keep an absolute schedule: a late word does not move the
// later ones.
//
// # Invariants
//
//   - What a Stream heard, put together, is Answer.Text, on success and on failure.
//   - A ToolCall is heard, and is in Answer.ToolCalls, only after the provider has ended the answer; its Arguments are a JSON object.
//   - The ids of an answer's calls differ and are not empty. Calls of the past go out under ids and names that every dialect takes.
//   - Nothing is asked again once a piece of text or of a tool call has arrived: an attempt is repeated only before that. What
//     is said of the usage of an attempt that failed is part of the call's.
//   - A service whose circuit is open is waited for until it is tried again, within the call's total time: an outage that ends soon
//     fails no turn.
//   - A call ends by itself: first token, silence between two chunks and the whole call have a time limit, and the bytes of
//     a line, of a response and of an answer a size limit.
//   - No error and no log record holds a key, a header, or the userinfo or query of a URL. Redirects are refused, so a key
//     goes to the configured host only; those of connected agents are followed as deliver.Guard judges, without credentials
//     to another host.
//   - What a tenant has chosen, its models and connected agents, is reached through deliver.Guard: no private address is.
//   - Nothing is read from the environment: the HTTP transport has its own proxy setting.
//   - No adapter keeps anything between two calls but idle connections, which version of its protocol an agent knows, and which
//     parameters models refuse; there is no goroutine to stop.
//
// # Connected agents
//
// They are other people's agents behind a2a, openai-chat or openai-responses (document 3, 7.11): one POST of JSON, a reply in
// one piece, 120 s, asked once; but an agent that does not know the method of A2A 0.3 is asked by that of 1.0, and from then on by
// that first. A reply in which no text is found is an error. They are told all that was said, so no contextId is kept of theirs, and
// never what tools did. Parts of a text are joined by nothing (openai kinds) or a line break (a2a); thoughts among the output are
// left out.
// What the turn's caller passes on (Request.Header) goes over everything else and into no error.
//
// # What it does not do
//
// It runs no tools, keeps no conversation, computes no price, and never decides what a turn does about an error.
//
// # Meters
//
// A Meter counts a call under way, so that a budget can cut it. That of the scripted provider is exact: at every word it says
// what the usage would be if the call ended there. For the others it estimates, and rather too much. It is told of text by
// whoever hears it, and of what is not shown (arguments of tool calls, thoughts) by an Overhearer.
//
// # Pacing of the scripted provider
//
// One timer per stream, reused, on the goroutine of the caller: 1.4 to 1.7 us of processor time per word with 3,000
// streams of 50 words a second, a quarter of a core (BenchmarkScriptedPaced). A prototype of a shared wheel that calls all
// streams from one goroutine took 0.3 us, but one slow listener would then hold up the answers of others.
package model

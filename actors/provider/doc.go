// Package provider executes calls of model providers: for turns, for the gateway, and for every further kind of caller. What is
// sent and how an answer is read is the business of adapters (actors/turn/model, actors/inference); everything else about a
// call is decided here, once:
//
//   - Executor and Call: attempts, pauses between them, Retry-After, the circuit, metrics and the log of retries.
//   - Circuits: a service that failed too often in a row gets no calls for a while; then one call tries whether it works again.
//   - Exchange: one HTTP request of one attempt, under limits of time (first piece, silence) and size (line, event, response).
//   - Failure: what went wrong as data, classified once, from whatever form a Complaint has. Each surface words it.
//   - Events: the JSON of a stream of server-sent events, and of a document in place of one or behind it, for all dialects.
//   - Learned, Refused: what a server was seen not to take of a request, so that it is asked in vain once.
//   - Redactor: removes credentials from text that is shown or logged.
//   - Cost, CostOf: the price of tokens, and of anything else.
//
// # A new kind of call
//
// Make one Call per request (Executor.Start), make the attempts in Call.Run, each with an Exchange of its own, and return a
// *Failure (or anything that Judge can read) when an attempt fails. Call Call.Begun as soon as a part of the answer has been
// passed on: from then on nothing is repeated. End the call with Call.End.
//
// # Invariants
//
//   - A call runs in its caller's goroutine. No goroutine is started for it here, nor, without TLS, by the
//     transport (deliver.Guard.Direct).
//   - Nothing is repeated once a piece of the answer has been passed on.
//   - Only a provider's own failures open a circuit: no connection, no answer in time, 5xx. What it refuses does not.
//   - No Failure holds a key, a header, a data URL, or the userinfo or query of a URL.
package provider

// Package inference makes single model calls for callers who speak the OpenAI wire form themselves: chat completions, whole or
// streamed, embeddings and moderations (document 3, section 10), speech and transcriptions (section 11). It knows no HTTP of
// ours: JSON in, JSON or sound out, an *Error when it failed, and one Usage for every call that reached a provider.
//
// # Two ways to a provider
//
// An OpenAI-compatible provider is relayed: parameters are copied as they are (they are never decoded, a body may be megabytes of
// pictures), the model's id and the credentials are put in. The answer is read by package dialect/chat, as turns read it, and what
// it says is written in the form of 10.2 and 10.3: texts as they came, calls with clean numbers and ids, fields that are not known
// as they are.
// Other providers (Messages, Responses, the scripted stand-in) are called through package actors/turn/model: messages, pictures,
// tools, sampling and the output cap are a model.Request, all else its Settings, where it has none in the provider's own words.
//
// What becomes of each parameter at each kind of provider is a row of the table in parameters.go: it goes out, it is said in the
// provider's words, it has no effect on the answer, or it is refused by name. None is dropped that asks for something.
//
// # Dynamic models
//
// A call that names a dynamic model is made to the models that package actors/core/routing puts in order, one after the other, until one
// answers or a chunk was passed on; all of them share Config.RequestTimeout. Each is a call of its own to budgets, circuits and usage:
// what is held is what the dearest of those that are left may cost. What goes on before and after the choice (guardrails) is outside of
// this package: it sees one call and one answer, whose model is the one that ran.
//
// # Answers that are kept
//
// A model whose record has a cache keeps what it said, unstreamed, for the very same request (cache.go): in memory, bounded by bytes and by a
// number for each model. The key is a hash of all that an answer follows from, the model's record and its provider among it, so nothing
// has to be forgotten when those change. Guardrails are outside: they see each call and each answer, a kept one, too. A hit
// is no call to a provider: it is booked as a request that took nothing, and asks the door for no money.
//
// # Sound
//
// A recording is sent to its provider as it is read, anew for each attempt: it is never in memory. What it is charged by is how long
// the provider says that it is, if so many bytes can be so long; else what the head of a RIFF/WAVE file says; else an estimate by
// its size, booked as unpriced. Speech is charged by the characters of its text, and by its own length where that has a price. The
// scripted provider speaks in tones and understands them (package wave).
//
// # Rules
//
// Attempts, pauses, the circuit, limits and the classification of failures are those of package provider. Beyond them:
//
//   - A provider's refusal (400, 401, 403, 404, 409, 422) is final; anything else is tried again, at most Config.MaxAttempts times.
//   - An open circuit is not waited for: the caller is told at once.
//   - Whoever leaves while an answer streams ends the call at the provider. What was streamed until then is booked, by estimate.
//   - A call that failed or was left without an answer is booked with what was asked, by estimate, once the provider has it: time
//     limits, lost connections, 504, answers that cannot be read. What a provider refuses costs nothing, as with providers.
//   - A usage that the provider did not tell is estimated and booked as unpriced.
//   - No error holds a key, a header, a data URL, or the userinfo or query of a URL.
package inference

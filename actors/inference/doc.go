// Package inference makes single model calls for callers who speak the OpenAI wire form themselves: chat completions, whole or
// streamed, embeddings and moderations (document 3, section 10). It knows no HTTP of ours: JSON in, JSON out, an *Error when
// it failed, and one Usage for every call that reached a provider.
//
// # Two ways to a provider
//
// An OpenAI-compatible provider is relayed: the fields that document 3, 10.1 lists are copied as they are (they are never decoded,
// a body may be megabytes of pictures), the model's id and the credentials are put in, and the answer gets the form of 10.2
// and 10.3 around its choices. Other providers (Messages, Responses, the scripted stand-in) are called through package
// actors/turn/model, with what a model.Request can say: messages, pictures, tools, temperature, top_p and the output cap. What
// it cannot say (stop, seed, penalties, response_format, a forced tool) is left out, as unsupported parameters are; n above 1 is
// refused.
//
// # Rules
//
//   - Nothing is repeated once a piece of an answer was passed on.
//   - A provider's refusal (400, 401, 403, 404, 409, 422) is final; anything else is tried again, at most Config.MaxAttempts times.
//   - A provider that failed Config.BreakerThreshold times in a row is left alone for Config.BreakerReset; then one call tries.
//     Only its own failures count: no connection, no answer in time, 5xx.
//   - Whoever leaves while an answer streams ends the call at the provider. What was streamed until then is booked, by estimate.
//   - A call that failed or was left without an answer is booked with what was asked, by estimate, once the provider has it: time
//     limits, lost connections, 504, answers that cannot be read. What a provider refuses costs nothing, as with providers.
//   - A usage that the provider did not tell is estimated and booked as unpriced.
//   - No error holds a key, a header, a data URL, or the userinfo or query of a URL.
package inference

// Package chat reads answers of Chat Completions, streamed and whole: one reader with two mouths. Turns take its pieces apart
// (actors/turn/model), the gateway passes them on (actors/inference). Many servers imitate this dialect, each in its own manner;
// what they mean is decided here, once. It is pure but for the stream that it is given.
//
// Texts stay JSON, as they came: a gateway writes them out again, a turn decodes them (rawjson.Text). A Delta is valid until the
// next event.
//
// # What is what
//
//   - `content` is a string, or parts: those of thoughts are thoughts, those without words are left out. Thoughts have many names.
//     A value of another kind is an error that names it.
//   - Halves of a surrogate pair in two pieces are one character.
//   - A document (`message`, no `delta`) is an answer like a stream, also in place of one. After pieces it is a repetition.
//   - An error may come in any form (see provider.Complaint). What was said before it, and in the same event, stays.
//   - Usage: a number replaces the one before, what is missing or null changes nothing. It counts whatever the end.
//
// # When an answer is complete
//
// When each of its choices has a `finish_reason` that means an end, or with `[DONE]` after something was said (then the reason is
// stop, or tool_calls), or when a document has ended. An unknown reason is an error in the provider's words. All else is cut.
//
// # Which call a piece belongs to
//
// A call is opened by what is new and continued by what is known. A piece is compared with one call: the newest with its id (of
// these, the one with its index, too), else the newest with its index, else the newest.
//
//   - A named piece continues that call if the name is the same and the arguments are not yet one JSON value (the name is
//     repeated), unless it has a new index, or both came in one list. A name of another call opens a call; only when neither has
//     arguments and the id is not new, it is the rest of the name.
//   - After whole arguments the same name under the same id or index is a repetition if it brings nothing or the same value,
//     else a new call. With a new id it is always a new call.
//   - A piece without a name continues that call, also with a new id or index, as long as its arguments are not whole.
//     Arguments for a call that has all of its own go to the newest that has not. What is left is a call whose name comes later; one that
//     never gets a name is an error, unless it says nothing.
//   - In a document each item of the list is a call.
//
// `function_call`, the form from before there were lists of calls, is a call whose index is 0. Beside `tool_calls` it is the first of
// them once more, and no call. A second one is an error: there is place for one.
//
// Calls are numbered from 0 in the order in which their names are known. Their ids differ: where the provider gave none, or that of
// another call, there is none, and the mouth makes one.
package chat

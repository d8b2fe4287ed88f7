// Package convapi is the conversation server's API (document 2, section A, with its supplement), under a configurable
// base path, /api/agents by default.
//
// Whoever is behind a request was established by the edge's Authenticator; an identity always wins over a userId in
// query or body. Bodies are bare JSON objects with camelCase fields, the event log's data alone is snake_case as the
// document has it. Absent values are left out, except budget, which is null. Errors are {error, code, message,
// details}.
//
// A handler builds a command or a query, asks the runtime or the reader, and converts what comes back. It holds no
// rule about conversations: those are in actors/conversation, and ownership is State.AccessOf. Wire choices that the
// documents leave open are listed in ../DIVERGENCES.md.
//
// Files (files*.go): the type is told from the first bytes, and what the agent does not take is refused before the rest is
// read; then the bytes are stored under an id of the conversation's shard, then the rules are asked to add the file, which
// commits both at once. Bytes whose file was refused are removed; what a crash leaves is the store's to sweep. A download
// is never run by a browser: nosniff, a sandbox, and an attachment unless the type is known to be harmless. Exports
// (export.go) are rendered page by page while they are read, and fail rather than mix what was with what is.
//
// A turn that is begun or resumed is answered by its result, once it has ended or paused (runTurn, askResumed), or as a
// stream (streamTurn): followed first, then asked for, so that nothing of it is missed. A command about a message
// carries the message as it was read and the seq of the head beside it; when messages were replaced meanwhile the rules
// say so, and it is read again once (about). What only the operator's application may permit is asked of the
// Authorizer before the command is sent.
//
// routes.go is the map; each resource has a file of its own; wire_*.go is what goes out; errors.go is the one table of
// statuses and codes; stream_*.go answers with events.
package convapi

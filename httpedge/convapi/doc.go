// Package convapi is the conversation server's API (document 2, section A, with its supplement), under a configurable
// base path, /api/agents by default.
//
// The edge's Authenticator establishes the caller; an identity always takes precedence over a userId in query or body.
// Bodies are bare JSON objects with camelCase fields; only the event log's data is snake_case, as in the document.
// Absent values are left out, except budget, which is null. Errors are {error, code, message,
// details}.
//
// A handler builds a command or a query, asks the runtime or the reader, and converts what comes back. It holds no
// rules of conversations: those are in actors/conversation, and ownership is conversationpb.AccessTo. Wire choices that the
// documents leave open are listed in ../DIVERGENCES.md.
//
// Files (files*.go): the type is detected from the first bytes, and types that the agent does not accept are refused before the
// rest is read; then the bytes are stored under an id of the conversation's shard, then a command adds the file, which
// commits both at once. Bytes of a refused file are removed; the store sweeps what a crash leaves. A browser never
// executes a download: nosniff, a sandbox, and an attachment unless the type is known to be harmless. Exports
// (export.go) are rendered page by page while they are read, and fail rather than mix two versions of the conversation.
//
// A request that starts or resumes a turn is answered with its result, once it has ended or paused (runTurn, askResumed), or
// with a stream (streamTurn): the subscription is opened before the command is sent, so that nothing is missed. A command about
// a message carries the message as it was read and the seq of the head; when messages were replaced meanwhile the rules
// refuse it, and the message is read again (about). The Authorizer is asked for permission before the command is sent.
//
// routes.go lists the routes; each resource has a file of its own. What requests and answers look like, and the one table of
// statuses and codes, is package body; the frames of a message stream are package frames. Neither sends anything.
package convapi

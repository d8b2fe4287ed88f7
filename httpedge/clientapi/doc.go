// Package clientapi is the Client API (document 1, with document 3 beside it): what an integration needs to run agents for its
// users. Callers present an API token; what it lets them do is decided by package access before a handler runs.
//
// Every resource is a package of its own with a function Routes; this one puts them together and describes them. What resources
// share is in packages handler and render, and resources do not import each other, so that each is read and added by itself. Tests
// ask the whole surface over HTTP and are here; those of a single function are beside it.
//
// A session is a conversation as this surface shows it: same actor, same log, same lease as on the conversation server. Agents,
// models, users and tokens are records of the directory.
//
// # Sessions, responses, runs
//
// What is not the caller's is not there: 404, never 403. A request that makes something mints its ids, and the ids of its
// commands, from its Idempotency-Key where it has one (handler.API.Mint and Command): given again after a crash it makes the same things
// under the same ids, and the rules answer with the first outcome.
//
// A response runs exactly the version that it names: the published one is looked up once, at the edge. The turn is waited for
// whatever becomes of its owner meanwhile (package turns). While a background run holds a session, only the run begins turns
// in it; who resolves an action then is answered with the run, 202, not with the turn.
//
// A runtime context is cut down to what may be handed on, sealed for its session, and never shown; in clear it is nowhere but
// in the request. What is wrong with a budget or with metadata is told by codes of their own, so their readers never fail:
// they keep the failure for the place in the order of checks where it belongs (document 3, 8.1).
//
// The event log is the conversation server's own (package eventlog), with the few names changed in which the surfaces differ.
//
// Errors are {error: <text>, code: <code>} (document 1, "Errors").
package clientapi

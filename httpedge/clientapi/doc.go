// Package clientapi is the Client API (document 1, with document 3 beside it): what an integration needs to run agents for its
// users. Callers present an API token; what it lets them do is decided by package access before a handler runs.
//
// A session is a conversation as this surface shows it: same actor, same log, same lease as on the conversation server. Agents,
// models, users and tokens are records of the directory.
//
// Errors are {error: <text>, code: <code>} (document 1, "Errors").
package clientapi

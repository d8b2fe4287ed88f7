// Package httpedge is the HTTP server: one listener, the surfaces mounted on it, and what every request passes on its
// way to a handler and back. DESIGN.md says how and why; DIVERGENCES.md lists the wire choices that the documents
// leave open.
//
// Invariants: every request gets exactly one answer and one line in the log; nothing a client sends can hold a
// connection, memory or a goroutine beyond the limits of Config; after Stop has returned no handler runs.
//
// It does not know what a conversation is, who may call (endpoint.Authenticator), or how often (endpoint.Limiter); it
// does not write event streams, it hands their connections over.
package httpedge

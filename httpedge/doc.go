// Package httpedge is the HTTP server: one listener, the surfaces mounted on it, and the middleware of every request. DESIGN.md says how and why; DIVERGENCES.md lists the wire choices that the documents
// leave open.
//
// Invariants: every request gets exactly one answer and one line in the log; no client can hold a
// connection, memory or a goroutine beyond the limits of Config; no handler runs after Stop has returned.
//
// It knows nothing of conversations, authentication (endpoint.Authenticator) or rate limits (endpoint.Limiter). It does not write
// event streams: it hands their connections over.
package httpedge

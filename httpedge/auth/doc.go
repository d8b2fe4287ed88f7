// Package auth authenticates the callers of the conversation server: it turns a request into an endpoint.Caller, or
// refuses it with AUTH_REQUIRED (document 2, "Authentication", surface A).
//
// A Provider validates tokens: a static map, signed tokens (shared secret, public key or key set URL), a callout to an
// HTTP service, or one of the embedder's own. The Authenticator reads the token from its header, lets excluded routes
// pass, and fails closed: when the provider cannot answer, the request is refused with UNAVAILABLE.
//
// Invariants: the signature algorithm is configured and never taken from a token; a token is compared and cached only
// as its SHA-256, and appears in no log, metric or error; an identity established here is final, and a request's claim
// about its user counts only without one; every cache, fetch and response is bounded.
//
// It does not decide what a caller may do (the rules do), keep sessions, or issue tokens.
package auth

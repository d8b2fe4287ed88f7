// Package auth finds out who calls the conversation server: it turns a request into an endpoint.Caller, or refuses it
// with AUTH_REQUIRED (document 2, "Authentication", surface A).
//
// A Provider judges tokens: a static map, signed tokens (shared secret, public key or key set URL), a callout to an
// HTTP service, or one of the embedder's own. Around it the Authenticator takes the token from its header, lets
// excluded routes pass, and fails closed: when a provider cannot answer, the request is refused with UNAVAILABLE.
//
// Invariants: the signature algorithm is configured and never taken from a token; a token is compared and remembered
// only as its SHA-256, and appears in no log, metric or error; an identity established here is final, what a request
// claims about its user counts only without one; every cache, fetch and answer has a bound.
//
// It does not decide what a caller may do (the rules own that), keep sessions, or issue tokens.
package auth

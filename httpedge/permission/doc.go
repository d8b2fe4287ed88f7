// Package permission decides on the surfaces of the edge whether a caller may use a route: by the built-in engine
// (actors/core/permission), or by one outside of the server that speaks the AuthZEN evaluation API.
//
// A refusal has an id under which its decision can be looked up. Decisions are collected and written a batch at a time (Log): a
// flood of refused requests is at most one append a second of each node, equal refusals are counted in one decision, and what does
// not fit is dropped and counted. The refusal itself is never dropped.
//
// When an external engine cannot be reached, is slow, or answers nonsense, the request is refused with AUTHORIZATION_UNAVAILABLE:
// that is never an allow. It is asked once per request and nothing is remembered. It decides what the owner of a token may; the
// token's scope, and that some services are for owners and admins, bind beside it. Requests and streams that last are watched by
// those and by the records of the token, not by asking again.
package permission

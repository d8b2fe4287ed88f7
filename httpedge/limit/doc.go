// Package limit bounds what one caller may ask for: requests per second (token bucket) and open event streams.
//
// A caller is an identified user, else the network address (an IPv6 one by its /64, which is what one subscriber
// has). A backend with its own key is not limited: it speaks for many. With authentication off there is no limit of
// requests, since everybody is the operator, but one of streams per address: a program that loses them holds them open.
//
// Invariants: memory is bounded by Config.Callers for rates and by the open streams for streams; a place for a stream
// is given back exactly once; a refusal says when to ask again.
//
// It knows nothing of other nodes: each counts for itself, so a caller that spreads over n nodes may have n times as
// much. It does not bound the server as a whole; listeners and the stream hub do.
package limit

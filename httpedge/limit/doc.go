// Package limit bounds what one caller may use: requests per second (token bucket) and open event streams.
//
// A caller is an identified user, otherwise the network address (for IPv6 the /64, which is what one subscriber has). A
// backend with its own key is not limited, since it acts for many users. With authentication off, requests are not
// limited, since every caller is the operator, but streams are limited per address, since a program may leak them.
//
// Invariants: memory is bounded by Config.Callers for rates and by the open streams for streams; every stream is
// counted and released exactly once; a refusal says when to retry.
//
// Each node counts by itself, so a caller that uses n nodes gets n times as much. It does not bound the server as a
// whole; listeners and the stream hub do.
package limit

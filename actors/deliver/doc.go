// Package deliver is the way out: everything this server sends to an address that somebody configured, or that a request
// named, leaves through a Guard, and what is pushed to such an address (webhooks, callbacks, feedback) is signed here.
//
// Invariants:
//
//   - The address that is judged is the one that is connected to: the check runs after name resolution, for each address
//     tried, of each hop. A name that resolves to something else the next time gains nothing.
//   - Only globally routable unicast addresses pass, and what the operator allows: no loopback, private, link-local,
//     shared, multicast, documentation or metadata address, in IPv4, IPv6, or IPv4 inside IPv6.
//   - A redirect never leads from https to http, nor to another scheme. Headers that the sender set do not leave the host
//     they were set for, nor does a Referer.
//   - No proxy and no environment variable has a say. A connection belongs to one guard and is used again only by it.
//   - A Post is one attempt, ends in time, and reads a bounded part of the answer. When to try again is decided and
//     remembered elsewhere (package delivery).
//   - Lanes give each tenant its share of the posts that are made at a time, and of that each target. None has all, since a target that
//     holds a post cannot be made to let it go. Attempts that wait for room wait in memory: whoever adds one must be able to do
//     without.
package deliver

// Package token authenticates and authorizes callers of the Client API (document 1, "Authentication"; document 3, sections 1.3, 2
// and 3): it finds an API token by its SHA-256 and applies its owner's role, its scope, the tenant's licence and monthly limit.
//
// A token that was looked up is remembered by its hash for at most a minute. At each request its records are compared with
// those in the directory of this node, by version, so that a revocation, change or deletion takes effect as soon as this
// node learns of it; the minute only bounds the cache of tokens that nobody uses any more.
//
// Streams and long requests are checked again and again (endpoint.Watcher): in the common case four records are compared by
// version, without allocation, and streams of one token share the check. Only this node's records are looked at, so it never waits.
//
// Monthly requests are counted per tenant in the directory. A node takes some ahead with one compare-and-put and lets that many
// requests pass; what it has not used within a second it gives back. So there are never more than the limit, on however many
// nodes, and near the limit each request is taken by itself. What a node had taken ahead when it died stays counted: at most a
// hundredth of the limit.
package token

// Package runtimecontext holds the data that the caller of a turn passes to its targets: connected agents, tools, MCP
// servers (document 3, 7.14). A session keeps one context, and a turn may bring another, which wins key by key. Header
// values are secrets: the edge encrypts a context, a turn decrypts it, and nothing here prints one.
//
// A target gets header fields only if its own policy permits that, by name if the policy lists names; fields for that
// target win over those for all. Fields that belong to the connection, or assert another client's identity, are never
// passed on, whatever a policy says: the edge drops them, and so does this package.
package runtimecontext

// Package runtimecontext is what the caller of a turn hands to the targets of it: connected agents, tools, MCP servers
// (document 3, 7.14). A session keeps one, a turn may bring another, which wins key by key. Header values are secrets: the
// edge seals a context, a turn opens it, and nothing here prints one.
//
// A target is sent header fields only if its own policy allows that, by name if the policy names any; what is said for that
// target wins over what is said for all. Fields that belong to the connection, or speak for another client, are never
// passed on, whatever a policy says: the edge drops them, and so does this package.
package runtimecontext

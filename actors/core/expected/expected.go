// Package expected lets a conversation be followed before the command is given that makes it, so that a stream misses nothing of
// its first turn. The follow passes through the edge, the router and the link between nodes, none of which is concerned: the mark
// is part of the context.
package expected

import "context"

type mark struct{}

// Context marks the calls made with it as being about a conversation that may not exist yet.
func Context(ctx context.Context) context.Context { return context.WithValue(ctx, mark{}, true) }

// In reports whether the conversation of a call may not exist yet.
func In(ctx context.Context) bool { return ctx.Value(mark{}) != nil }

package eventlog

import (
	"context"
	"strings"

	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/httpedge/sse"
	"parley/proto/failurepb"
)

// Query says which events a client wants to follow.
type Query struct {
	ConversationID string
	After          uint64   // events with a greater seq
	Types          []string // none = all
	Dialect        Dialect
}

// Follow answers with the event log as a stream: what is stored after a cursor, then what happens. The stream opens with
// ": open"; when a run is active, its snapshot comes next, before the replay. Whether the caller may see the conversation has
// been decided before.
func Follow(ctx context.Context, hub *sse.Hub, query Query, stream endpoint.Stream) error {
	if err := stream.Admit(); err != nil {
		return err
	}
	lease, err := hub.Acquire(ctx, query.ConversationID)
	if err != nil {
		return err
	}
	options := sse.Options{
		After:   query.After,
		Opening: sse.Comment("open"),
		View:    view{types: selectTypes(query.Types), dialect: query.Dialect},
		Shared:  true,
	}
	err = stream.Start(func(take endpoint.Takeover) {
		handover := sse.Handover(take)
		handover.Reuse = nil // ends with its client, hardly ever cleanly; the plain socket is a third of the memory
		lease.Open(handover, options)
	})
	if err != nil {
		lease.Release()
	}
	return err
}

// Cursor reads a seq from a field of that name; empty is 0.
func Cursor(name, text string) (uint64, *machine.Failure) {
	after, err := sse.ParseCursor(strings.TrimSpace(text))
	if err != nil {
		return 0, machine.Fail(failurepb.Code_VALIDATION, "%s must be a non-negative integer", name)
	}
	return after, nil
}

// SplitTypes splits a comma list; nil = all types.
func SplitTypes(list string) []string {
	var types []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			types = append(types, name)
		}
	}
	return types
}

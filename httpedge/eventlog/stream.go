package eventlog

import (
	"context"

	"parley/httpedge/endpoint"
	"parley/httpedge/sse"
)

// Follow answers with the event log as a stream: what is stored after a cursor, then what happens. The stream opens with
// ": open"; when a run is active, its snapshot comes next, before the replay. Whether the caller may see the conversation has
// been decided before.
func Follow(ctx context.Context, hub *sse.Hub, in *StreamInput, dialect Dialect, stream endpoint.Stream) error {
	if err := stream.Admit(); err != nil {
		return err
	}
	lease, err := hub.Acquire(ctx, in.ID)
	if err != nil {
		return err
	}
	return Open(lease, stream, func() (sse.Options, error) {
		return sse.Options{
			After:   in.after,
			Opening: sse.Comment("open"),
			View:    view{types: selectTypes(splitTypes(in.Types)), dialect: dialect},
			Shared:  true,
			Lean:    true, // a third of the memory
		}, nil
	})
}

// Open starts a stream on what a lease follows, once begin says how; a lease that no stream was opened on is given back. What
// begin sends has been followed before, so nothing of it must be read back from the log.
func Open(lease *sse.Lease, stream endpoint.Stream, begin func() (sse.Options, error)) error {
	options, err := begin()
	if err == nil {
		err = stream.Start(func(take endpoint.Takeover) { lease.Open(sse.Handover(take), options) })
	}
	if err != nil {
		lease.Release()
	}
	return err
}

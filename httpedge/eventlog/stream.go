package eventlog

import (
	"context"

	"parley/httpedge/endpoint"
	"parley/httpedge/sse"
)

// Follow answers with the event log as a stream: the stored events after a cursor, then new events. The stream opens with
// ": open"; when a run is active, its snapshot comes next, before the replay. The caller's access must
// have been checked before.
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

// Open starts a stream on a lease's subscription, as begin returns it; if begin fails the lease is released. The subscription
// exists before begin sends its command, so nothing of it has to be read back from the log.
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

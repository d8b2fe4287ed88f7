package console

import (
	"context"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"parley/actors/core/money"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/wire"
	"parley/httpedge/eventlog"
	"parley/httpedge/sse"
	"parley/proto/conversationpb"
)

// Events of the stream. After ready and after reset the reader reads the lists; a row is all that they show of its session or run.
const (
	eventReady   = "ready"
	eventSession = "session"
	eventRun     = "run"
	eventReset   = "reset"
)

// live follows the lists of the caller's project: owners, admins and the project's admins hear of all of it, others of what is theirs.
func (a *api) live(ctx context.Context, _ *struct{}, stream endpoint.Stream) (*endpoint.Empty, error) {
	if err := stream.Admit(); err != nil {
		return nil, err
	}
	caller := endpoint.CallerFrom(ctx)
	lease, err := a.Hub.Acquire(ctx, a.Console.Topic(caller.TenantID, caller.ProjectID, caller.UserID, caller.Trusted))
	if err != nil {
		return nil, err
	}
	return nil, eventlog.Open(lease, stream, func() (sse.Options, error) {
		return sse.Options{After: math.MaxUint64, Opening: signal(eventReady), View: view{}, Shared: true, Lean: true}, nil
	})
}

// signal is an event that says no more than its name.
func signal(name string) sse.Frame {
	return sse.Seal(sse.AppendData(sse.AppendEvent(sse.Begin(len(name)+24), name), []byte("{}")))
}

// view renders rows, the same for all who hear of them.
type view struct{}

// Event implements sse.View.
func (view) Event(event *conversationpb.Event) (sse.Frame, bool) {
	listed := event.GetListed()
	if listed.GetReset_() {
		return signal(eventReset), false
	}
	const around = 320
	b := sse.Begin(around * len(listed.GetRows()))
	for _, row := range listed.GetRows() {
		name := eventRun
		if strings.HasPrefix(row.GetId(), "conv_") {
			name = eventSession
		}
		b = append(sse.AppendEvent(b, name), "data: "...)
		b = append(appendRow(b, row, name), '\n', '\n')
	}
	return sse.Seal(b), false
}

// Snapshot implements sse.View: lists have no text.
func (view) Snapshot(sse.Run) sse.Frame { return nil }

// Delta implements sse.View.
func (view) Delta(sse.Run, int) sse.Frame { return nil }

// End implements sse.View. A reader that fell behind is gone for the hub: it comes again, and begins anew.
func (view) End(why sse.EndReason) sse.Frame {
	const soonest, spread = 500, 2000 // milliseconds
	switch why {
	case sse.Unauthorized:
		return sse.Comment("session not valid any more")
	case sse.Forbidden:
		return sse.Comment("permission taken away")
	case sse.Deleted:
		return sse.Join(signal(eventReset), sse.Retry(soonest+rand.IntN(spread)))
	default:
		return sse.Join(sse.Comment("server stopping"), sse.Retry(soonest+rand.IntN(spread)))
	}
}

// appendRow writes a row under the names that the lists have, on one line.
func appendRow(dst []byte, row *conversationpb.ListRow, kind string) []byte {
	dst = append(dst, `{"id":`...)
	dst = wire.AppendString(dst, row.GetId())
	dst = append(dst, `,"last_event_seq":`...)
	dst = strconv.AppendUint(dst, row.GetLastSeq(), 10)
	if row.GetDeleted() {
		return append(dst, `,"deleted":true}`...)
	}
	dst = wire.AppendMember(dst, `,"agent":`, row.GetAgentId())
	dst = wire.AppendNullable(dst, `,"user":`, row.GetUserId())
	dst = render.AppendTimeOrNull(dst, `,"created_at":`, row.GetCreatedAt())
	dst = render.AppendTimeOrNull(dst, `,"updated_at":`, row.GetUpdatedAt())
	dst = append(dst, `,"waiting":`...)
	dst = strconv.AppendUint(dst, uint64(row.GetWaiting()), 10)
	if kind == eventRun {
		dst = wire.AppendMember(dst, `,"session_id":`, row.GetSessionId())
		dst = wire.AppendMember(dst, `,"status":`, row.GetStatus())
		return append(wire.AppendNullable(dst, `,"error_type":`, row.GetStopReason()), '}')
	}
	dst = wire.AppendNullable(dst, `,"title":`, row.GetTitle())
	dst = wire.AppendMember(dst, `,"runtime_status":`, row.GetStatus())
	dst = wire.AppendNullable(dst, `,"stop_reason":`, row.GetStopReason())
	dst = append(dst, `,"spent_usd":`...)
	if row.GetSpentUnknown() && row.GetSpentNanoUsd() == 0 {
		return append(dst, "null}"...)
	}
	return append(money.Append(dst, row.GetSpentNanoUsd()), '}')
}

package eventlog

import (
	"math/rand/v2"
	"sync"

	"parley/httpedge/sse"
	"parley/proto/conversationpb"
)

// Types of frames that are never stored.
const (
	typeDelta    = "agent.message.delta"
	typeSnapshot = "agent.message.snapshot"
)

// typeSet is the set of types that a client wants, one bit each.
type typeSet uint64

const (
	wantDelta typeSet = 1 << iota
	wantSnapshot
	wantLog         // the first type of the log
	wantAll typeSet = 1<<64 - 1
)

// logBits is the bit of each type of the log.
var logBits = sync.OnceValue(func() map[string]typeSet { //nolint:gochecknoglobals // computed once, never changed
	bits := map[string]typeSet{}
	for i, name := range conversationpb.PublicTypes() {
		bits[name] = wantLog << i
	}
	return bits
})

// typeBit is the bit of a type, 0 for one that this server never sends.
func typeBit(name string) typeSet {
	switch name {
	case typeDelta:
		return wantDelta
	case typeSnapshot:
		return wantSnapshot
	default:
		return logBits()[name]
	}
}

// selectTypes returns the set of the named types; without names, all. A type that this server never sends selects
// nothing, as in the events page.
func selectTypes(names []string) typeSet {
	if len(names) == 0 {
		return wantAll
	}
	var set typeSet
	for _, name := range names {
		set |= typeBit(name)
	}
	return set
}

// view renders the event log for clients that want the same types: they share one rendering.
type view struct {
	types   typeSet
	dialect Dialect
}

// Event implements sse.View.
func (v view) Event(event *conversationpb.Event) (sse.Frame, bool) {
	name := event.PublicType()
	if v.types&typeBit(name) == 0 {
		return nil, false
	}
	return eventFrame(name, event, v.dialect), false
}

// Snapshot implements sse.View. Clients that want deltas need it too: deltas continue its text.
func (v view) Snapshot(run sse.Run) sse.Frame {
	if v.types&(wantSnapshot|wantDelta) == 0 {
		return nil
	}
	return snapshotFrame(run)
}

// Delta implements sse.View.
func (v view) Delta(run sse.Run, offset int) sse.Frame {
	if v.types&wantDelta == 0 {
		return nil
	}
	return deltaFrame(run, offset)
}

// End implements sse.View. Clients that may reconnect get random retry delays, spread over two seconds.
func (v view) End(why sse.EndReason) sse.Frame {
	const soonest, spread = 500, 2000 // milliseconds
	switch why {
	case sse.Deleted:
		return sse.Comment("conversation deleted")
	case sse.Unauthorized:
		return sse.Comment("token not valid any more")
	case sse.Forbidden:
		return sse.Comment("permission taken away")
	case sse.Stopping:
		return sse.Join(sse.Comment("server stopping"), sse.Retry(soonest+rand.IntN(spread)))
	default:
		return sse.Join(sse.Comment("conversation unreachable"), sse.Retry(soonest+rand.IntN(spread)))
	}
}

package tracing

import (
	"cmp"
	"crypto/sha256"
	"slices"

	"parley/proto/tracepb"
)

// mark is how many bytes of the hash of an event's id are kept: two of 10,000 are equal once in 10^11 sessions.
const mark = 8

// Count adds an event to a session, which it changes.
func Count(s *tracepb.Session, e *tracepb.Happening) {
	if s.GetCounted() == nil {
		s.Counted = &tracepb.Numbers{}
	}
	sum, n := s.GetCounted(), e.GetNumbers()
	sum.InputTokens = add(sum.GetInputTokens(), n.GetInputTokens())
	sum.OutputTokens = add(sum.GetOutputTokens(), n.GetOutputTokens())
	sum.CachedInputTokens = add(sum.GetCachedInputTokens(), n.GetCachedInputTokens())
	sum.BytesIn, sum.BytesOut = add(sum.GetBytesIn(), n.GetBytesIn()), add(sum.GetBytesOut(), n.GetBytesOut())
	sum.DurationMs = add(sum.GetDurationMs(), n.GetDurationMs())
	if sum.GetEventCounts() == nil {
		sum.EventCounts = map[string]int64{}
	}
	if _, known := sum.GetEventCounts()[e.GetType()]; known || len(sum.GetEventCounts()) < maxTypes {
		sum.EventCounts[e.GetType()]++
	}
	s.Events++
	s.Seen = append(s.GetSeen(), Mark(e.GetId())...)
	for _, model := range e.GetModels() {
		s.Models = with(s.GetModels(), model)
	}
	if e.GetActorScope() == toolScope {
		s.Tools = with(s.GetTools(), cmp.Or(e.GetToolName(), e.GetActorName()))
	}
}

// Mark is what is kept of an event's id.
func Mark(id string) []byte {
	sum := sha256.Sum256([]byte(id))
	return sum[:mark]
}

// Fresh are those of the events that a session does not have, each id once.
func Fresh(seen []byte, events []*tracepb.Happening) (fresh []*tracepb.Happening) {
	known := make(map[[mark]byte]bool, len(seen)/mark+len(events))
	for chunk := range slices.Chunk(seen, mark) {
		known[[mark]byte(chunk)] = true
	}
	for _, e := range events {
		id := [mark]byte(Mark(e.GetId()))
		if known[id] {
			continue
		}
		known[id] = true
		fresh = append(fresh, e)
	}
	return fresh
}

// Raise is the most of each number.
func Raise(a, b *tracepb.Numbers) *tracepb.Numbers {
	up := clone(a)
	up.InputTokens, up.OutputTokens = max(up.InputTokens, b.GetInputTokens()), max(up.OutputTokens, b.GetOutputTokens())
	up.CachedInputTokens = max(up.CachedInputTokens, b.GetCachedInputTokens())
	up.BytesIn, up.BytesOut = max(up.BytesIn, b.GetBytesIn()), max(up.BytesOut, b.GetBytesOut())
	up.DurationMs = max(up.DurationMs, b.GetDurationMs())
	for kind, n := range b.GetEventCounts() {
		if _, known := up.EventCounts[kind]; known || len(up.EventCounts) < maxTypes {
			up.EventCounts[kind] = max(up.EventCounts[kind], n)
		}
	}
	return up
}

// Totals are what a session took: what its events add up to, raised by what summaries said.
func Totals(s *tracepb.Session) *tracepb.Numbers { return Raise(s.GetCounted(), s.GetSaid()) }

// Took is how many tokens a session took, in and out.
func Took(s *tracepb.Session) int64 {
	n := Totals(s)
	return add(n.GetInputTokens(), n.GetOutputTokens())
}

// Events is how many events a session had: those that are stored, or what a summary says.
func Events(s *tracepb.Session) int64 {
	var said int64
	for _, n := range s.GetSaid().GetEventCounts() {
		said = add(said, n)
	}
	return max(s.GetEvents(), said)
}

// Duration is how long a session took, in milliseconds: as it was said, else by its times, else as its summary or its events say.
func Duration(s *tracepb.Session) int64 {
	r := s.GetRecord()
	switch {
	case r.GetDurationMs() > 0:
		return r.GetDurationMs()
	case r.GetEndedAt() > r.GetStartedAt() && r.GetStartedAt() > 0:
		return r.GetEndedAt() - r.GetStartedAt()
	}
	return Totals(s).GetDurationMs()
}

// Merge is a session's record after more was said of it. The first thread stays.
func Merge(was, more *tracepb.Record) *tracepb.Record {
	r := &tracepb.Record{
		ThreadId: cmp.Or(was.GetThreadId(), more.GetThreadId()), TraceId: cmp.Or(more.GetTraceId(), was.GetTraceId()),
		RootSpanId: cmp.Or(more.GetRootSpanId(), was.GetRootSpanId()), AgentName: cmp.Or(more.GetAgentName(), was.GetAgentName()),
		AgentVersion: cmp.Or(more.GetAgentVersion(), was.GetAgentVersion()), AgentModel: cmp.Or(more.GetAgentModel(), was.GetAgentModel()),
		Config: cmp.Or(more.GetConfig(), was.GetConfig()), Errors: cmp.Or(more.GetErrors(), was.GetErrors()), Status: cmp.Or(more.GetStatus(), was.GetStatus()),
		StartedAt: cmp.Or(more.GetStartedAt(), was.GetStartedAt()), EndedAt: cmp.Or(more.GetEndedAt(), was.GetEndedAt()),
		DurationMs: cmp.Or(more.GetDurationMs(), was.GetDurationMs()), Metadata: was.GetMetadata(),
	}
	if len(more.GetMetadata()) > 0 {
		r.Metadata = more.GetMetadata()
	}
	return r
}

func add(a, b int64) int64 { return min(a+b, most) } // both are at most that

func clone(n *tracepb.Numbers) *tracepb.Numbers {
	c := &tracepb.Numbers{
		InputTokens: n.GetInputTokens(), OutputTokens: n.GetOutputTokens(), CachedInputTokens: n.GetCachedInputTokens(),
		TotalTokens: n.GetTotalTokens(), BytesIn: n.GetBytesIn(), BytesOut: n.GetBytesOut(), DurationMs: n.GetDurationMs(),
		EventCounts: make(map[string]int64, len(n.GetEventCounts())+1),
	}
	for kind, count := range n.GetEventCounts() {
		c.EventCounts[kind] = count
	}
	return c
}

package tracing

import (
	"slices"

	"parley/proto/tracepb"
)

// Thread is what the sessions of a thread are together.
type Thread struct {
	Agents, Statuses, Models, Tools []string
	Latest                          string // status of the session that started last
	StartedAt, EndedAt              int64  // of the first and of the last; EndedAt 0 = one runs
	Events, DurationMs              int64
	Numbers                         *tracepb.Numbers
}

// maxNames bounds each list of a thread.
const maxNames = 200

// RollUp adds sessions up.
func RollUp(sessions []*tracepb.Session) *Thread {
	t := &Thread{Numbers: &tracepb.Numbers{}}
	var latest int64
	running := false
	for _, s := range sessions {
		r, n := s.GetRecord(), Totals(s)
		t.Agents, t.Statuses = join(t.Agents, r.GetAgentName()), join(t.Statuses, r.GetStatus())
		t.Models, t.Tools = join(t.Models, s.GetModels()...), join(t.Tools, s.GetTools()...)
		if t.Latest == "" || r.GetStartedAt() > latest {
			t.Latest, latest = r.GetStatus(), r.GetStartedAt()
		}
		if t.StartedAt == 0 || r.GetStartedAt() < t.StartedAt {
			t.StartedAt = r.GetStartedAt()
		}
		running = running || r.GetStatus() == InProgress
		t.EndedAt = max(t.EndedAt, r.GetEndedAt())
		t.Events, t.DurationMs = add(t.Events, min(Events(s), most)), add(t.DurationMs, min(Duration(s), most))
		t.Numbers.InputTokens = add(t.Numbers.InputTokens, n.GetInputTokens())
		t.Numbers.OutputTokens = add(t.Numbers.OutputTokens, n.GetOutputTokens())
		t.Numbers.CachedInputTokens = add(t.Numbers.CachedInputTokens, n.GetCachedInputTokens())
	}
	if running {
		t.EndedAt = 0
	}
	for _, list := range []*[]string{&t.Agents, &t.Statuses, &t.Models, &t.Tools} {
		slices.Sort(*list)
	}
	return t
}

func join(list []string, more ...string) []string {
	for _, text := range more {
		if text != "" && len(list) < maxNames && !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}

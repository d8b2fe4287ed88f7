package tracing

import (
	"cmp"
	"strings"

	"parley/proto/tracepb"
)

// Bounds of one request of spans; exporters send 512 at once unless they are told otherwise.
const (
	MaxSpans    = MaxEvents
	MaxSessions = 512
)

// Span is what is read of a span of OpenTelemetry. Its texts may be long and invalid.
type Span struct {
	TraceID, SpanID, ParentID string // in hex
	Name, Problem             string // Problem is the message of its status
	Start, End                uint64 // Unix nanoseconds
	Failed                    bool
	GenAI                     GenAI
}

// GenAI are the attributes of a span by the conventions for generative AI.
type GenAI struct {
	Operation, Agent, Conversation, Tool, ToolCall string
	RequestModel, ResponseModel                    string
	Input, Output, Cached                          Whole
}

// Text is where the text of an attribute is kept, nil for others.
func (g *GenAI) Text(key string) *string {
	switch key {
	case "gen_ai.operation.name":
		return &g.Operation
	case "gen_ai.agent.name":
		return &g.Agent
	case "gen_ai.conversation.id":
		return &g.Conversation
	case "gen_ai.tool.name":
		return &g.Tool
	case "gen_ai.tool.call.id":
		return &g.ToolCall
	case "gen_ai.request.model":
		return &g.RequestModel
	case "gen_ai.response.model":
		return &g.ResponseModel
	}
	return nil
}

// Number is where the number of an attribute is kept, nil for others.
func (g *GenAI) Number(key string) *Whole {
	switch key {
	case "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens":
		return &g.Input
	case "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens":
		return &g.Output
	case "gen_ai.usage.cache_read.input_tokens":
		return &g.Cached
	}
	return nil
}

// Counted is a number as it is counted.
func Counted(n int64) Whole { return Whole(max(0, min(n, most))) }

// conversations are those of the traces that name one: exporters often say it of some spans only. A trace that names several has none.
func conversations(spans []Span) map[string]string {
	of := map[string]string{}
	for i := range spans {
		trace, named := spans[i].TraceID, spans[i].GenAI.Conversation
		if trace == "" || named == "" {
			continue
		}
		if before, known := of[trace]; known && before != named {
			named = ""
		}
		of[trace] = named
	}
	return of
}

// tidy is a text as an id or a name is kept.
func tidy(text string) string { return strings.ToValidUTF8(cut(text, MaxID), "\uFFFD") }

// millis are Unix milliseconds.
func millis(nano uint64) int64 { return int64(min(nano/1_000_000, lastTime)) }

// Sessions are what spans say of sessions: of each conversation, with what else its traces hold, and of each trace that names none. Spans without both are left out,
// and those of more sessions than are stored at once.
func Sessions(spans []Span, newID func() string) (puts []*tracepb.Put, leftOut int) {
	known, named := map[string]*gathering{}, conversations(spans)
	var order []*gathering
	for i := range spans {
		s := &spans[i]
		id := tidy(cmp.Or(s.GenAI.Conversation, named[s.TraceID], s.TraceID))
		g := known[id]
		if g == nil {
			if id == "" || len(order) == MaxSessions {
				leftOut++
				continue
			}
			g = &gathering{put: &tracepb.Put{SessionId: id, Partly: true, Record: &tracepb.Record{TraceId: tidy(s.TraceID), Status: Success}}}
			known[id], order = g, append(order, g)
		}
		g.add(s, newID)
	}
	for _, g := range order {
		puts = append(puts, g.put)
	}
	return puts, leftOut
}

// gathering is a session whose spans are gathered.
type gathering struct {
	put               *tracepb.Put
	agentAt, overAt   uint64 // start of the span that names the agent; end of the one that says how the session ended
	hasAgent, hasRoot bool
}

func (g *gathering) add(s *Span, newID func() string) {
	r := g.put.GetRecord()
	if s.Start > 0 && (r.GetStartedAt() == 0 || millis(s.Start) < r.GetStartedAt()) {
		r.StartedAt = millis(s.Start)
	}
	r.EndedAt = max(r.GetEndedAt(), millis(s.End))
	if s.GenAI.Agent != "" && (!g.hasAgent || s.Start < g.agentAt) { // the outermost
		r.AgentName, g.agentAt, g.hasAgent = tidy(s.GenAI.Agent), s.Start, true
	}
	if s.ParentID == "" && (!g.hasRoot || s.End >= g.overAt) {
		r.RootSpanId, r.Status, g.overAt, g.hasRoot = tidy(s.SpanID), Success, s.End, true
		if s.Failed {
			r.Status = Failed
		}
	}
	g.put.Events = append(g.put.GetEvents(), s.event(newID))
}

// event is what is kept of a span. Only model calls count models and tokens: what is around them says those of all within.
func (s *Span) event(newID func() string) *tracepb.Happening {
	e := &tracepb.Happening{
		Id: tidy(s.SpanID), Type: "custom", Label: tidy(s.Name), Timestamp: millis(s.Start), ActorName: tidy(s.GenAI.Agent),
		TraceId: tidy(s.TraceID), SpanId: tidy(s.SpanID), ParentSpanId: tidy(s.ParentID), Numbers: &tracepb.Numbers{},
	}
	if e.GetId() == "" {
		e.Id = newID()
	}
	if s.End > s.Start {
		e.Numbers.DurationMs = millis(s.End - s.Start)
	}
	if s.Failed {
		e.Status, e.Error = Failed, strings.ToValidUTF8(cut(s.Problem, maxText), "\uFFFD")
	}
	switch s.GenAI.Operation {
	case "chat", "text_completion", "embeddings", "generate_content":
		e.Type, e.Models = ModelCall, with(nil, tidy(cmp.Or(s.GenAI.ResponseModel, s.GenAI.RequestModel)))
		e.Numbers.InputTokens, e.Numbers.OutputTokens = int64(s.GenAI.Input), int64(s.GenAI.Output)
		e.Numbers.CachedInputTokens = int64(s.GenAI.Cached)
	case "execute_tool":
		e.Type, e.ToolName, e.ToolExecutionId = ToolCall, tidy(s.GenAI.Tool), tidy(s.GenAI.ToolCall)
		e.ActorName, e.ActorScope = e.GetToolName(), toolScope
	}
	return e
}

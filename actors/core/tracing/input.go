package tracing

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"parley/actors/machine/rawjson"
	"parley/proto/tracepb"
)

// Bounds, in bytes and entries.
const (
	MaxID     = 256 // of ids, names, types and models
	maxText   = 4 << 10
	maxJSON   = 64 << 10
	maxModels = 50 // of an event; of models and tools of a session
	maxTypes  = 100
	maxTags   = 10
	maxKey    = 40
	maxValue  = 200
	// MaxEvents is how many events a session has at most.
	MaxEvents = 10_000
)

// Prefixes of the ids of sessions and threads.
const (
	Prefix       = "trace"
	ThreadPrefix = "thread"
)

// Statuses of sessions that this server gives; programs may give others.
const (
	InProgress = "in_progress"
	Success    = "success"
	Failed     = "error"
)

// Types of events that this server gives, and counts for its own turns.
const (
	ModelCall = "llm_call"
	ToolCall  = "tool_call"
)

// toolScope is the scope of an actor that is a tool.
const toolScope = "tool"

// Usage is what an event took, under the names that programs give it.
type Usage struct {
	InputTokens            Whole `json:"inputTokens"`
	OutputTokens           Whole `json:"outputTokens"`
	CachedInputTokens      Whole `json:"cachedInputTokens"`
	TotalTokens            Whole `json:"totalTokens"`
	SnakeInputTokens       Whole `json:"input_tokens"`
	SnakeOutputTokens      Whole `json:"output_tokens"`
	SnakeCachedInputTokens Whole `json:"cached_input_tokens"`
	SnakeTotalTokens       Whole `json:"total_tokens"`
	PromptTokens           Whole `json:"prompt_tokens"`
	CompletionTokens       Whole `json:"completion_tokens"`
}

// Actor is who did something.
type Actor struct {
	Name  Text `json:"name"`
	Role  Text `json:"role"`
	Scope Text `json:"scope" doc:"tool: the event is of a tool"`
}

// Bytes are what went in and out.
type Bytes struct {
	In       Whole `json:"bytesIn"`
	Out      Whole `json:"bytesOut"`
	Request  Whole `json:"requestBytes"`
	Response Whole `json:"responseBytes"`
}

// Place is where an event is in a trace.
type Place struct {
	TraceID      Text `json:"traceId"`
	SpanID       Text `json:"spanId"`
	ParentSpanID Text `json:"parentSpanId"`
}

// Models are the models of an event.
type Models struct {
	Model Text         `json:"model"`
	Name  Text         `json:"modelName"`
	Names Loose[Texts] `json:"modelNames"`
}

// Texts is a list of texts.
type Texts []Text

// EventList is a list of events. Its values are decoded only if they are not more than a session takes.
type EventList struct {
	Events []EventInput
	Full   bool // there are more than MaxEvents, and none was decoded
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *EventList) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		return nil
	}
	values, err := rawjson.Array(raw, MaxEvents)
	if err != nil {
		if l.Full = len(raw) > 0 && raw[0] == '['; l.Full {
			return nil
		}
		return json.Unmarshal(raw, &l.Events) // in its words
	}
	l.Events = make([]EventInput, len(values))
	for i, value := range values {
		if err := json.Unmarshal(value, &l.Events[i]); err != nil {
			return err
		}
	}
	return nil
}

// Described is what the API's document shows.
func (EventList) Described() (value any, nullable bool) { return []EventInput{}, false }

// EventInput is an event as programs report it.
type EventInput struct {
	Models
	Place
	Bytes

	ID              Text            `json:"id" doc:"An event of an id that is known is not counted again; one is made where there is none"`
	Type            Text            `json:"type" doc:"llm_call, tool_call, retrieval, custom or another"`
	Label           Text            `json:"label"`
	Sequence        Whole           `json:"sequence"`
	Timestamp       When            `json:"timestamp"`
	Status          Text            `json:"status" doc:"error: it failed"`
	Error           json.RawMessage `json:"error"`
	ToolName        Text            `json:"toolName"`
	ToolExecutionID Text            `json:"toolExecutionId"`
	DurationMs      Whole           `json:"durationMs"`
	Actor           Loose[Actor]    `json:"actor"`
	Sections        json.RawMessage `json:"sections"`
	ToolDetails     json.RawMessage `json:"toolDetails"`
	Metadata        json.RawMessage `json:"metadata" doc:"At most 10 tags: keys of letters, digits and _ with at most 40, values of at most 200"`
	Usage           Loose[Usage]    `json:"usage"`
	Tokens
}

// Tokens are those of an event, beside its usage.
type Tokens struct {
	InputTokens       Whole `json:"inputTokens"`
	OutputTokens      Whole `json:"outputTokens"`
	CachedInputTokens Whole `json:"cachedInputTokens"`
	TotalTokens       Whole `json:"totalTokens"`
}

// Event is what is kept of an event. newID makes the id of one that has none.
func (in *EventInput) Event(newID func() string) *tracepb.Happening {
	u, actor := &in.Usage.Value, &in.Actor.Value
	id := cut(in.ID, MaxID)
	if id == "" {
		id = newID()
	}
	taken := cmp.Or(in.InputTokens, u.InputTokens, u.SnakeInputTokens, u.PromptTokens)
	made := cmp.Or(in.OutputTokens, u.OutputTokens, u.SnakeOutputTokens, u.CompletionTokens)
	return &tracepb.Happening{
		Id: id, Type: cmp.Or(cut(in.Type, MaxID), "custom"), Label: cut(in.Label, MaxID), Sequence: int64(in.Sequence), Timestamp: int64(in.Timestamp),
		Status: cut(in.Status, MaxID), Error: cut(textOf(in.Error), maxText), Models: in.models(),
		TraceId: cut(in.TraceID, MaxID), SpanId: cut(in.SpanID, MaxID), ParentSpanId: cut(in.ParentSpanID, MaxID),
		ToolName: cut(in.ToolName, MaxID), ToolExecutionId: cut(in.ToolExecutionID, MaxID),
		Numbers: &tracepb.Numbers{
			InputTokens:       int64(taken),
			OutputTokens:      int64(made),
			CachedInputTokens: int64(cmp.Or(in.CachedInputTokens, u.CachedInputTokens, u.SnakeCachedInputTokens)),
			TotalTokens:       int64(cmp.Or(in.TotalTokens, u.TotalTokens, u.SnakeTotalTokens, taken+made)),
			BytesIn:           int64(cmp.Or(in.In, in.Request)), BytesOut: int64(cmp.Or(in.Out, in.Response)), DurationMs: int64(in.DurationMs),
		},
		ActorName: cut(actor.Name, MaxID), ActorRole: cut(actor.Role, MaxID), ActorScope: cut(actor.Scope, MaxID),
		Sections: document(in.Sections, maxJSON), ToolDetails: document(in.ToolDetails, maxJSON), Metadata: Tags(in.Metadata),
	}
}

func (in *EventInput) models() (models []string) {
	for _, name := range append([]Text{in.Model, in.Name}, in.Names.Value...) {
		models = with(models, cut(name, MaxID))
	}
	return models
}

// with adds a text to a list without it, while there is room.
func with(list []string, text string) []string {
	if text == "" || len(list) >= maxModels || slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// textOf is a text, or the JSON of something else.
func textOf(raw json.RawMessage) string {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// Tags are what is kept of metadata: texts, numbers and truths under plain keys, the first ten in the order of these.
func Tags(raw json.RawMessage) map[string]string {
	var all map[string]any
	if len(raw) > maxPart || json.Unmarshal(raw, &all) != nil {
		return nil
	}
	var tags map[string]string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		var value string
		switch v := all[key].(type) {
		case string:
			value = v
		case float64:
			value = strconv.FormatFloat(v, 'f', -1, 64)
		case bool:
			value = strconv.FormatBool(v)
		default:
			continue
		}
		if !plain(key) {
			continue
		}
		if tags == nil {
			tags = map[string]string{}
		}
		if tags[key] = cut(value, maxValue); len(tags) == maxTags {
			break
		}
	}
	return tags
}

// plain says whether a text can be the key of a tag.
func plain(key string) bool {
	if key == "" || len(key) > maxKey {
		return false
	}
	for _, c := range []byte(key) {
		if c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// AgentInput is the agent of a session.
type AgentInput struct {
	Name    Text `json:"name"`
	Version Text `json:"version"`
	Model   Text `json:"model"`
}

// SummaryInput is what a session took in all, as its program says.
type SummaryInput struct {
	InputTokens       Whole                   `json:"totalInputTokens"`
	OutputTokens      Whole                   `json:"totalOutputTokens"`
	CachedInputTokens Whole                   `json:"totalCachedInputTokens"`
	BytesIn           Whole                   `json:"totalBytesIn"`
	BytesOut          Whole                   `json:"totalBytesOut"`
	DurationMs        Whole                   `json:"totalDurationMs"`
	EventCounts       Loose[map[string]Whole] `json:"eventCounts" doc:"By type"`
}

// Numbers is what is kept of a summary.
func (in *SummaryInput) Numbers() *tracepb.Numbers {
	n := &tracepb.Numbers{
		InputTokens: int64(in.InputTokens), OutputTokens: int64(in.OutputTokens), CachedInputTokens: int64(in.CachedInputTokens),
		BytesIn: int64(in.BytesIn), BytesOut: int64(in.BytesOut), DurationMs: int64(in.DurationMs),
	}
	counts := in.EventCounts.Value
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		if kind == "" || len(kind) > MaxID || counts[kind] == 0 || len(n.GetEventCounts()) == maxTypes {
			continue
		}
		if n.EventCounts == nil {
			n.EventCounts = map[string]int64{}
		}
		n.EventCounts[kind] = int64(counts[kind])
	}
	return n
}

// EndInput is how a session ended.
type EndInput struct {
	Status     Text                `json:"status"`
	EndedAt    When                `json:"endedAt"`
	DurationMs Whole               `json:"durationMs"`
	Summary    Loose[SummaryInput] `json:"summary"`
	Errors     json.RawMessage     `json:"errors"`
}

// HeadInput is what is said of a session as a whole.
type HeadInput struct {
	EndInput

	ThreadID   Text              `json:"threadId" doc:"The first one that is said stays; without one the session is a thread of its own"`
	TraceID    Text              `json:"traceId"`
	RootSpanID Text              `json:"rootSpanId"`
	Agent      Loose[AgentInput] `json:"agent"`
	Config     json.RawMessage   `json:"config"`
	Metadata   json.RawMessage   `json:"metadata" doc:"Tags, as of events"`
	StartedAt  When              `json:"startedAt"`
}

// Record is what is kept of an end, now in Unix milliseconds: without a status it went well, without a time it is over now.
func (in *EndInput) Record(now int64) *tracepb.Record {
	record := in.said()
	record.Status, record.EndedAt = cmp.Or(record.GetStatus(), Success), cmp.Or(record.GetEndedAt(), now)
	return record
}

func (in *EndInput) said() *tracepb.Record {
	return &tracepb.Record{
		Status: cut(in.Status, MaxID), EndedAt: int64(in.EndedAt), DurationMs: int64(in.DurationMs), Errors: document(in.Errors, maxJSON),
	}
}

// Record is what is kept of it.
func (in *HeadInput) Record() *tracepb.Record {
	record, agent := in.said(), &in.Agent.Value
	record.ThreadId, record.TraceId, record.RootSpanId = cut(in.ThreadID, MaxID), cut(in.TraceID, MaxID), cut(in.RootSpanID, MaxID)
	record.AgentName, record.AgentVersion, record.AgentModel = cut(agent.Name, MaxID), cut(agent.Version, MaxID), cut(agent.Model, MaxID)
	record.Config, record.Metadata, record.StartedAt = document(in.Config, maxJSON), Tags(in.Metadata), int64(in.StartedAt)
	return record
}

// Whole is what is kept of a session that comes at once: one with errors has failed unless it says otherwise.
func (in *HeadInput) Whole() *tracepb.Record {
	record := in.Record()
	switch {
	case record.GetStatus() != "":
	case record.GetErrors() != "" && record.GetErrors() != "[]":
		record.Status = Failed
	default:
		record.Status = Success
	}
	return record
}

package sessions

import (
	"sync"

	"parley/actors/core/failure"
	"parley/actors/core/money"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/resource"
	"parley/proto/conversationpb"
)

// The fields of a session on this surface are all here: as they are set, changed, shown, and described in the API document.

type createSessionIn struct {
	Agent          string                 `json:"agent" required:"true" doc:"Key of an active agent"`
	Title          string                 `json:"title" doc:"At most 200 characters; without one the first message names the session"`
	Metadata       handler.MetadataInput  `json:"metadata" doc:"Up to 16 pairs of strings: keys of 1 to 64 characters, values of at most 512"`
	Budget         handler.BudgetInput    `json:"budget" doc:"null = none; left out = the agent's"`
	RuntimeContext handler.RuntimeContext `json:"runtime_context" doc:"Merged under every turn's own; never shown"`
}

// Validate implements endpoint.Validator.
func (in *createSessionIn) Validate() *failure.Failure {
	if in.Agent == "" {
		return handler.Invalid(failure.Required).In("agent")
	}
	return in.Metadata.Failure
}

func (in *createSessionIn) create(sealed []byte) *conversationpb.Create {
	return &conversationpb.Create{Title: in.Title, Metadata: in.Metadata.Pairs, RuntimeContext: sealed}
}

type updateSessionIn struct {
	ID             string                 `path:"id"`
	Budget         handler.BudgetInput    `json:"budget" required:"true" doc:"null removes it; a new one must be above what was spent"`
	Resume         *bool                  `json:"resume" doc:"Whether a session that its budget paused goes on; true when left out"`
	RuntimeContext handler.RuntimeContext `json:"runtime_context" doc:"Merged under every turn's own; never shown"`
}

// Validate implements endpoint.Validator.
func (in *updateSessionIn) Validate() *failure.Failure {
	if !in.Budget.Set {
		return handler.BadBudget(failure.BudgetRequired).In("budget")
	}
	return in.Budget.Failure
}

// sessions declares sessions.
var sessions = sync.OnceValue(func() *resource.Object[*conversationpb.State, struct{}] { //nolint:gochecknoglobals // declared once, never changed
	o := declare("Session", func(text string) string { return text })
	resource.Written[render.USD](o, "spent_usd", func(dst []byte, s *conversationpb.State) []byte { return money.Append(dst, s.GetSpentNanoUsd()) })
	resource.Written[[]render.ActionSchema](o, "pending_actions", func(dst []byte, s *conversationpb.State) []byte {
		return render.AppendActions(dst, s.GetPending())
	})
	return o
})

// rows declares the rows of a list of them. Where nothing but calls without a price was made, what is spent is null there: not known,
// which is not zero. Else it is what the session itself says.
var rows = sync.OnceValue(func() *resource.Object[*conversationpb.State, struct{}] { //nolint:gochecknoglobals // declared once, never changed
	o := declare("SessionSummary", func(string) string { return "" })
	resource.Written[*render.USD](o, "spent_usd", func(dst []byte, s *conversationpb.State) []byte {
		if s.GetSpentUnknown() && s.GetSpentNanoUsd() == 0 {
			return append(dst, "null"...)
		}
		return money.Append(dst, s.GetSpentNanoUsd())
	}).Doc("null = not known")
	o.Number("message_count", func(s *conversationpb.State) int64 { return int64(s.GetMessageCount()) })
	return o
})

// declare begins what a session and its row have in common; the row is described where it differs only.
func declare(component string, says func(string) string) *resource.Object[*conversationpb.State, struct{}] {
	type record = *conversationpb.State
	o := resource.New[record, struct{}]("session", component).Bare().Otherwise("Sessions" + component)
	o.Text("id", record.GetId).Doc(says("Pass it as session_id; responses have the id resp_<id>"))
	o.Text("object", func(record) string { return objectSession }).Enum(objectSession)
	o.Text("agent", record.GetAgentId).Doc("Agent key")
	o.NullableText("title", record.GetTitle)
	o.NullableTime("created_at", record.GetCreatedAt)
	o.NullableTime("updated_at", record.GetUpdatedAt)
	resource.Written[map[string]string](o, "metadata", func(dst []byte, s record) []byte { return appendPairs(dst, s.GetMetadata()) })
	o.Text("runtime_status", record.RuntimeStatus).Doc(says("idle, running, requires_action, budget_paused; more may come"))
	o.NullableText("stop_reason", func(s record) string { return s.GetStopReason().WireName() }).
		Doc(says("end_turn, requires_action, limit, cancelled, error, budget_reached; more may come"))
	o.Number("last_event_seq", func(s record) int64 { return int64(s.GetLastSeq()) }).Doc(says("Newest event of the log, 0 = none"))
	resource.Written[*render.BudgetSchema](o, "budget", func(dst []byte, s record) []byte { return appendBudget(dst, s.GetBudget()) })
	return o
}

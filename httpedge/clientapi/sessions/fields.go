package sessions

import (
	"strconv"

	"parley/actors/core/failure"
	"parley/actors/core/money"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint/wire"
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

type sessionSchema struct {
	ID             string                `json:"id" doc:"Pass it as session_id; responses have the id resp_<id>"`
	Object         string                `json:"object" enum:"agent.session"`
	Agent          string                `json:"agent" doc:"Agent key"`
	Title          *string               `json:"title"`
	CreatedAt      *render.ISOTime       `json:"created_at" format:"date-time"`
	UpdatedAt      *render.ISOTime       `json:"updated_at" format:"date-time"`
	Metadata       map[string]string     `json:"metadata"`
	RuntimeStatus  string                `json:"runtime_status" doc:"idle, running, requires_action, budget_paused; more may come"`
	StopReason     *string               `json:"stop_reason" doc:"end_turn, requires_action, limit, cancelled, error, budget_reached; more may come"`
	LastEventSeq   uint64                `json:"last_event_seq" doc:"Newest event of the log, 0 = none"`
	Budget         *render.BudgetSchema  `json:"budget"`
	SpentUSD       render.USD            `json:"spent_usd"`
	PendingActions []render.ActionSchema `json:"pending_actions"`
}

type sessionSummarySchema struct {
	ID            string               `json:"id"`
	Object        string               `json:"object" enum:"agent.session"`
	Agent         string               `json:"agent" doc:"Agent key"`
	Title         *string              `json:"title"`
	CreatedAt     *render.ISOTime      `json:"created_at" format:"date-time"`
	UpdatedAt     *render.ISOTime      `json:"updated_at" format:"date-time"`
	Metadata      map[string]string    `json:"metadata"`
	RuntimeStatus string               `json:"runtime_status"`
	StopReason    *string              `json:"stop_reason"`
	LastEventSeq  uint64               `json:"last_event_seq"`
	Budget        *render.BudgetSchema `json:"budget"`
	SpentUSD      *render.USD          `json:"spent_usd" doc:"null = not known"`
	MessageCount  uint64               `json:"message_count"`
}

// appendSessionSummary writes a row of the list. Where nothing but calls without a price was made, what is spent is null there:
// not known, which is not zero. Else it is what the session itself says.
func appendSessionSummary(dst []byte, state *conversationpb.State) []byte {
	dst = appendSessionHead(dst, state)
	dst = append(dst, `,"spent_usd":`...)
	if state.GetSpentUnknown() && state.GetSpentNanoUsd() == 0 {
		dst = append(dst, "null"...)
	} else {
		dst = money.Append(dst, state.GetSpentNanoUsd())
	}
	dst = append(dst, `,"message_count":`...)
	return append(strconv.AppendUint(dst, state.GetMessageCount(), 10), '}')
}

// appendSessionHead writes what a session and its row have in common, without the closing brace.
func appendSessionHead(dst []byte, state *conversationpb.State) []byte {
	dst = append(dst, `{"id":`...)
	dst = wire.AppendString(dst, state.GetId())
	dst = append(dst, `,"object":"`+objectSession+`"`...)
	dst = wire.AppendMember(dst, `,"agent":`, state.GetAgentId())
	dst = wire.AppendNullable(dst, `,"title":`, state.GetTitle())
	dst = render.AppendTimeOrNull(dst, `,"created_at":`, state.GetCreatedAt())
	dst = render.AppendTimeOrNull(dst, `,"updated_at":`, state.GetUpdatedAt())
	dst = append(dst, `,"metadata":`...)
	dst = appendPairs(dst, state.GetMetadata())
	dst = wire.AppendMember(dst, `,"runtime_status":`, state.RuntimeStatus())
	dst = wire.AppendNullable(dst, `,"stop_reason":`, state.GetStopReason().WireName())
	dst = append(dst, `,"last_event_seq":`...)
	dst = strconv.AppendUint(dst, state.GetLastSeq(), 10)
	dst = append(dst, `,"budget":`...)
	return appendBudget(dst, state.GetBudget())
}

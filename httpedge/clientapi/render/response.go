package render

import (
	"encoding/json"
	"strconv"
	"time"

	"parley/actors/core/money"
	"parley/httpedge/endpoint/wire"
	"parley/proto/conversationpb"
)

// ResponsePrefix stands before a session's id in the id of its responses.
const ResponsePrefix = "resp_"

// Response is the result of a turn as a response (document 3, 8.2).
type Response struct {
	Session, Agent string
	Turn           *conversationpb.TurnResult
	Previous       string // as the request carried it
	Version        int64  // that ran; 0 = a draft
}

// AppendJSON implements endpoint.Appender.
func (r *Response) AppendJSON(dst []byte) []byte {
	turn := r.Turn
	status := Status(turn)
	dst = append(dst, `{"id":"`+ResponsePrefix...)
	dst = append(dst, r.Session...) // ids are plain
	dst = append(dst, `","object":"response","created_at":`...)
	dst = strconv.AppendInt(dst, r.createdAt(), 10)
	dst = wire.AppendMember(dst, `,"model":`, r.Agent)
	dst = wire.AppendMember(dst, `,"status":`, status)
	dst = append(dst, `,"output":`...)
	dst = appendOutput(dst, turn.GetResponse(), status)
	dst = append(dst, `,"usage":`...)
	dst = AppendUsage(dst, turn.GetUsage())
	dst = wire.AppendNullable(dst, `,"previous_response_id":`, r.Previous)
	dst = append(dst, `,"version":`...)
	if r.Version > 0 {
		dst = strconv.AppendInt(dst, r.Version, 10)
	} else {
		dst = append(dst, "null"...)
	}
	dst = wire.AppendMember(dst, `,"session_id":`, r.Session)
	dst = wire.AppendNullable(dst, `,"stop_reason":`, turn.GetStopReason().WireName())
	if len(turn.GetPending()) > 0 {
		dst = append(dst, `,"pending_actions":`...)
		dst = AppendActions(dst, turn.GetPending())
	}
	dst = append(dst, `,"spent_usd":`...)
	dst = money.Append(dst, turn.GetSpentNanoUsd())
	dst = append(dst, `,"error":`...)
	return append(AppendError(dst, turn), '}')
}

// Described implements openapi.Described.
func (r *Response) Described() (value any, nullable bool) { return ResponseSchema{}, false }

// createdAt is the time of the answer in Unix seconds; now for a turn without an answer.
func (r *Response) createdAt() int64 {
	const perSecond = 1000
	if at := r.Turn.GetResponse().GetCreatedAt(); at > 0 {
		return at / perSecond
	}
	return time.Now().Unix()
}

// Status is completed or failed (document 3, 8.2), or that the turn is paused, or was cancelled. An answer that was cut
// by its limits is one; that the budget cut it is a failure, which can be mended.
func Status(turn *conversationpb.TurnResult) string {
	switch turn.GetStopReason() {
	case conversationpb.StopReason_REQUIRES_ACTION:
		return "requires_action"
	case conversationpb.StopReason_CANCELLED:
		return "cancelled"
	case conversationpb.StopReason_BUDGET_REACHED, conversationpb.StopReason_ERROR:
		return "failed"
	default:
		if turn.GetError() != nil {
			return "failed"
		}
		return "completed"
	}
}

func appendOutput(dst []byte, message *conversationpb.Message, status string) []byte {
	if message == nil || message.GetContent() == "" && status != "completed" {
		return append(dst, '[', ']')
	}
	dst = append(dst, `[{"id":`...)
	dst = wire.AppendString(dst, message.GetId())
	item := "completed"
	if status != item {
		item = "incomplete"
	}
	dst = wire.AppendMember(dst, `,"type":"message","role":"assistant","status":`, item)
	dst = append(dst, `,"content":[{"type":"output_text","text":`...)
	dst = wire.AppendString(dst, message.GetContent())
	return append(dst, `,"annotations":[]}]}]`...)
}

// AppendUsage writes what a turn used.
func AppendUsage(dst []byte, usage *conversationpb.Usage) []byte {
	dst = append(dst, `{"input_tokens":`...)
	dst = strconv.AppendInt(dst, usage.GetInputTokens(), 10)
	dst = append(dst, `,"output_tokens":`...)
	dst = strconv.AppendInt(dst, usage.GetOutputTokens(), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, usage.GetInputTokens()+usage.GetOutputTokens(), 10)
	dst = append(dst, `,"input_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, usage.GetCachedInputTokens(), 10)
	dst = append(dst, '}')
	if usage.GetPriced() {
		dst = append(dst, `,"cost_usd":`...)
		dst = money.Append(dst, usage.GetCostNanoUsd())
	}
	return append(dst, '}')
}

// AppendError writes why a turn failed, null when it did not.
func AppendError(dst []byte, turn *conversationpb.TurnResult) []byte {
	code, message := turn.GetError().GetCode(), turn.GetError().GetMessage()
	switch {
	case code != "" || message != "":
	case turn.GetStopReason() == conversationpb.StopReason_BUDGET_REACHED:
		code, message = "budget_reached", "The budget of the session is used up."
	case turn.GetStopReason() == conversationpb.StopReason_ERROR:
		code, message = "server_error", "The turn failed."
	default:
		return append(dst, "null"...)
	}
	told := responseErrorSchema{}
	if details := turn.GetError().GetDetails(); len(details) > 0 && json.Unmarshal(details, &told) != nil {
		told = responseErrorSchema{} // of a log that is not ours
	}
	told.Type, told.Code, told.Message = code, code, message
	encoded, _ := json.Marshal(told) // texts always encode
	return append(dst, encoded...)
}

// ResponseSchema describes a response.
type ResponseSchema struct {
	ID                 string               `json:"id" doc:"resp_ and the id of the session: the same for every turn of it"`
	Object             string               `json:"object" enum:"response"`
	CreatedAt          int64                `json:"created_at" doc:"Unix seconds"`
	Model              string               `json:"model" doc:"Agent key"`
	Status             string               `json:"status" enum:"completed,failed,requires_action,cancelled"`
	Output             []outputSchema       `json:"output"`
	Usage              ResponseUsageSchema  `json:"usage"`
	PreviousResponseID *string              `json:"previous_response_id" doc:"As the request carried it"`
	Version            *int64               `json:"version" doc:"Published version that ran, null for a draft"`
	SessionID          string               `json:"session_id"`
	StopReason         *string              `json:"stop_reason" doc:"end_turn, requires_action, limit, cancelled, error, budget_reached"`
	PendingActions     []ActionSchema       `json:"pending_actions,omitempty"`
	SpentUSD           USD                  `json:"spent_usd" doc:"Of the session"`
	Error              *responseErrorSchema `json:"error"`
}

type outputSchema struct {
	ID      string                `json:"id"`
	Type    string                `json:"type" enum:"message"`
	Role    string                `json:"role" enum:"assistant"`
	Status  string                `json:"status" enum:"completed,incomplete"`
	Content []outputContentSchema `json:"content"`
}

type outputContentSchema struct {
	Type        string            `json:"type" enum:"output_text"`
	Text        string            `json:"text"`
	Annotations []json.RawMessage `json:"annotations"`
}

// ResponseUsageSchema describes what a turn used.
type ResponseUsageSchema struct {
	InputTokens        int64              `json:"input_tokens"`
	OutputTokens       int64              `json:"output_tokens"`
	TotalTokens        int64              `json:"total_tokens"`
	InputTokensDetails inputDetailsSchema `json:"input_tokens_details"`
	CostUSD            *USD               `json:"cost_usd,omitempty" doc:"Only when the model has a price"`
}

type inputDetailsSchema struct {
	CachedTokens int64 `json:"cached_tokens"`
}

type responseErrorSchema struct {
	Type    string `json:"type"`
	Code    string `json:"code"`
	Message string `json:"message"`

	GuardrailKey string            `json:"guardrail_key,omitempty" doc:"Of the guardrail that stopped the answer (guardrail_block)"`
	Action       string            `json:"action,omitempty"`
	Findings     []json.RawMessage `json:"findings,omitempty" doc:"As in the answer to a call that it stops, without the phrases that were found"`
}

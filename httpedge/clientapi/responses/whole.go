package responses

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"parley/actors/core/money"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint/wire"
	"parley/proto/conversationpb"
)

// wholeResponse is a response in full, as the official clients read it (POST /responses).
type wholeResponse struct {
	session, agent string
	previous       string // as the request carried it
	version        int64  // that runs; 0 = a draft
	created        int64  // Unix milliseconds
	echo           *echo

	number uint64                     // of the answer among the session's messages
	prior  string                     // what the turn had said before this request, or was given
	paid   *conversationpb.Usage      // what it had used before
	turn   *conversationpb.TurnResult // nil = it is under way
	spoke  bool                       // the message was begun in a stream
}

// echo is the request's settings as JSON.
type echo struct {
	instructions, toolChoice, tools, text, reasoning, metadata []byte
	temperature, topP                                          *float64
	maxOutputTokens                                            *int64
	parallel                                                   bool
	user, safety, cacheKey                                     string
}

func newEcho(in *createResponseIn) *echo {
	e := &echo{
		instructions: []byte("null"), toolChoice: []byte(`"auto"`), tools: []byte("[]"), metadata: []byte("{}"),
		text: []byte(`{"format":{"type":"text"},"verbosity":"medium"}`), reasoning: []byte(`{"effort":null,"summary":null}`),
		temperature: in.Temperature, topP: in.TopP, maxOutputTokens: in.MaxOutputTokens,
		parallel: in.ParallelToolCalls == nil || *in.ParallelToolCalls,
		user:     in.User.Text, safety: in.SafetyIdentifier.Text, cacheKey: in.PromptCacheKey.Text,
	}
	if in.Instructions.Text != "" {
		e.instructions = wire.AppendString(nil, in.Instructions.Text)
	}
	given := func(into *[]byte, raw []byte) {
		if len(raw) > 0 && !asksNothing(raw) {
			*into = wire.Compact(raw)
		}
	}
	given(&e.toolChoice, in.ToolChoice.RawMessage)
	given(&e.tools, in.Tools)
	given(&e.metadata, in.Metadata.Pairs)
	if format := wire.Compact(in.Text.Format); len(format) > 0 && !asksNothing(format) {
		e.text = bytes.Join([][]byte{[]byte(`{"format":`), format, []byte(`,"verbosity":"medium"}`)}, nil)
	}
	if in.Reasoning.Effort != "" {
		e.reasoning = append(wire.AppendMember(nil, `{"effort":`, in.Reasoning.Effort), `,"summary":null}`...)
	}
	return e
}

// Statuses of a response beside completed.
const (
	responseInProgress = "in_progress"
	responseIncomplete = "incomplete"
)

// status is that of the response. Function calls that the caller is to run complete it; what a person must decide first does
// not.
func (r *wholeResponse) status() string {
	if r.turn == nil {
		return responseInProgress
	}
	status := render.Status(r.turn)
	switch {
	case status == "requires_action" && r.onlyCalls():
		return "completed"
	case status == "completed" && cutBy(r.turn) != "":
		return responseIncomplete
	}
	return status
}

// onlyCalls says that nothing is pending but function calls that the caller is to run.
func (r *wholeResponse) onlyCalls() bool {
	for _, action := range r.turn.GetPending() {
		if action.GetKind() != conversationpb.KindClient {
			return false
		}
	}
	return len(r.turn.GetPending()) > 0
}

// cutBy is the limit that cut the answer, "" = none.
func cutBy(turn *conversationpb.TurnResult) string {
	switch turn.GetStopReason() {
	case conversationpb.StopReason_LIMIT:
		return "max_output_tokens"
	case conversationpb.StopReason_MAX_TURNS:
		return "max_turns"
	default:
		return ""
	}
}

// incomplete is the reason why the response is incomplete, "" = it is complete, or has failed.
func (r *wholeResponse) incomplete() string {
	switch status := r.status(); status {
	case responseIncomplete:
		return cutBy(r.turn)
	case "requires_action", "cancelled":
		return status
	}
	return ""
}

// text is the turn's text in answer to this request.
func (r *wholeResponse) text() string {
	content := r.turn.GetResponse().GetContent()
	if r.prior == "" {
		return content
	}
	return strings.TrimLeft(strings.TrimPrefix(content, r.prior), "\n")
}

// outputItem is an item of the output, written.
type outputItem struct {
	id   string
	body []byte
	call *conversationpb.PendingAction // nil = the message
}

// output is the message, if something was said or nothing else came of the turn, and the function calls.
func (r *wholeResponse) output() []outputItem {
	if r.turn == nil {
		return nil
	}
	var items []outputItem
	status := r.status()
	text, calls := r.text(), r.calls()
	if text != "" || r.spoke || status == "completed" && len(calls) == 0 {
		done := "completed"
		if status != done {
			done = responseIncomplete
		}
		items = append(items, outputItem{id: r.messageID(), body: r.appendMessage(nil, text, done)})
	}
	return append(items, calls...)
}

func (r *wholeResponse) calls() []outputItem {
	var items []outputItem
	for _, action := range r.turn.GetPending() {
		if action.GetKind() != conversationpb.KindClient {
			continue
		}
		at := 0
		for i, call := range r.turn.GetResponse().GetToolCalls() {
			if call.GetId() == action.GetToolCallId() {
				at = i
			}
		}
		id := itemID("fc", r.session, r.number, at)
		items = append(items, outputItem{id: id, call: action, body: appendCall(nil, id, action, string(action.GetArgs()), "completed")})
	}
	return items
}

func (r *wholeResponse) messageID() string { return itemID("msg", r.session, r.number, len(r.prior)) }

func (r *wholeResponse) appendMessage(dst []byte, text, status string) []byte {
	dst = wire.AppendMember(dst, `{"id":`, r.messageID())
	dst = wire.AppendMember(dst, `,"type":"message","role":"assistant","status":`, status)
	dst = append(dst, `,"content":[`...)
	if status != responseInProgress {
		dst = appendTextPart(dst, text)
	}
	return append(dst, ']', '}')
}

func appendTextPart(dst []byte, text string) []byte {
	return append(wire.AppendMember(dst, `{"type":"output_text","text":`, text), `,"annotations":[],"logprobs":[]}`...)
}

func appendCall(dst []byte, id string, action *conversationpb.PendingAction, arguments, status string) []byte {
	dst = wire.AppendMember(dst, `{"id":`, id)
	dst = wire.AppendMember(dst, `,"type":"function_call","call_id":`, action.GetToolCallId())
	dst = wire.AppendMember(dst, `,"name":`, action.GetToolName())
	dst = wire.AppendMember(dst, `,"arguments":`, arguments)
	return append(wire.AppendMember(dst, `,"status":`, status), '}')
}

// AppendJSON implements endpoint.Appender.
func (r *wholeResponse) AppendJSON(dst []byte) []byte {
	const perSecond = 1000
	e := r.echo
	dst = append(dst, `{"id":"`+render.ResponsePrefix...)
	dst = append(dst, r.session...) // ids are plain
	dst = append(dst, `","object":"response","created_at":`...)
	dst = strconv.AppendInt(dst, r.created/perSecond, 10)
	dst = wire.AppendMember(dst, `,"model":`, r.agent)
	dst = wire.AppendMember(dst, `,"status":`, r.status())
	dst = append(dst, `,"output":`...)
	dst = wire.AppendList(dst, r.output(), func(dst []byte, item outputItem) []byte { return append(dst, item.body...) })
	dst = append(dst, `,"usage":`...)
	if r.turn == nil {
		dst = append(dst, "null"...)
	} else {
		dst = appendWholeUsage(dst, less(r.turn.GetUsage(), r.paid))
	}
	dst = append(dst, `,"error":`...)
	if r.turn == nil {
		dst = append(dst, "null"...)
	} else {
		dst = render.AppendError(dst, r.turn)
	}
	dst = append(dst, `,"incomplete_details":`...)
	if reason := r.incomplete(); reason == "" {
		dst = append(dst, "null"...)
	} else {
		dst = append(wire.AppendMember(dst, `{"reason":`, reason), '}')
	}
	dst = wire.AppendNullable(dst, `,"previous_response_id":`, r.previous)
	dst = append(append(dst, `,"instructions":`...), e.instructions...)
	dst = append(append(dst, `,"tools":`...), e.tools...)
	dst = append(append(dst, `,"tool_choice":`...), e.toolChoice...)
	dst = append(dst, `,"parallel_tool_calls":`...)
	dst = strconv.AppendBool(dst, e.parallel)
	dst = append(append(dst, `,"text":`...), e.text...)
	dst = append(append(dst, `,"reasoning":`...), e.reasoning...)
	dst = appendNumber(append(dst, `,"temperature":`...), e.temperature)
	dst = appendNumber(append(dst, `,"top_p":`...), e.topP)
	dst = append(dst, `,"max_output_tokens":`...)
	if e.maxOutputTokens == nil {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendInt(dst, *e.maxOutputTokens, 10)
	}
	dst = append(append(dst, `,"metadata":`...), e.metadata...)
	dst = append(dst, `,"background":false,"store":true,"truncation":"auto","service_tier":"default","max_tool_calls":null,"top_logprobs":0,"prompt":null`...)
	dst = wire.AppendNullable(dst, `,"user":`, e.user)
	dst = wire.AppendNullable(dst, `,"safety_identifier":`, e.safety)
	dst = wire.AppendNullable(dst, `,"prompt_cache_key":`, e.cacheKey)
	return r.appendOwn(dst)
}

// appendOwn writes what the official API does not have, as POST /agents/responses answers it.
func (r *wholeResponse) appendOwn(dst []byte) []byte {
	dst = append(dst, `,"version":`...)
	if r.version > 0 {
		dst = strconv.AppendInt(dst, r.version, 10)
	} else {
		dst = append(dst, "null"...)
	}
	dst = wire.AppendMember(dst, `,"session_id":`, r.session)
	dst = wire.AppendNullable(dst, `,"stop_reason":`, r.turn.GetStopReason().WireName())
	if pending := r.turn.GetPending(); len(pending) > 0 {
		dst = append(dst, `,"pending_actions":`...)
		dst = render.AppendActions(dst, pending)
	}
	dst = append(dst, `,"spent_usd":`...)
	if r.turn == nil {
		return append(dst, "null}"...)
	}
	return append(money.Append(dst, r.turn.GetSpentNanoUsd()), '}')
}

// Described implements openapi.Described.
func (r *wholeResponse) Described() (value any, nullable bool) { return wholeResponseSchema{}, false }

func appendNumber(dst []byte, number *float64) []byte {
	if number == nil {
		return append(dst, "null"...)
	}
	encoded, _ := json.Marshal(*number) // it came from JSON
	return append(dst, encoded...)
}

// less is what was used since a former count.
func less(usage, before *conversationpb.Usage) *conversationpb.Usage {
	if before == nil {
		return usage
	}
	return &conversationpb.Usage{
		InputTokens:       max(usage.GetInputTokens()-before.GetInputTokens(), 0),
		OutputTokens:      max(usage.GetOutputTokens()-before.GetOutputTokens(), 0),
		CachedInputTokens: max(usage.GetCachedInputTokens()-before.GetCachedInputTokens(), 0),
		CostNanoUsd:       max(usage.GetCostNanoUsd()-before.GetCostNanoUsd(), 0), Priced: usage.GetPriced(),
	}
}

func appendWholeUsage(dst []byte, usage *conversationpb.Usage) []byte {
	dst = render.AppendUsage(dst, usage)
	return append(dst[:len(dst)-1], `,"output_tokens_details":{"reasoning_tokens":0}}`...)
}

// itemID is the id of an item of an output: it says where in which session the item stands, so that a later input can refer
// to it. at is the place of a call among the calls of the answer, or where the text begins in it.
func itemID(kind, session string, number uint64, at int) string {
	return kind + "_" + session + "." + strconv.FormatUint(number, 10) + "." + strconv.Itoa(at)
}

// itemPlace is what the id of an item says.
type itemPlace struct {
	kind, session string
	number        uint64
	at            int
}

// parseItemID takes an id of itemID apart.
func parseItemID(id string) (itemPlace, bool) {
	kind, rest, _ := strings.Cut(id, "_")
	parts := strings.Split(rest, ".")
	const parted = 3
	if len(parts) != parted || kind != "msg" && kind != "fc" {
		return itemPlace{}, false
	}
	number, err := strconv.ParseUint(parts[1], 10, 32)
	if err != nil || number == 0 {
		return itemPlace{}, false
	}
	at, err := strconv.Atoi(parts[2])
	return itemPlace{kind, parts[0], number, at}, err == nil && at >= 0
}

type wholeResponseSchema struct {
	render.ResponseSchema

	Output            []json.RawMessage `json:"output" doc:"Items of type message, and function_call: functions that the caller is to run"`
	Status            string            `json:"status" enum:"completed,incomplete,failed,requires_action,cancelled,in_progress"`
	Usage             *wholeUsageSchema `json:"usage"`
	SpentUSD          *render.USD       `json:"spent_usd" doc:"Of the session"`
	IncompleteDetails *incompleteSchema `json:"incomplete_details"`
	Instructions      *string           `json:"instructions"`
	Tools             []json.RawMessage `json:"tools"`
	ToolChoice        json.RawMessage   `json:"tool_choice" any:"true"`
	ParallelToolCalls bool              `json:"parallel_tool_calls"`
	Text              json.RawMessage   `json:"text"`
	Reasoning         json.RawMessage   `json:"reasoning"`
	Temperature       *float64          `json:"temperature"`
	TopP              *float64          `json:"top_p"`
	MaxOutputTokens   *int64            `json:"max_output_tokens"`
	Metadata          map[string]string `json:"metadata"`
	Background        bool              `json:"background"`
	Store             bool              `json:"store"`
	Truncation        string            `json:"truncation" enum:"auto"`
	ServiceTier       string            `json:"service_tier" enum:"default"`
	MaxToolCalls      *int64            `json:"max_tool_calls"`
	TopLogprobs       int64             `json:"top_logprobs"`
	Prompt            *json.RawMessage  `json:"prompt"`
	User              *string           `json:"user"`
	SafetyIdentifier  *string           `json:"safety_identifier"`
	PromptCacheKey    *string           `json:"prompt_cache_key"`
}

type wholeUsageSchema struct {
	render.ResponseUsageSchema

	OutputTokensDetails outputDetailsSchema `json:"output_tokens_details"`
}

type outputDetailsSchema struct {
	ReasoningTokens int64 `json:"reasoning_tokens" doc:"0: they are not told apart"`
}

type incompleteSchema struct {
	Reason string `json:"reason" enum:"max_output_tokens,max_turns,requires_action,cancelled"`
}

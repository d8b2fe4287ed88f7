package body

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/httpedge/endpoint"
	"parley/httpedge/eventlog"
	"parley/proto/conversationpb"
	"parley/proto/nodepb"
)

// MarshalJSON writes dollars as encoding/json would, from the exact decimal.
func (u usd) MarshalJSON() ([]byte, error) {
	whole, fraction := int64(u)/1e9, int64(u)%1e9
	text := strconv.FormatInt(whole, 10)
	if fraction != 0 {
		digits := strconv.FormatInt(1e9+fraction, 10)[1:]
		text += "." + string(bytes.TrimRight([]byte(digits), "0"))
	}
	return []byte(text), nil
}

// MarshalJSON writes the time with the standard library's formatter.
func (t isoTime) MarshalJSON() ([]byte, error) {
	return []byte(time.UnixMilli(int64(t)).UTC().Format(`"2006-01-02T15:04:05.000Z"`)), nil
}

func reference(t require.TestingT, value any) string {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	require.NoError(t, encoder.Encode(value))
	return string(bytes.TrimSuffix(buffer.Bytes(), []byte("\n")))
}

// ---- what may be drawn

var (
	drawID     = rapid.StringMatching(`[a-z]{3,4}_[A-Za-z0-9_-]{21}`)
	drawText   = rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,40}`), rapid.Just("line\nbreak \u2028 \"<&>\" 😀"))
	drawTime   = rapid.Int64Range(0, 253402300799999)
	drawMoney  = rapid.Int64Range(0, 1<<62)
	drawObject = rapid.SampledFrom([]string{"", "{}", `{"a":1}`, `{"x":{"y":[1,"2",null]}}`, `{"questions":[{"question":"Why?"}]}`})
	drawArgs   = rapid.SampledFrom([]string{"", "{}", `{"city":"Bern"}`})
)

func drawState(t *rapid.T) *conversationpb.State {
	state := &conversationpb.State{
		Id: drawID.Draw(t, "id"), AgentId: drawText.Draw(t, "agent"), AgentName: drawText.Draw(t, "agentName"),
		UserId: drawText.Draw(t, "user"), Title: drawText.Draw(t, "title"),
		Metadata: []byte(drawObject.Draw(t, "metadata")), State: []byte(drawObject.Draw(t, "state")),
		Pinned: rapid.Bool().Draw(t, "pinned"), Budget: drawBudget(t), SpentNanoUsd: drawMoney.Draw(t, "spent"),
		Status:     rapid.SampledFrom([]conversationpb.Status{0, 1, 2, 3}).Draw(t, "status"),
		StopReason: rapid.SampledFrom([]conversationpb.StopReason{0, 1, 2, 3, 4, 5, 6, 7}).Draw(t, "stop"),
		LastSeq:    rapid.Uint64().Draw(t, "seq"), Continuable: rapid.Bool().Draw(t, "continuable"),
		CreatedAt: drawTime.Draw(t, "created"), UpdatedAt: drawTime.Draw(t, "updated"),
		Pending: drawPending(t), MessageCount: rapid.Uint64Range(0, 1<<40).Draw(t, "count"),
	}
	if rapid.Bool().Draw(t, "owned") {
		state.ServerMetadata = []byte(`{"parley.source":"task"}`)
	}
	return state
}

func drawBudget(t *rapid.T) *conversationpb.Budget {
	if rapid.Bool().Draw(t, "no budget") {
		return nil
	}
	return &conversationpb.Budget{MaxCostNanoUsd: drawMoney.Draw(t, "max"), OnReach: "pause"}
}

func drawPending(t *rapid.T) []*conversationpb.PendingAction {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *conversationpb.PendingAction {
		return &conversationpb.PendingAction{
			Id: drawID.Draw(t, "id"), Kind: rapid.SampledFrom([]string{"tool_approval", "user_question"}).Draw(t, "kind"), RunId: drawText.Draw(t, "run"),
			ToolName: drawText.Draw(t, "tool"), ToolCallId: drawText.Draw(t, "call"),
			Args: []byte(drawObject.Draw(t, "args")), Details: []byte(drawObject.Draw(t, "details")),
			UnknownOutcome: rapid.Bool().Draw(t, "unknown"),
			CreatedAt:      drawTime.Draw(t, "created"), ExpiresAt: drawTime.Draw(t, "expires"),
		}
	}), 0, 2).Draw(t, "pending")
}

func drawMessage(t *rapid.T) *conversationpb.Message {
	return &conversationpb.Message{
		Id: drawID.Draw(t, "id"), Content: drawText.Draw(t, "content"), Name: drawText.Draw(t, "name"),
		Role:       rapid.SampledFrom([]conversationpb.Role{conversationpb.Role_USER, conversationpb.Role_ASSISTANT}).Draw(t, "role"),
		Status:     rapid.SampledFrom([]string{"", "completed", "cancelled"}).Draw(t, "status"),
		StopReason: rapid.SampledFrom([]conversationpb.StopReason{0, 1, 3, 7}).Draw(t, "stop"),
		Metadata:   []byte(drawObject.Draw(t, "metadata")),
		CreatedAt:  drawTime.Draw(t, "created"), UpdatedAt: drawTime.Draw(t, "updated"),
		ToolCalls: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *conversationpb.ToolCall {
			return &conversationpb.ToolCall{
				Id: drawText.Draw(t, "id"), Name: drawText.Draw(t, "name"), Arguments: drawArgs.Draw(t, "arguments"),
				Result: drawText.Draw(t, "result"), Error: drawText.Draw(t, "error"),
				TookMs: rapid.SampledFrom([]int64{0, 1, 250, 86_400_123}).Draw(t, "took"),
			}
		}), 0, 2).Draw(t, "calls"),
		Files: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *conversationpb.FileRef {
			return &conversationpb.FileRef{
				Id: drawID.Draw(t, "id"), Name: drawText.Draw(t, "name"), MimeType: "text/plain", Size: rapid.Int64Range(0, 1<<40).Draw(t, "size"),
			}
		}), 0, 2).Draw(t, "files"),
		PreviousContent: rapid.SliceOfN(drawText, 0, 2).Draw(t, "previous"),
		RegeneratedFrom: rapid.SampledFrom([]string{"", "msg_old"}).Draw(t, "regenerated"),
		Edited:          rapid.Bool().Draw(t, "edited"),
		EditedFrom:      rapid.SampledFrom([]string{"", "msg_older"}).Draw(t, "edited from"),
		Feedback:        drawFeedback(t),
		Pending:         drawPending(t),
	}
}

func drawFeedback(t *rapid.T) *conversationpb.Feedback {
	if rapid.Bool().Draw(t, "unrated") {
		return nil
	}
	return &conversationpb.Feedback{
		Rating:  rapid.SampledFrom([]string{"", "up", "down"}).Draw(t, "rating"),
		Reasons: rapid.SliceOfN(drawText, 0, 2).Draw(t, "reasons"), Comment: drawText.Draw(t, "comment"),
		UserId: drawText.Draw(t, "rater"), CreatedAt: drawTime.Draw(t, "rated"), UpdatedAt: drawTime.Draw(t, "rerated"),
	}
}

func drawMessages(t *rapid.T) []*conversationpb.Message {
	return rapid.SliceOfN(rapid.Custom(drawMessage), 0, 3).Draw(t, "messages")
}

func drawTurn(t *rapid.T) *conversationpb.TurnResult {
	turn := &conversationpb.TurnResult{
		RunId: drawID.Draw(t, "run"), UserMessage: drawMessage(t), Budget: drawBudget(t),
		SpentNanoUsd: drawMoney.Draw(t, "spent"), Pending: drawPending(t), Title: drawText.Draw(t, "title"),
		StopReason: rapid.SampledFrom([]conversationpb.StopReason{1, 2, 3, 4, 5, 6, 7}).Draw(t, "stop"),
	}
	if rapid.Bool().Draw(t, "answered") {
		turn.Response = drawMessage(t)
		turn.Usage = &conversationpb.Usage{
			InputTokens:  rapid.Int64Range(0, 1<<40).Draw(t, "in"),
			OutputTokens: rapid.Int64Range(0, 1<<40).Draw(t, "out"), CachedInputTokens: rapid.Int64Range(0, 3).Draw(t, "cached"),
			CostNanoUsd: drawMoney.Draw(t, "cost"), Priced: rapid.Bool().Draw(t, "priced"),
		}
	}
	if rapid.Bool().Draw(t, "failed") {
		turn.Error = &conversationpb.TurnError{Code: drawText.Draw(t, "code"), Message: drawText.Draw(t, "message")}
	}
	return turn
}

// ---- the records as data types, made the slow and plain way

func objectOf(raw []byte) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

// with adds members behind an object's own, in their order.
func with(raw []byte, members ...string) json.RawMessage {
	object := string(objectOf(raw))
	for _, member := range members {
		if object != "{}" {
			member = "," + member
		}
		object = object[:len(object)-1] + member + "}"
	}
	return json.RawMessage(object)
}

func plainConversation(s *conversationpb.State) conversationSchema {
	metadata := objectOf(s.GetMetadata())
	if len(s.GetServerMetadata()) > 0 {
		metadata = with(s.GetMetadata(), string(s.GetServerMetadata()[1:len(s.GetServerMetadata())-1]))
	}
	return conversationSchema{
		ID: s.GetId(), AgentID: s.GetAgentId(), AgentName: s.GetAgentName(), UserID: s.GetUserId(), Title: s.GetTitle(),
		Metadata: metadata, State: objectOf(s.GetState()), Pinned: s.GetPinned(), Budget: plainBudget(s.GetBudget()),
		SpentUSD: usd(s.GetSpentNanoUsd()), Runtime: plainRuntime(s), Continuable: s.GetContinuable(),
		CreatedAt: isoTime(s.GetCreatedAt()), UpdatedAt: isoTime(s.GetUpdatedAt()),
	}
}

func plainBudget(b *conversationpb.Budget) *budgetSchema {
	if b == nil {
		return nil
	}
	return &budgetSchema{MaxCostUSD: usd(b.GetMaxCostNanoUsd()), OnReach: b.GetOnReach()}
}

func plainRuntime(s *conversationpb.State) runtimeSchema {
	runtime := runtimeSchema{
		Status:     map[conversationpb.Status]string{0: "idle", 1: "idle", 2: "running", 3: "waiting"}[s.GetStatus()],
		StopReason: stopNames[s.GetStopReason()], LastEventSeq: s.GetLastSeq(), PendingActionIDs: []string{},
	}
	for _, action := range s.GetPending() {
		runtime.PendingActionIDs = append(runtime.PendingActionIDs, action.GetId())
	}
	return runtime
}

var stopNames = map[conversationpb.StopReason]string{
	1: "end_turn", 2: "requires_action", 3: "cancelled", 4: "max_turns", 5: "limit", 6: "budget_reached", 7: "error",
}

func plainPending(actions []*conversationpb.PendingAction) []pendingActionSchema {
	var plain []pendingActionSchema
	for _, a := range actions {
		var asked []json.RawMessage
		if a.GetKind() == "user_question" && strings.Contains(string(a.GetDetails())+string(a.GetArgs()), "questions") {
			asked = []json.RawMessage{json.RawMessage(`{"question":"Why?"}`)}
		}
		plain = append(plain, pendingActionSchema{
			ID: a.GetId(), Kind: a.GetKind(), Status: "pending", RunID: a.GetRunId(), ToolName: a.GetToolName(),
			ToolCallID: a.GetToolCallId(), Args: objectOf(a.GetArgs()), Questions: asked, Details: objectOf(a.GetDetails()),
			UnknownOutcome: a.GetUnknownOutcome(), RequestedAt: isoTime(a.GetCreatedAt()), CreatedAt: isoTime(a.GetCreatedAt()), ExpiresAt: isoTime(a.GetExpiresAt()),
		})
	}
	return plain
}

func plainMessage(t require.TestingT, conversation string, m *conversationpb.Message) messageSchema {
	plain := messageSchema{
		ID: m.GetId(), ConversationID: conversation, Role: "user", Content: m.GetContent(), Name: m.GetName(),
		CreatedAt: isoTime(m.GetCreatedAt()), UpdatedAt: isoTime(m.GetUpdatedAt()),
	}
	for _, file := range m.GetFiles() {
		plain.Files = append(plain.Files, fileRefSchema{file.GetId(), file.GetName(), file.GetMimeType(), file.GetSize()})
	}
	for _, call := range m.GetToolCalls() {
		plain.ToolCalls = append(plain.ToolCalls, toolCallSchema{
			ID: call.GetId(), Name: call.GetName(), Arguments: call.GetArguments(), Result: call.GetResult(), Error: call.GetError(),
		})
	}
	own := messageMetadataSchema{PreviousContent: m.GetPreviousContent()}
	if m.GetRole() == conversationpb.Role_ASSISTANT {
		plain.Role, plain.Status = "assistant", m.GetStatus()
		own.Status, own.StopReason = m.GetStatus(), stopNames[m.GetStopReason()]
		own.RegeneratedFrom, own.PendingActions = m.GetRegeneratedFrom(), plainPending(m.GetPending())
		if m.GetFeedback().GetRating() != "" {
			own.Feedback = plainFeedback(m.GetFeedback())
		}
		var took int64
		for _, call := range m.GetToolCalls() {
			own.ToolCallDetails = append(own.ToolCallDetails, plainDetail(t, call))
			took += call.GetTookMs()
		}
		own.ToolCallSeconds = float64(took) / 1000
	} else {
		own.Edited, own.EditedFrom = m.GetEdited(), m.GetEditedFrom()
	}
	members := reference(t, own)
	plain.Metadata = messageMetadata(objectOf(m.GetMetadata()))
	if members != "{}" {
		plain.Metadata = messageMetadata(with(m.GetMetadata(), members[1:len(members)-1]))
	}
	return plain
}

func plainFeedback(f *conversationpb.Feedback) *feedbackSchema {
	plain := &feedbackSchema{
		Reasons: append([]string{}, f.GetReasons()...), Comment: f.GetComment(), UserID: f.GetUserId(),
		CreatedAt: isoTime(f.GetCreatedAt()), UpdatedAt: isoTime(f.GetUpdatedAt()),
	}
	if rating := f.GetRating(); rating != "" {
		plain.Rating = &rating
	}
	return plain
}

func plainDetail(t require.TestingT, call *conversationpb.ToolCall) toolCallDetailSchema {
	plain := toolCallDetailSchema{ID: call.GetId(), Name: call.GetName(), Args: objectOf([]byte(call.GetArguments()))}
	switch result := call.GetResult(); {
	case call.GetError() != "":
		plain.Result = json.RawMessage(reference(t, map[string]string{"error": call.GetError()}))
	case result != "" && json.Valid([]byte(result)) && strings.ContainsRune("{[", rune(result[0])):
		plain.Result = json.RawMessage(result)
	case result != "":
		plain.Result = json.RawMessage(reference(t, result))
	}
	return plain
}

func plainMessages(t require.TestingT, conversation string, messages []*conversationpb.Message) []messageSchema {
	plain := []messageSchema{}
	for _, m := range messages {
		plain = append(plain, plainMessage(t, conversation, m))
	}
	return plain
}

func plainTurn(t require.TestingT, conversation string, turn *conversationpb.TurnResult) turnResultSchema {
	plain := turnResultSchema{
		Message: plainMessage(t, conversation, turn.GetUserMessage()), StopReason: stopNames[turn.GetStopReason()],
		RunID: turn.GetRunId(), PendingActions: plainPending(turn.GetPending()), Budget: plainBudget(turn.GetBudget()),
		ConversationTitle: turn.GetTitle(),
		Status: map[conversationpb.StopReason]string{
			2: "requires_action", 3: "cancelled", 4: "incomplete", 5: "incomplete", 6: "incomplete", 7: "incomplete",
		}[turn.GetStopReason()],
	}
	if turn.GetBudget() != nil {
		spent := usd(turn.GetSpentNanoUsd())
		plain.SpentUSD = &spent
	}
	answer := turn.GetResponse()
	if answer == nil {
		answer = &conversationpb.Message{
			Id: "msg_" + strings.TrimPrefix(turn.GetRunId(), "run_"), Role: conversationpb.Role_ASSISTANT,
			Status: cmp.Or(plain.Status, "completed"), StopReason: turn.GetStopReason(),
			CreatedAt: turn.GetUserMessage().GetCreatedAt(), UpdatedAt: turn.GetUserMessage().GetCreatedAt(),
		}
	}
	plain.Response = plainMessage(t, conversation, answer)
	if u := turn.GetUsage(); u != nil {
		plain.Usage = &usageSchema{
			InputTokens: u.GetInputTokens(), OutputTokens: u.GetOutputTokens(),
			TotalTokens: u.GetInputTokens() + u.GetOutputTokens(), CachedInputTokens: u.GetCachedInputTokens(),
		}
		if u.GetPriced() {
			cost := usd(u.GetCostNanoUsd())
			plain.Usage.CostUSD = &cost
		}
	}
	if e := turn.GetError(); e != nil {
		plain.Error = &turnErrorSchema{Code: e.GetCode(), Message: e.GetMessage()}
	}
	return plain
}

// ---- properties

func TestAppendedRecordsAreWhatEncodingJSONMakesOfThem(t *testing.T) {
	check := func(name string, property func(t *rapid.T) (appended endpoint.Appender, plain any)) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				appended, plain := property(rt)
				require.Equal(rt, reference(rt, plain), string(appended.AppendJSON(nil)))
			})
		})
	}
	check("conversation", func(t *rapid.T) (endpoint.Appender, any) {
		state := drawState(t)
		return &ConversationEnvelope{state}, conversationEnvelopeSchema{plainConversation(state)}
	})
	check("conversation_list", func(t *rapid.T) (endpoint.Appender, any) {
		states := rapid.SliceOfN(rapid.Custom(drawState), 0, 3).Draw(t, "states")
		total := rapid.IntRange(0, 9).Draw(t, "total")
		offset := rapid.IntRange(0, 9).Draw(t, "offset")
		plain := conversationListSchema{
			Conversations: []conversationSchema{}, Total: total, Limit: 20, Offset: offset, HasMore: offset+len(states) < total,
		}
		for _, state := range states {
			plain.Conversations = append(plain.Conversations, plainConversation(state))
		}
		page := &conversationpb.ConversationsReply{Conversations: states, Total: int64(total)}
		return &ConversationList{Page: page, Limit: 20, Offset: offset}, plain
	})
	check("conversation_read", func(t *rapid.T) (endpoint.Appender, any) {
		page := &nodepb.MessagesReply{
			State: drawState(t), Messages: drawMessages(t),
			MoreBefore: rapid.Bool().Draw(t, "before"), MoreAfter: rapid.Bool().Draw(t, "after"),
		}
		id := page.State.GetId()
		return &ConversationRead{Page: page, Limit: 100, Order: "asc"}, conversationReadSchema{
			Conversation: plainConversation(page.State), Messages: plainMessages(t, id, page.Messages),
			MessagesPage: messagesPageSchema{
				Limit: 100, Order: "asc", HasMoreBefore: page.MoreBefore, HasMoreAfter: page.MoreAfter,
			},
			PendingActions: plainPending(page.State.GetPending()),
		}
	})
	check("message_list", func(t *rapid.T) (endpoint.Appender, any) {
		page := &nodepb.MessagesReply{State: drawState(t), Messages: drawMessages(t)}
		total := int(page.State.GetMessageCount())
		return &MessageList{Page: page, Limit: 7, Offset: 3}, messageListSchema{
			Messages: plainMessages(t, page.State.GetId(), page.Messages), Total: total, Limit: 7, Offset: 3,
			HasMore: 3+len(page.Messages) < total,
		}
	})
	check("turn_result", func(t *rapid.T) (endpoint.Appender, any) {
		turn := drawTurn(t)
		return &TurnResult{ConversationID: "conv_x", Turn: turn}, plainTurn(t, "conv_x", turn)
	})
	check("cancel", func(t *rapid.T) (endpoint.Appender, any) {
		c := &conversationpb.Cancelled{
			Cancelled: rapid.Bool().Draw(t, "cancelled"), Settled: rapid.Bool().Draw(t, "settled"),
			RunId: drawText.Draw(t, "run"), State: drawState(t),
			CancelledActionIds: rapid.SliceOfN(drawID, 0, 2).Draw(t, "actions"),
		}
		plain := cancelSchema{
			Cancelled: c.GetCancelled(), Settled: c.GetSettled(), RunID: c.GetRunId(), Runtime: plainRuntime(c.GetState()),
		}
		if c.GetCancelled() || !c.GetSettled() {
			ids := append([]string{}, c.GetCancelledActionIds()...)
			plain.CancelledActionIDs = &ids
		}
		if c.GetCancelled() && c.GetSettled() {
			plain.StopReason = "cancelled"
		}
		return &CancelResult{c}, plain
	})
}

func TestEventsOnTheWire(t *testing.T) {
	title, pinned := "New", true
	message := &conversationpb.Message{
		Id: "msg_1", Content: "hi", Status: "completed", StopReason: conversationpb.StopReason_END_TURN,
	}
	lease := func(mode conversationpb.Mode) *conversationpb.Event {
		return &conversationpb.Event{Body: &conversationpb.Event_TurnStarted{
			TurnStarted: &conversationpb.TurnStarted{Lease: &conversationpb.Lease{Mode: mode}},
		}}
	}
	ended := &conversationpb.TurnEnded{
		StopReason: conversationpb.StopReason_ERROR, Continuable: true,
		Usage: &conversationpb.Usage{InputTokens: 2, OutputTokens: 3, Priced: true, CostNanoUsd: 1_500_000},
		Error: &conversationpb.TurnError{Code: "overloaded", Message: "later"},
	}
	cases := []struct {
		name  string
		event *conversationpb.Event
		want  string // type and data
	}{
		{"user_message", &conversationpb.Event{Body: &conversationpb.Event_UserMessage{
			UserMessage: &conversationpb.UserMessage{Message: message},
		}}, `"type":"user.message","data":{"content":"hi","message_id":"msg_1"}`},
		{"agent_message", &conversationpb.Event{Body: &conversationpb.Event_AgentMessage{
			AgentMessage: &conversationpb.AgentMessage{Message: message},
		}}, `"type":"agent.message","data":{"content":"hi","message_id":"msg_1","stop_reason":"end_turn","status":"completed"}`},
		{"running", lease(conversationpb.Mode_MESSAGE), `"type":"session.status_running","data":{}`},
		{"running_edit", lease(conversationpb.Mode_EDIT), `"type":"session.status_running","data":{"mode":"edit"}`},
		{
			"running_regenerate", lease(conversationpb.Mode_REGENERATE),
			`"type":"session.status_running","data":{"mode":"regenerate"}`,
		},
		{
			"running_continue", lease(conversationpb.Mode_CONTINUE),
			`"type":"session.status_running","data":{"mode":"continue"}`,
		},
		{"running_resolve", lease(conversationpb.Mode_RESOLVE), `"type":"session.status_running","data":{"mode":"resolve"}`},
		{
			"idle", &conversationpb.Event{Body: &conversationpb.Event_TurnEnded{TurnEnded: ended}},
			`"type":"session.status_idle","data":{"stop_reason":"error","usage":{"input_tokens":2,"output_tokens":3,` +
				`"total_tokens":5,"cost_usd":0.0015},"error":{"code":"overloaded","message":"later"},"continuable":true}`,
		},
		{"recovered", &conversationpb.Event{Body: &conversationpb.Event_TurnRecovered{
			TurnRecovered: &conversationpb.TurnRecovered{Attempt: 2, Node: "n1"},
		}}, `"type":"session.recovered","data":{"attempt":2,"node":"n1"}`},
		{"cancel_requested", &conversationpb.Event{Body: &conversationpb.Event_CancelRequested{
			CancelRequested: &conversationpb.CancelRequested{},
		}}, `"type":"session.cancel_requested","data":{}`},
		{"updated", &conversationpb.Event{Body: &conversationpb.Event_Updated{
			Updated: &conversationpb.Updated{Patch: &conversationpb.Patch{
				Title: &title, Pinned: &pinned, Metadata: []byte(`{"k":1}`), RemoveBudget: true,
			}},
		}}, `"type":"session.updated","data":{"title":"New","pinned":true,"metadata":{"k":1},"budget":null}`},
		{"updated_hidden", &conversationpb.Event{Body: &conversationpb.Event_Updated{
			Updated: &conversationpb.Updated{Patch: &conversationpb.Patch{RuntimeContext: []byte(`{}`)}},
		}}, `"type":"session.updated","data":{}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.event.Seq, c.event.RunId, c.event.CreatedAt = 7, "run_1", 1_700_000_000_123
			want := `{"seq":7,` + c.want + `,"run_id":"run_1","created_at":"2023-11-14T22:13:20.123Z"}`
			require.Equal(t, want, string(eventlog.Append(nil, c.event, eventlog.Conversation)))
		})
	}
	page := &EventPage{&nodepb.EventsReply{Events: []*conversationpb.Event{cases[0].event}, HasMore: true, LastSeq: 9}}
	require.True(t, json.Valid(page.AppendJSON(nil)))
	require.Contains(t, string(page.AppendJSON(nil)), `"hasMore":true,"lastSeq":9`)
}

func TestBudgetInput(t *testing.T) {
	cases := map[string]int64{ // maxCostNanoUsd, 0 = refused
		`{"maxCostUsd":0.1}`:                       100_000_000,
		`{"maxCostUsd":1e-9,"onReach":"stop"}`:     1,
		`{"maxCostUsd":25,"onReach":"pause"}`:      25_000_000_000,
		`{"maxCostUsd":9000000000}`:                9_000_000_000_000_000_000,
		`{"maxCostUsd":1e-10}`:                     0,
		`{"maxCostUsd":0}`:                         0,
		`{"maxCostUsd":-1}`:                        0,
		`{"maxCostUsd":1e300}`:                     0,
		`{"maxCostUsd":1e999}`:                     0,
		`{"maxCostUsd":9300000000}`:                0,
		`{"maxCostUsd":"1"}`:                       0,
		`{"maxCostUsd":null}`:                      0,
		`{}`:                                       0,
		`5`:                                        0,
		`"free"`:                                   0,
		`[]`:                                       0,
		`{"maxCostUsd":1,"onReach":"explode"}`:     0,
		`{"maxCostUsd":1,"onReach":7}`:             0,
		`{"maxCostUsd":1,"onReach":null}`:          1_000_000_000,
		`{"maxCostUsd":1,"somethingElse":[1,2,3]}`: 1_000_000_000,
	}
	for text, want := range cases {
		t.Run(text, func(t *testing.T) {
			var in BudgetInput
			err := json.Unmarshal([]byte(text), &in)
			if want == 0 {
				require.ErrorContains(t, err, "INVALID_BUDGET")
				return
			}
			require.NoError(t, err)
			require.Equal(t, want, in.Budget.GetMaxCostNanoUsd())
		})
	}
}

package body

import (
	"net/http"
	"strconv"

	"parley/actors/core/money"
	"parley/httpedge/endpoint/wire"
	"parley/httpedge/eventlog"
	"parley/proto/conversationpb"
	"parley/proto/nodepb"
)

// ConversationRecord renders a conversation as the body of an answer.
type ConversationRecord struct{ State *conversationpb.State }

// AppendJSON implements endpoint.Appender.
func (c *ConversationRecord) AppendJSON(dst []byte) []byte { return AppendConversation(dst, c.State) }

// Described implements openapi.Described.
func (c *ConversationRecord) Described() (value any, nullable bool) {
	return conversationSchema{}, false
}

// ConversationEnvelope is {conversation}.
type ConversationEnvelope struct{ State *conversationpb.State }

// AppendJSON implements endpoint.Appender.
func (c *ConversationEnvelope) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"conversation":`...)
	return append(AppendConversation(dst, c.State), '}')
}

// Described implements openapi.Described.
func (c *ConversationEnvelope) Described() (value any, nullable bool) {
	return conversationEnvelopeSchema{}, false
}

// ConversationList is a page of conversations.
type ConversationList struct {
	Page          *conversationpb.ConversationsReply
	Limit, Offset int
}

// AppendJSON implements endpoint.Appender.
func (l *ConversationList) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"conversations":`...)
	dst = wire.AppendList(dst, l.Page.Conversations, AppendConversation)
	return appendPage(dst, pageOf{int(l.Page.GetTotal()), l.Limit, l.Offset, len(l.Page.Conversations)})
}

// Described implements openapi.Described.
func (l *ConversationList) Described() (value any, nullable bool) {
	return conversationListSchema{}, false
}

// ConversationRead is a conversation with a page of its messages.
type ConversationRead struct {
	Page  *nodepb.MessagesReply
	Limit int
	Order string
}

// AppendJSON implements endpoint.Appender.
func (r *ConversationRead) AppendJSON(dst []byte) []byte {
	state := r.Page.State
	dst = append(dst, `{"conversation":`...)
	dst = AppendConversation(dst, state)
	dst = append(dst, `,"messages":`...)
	dst = appendMessages(dst, state.GetId(), r.Page.Messages)
	dst = append(dst, `,"messagesPage":{"limit":`...)
	dst = strconv.AppendInt(dst, int64(r.Limit), 10)
	dst = append(dst, `,"order":`...)
	dst = wire.AppendString(dst, r.Order)
	dst = append(dst, `,"hasMoreBefore":`...)
	dst = strconv.AppendBool(dst, r.Page.MoreBefore)
	dst = append(dst, `,"hasMoreAfter":`...)
	dst = strconv.AppendBool(dst, r.Page.MoreAfter)
	dst = append(dst, '}')
	dst = AppendPendingActions(dst, state.GetPending())
	return append(dst, '}')
}

// Described implements openapi.Described.
func (r *ConversationRead) Described() (value any, nullable bool) {
	return conversationReadSchema{}, false
}

// CancelResult is the outcome of a cancel.
type CancelResult struct{ Cancelled *conversationpb.Cancelled }

// HTTPStatus implements endpoint.Statuser.
func (c *CancelResult) HTTPStatus() int {
	if c.Cancelled.GetSettled() {
		return http.StatusOK
	}
	return http.StatusAccepted
}

// AppendJSON implements endpoint.Appender.
func (c *CancelResult) AppendJSON(dst []byte) []byte {
	result := c.Cancelled
	dst = append(dst, `{"cancelled":`...)
	dst = strconv.AppendBool(dst, result.GetCancelled())
	if result.GetRunId() != "" {
		dst = append(dst, `,"runId":`...)
		dst = wire.AppendString(dst, result.GetRunId())
	}
	dst = append(dst, `,"settled":`...)
	dst = strconv.AppendBool(dst, result.GetSettled())
	if result.GetCancelled() || !result.GetSettled() {
		dst = append(dst, `,"cancelledActionIds":`...)
		dst = wire.AppendStrings(dst, result.GetCancelledActionIds())
	}
	if result.GetCancelled() && result.GetSettled() {
		dst = append(dst, `,"stopReason":"cancelled"`...)
	}
	dst = append(dst, `,"runtime":`...)
	return append(appendRuntime(dst, result.GetState()), '}')
}

// Described implements openapi.Described.
func (c *CancelResult) Described() (value any, nullable bool) { return cancelSchema{}, false }

// serverMetadata returns the metadata keys that the server sets.
func serverMetadata(state *conversationpb.State) []byte {
	kept := state.GetServerMetadata()
	if !state.GetTitleGenerated() {
		return kept
	}
	return appendMerged(nil, kept, []byte(`{"parley.titleGenerated":true}`))
}

func appendRuntime(dst []byte, state *conversationpb.State) []byte {
	dst = append(dst, `{"status":`...)
	dst = wire.AppendString(dst, statusText(state.GetStatus()))
	dst = wire.AppendOptional(dst, `,"stopReason":`, eventlog.StopText(state.GetStopReason()))
	dst = append(dst, `,"lastEventSeq":`...)
	dst = strconv.AppendUint(dst, state.GetLastSeq(), 10)
	dst = append(dst, `,"pendingActionIds":`...)
	return append(eventlog.AppendActionIDs(dst, state.GetPending()), '}')
}

func appendBudget(dst []byte, budget *conversationpb.Budget) []byte {
	if budget == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, `{"maxCostUsd":`...)
	dst = money.Append(dst, budget.GetMaxCostNanoUsd())
	dst = append(dst, `,"onReach":`...)
	return append(wire.AppendString(dst, budget.GetOnReach()), '}')
}

// pageOf holds the paging fields of a list.
type pageOf struct{ total, limit, offset, count int }

// appendPage closes the array and the object of a list.
func appendPage(dst []byte, page pageOf) []byte {
	dst = append(dst, `,"total":`...)
	dst = strconv.AppendInt(dst, int64(page.total), 10)
	dst = append(dst, `,"limit":`...)
	dst = strconv.AppendInt(dst, int64(page.limit), 10)
	dst = append(dst, `,"offset":`...)
	dst = strconv.AppendInt(dst, int64(page.offset), 10)
	dst = append(dst, `,"hasMore":`...)
	dst = strconv.AppendBool(dst, page.offset < page.total-page.count)
	return append(dst, '}')
}

// appendMerged writes the client's object with the server's keys behind it. The rules keep their names disjoint.
func appendMerged(dst, client, server []byte) []byte {
	const none = len("{}")
	if len(server) <= none {
		return wire.AppendObject(dst, client)
	}
	if len(client) <= none {
		return append(dst, server...)
	}
	dst = append(dst, client[:len(client)-1]...)
	dst = append(dst, ',')
	return append(dst, server[1:]...)
}

func statusText(status conversationpb.Status) string {
	switch status {
	case conversationpb.Status_RUNNING:
		return "running"
	case conversationpb.Status_WAITING:
		return "waiting"
	default:
		return "idle"
	}
}

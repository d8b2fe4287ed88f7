package convapi

import (
	"net/http"
	"strconv"

	"parley/actors/core/money"
	"parley/httpedge/endpoint/wire"
	"parley/httpedge/eventlog"
	"parley/proto/conversationpb"
	"parley/proto/nodepb"
)

// conversationRecord renders a conversation as the body of an answer.
type conversationRecord struct{ state *conversationpb.State }

// AppendJSON implements endpoint.Appender.
func (c *conversationRecord) AppendJSON(dst []byte) []byte { return appendConversation(dst, c.state) }

// Described implements openapi.Described.
func (c *conversationRecord) Described() (value any, nullable bool) {
	return conversationSchema{}, false
}

// conversationEnvelope is {conversation}.
type conversationEnvelope struct{ state *conversationpb.State }

// AppendJSON implements endpoint.Appender.
func (c *conversationEnvelope) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"conversation":`...)
	return append(appendConversation(dst, c.state), '}')
}

// Described implements openapi.Described.
func (c *conversationEnvelope) Described() (value any, nullable bool) {
	return conversationEnvelopeSchema{}, false
}

// conversationList is a page of conversations.
type conversationList struct {
	page          *conversationpb.ConversationsReply
	limit, offset int
}

// AppendJSON implements endpoint.Appender.
func (l *conversationList) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"conversations":`...)
	dst = wire.AppendList(dst, l.page.Conversations, appendConversation)
	return appendPage(dst, pageOf{int(l.page.GetTotal()), l.limit, l.offset, len(l.page.Conversations)})
}

// Described implements openapi.Described.
func (l *conversationList) Described() (value any, nullable bool) {
	return conversationListSchema{}, false
}

// conversationRead is a conversation with a page of its messages.
type conversationRead struct {
	page  *nodepb.MessagesReply
	limit int
	order string
}

// AppendJSON implements endpoint.Appender.
func (r *conversationRead) AppendJSON(dst []byte) []byte {
	state := r.page.State
	dst = append(dst, `{"conversation":`...)
	dst = appendConversation(dst, state)
	dst = append(dst, `,"messages":`...)
	dst = appendMessages(dst, state.GetId(), r.page.Messages)
	dst = append(dst, `,"messagesPage":{"limit":`...)
	dst = strconv.AppendInt(dst, int64(r.limit), 10)
	dst = append(dst, `,"order":`...)
	dst = wire.AppendString(dst, r.order)
	dst = append(dst, `,"hasMoreBefore":`...)
	dst = strconv.AppendBool(dst, r.page.MoreBefore)
	dst = append(dst, `,"hasMoreAfter":`...)
	dst = strconv.AppendBool(dst, r.page.MoreAfter)
	dst = append(dst, '}')
	dst = appendPendingActions(dst, state.GetPending())
	return append(dst, '}')
}

// Described implements openapi.Described.
func (r *conversationRead) Described() (value any, nullable bool) {
	return conversationReadSchema{}, false
}

// cancelResult is the outcome of a cancel.
type cancelResult struct{ cancelled *conversationpb.Cancelled }

// HTTPStatus implements endpoint.Statuser.
func (c *cancelResult) HTTPStatus() int {
	if c.cancelled.GetSettled() {
		return http.StatusOK
	}
	return http.StatusAccepted
}

// AppendJSON implements endpoint.Appender.
func (c *cancelResult) AppendJSON(dst []byte) []byte {
	result := c.cancelled
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
func (c *cancelResult) Described() (value any, nullable bool) { return cancelSchema{}, false }

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

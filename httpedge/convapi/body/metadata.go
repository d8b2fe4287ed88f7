package body

import (
	"strconv"

	"parley/httpedge/endpoint/wire"
	"parley/httpedge/eventlog"
	"parley/proto/conversationpb"
)

// appendMessageMetadata writes the message's metadata merged with the server's keys, which take precedence: status and
// origin of an answer, origin of an edited message.
func appendMessageMetadata(dst []byte, message *conversationpb.Message) []byte {
	var own [128]byte
	keys := own[:0]
	if message.GetRole() == conversationpb.Role_ASSISTANT {
		keys = appendAnswerMetadata(keys, message)
	} else {
		keys = appendQuestionMetadata(keys, message)
	}
	client := message.GetMetadata()
	if len(client) > len("{}") {
		client = without(client, metadataKeys())
	}
	if len(keys) == 0 {
		return wire.AppendObject(dst, client)
	}
	return appendMerged(dst, client, wire.Close(keys, 0))
}

// metadataKeys are reserved for the server: a client cannot set them.
func metadataKeys() [10]string {
	return [...]string{
		"status", "stopReason", "previousContent", "regeneratedFrom", "pendingActions", "feedback", "edited", "editedFrom",
		"toolCallDetails", "toolCallDurationSeconds",
	}
}

func appendAnswerMetadata(keys []byte, message *conversationpb.Message) []byte {
	keys = wire.AppendOptional(keys, `,"status":`, message.GetStatus())
	keys = wire.AppendOptional(keys, `,"stopReason":`, eventlog.StopText(message.GetStopReason()))
	keys = appendPreviousContent(keys, message)
	keys = wire.AppendOptional(keys, `,"regeneratedFrom":`, message.GetRegeneratedFrom())
	keys = AppendPendingActions(keys, message.GetPending())
	if message.GetFeedback().GetRating() != "" {
		keys = append(keys, `,"feedback":`...)
		keys = appendFeedback(keys, message.GetFeedback())
	}
	return appendToolCallDetails(keys, message.GetToolCalls())
}

// appendToolCallDetails writes the tool calls in the form that clients render, and the total run time of the tools.
func appendToolCallDetails(keys []byte, calls []*conversationpb.ToolCall) []byte {
	keys = eventlog.AppendCalls(keys, `,"toolCallDetails":`, calls)
	var took int64
	for _, call := range calls {
		took += call.GetTookMs()
	}
	if took == 0 {
		return keys
	}
	return strconv.AppendFloat(append(keys, `,"toolCallDurationSeconds":`...), float64(took)/1000, 'f', -1, 64)
}

func appendQuestionMetadata(keys []byte, message *conversationpb.Message) []byte {
	keys = appendPreviousContent(keys, message)
	if message.GetEdited() {
		keys = append(keys, `,"edited":true`...)
	}
	return wire.AppendOptional(keys, `,"editedFrom":`, message.GetEditedFrom())
}

func appendPreviousContent(keys []byte, message *conversationpb.Message) []byte {
	if len(message.GetPreviousContent()) == 0 {
		return keys
	}
	return wire.AppendStrings(append(keys, `,"previousContent":`...), message.GetPreviousContent())
}

// FeedbackResult is {feedback, messageId}.
type FeedbackResult struct{ Rated *conversationpb.Rated }

// AppendJSON implements endpoint.Appender.
func (r *FeedbackResult) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"feedback":`...)
	dst = appendFeedback(dst, r.Rated.GetFeedback())
	return append(wire.AppendMember(dst, `,"messageId":`, r.Rated.GetMessageId()), '}')
}

// Described implements openapi.Described.
func (r *FeedbackResult) Described() (value any, nullable bool) { return feedbackResultSchema{}, false }

func appendFeedback(dst []byte, feedback *conversationpb.Feedback) []byte {
	dst = append(dst, `{"rating":`...)
	if feedback.GetRating() == "" {
		dst = append(dst, "null"...)
	} else {
		dst = wire.AppendString(dst, feedback.GetRating())
	}
	dst = append(dst, `,"reasons":`...)
	dst = wire.AppendStrings(dst, feedback.GetReasons())
	dst = wire.AppendOptional(dst, `,"comment":`, feedback.GetComment())
	dst = wire.AppendOptional(dst, `,"userId":`, feedback.GetUserId())
	dst = append(dst, `,"createdAt":`...)
	dst = wire.AppendTime(dst, feedback.GetCreatedAt())
	dst = append(dst, `,"updatedAt":`...)
	return append(wire.AppendTime(dst, feedback.GetUpdatedAt()), '}')
}

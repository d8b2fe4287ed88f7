package sessions

import (
	"context"
	"strconv"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint/wire"
	"parley/httpedge/eventlog"
	"parley/httpedge/turns"
	"parley/proto/conversationpb"
	"parley/proto/nodepb"
)

type listSessionMessagesIn struct {
	ID     string `path:"id"`
	Limit  int    `query:"limit" default:"20" max:"100"`
	Before string `query:"before" doc:"Message id: messages older than it"`
	After  string `query:"after" doc:"Message id: messages newer than it"`
	Order  string `query:"order" enum:"asc,desc" default:"asc"`
}

// Validate implements endpoint.Validator.
func (in *listSessionMessagesIn) Validate() *failure.Failure {
	if in.Before != "" && in.After != "" {
		return handler.Invalid(failure.NotTogether).In("before").Param("other", "after")
	}
	for _, id := range []string{in.Before, in.After} {
		if id != "" && !turns.Plausible(id) {
			return handler.Invalid(failure.NotMessageIDs).In("before").Param("other", "after")
		}
	}
	return nil
}

// listSessionMessages pages through the messages of a session: the newest, or those around one.
func (a *api) listSessionMessages(ctx context.Context, in *listSessionMessagesIn) (*sessionMessages, error) {
	if _, err := a.Session(ctx, in.ID); err != nil {
		return nil, err
	}
	page, err := entity.Read[*nodepb.MessagesReply](ctx, a.Entities, &nodepb.MessagesQuery{
		Id: in.ID, Before: in.Before, After: in.After, Offset: -1, Limit: uint32(in.Limit), Descending: in.Order == "desc",
	})
	if err != nil {
		return nil, handler.SessionFailure(err)
	}
	return &sessionMessages{page}, nil
}

// sessionMessages is a page of messages.
type sessionMessages struct{ page *nodepb.MessagesReply }

// AppendJSON implements endpoint.Appender.
func (m *sessionMessages) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"object":"list","data":`...)
	dst = wire.AppendList(dst, m.page.Messages, func(dst []byte, message *conversationpb.Message) []byte {
		return appendMessage(dst, m.page.State.GetId(), message)
	})
	dst = append(dst, `,"has_more_before":`...)
	dst = strconv.AppendBool(dst, m.page.MoreBefore)
	dst = append(dst, `,"has_more_after":`...)
	return append(strconv.AppendBool(dst, m.page.MoreAfter), '}')
}

// Described implements openapi.Described.
func (m *sessionMessages) Described() (value any, nullable bool) {
	return sessionMessagesSchema{}, false
}

func appendMessage(dst []byte, session string, message *conversationpb.Message) []byte {
	dst = append(dst, `{"id":`...)
	dst = wire.AppendString(dst, message.GetId())
	dst = append(dst, `,"object":"agent.session.message"`...)
	dst = wire.AppendMember(dst, `,"session_id":`, session)
	assistant := message.GetRole() == conversationpb.Role_ASSISTANT
	if assistant {
		dst = append(dst, `,"role":"assistant"`...)
	} else {
		dst = append(dst, `,"role":"user"`...)
	}
	dst = wire.AppendMember(dst, `,"content":`, message.GetContent())
	if assistant {
		dst = wire.AppendOptional(dst, `,"status":`, message.GetStatus())
		dst = wire.AppendOptional(dst, `,"stop_reason":`, message.GetStopReason().WireName())
		dst = wire.AppendOptional(dst, `,"in_reply_to":`, message.GetInReplyTo())
		dst = eventlog.AppendCalls(dst, `,"tool_calls":`, message.GetToolCalls())
		if message.GetUsage() != nil {
			dst = append(dst, `,"usage":`...)
			dst = render.AppendUsage(dst, message.GetUsage())
		}
		if len(message.GetPending()) > 0 {
			dst = append(dst, `,"pending_actions":`...)
			dst = render.AppendActions(dst, message.GetPending())
		}
	}
	dst = eventlog.AppendFiles(dst, message.GetFiles())
	dst = append(dst, `,"metadata":`...)
	dst = wire.AppendObjectLine(dst, message.GetMetadata())
	dst = render.AppendTimeOrNull(dst, `,"created_at":`, message.GetCreatedAt())
	dst = render.AppendTimeOrNull(dst, `,"updated_at":`, message.GetUpdatedAt())
	return append(dst, '}')
}

package convapi

import (
	"context"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/httpedge/convapi/frames"
	"parley/httpedge/endpoint"
	"parley/httpedge/eventlog"
	"parley/httpedge/sse"
	"parley/httpedge/turns"
	"parley/proto/conversationpb"
	"parley/proto/nodepb"
)

// streamTurn sends a command that starts or resumes a turn and streams the turn: the opening, text and tool calls as they come,
// then stream.done or stream.error. A failure is a JSON answer with its status: nothing is streamed before the command is
// accepted. The turn does not depend on the connection. ask sends the command and returns how the stream begins.
func (a *API) streamTurn(ctx context.Context, id string, stream endpoint.Stream, ask func() (*frames.MessageView, uint64, error)) error {
	if !plausible(id) {
		return notFound(failure.ConversationNotFound)
	}
	if err := stream.Admit(); err != nil {
		return err
	}
	// Subscribe before the command is sent, so that nothing of its turn has to be read back from the log.
	lease, err := a.hub.Acquire(ctx, id)
	if err != nil {
		return err
	}
	return eventlog.Open(lease, stream, func() (sse.Options, error) {
		view, after, err := ask()
		if err != nil {
			return sse.Options{}, err
		}
		return sse.Options{After: after, Opening: view.Opening(), View: view, InOrder: true}, nil
	})
}

// accepted returns the view of a turn that a command started.
func accepted(id string, reply *conversationpb.Reply, err error) (*frames.MessageView, uint64, error) {
	if err != nil {
		return nil, 0, err
	}
	begun := reply.GetAccepted()
	return frames.NewMessageView(id, begun), begun.GetSeq(), nil
}

// about sends a command about the current version of a message. The rules refuse it when messages were replaced or removed
// after the message was read; then it is read again. Each time another turn has started or ended meanwhile, so retries are
// rare: the bound only prevents an endless loop.
func (a *API) about(
	ctx context.Context, id, messageID string, send func(view *nodepb.MessageReply) (*conversationpb.Reply, error),
) (*conversationpb.Reply, error) {
	const looks = 16
	for look := 1; ; look++ {
		view, err := a.message(ctx, id, messageID)
		if err != nil {
			return nil, err
		}
		reply, err := send(view)
		if look == looks || !turns.Changed(err) {
			return reply, err
		}
	}
}

// message reads a message of a conversation that the caller may see.
func (a *API) message(ctx context.Context, id, messageID string) (*nodepb.MessageReply, error) {
	if !plausible(id) {
		return nil, notFound(failure.ConversationNotFound)
	}
	if !plausible(messageID) {
		if _, err := a.readable(ctx, id); err != nil { // failures of the conversation itself come first
			return nil, err
		}
		return nil, notFound(failure.MessageNotFound)
	}
	view, err := entity.Read[*nodepb.MessageReply](ctx, a.entities, &nodepb.MessageQuery{Id: id, MessageId: messageID})
	if err != nil {
		return nil, a.hideForeign(ctx, id, err)
	}
	return view, access(ctx, view.State)
}

// target identifies a message in a command.
func target(view *nodepb.MessageReply) *conversationpb.Target {
	return &conversationpb.Target{Message: view.Message, AsOf: view.State.GetLastSeq()}
}

// asking returns how to send the command: once for a stream, which should fail fast, or with retries for a caller who waits.
func (a *API) asking(wait bool) func(context.Context, *conversationpb.Command) (*conversationpb.Reply, error) {
	if wait {
		return a.askUntilSettled
	}
	return a.ask
}

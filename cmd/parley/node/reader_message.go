package node

import (
	"context"
	"errors"
	"math"

	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/persistence"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

func noMessage() *machine.Failure {
	return failure.New(failurepb.Code_NOT_FOUND, failure.MessageNotFound)
}

// Message returns one message with the head of the same moment and, of an answer, the message that it answers.
func (r *reader) Message(ctx context.Context, conversationID, messageID string) (*endpoint.MessageView, error) {
	view, head, err := r.view(ctx, conversationID)
	if err != nil {
		return nil, err
	}
	defer func() { _ = view.Close() }() // a snapshot is given back; there is nothing to lose
	state, err := decodeState(head.Value)
	if err != nil {
		return nil, err
	}
	found := &endpoint.MessageView{State: state}
	if found.Message, err = messageByID(view, conversationID, messageID); err != nil {
		return nil, err
	}
	if answered := found.Message.GetInReplyTo(); answered != "" {
		if found.InReplyTo, err = messageByID(view, conversationID, answered); err != nil && !isNotFound(err) {
			return nil, err
		}
	}
	return found, nil
}

func isNotFound(err error) bool {
	var refused *machine.Failure
	return errors.As(err, &refused) && refused.Code == failurepb.Code_NOT_FOUND
}

// messageByID reads a message's row. A row may have been taken over by another message since: then the id is no more.
func messageByID(view *persistence.View, conversationID, messageID string) (*conversationpb.Message, error) {
	key, found, err := view.Item(conversationID, conversation.TableMessageIDs, []byte(messageID))
	if err != nil {
		return nil, readFault("look up message", err)
	}
	if !found {
		return nil, noMessage()
	}
	key = append([]byte(nil), key...) // valid until the next call on the view
	row, found, err := view.Item(conversationID, conversation.TableMessages, key)
	if err != nil {
		return nil, readFault("read message", err)
	}
	message := &conversationpb.Message{}
	if found {
		if err := proto.Unmarshal(row, message); err != nil {
			return nil, readFault("read message", err)
		}
	}
	if message.GetId() != messageID {
		return nil, noMessage()
	}
	return message, nil
}

// messageKey is the key of a message that exists.
func messageKey(view *persistence.View, conversationID, messageID string) ([]byte, error) {
	message, err := messageByID(view, conversationID, messageID)
	if err != nil {
		return nil, err
	}
	return conversation.MessageKey(message.GetNumber()), nil
}

// Steps returns the journalled steps of a turn under way, in order: what a runner that takes it over need not do again.
func (r *reader) Steps(ctx context.Context, conversationID, runID string) ([]*conversationpb.Step, error) {
	group, refused := r.group(conversationID)
	if refused != nil {
		return nil, refused
	}
	view, err := r.store.View(ctx, group)
	if err != nil {
		return nil, readFault("open view", err)
	}
	defer func() { _ = view.Close() }() // the same
	var steps []*conversationpb.Step
	var fault error
	err = view.Items(conversationID, persistence.ItemQuery{
		Table: conversation.TableSteps, From: conversation.StepKey(runID, 0), To: conversation.StepKey(runID, math.MaxUint32),
	}, func(_, value []byte) bool {
		step := &conversationpb.Step{}
		if fault = proto.Unmarshal(value, step); fault != nil {
			return false
		}
		steps = append(steps, step)
		return true
	})
	if err = errors.Join(err, fault); err != nil {
		return nil, readFault("read steps", err)
	}
	return steps, nil
}

// Message asks the owner.
func (r *routed) Message(ctx context.Context, conversationID, messageID string) (*endpoint.MessageView, error) {
	reply, err := ask[*nodepb.MessageReply](ctx, r.route, conversationID, &nodepb.MessageQuery{Id: conversationID, MessageId: messageID})
	if err != nil {
		return nil, err
	}
	return &endpoint.MessageView{State: reply.GetState(), Message: reply.GetMessage(), InReplyTo: reply.GetInReplyTo()}, nil
}

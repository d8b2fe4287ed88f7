package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/cluster/shard"
	"parley/httpedge/endpoint"
	"parley/persistence"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// reader is the store as the edge's endpoint.Reader. Reads do not wake an actor: the head record and the rows of one
// moment are the truth of all that was acknowledged.
type reader struct {
	store  *persistence.Store
	shards shard.Map
}

// notFound is worded as the rules word them: the same answer, whoever finds out.
func notFound() *machine.Failure {
	return failure.New(failurepb.Code_NOT_FOUND, failure.ConversationNotFound)
}

// otherKind says that an id is of an entity that is no conversation, whose records mean something else.
func otherKind(id string) bool { return !strings.HasPrefix(id, "conv_") }

func (r *reader) group(id string) (uint32, *machine.Failure) {
	in, ok := r.shards.Of(id)
	if !ok || otherKind(id) {
		return 0, notFound()
	}
	return uint32(in), nil
}

// State returns a conversation's head.
func (r *reader) State(ctx context.Context, id string) (*conversationpb.State, error) {
	group, refused := r.group(id)
	if refused != nil {
		return nil, refused
	}
	head, found, err := r.store.Head(ctx, group, id)
	if err != nil {
		return nil, readFault("read head", err)
	}
	if !found {
		return nil, notFound()
	}
	return decodeState(head.Value)
}

// view opens one moment of a conversation that exists. The head's value is valid until the next call on the view.
func (r *reader) view(ctx context.Context, id string) (*persistence.View, persistence.Head, error) {
	group, refused := r.group(id)
	if refused != nil {
		return nil, persistence.Head{}, refused
	}
	return r.viewOf(ctx, group, id, notFound())
}

// viewOf opens one moment of an entity, of any kind; missing says that it does not exist.
func (r *reader) viewOf(ctx context.Context, group uint32, id string, missing *machine.Failure) (*persistence.View, persistence.Head, error) {
	view, err := r.store.View(ctx, group)
	if err != nil {
		return nil, persistence.Head{}, readFault("open view", err)
	}
	head, found, err := view.Head(id)
	switch {
	case err != nil:
		err = readFault("read head", err)
	case !found:
		err = missing
	default:
		return view, head, nil
	}
	return nil, persistence.Head{}, errors.Join(err, view.Close())
}

func decodeState(value []byte) (*conversationpb.State, error) {
	state := &conversationpb.State{}
	if err := proto.Unmarshal(value, state); err != nil {
		return nil, fmt.Errorf("decode head: %w", err)
	}
	return state, nil
}

// Messages returns a page of messages and the head of the same moment.
func (r *reader) Messages(ctx context.Context, query endpoint.MessageQuery) (*endpoint.MessagePage, error) {
	view, head, err := r.view(ctx, query.ConversationID)
	if err != nil {
		return nil, err
	}
	defer func() { _ = view.Close() }() // a snapshot is given back; there is nothing to lose
	state, err := decodeState(head.Value)
	if err != nil {
		return nil, err
	}
	page := &endpoint.MessagePage{State: state}
	if query.Offset > 0 && uint64(query.Offset) >= state.GetMessageCount() {
		return page, nil // and no offset is too large to count with
	}
	window, err := messageWindow(view, query, state)
	if err != nil {
		return nil, err
	}
	if err := readMessages(view, query, window, page); err != nil {
		return nil, err
	}
	return page, nil
}

// window is a range of messages as storage reads it: one more than wanted tells whether there are more.
type window struct {
	from, to []byte // [from, to) of message keys, nil = open
	descend  bool   // read from the newer end
	skip     int
	more     bool // older ones are known to exist before from
}

func messageWindow(view *persistence.View, query endpoint.MessageQuery, state *conversationpb.State) (window, error) {
	switch {
	case query.Before != "":
		key, err := messageKey(view, query.ConversationID, query.Before)
		return window{to: key, descend: true}, err
	case query.After != "":
		key, err := messageKey(view, query.ConversationID, query.After)
		return window{from: append(key, 0)}, err
	case query.Offset >= 0:
		return window{descend: query.Descending, skip: query.Offset}, nil
	}
	// The newest page. Storage steps forward much faster than back, and where no message was ever removed the number of
	// the page's first is known.
	next, limit := state.GetNextMessage(), uint64(query.Limit)
	switch {
	case state.GetMessageCount()+1 != next:
	case next <= limit+1:
		return window{}, nil
	default:
		return window{from: conversation.MessageKey(next - limit), more: true}, nil
	}
	return window{descend: true}, nil
}

// maxMessagePage is the size in bytes at which a page of messages ends although more were asked for: it is held in memory
// whole, and crosses nodes as one.
const maxMessagePage = 16 << 20

func readMessages(view *persistence.View, query endpoint.MessageQuery, w window, page *endpoint.MessagePage) error {
	var fault error
	more, size := false, 0
	page.Messages = make([]*conversationpb.Message, 0, min(query.Limit, 64))
	err := view.Items(query.ConversationID, persistence.ItemQuery{
		Table: conversation.TableMessages, From: w.from, To: w.to, Descending: w.descend, Limit: w.skip + query.Limit + 1,
	}, func(_, value []byte) bool {
		if w.skip > 0 {
			w.skip--
			return true
		}
		size += len(value)
		if len(page.Messages) == query.Limit || size > maxMessagePage && len(page.Messages) > 0 {
			more = true
			return false
		}
		message := &conversationpb.Message{}
		if fault = proto.Unmarshal(value, message); fault != nil {
			return false
		}
		page.Messages = append(page.Messages, message)
		return true
	})
	if err = errors.Join(err, fault); err != nil {
		return readFault("read messages", err)
	}
	newest := query.Before == "" && query.After == "" && query.Offset < 0
	if newest && more && !w.descend {
		// What was cut off is the end that was asked for.
		return readMessages(view, query, window{descend: true}, page)
	}
	if w.descend != query.Descending {
		slices.Reverse(page.Messages)
	}
	if w.more {
		page.HasMoreBefore = true
		return nil
	}
	around(page, query, w.descend, more)
	return nil
}

// around says whether older and newer messages exist beside the page.
func around(page *endpoint.MessagePage, query endpoint.MessageQuery, descend, more bool) {
	switch {
	case query.Before != "":
		page.HasMoreBefore, page.HasMoreAfter = more, true
	case query.After != "":
		page.HasMoreBefore, page.HasMoreAfter = true, more
	case descend:
		page.HasMoreBefore, page.HasMoreAfter = more, query.Offset > 0
	default:
		page.HasMoreBefore, page.HasMoreAfter = query.Offset > 0, more
	}
}

// maxEventPage is the size in bytes at which a page of events ends although more were asked for.
const maxEventPage = 4 << 20

// Events returns a page of the event log.
func (r *reader) Events(ctx context.Context, query endpoint.EventQuery) (*endpoint.EventPage, error) {
	view, head, err := r.view(ctx, query.ConversationID)
	if err != nil {
		return nil, err
	}
	defer func() { _ = view.Close() }() // the same
	page := &endpoint.EventPage{LastSeq: head.Seq}
	var fault error
	size := 0
	err = view.Events(query.ConversationID, query.After, 0, func(_ uint64, value []byte) bool {
		event := &conversationpb.Event{}
		if fault = proto.Unmarshal(value, event); fault != nil {
			return false
		}
		kind := event.PublicType()
		if kind == "" || (len(query.Types) > 0 && !slices.Contains(query.Types, kind)) {
			return true
		}
		if size += len(value); len(page.Events) == query.Limit || size > maxEventPage && len(page.Events) > 0 {
			page.HasMore = true
			return false
		}
		page.Events = append(page.Events, event)
		return true
	})
	if err = errors.Join(err, fault); err != nil {
		return nil, readFault("read events", err)
	}
	return page, nil
}

// Before visits a conversation's messages older than a number, newest first: the turn runner's history.
func (r *reader) Before(ctx context.Context, conversationID string, number uint64, visit func(*conversationpb.Message) (more bool)) error {
	group, refused := r.group(conversationID)
	if refused != nil {
		return refused
	}
	view, err := r.store.View(ctx, group)
	if err != nil {
		return readFault("open view", err)
	}
	defer func() { _ = view.Close() }() // a snapshot is given back; there is nothing to lose
	var fault error
	err = view.Items(conversationID, persistence.ItemQuery{
		Table: conversation.TableMessages, To: binary.BigEndian.AppendUint64(nil, number), Descending: true,
	}, func(_, value []byte) bool {
		message := &conversationpb.Message{}
		if fault = proto.Unmarshal(value, message); fault != nil {
			return false
		}
		return visit(message)
	})
	if err = errors.Join(err, fault); err != nil {
		return readFault("read messages", err)
	}
	return nil
}

package conversation

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/attachment"
	"parley/actors/core/failure"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

// Queries are the reads of conversations.
func Queries() []kit.Query {
	return []kit.Query{
		kit.Peek(func(state *conversationpb.State, _ *nodepb.StateQuery) (*nodepb.StateReply, error) {
			return &nodepb.StateReply{State: state}, nil
		}),
		kit.Read(readMessages), kit.Read(readMessage), kit.ReadRows(readEvents), kit.Read(readTurns),
		kit.Scan(listConversations), kit.Scan(listSessions), kit.Scan(countSessions), kit.Scan(addUsageUp), kit.Scan(readOverview),
		kit.Scan(readKeptFiles),
		kit.ReadRows(readTokens),
	}
}

// readKeptFiles adds up how many files are kept.
func readKeptFiles(ctx context.Context, from kit.Lists, query *conversationpb.KeptFilesQuery) (*conversationpb.KeptFilesReply, error) {
	files, bytes := attachment.CountsOf(query.GetTenantId(), query.GetProjectId(), query.GetUserId())
	counts, err := from.Counts(ctx, files, bytes)
	if err != nil {
		return nil, err
	}
	return &conversationpb.KeptFilesReply{Files: counts[0], Bytes: counts[1]}, nil
}

// Missing is the failure for a conversation that does not exist, whoever finds out.
func Missing() *machine.Failure {
	return conversationNotFound()
}

func missingMessage() *machine.Failure {
	return failure.New(failurepb.Code_NOT_FOUND, failure.MessageNotFound)
}

// readMessages returns a page of messages and the head of the same moment.
func readMessages(view kit.View, state *conversationpb.State, query *nodepb.MessagesQuery) (*nodepb.MessagesReply, error) {
	page := &nodepb.MessagesReply{State: state}
	if query.GetOffset() > 0 && uint64(query.GetOffset()) >= state.GetMessageCount() {
		return page, nil // and no offset is too large to count with
	}
	window, err := messageWindow(view, query, state)
	if err != nil {
		return nil, err
	}
	return page, fillPage(view, query, window, page)
}

// window is a range of messages as storage reads it: one more than wanted tells whether there are more.
type window struct {
	from, to []byte // [from, to) of message keys, nil = open
	descend  bool   // read from the newer end
	skip     int
	more     bool // older ones are known to exist before from
}

func messageWindow(view kit.View, query *nodepb.MessagesQuery, state *conversationpb.State) (window, error) {
	switch {
	case query.GetBefore() != "":
		key, err := keyOf(view, query.GetId(), query.GetBefore())
		return window{to: key, descend: true}, err
	case query.GetAfter() != "":
		key, err := keyOf(view, query.GetId(), query.GetAfter())
		return window{from: append(key, 0)}, err
	case query.GetOffset() >= 0:
		return window{descend: query.GetDescending(), skip: int(query.GetOffset())}, nil
	}
	// The newest page. Storage steps forward much faster than back, and where no message was ever removed the number of
	// the page's first is known.
	next, limit := state.GetNextMessage(), uint64(query.GetLimit())
	switch {
	case state.GetMessageCount()+1 != next:
	case next <= limit+1:
		return window{}, nil
	default:
		return window{from: MessageKey(next - limit), more: true}, nil
	}
	return window{descend: true}, nil
}

// maxMessagePage is the size in bytes at which a page of messages ends although more were asked for: it is held in memory
// whole, and crosses nodes as one.
const maxMessagePage = 16 << 20

func fillPage(view kit.View, query *nodepb.MessagesQuery, w window, page *nodepb.MessagesReply) error {
	var damage error
	more, size, limit := false, 0, int(query.GetLimit())
	page.Messages = make([]*conversationpb.Message, 0, min(limit, 64))
	err := view.Items(query.GetId(), kit.ItemQuery{
		Table: TableMessages, From: w.from, To: w.to, Descending: w.descend, Limit: w.skip + limit + 1,
	}, func(_, value []byte) bool {
		if w.skip > 0 {
			w.skip--
			return true
		}
		size += len(value)
		if len(page.GetMessages()) == limit || size > maxMessagePage && len(page.GetMessages()) > 0 {
			more = true
			return false
		}
		message := &conversationpb.Message{}
		if damage = proto.Unmarshal(value, message); damage != nil {
			return false
		}
		page.Messages = append(page.Messages, message)
		return true
	})
	if err = errors.Join(err, damage); err != nil {
		return err
	}
	newest := query.GetBefore() == "" && query.GetAfter() == "" && query.GetOffset() < 0
	if newest && more && !w.descend {
		// What was cut off is the end that was asked for.
		return fillPage(view, query, window{descend: true}, page)
	}
	if w.descend != query.GetDescending() {
		slices.Reverse(page.GetMessages())
	}
	if w.more {
		page.MoreBefore = true
		return nil
	}
	around(page, query, w.descend, more)
	return nil
}

// around says whether older and newer messages exist beside the page.
func around(page *nodepb.MessagesReply, query *nodepb.MessagesQuery, descend, more bool) {
	switch {
	case query.GetBefore() != "":
		page.MoreBefore, page.MoreAfter = more, true
	case query.GetAfter() != "":
		page.MoreBefore, page.MoreAfter = true, more
	case descend:
		page.MoreBefore, page.MoreAfter = more, query.GetOffset() > 0
	default:
		page.MoreBefore, page.MoreAfter = query.GetOffset() > 0, more
	}
}

// maxEventPage is the size in bytes at which a page of events ends although more were asked for.
const maxEventPage = 4 << 20

// readEvents returns a page of the event log: public events of the types asked for.
func readEvents(view kit.View, seq uint64, query *nodepb.EventsQuery) (*nodepb.EventsReply, error) {
	page := &nodepb.EventsReply{LastSeq: seq}
	var damage error
	size := 0
	err := view.Events(query.GetId(), query.GetAfter(), func(_ uint64, value []byte) bool {
		event := &conversationpb.Event{}
		if damage = proto.Unmarshal(value, event); damage != nil {
			return false
		}
		kind := event.PublicType()
		if kind == "" || (len(query.GetTypes()) > 0 && !slices.Contains(query.GetTypes(), kind)) {
			return true
		}
		full := len(page.GetEvents()) == int(query.GetLimit())
		if size += len(value); full || size > maxEventPage && len(page.GetEvents()) > 0 {
			page.HasMore = true
			return false
		}
		page.Events = append(page.Events, event)
		return true
	})
	return page, errors.Join(err, damage)
}

// readMessage returns one message with the head of the same moment and, of an answer, the message that it answers.
func readMessage(view kit.View, state *conversationpb.State, query *nodepb.MessageQuery) (*nodepb.MessageReply, error) {
	message, err := messageByID(view, query.GetId(), query.GetMessageId())
	if err != nil {
		return nil, err
	}
	if message == nil {
		return nil, missingMessage()
	}
	reply := &nodepb.MessageReply{State: state, Message: message}
	if answered := message.GetInReplyTo(); answered != "" {
		reply.InReplyTo, err = messageByID(view, query.GetId(), answered)
	}
	return reply, err
}

// messageByID reads a message's row, nil when there is none. A row may have been taken over by another message since: then the id
// is no more.
func messageByID(view kit.View, conversationID, messageID string) (*conversationpb.Message, error) {
	key, found, err := view.Item(conversationID, TableMessageIDs, []byte(messageID))
	if err != nil || !found {
		return nil, err
	}
	message, err := kit.Item[conversationpb.Message](view, conversationID, TableMessages, string(key))
	if err != nil || message.GetId() != messageID {
		return nil, err
	}
	return message, nil
}

// keyOf is the key of a message that exists.
func keyOf(view kit.View, conversationID, messageID string) ([]byte, error) {
	message, err := messageByID(view, conversationID, messageID)
	if err != nil {
		return nil, err
	}
	if message == nil {
		return nil, missingMessage()
	}
	return MessageKey(message.GetNumber()), nil
}

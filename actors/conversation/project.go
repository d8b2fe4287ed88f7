package conversation

import (
	"cmp"
	"encoding/binary"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/attachment"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/logpb"
)

// MessageKey is the key of a message's row: its number, big-endian, so that rows stand in order.
func MessageKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 0, 8), number)
}

// fileChunk is the size of the pieces in which storage keeps a file, in bytes.
const fileChunk = 256 << 10

// project adds the rows that change: messages, the record of an ended run, files, the conversation's places in lists, and
// what was used. A turn of two appends writes 2 rows and 2 list places to begin, and 3 rows, 6 list places and one row of
// usage to end.
func project(was, is *conversationpb.State, events []proto.Message, into *logpb.Append) {
	if is != nil {
		projectItems(was, is, events, into)
		projectFiles(is.GetId(), events, into)
		projectSteps(was, events, into)
	}
	whose := cmp.Or(is, was)
	attachment.Count(whose.GetTenantId(), whose.GetProjectId(), was.GetFiles(), is.GetFiles(), into)
	projectRunning(was, is, into)
	projectDue(was, is, into)
	projectLists(was, is, into)
	projectSessions(was, is, into)
	projectUsage(was, events, into)
}

func projectItems(was, is *conversationpb.State, events []proto.Message, into *logpb.Append) {
	var answer uint64
	var closed bool
	for _, message := range events {
		event, _ := message.(*conversationpb.Event)
		switch body := event.GetBody().(type) {
		case *conversationpb.Event_UserMessage:
			projectMessage(body.UserMessage.GetMessage(), into)
		case *conversationpb.Event_Imported:
			for _, message := range body.Imported.GetMessages() {
				projectMessage(message, into)
			}
		case *conversationpb.Event_AgentMessage:
			answer = body.AgentMessage.GetMessage().GetNumber()
			projectMessage(body.AgentMessage.GetMessage(), into)
		case *conversationpb.Event_TurnPaused:
			answer = body.TurnPaused.GetAnswer().GetNumber()
			projectMessage(body.TurnPaused.GetAnswer(), into)
		case *conversationpb.Event_MessageChanged:
			projectMessage(body.MessageChanged.GetMessage(), into)
		case *conversationpb.Event_Truncated:
			projectTruncated(was, body.Truncated, into)
		case *conversationpb.Event_ActionClosed:
			closed = true
		case *conversationpb.Event_TurnEnded:
			projectRun(was, event, answer, into)
		}
	}
	if paused := turnOf(is).GetAnswer(); closed && answer == 0 && paused != nil {
		projectMessage(withPending(paused, is.GetPending()), into)
	}
}

// projectMessage writes a message at its place, and forgets the id of the one that was there before.
func projectMessage(message *conversationpb.Message, into *logpb.Append) {
	key := MessageKey(message.GetNumber())
	rows := &[2]logpb.Item{
		{Table: TableMessages, Key: key, Value: encode(message)},
		{Table: TableMessageIDs, Key: []byte(message.GetId()), Value: key},
	}
	into.Items = append(into.Items, &rows[0], &rows[1])
	if old := message.GetRegeneratedFrom(); old != "" {
		into.Items = append(into.Items, &logpb.Item{Table: TableMessageIDs, Key: []byte(old), Delete: true})
	}
}

// projectTruncated removes messages from the end. Only the ids of the first one and of the newest answer are known here,
// the others stay: a reader compares the id with the row it leads to.
func projectTruncated(was *conversationpb.State, cut *conversationpb.Truncated, into *logpb.Append) {
	for number := cut.GetFrom(); number < cut.GetFrom()+cut.GetRemoved(); number++ {
		into.Items = append(into.Items, &logpb.Item{Table: TableMessages, Key: MessageKey(number), Delete: true})
	}
	into.Items = append(into.Items, &logpb.Item{Table: TableMessageIDs, Key: []byte(cut.GetMessageId()), Delete: true})
	if last := was.GetLastAnswer(); last.GetId() != "" && last.GetNumber() >= cut.GetFrom() {
		into.Items = append(into.Items, &logpb.Item{Table: TableMessageIDs, Key: []byte(last.GetId()), Delete: true})
	}
}

// projectFiles commits the bytes of files that were added and removes those of files that went. The bytes of a
// conversation that goes are its owner's, and go with it.
func projectFiles(conversation string, events []proto.Message, into *logpb.Append) {
	for _, message := range events {
		event, _ := message.(*conversationpb.Event)
		if file := event.GetFileAdded().GetFile(); file != nil {
			into.Blobs = append(into.Blobs, &logpb.BlobChange{
				Id: file.GetId(), Owner: conversation, Size: file.GetSize(), Record: encode(file),
				Chunks: uint32((file.GetSize() + fileChunk - 1) / fileChunk),
			})
		}
		for _, id := range event.GetFilesRemoved().GetIds() {
			into.Blobs = append(into.Blobs, &logpb.BlobChange{Id: id, Owner: conversation, Delete: true})
		}
	}
}

func projectRun(was *conversationpb.State, event *conversationpb.Event, answer uint64, into *logpb.Append) {
	turn, ended := turnOf(was), event.GetTurnEnded()
	if answer == 0 {
		answer = turn.GetAnswer().GetNumber()
	}
	run := &conversationpb.Run{
		Id:          event.GetRunId(),
		Mode:        turn.GetMode(),
		UserMessage: turn.GetUserMessage().GetNumber(),
		Answer:      answer,
		StopReason:  ended.GetStopReason(),
		Usage:       ended.GetUsage(),
		Error:       ended.GetError(),
		StartedAt:   turn.GetStartedAt(),
		EndedAt:     event.GetCreatedAt(),
		Attempts:    turn.GetAttempt(),
	}
	if turn == nil { // it waits in a state that an older release has written
		run.UserMessage = was.GetLastUserMessage()
	}
	into.Items = append(into.Items, &logpb.Item{Table: TableRuns, Key: []byte(run.GetId()), Value: encode(run)})
}

// encode marshals a row. It fails only on text that is not UTF-8, which no rule lets in; the event that carries the
// same text would have failed before.
func encode(message proto.Message) []byte {
	value, _ := proto.Marshal(message)
	return value
}

func projectRunning(was, is *conversationpb.State, into *logpb.Append) {
	id := cmp.Or(is.GetId(), was.GetId())
	machine.Relist(into, ListRunning, id, was.GetLease().GetStartedAt(), is.GetLease().GetStartedAt())
}

// projectLists moves the conversation from the list places it had to those it has. Tenant, project, owner, agent, source
// and time of creation never change.
func projectLists(was, is *conversationpb.State, into *logpb.Append) {
	if was.GetSource() == SourceTask || is.GetSource() == SourceTask {
		return
	}
	moved := was == nil || is == nil || was.GetPinned() != is.GetPinned()
	if !moved && was.GetUpdatedAt() == is.GetUpdatedAt() {
		return
	}
	for _, one := range []struct {
		state  *conversationpb.State
		delete bool
	}{{was, true}, {is, false}} {
		if one.state == nil {
			continue
		}
		place(one.state, ByUpdated, one.state.GetUpdatedAt(), one.delete, into)
		if !moved {
			continue
		}
		place(one.state, ByCreated, createdScore(one.state), one.delete, into)
		count(one.state, one.delete, into)
	}
}

func place(s *conversationpb.State, order Order, score int64, gone bool, into *logpb.Append) {
	list := ListOf(s, order)
	anyAgent := list.Name()
	list.AgentID = s.GetAgentId()
	rows := &[2]logpb.Listing{
		{List: anyAgent, Score: score, Member: s.GetId(), Delete: gone},
		{List: list.Name(), Score: score, Member: s.GetId(), Delete: gone},
	}
	into.Listings = append(into.Listings, &rows[0], &rows[1])
}

func count(s *conversationpb.State, gone bool, into *logpb.Append) {
	delta := int64(1)
	if gone {
		delta = -1
	}
	list := ListOf(s, ByCreated)
	anyAgent := list.CountName()
	list.AgentID = s.GetAgentId()
	into.Counts = append(into.Counts,
		&logpb.Count{Name: anyAgent, Delta: delta},
		&logpb.Count{Name: list.CountName(), Delta: delta},
	)
}

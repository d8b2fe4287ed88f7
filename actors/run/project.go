package run

import (
	"cmp"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/attachment"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/logpb"
	"parley/proto/runpb"
)

// TableResults holds the marshalled conversationpb.TurnResult of the run under ResultKey.
const TableResults = 1

// ResultKey is the key of the result's row.
const ResultKey = "result"

// ListRunning is the list of the runs that need a driver, by when they were made: what a new owner of the shard must
// activate.
const ListRunning = "run/running"

// ListDue is the list of the runs for which something is to be done at a time, by the earliest such time.
const ListDue = "run/due"

// project adds the rows that change: the result, and the run's places in lists.
func (l Limits) project(was, is *runpb.State, events []proto.Message, into *logpb.Append) {
	projectResult(was, is, events, into)
	whose := cmp.Or(is, was)
	attachment.Count(whose.GetTenantId(), whose.GetProjectId(), filesOf(was), filesOf(is), into)
	id := cmp.Or(is.GetId(), was.GetId())
	machine.Relist(into, ListRunning, id, drivenAt(was), drivenAt(is))
	machine.Relist(into, ListDue, id, l.dueAt(was), l.dueAt(is))
}

// filesOf are the files that a run has for its conversation, until that has them.
func filesOf(s *runpb.State) []*conversationpb.File {
	if s.GetAdmitted() || s.Over() {
		return nil
	}
	return s.GetOpening().GetFiles()
}

func projectResult(was, is *runpb.State, events []proto.Message, into *logpb.Append) {
	var result *conversationpb.TurnResult
	for _, message := range events {
		event, _ := message.(*runpb.Event)
		switch body := event.GetBody().(type) {
		case *runpb.Event_Suspended:
			result = body.Suspended.GetResult()
		case *runpb.Event_Finished:
			result = body.Finished.GetResult()
		}
	}
	switch {
	case is.GetHasResult() && result != nil:
		value, _ := proto.Marshal(result) // the event that carries the same would have failed before
		into.Items = append(into.Items, &logpb.Item{Table: TableResults, Key: []byte(ResultKey), Value: value})
	case is != nil && was.GetHasResult() && !is.GetHasResult():
		into.Items = append(into.Items, &logpb.Item{Table: TableResults, Key: []byte(ResultKey), Delete: true})
	}
}

func drivenAt(s *runpb.State) int64 {
	if !Driven(s) {
		return 0
	}
	return s.GetCreatedAt()
}

// dueAt is the earliest time at which something is to be done, 0 = nothing.
func (l Limits) dueAt(s *runpb.State) int64 {
	at := s.GetCheckAt()
	if Driven(s) {
		at = 0
	}
	for _, call := range s.GetCallback().GetCalls() {
		at = machine.Sooner(at, call.GetNextAt())
	}
	return cmp.Or(at, l.removedAt(s))
}

// removedAt is when a run that is over is removed, 0 = not yet known.
func (l Limits) removedAt(s *runpb.State) int64 {
	if !s.GetSettled() {
		return 0
	}
	return s.GetEndedAt() + l.Keep.Milliseconds()
}

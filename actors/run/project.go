package run

import (
	"google.golang.org/protobuf/proto"

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

// Project adds the rows that change: the result, and the run's places in lists.
func (m *Machine) Project(before, after proto.Message, events []proto.Message, into *logpb.Append) {
	was, _ := before.(*runpb.State)
	is, _ := after.(*runpb.State)
	projectResult(was, is, events, into)
	id := is.GetId()
	if is == nil {
		id = was.GetId()
	}
	move(into, ListRunning, id, drivenAt(was), drivenAt(is))
	move(into, ListDue, id, m.dueAt(was), m.dueAt(is))
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
func (m *Machine) dueAt(s *runpb.State) int64 {
	at := s.GetCheckAt()
	if Driven(s) {
		at = 0
	}
	for _, call := range s.GetCallback().GetCalls() {
		if at == 0 || call.GetNextAt() < at {
			at = call.GetNextAt()
		}
	}
	if at == 0 {
		at = m.removedAt(s)
	}
	return at
}

// removedAt is when a run that is over is removed, 0 = not yet known.
func (m *Machine) removedAt(s *runpb.State) int64 {
	if !s.GetSettled() {
		return 0
	}
	return s.GetEndedAt() + m.limits.Keep.Milliseconds()
}

// move moves a run in a list from the place it had to the one it has; score 0 = none.
func move(into *logpb.Append, list, member string, from, to int64) {
	if from == to {
		return
	}
	if from != 0 {
		into.Listings = append(into.Listings, &logpb.Listing{List: list, Score: from, Member: member, Delete: true})
	}
	if to != 0 {
		into.Listings = append(into.Listings, &logpb.Listing{List: list, Score: to, Member: member})
	}
}

package task

import (
	"cmp"

	"google.golang.org/protobuf/proto"

	"parley/actors/machine"
	"parley/proto/logpb"
	"parley/proto/taskpb"
)

// project adds the rows that change: comments, the result, and the task's places in lists.
func project(was, is *taskpb.State, events []proto.Message, into *logpb.Append) {
	projectItems(was, is, events, into)
	machine.Relist(into, ListRunning, is.GetId(), was.GetRun().GetOpenedAt(), is.GetRun().GetOpenedAt())
	machine.Relist(into, ListDue, is.GetId(), dueAt(was), dueAt(is))
	projectLists(was, is, into)
}

func projectItems(was, is *taskpb.State, events []proto.Message, into *logpb.Append) {
	var result *taskpb.Result
	for _, message := range events {
		event, _ := message.(*taskpb.Event)
		switch body := event.GetBody().(type) {
		case *taskpb.Event_Commented:
			comment := body.Commented.GetComment()
			into.Items = append(into.Items, &logpb.Item{
				Table: TableComments, Key: CommentKey(comment.GetNumber()), Value: encode(comment),
			})
		case *taskpb.Event_RunPaused:
			result = body.RunPaused.GetResult()
		case *taskpb.Event_RunEnded:
			result = body.RunEnded.GetResult()
		}
	}
	switch {
	case is.GetHasResult() && result != nil:
		into.Items = append(into.Items, &logpb.Item{Table: TableResults, Key: []byte(ResultKey), Value: encode(result)})
	case was.GetHasResult() && !is.GetHasResult():
		into.Items = append(into.Items, &logpb.Item{Table: TableResults, Key: []byte(ResultKey), Delete: true})
	}
}

// encode marshals a row. It fails only on text that is not UTF-8, which no rule lets in.
func encode(message proto.Message) []byte {
	value, _ := proto.Marshal(message)
	return value
}

// dueAt is the earliest time at which something is to be done, 0 = nothing.
func dueAt(s *taskpb.State) int64 {
	return machine.Sooner(s.GetCallback().GetNextAt(), s.GetWaiting().GetCheckAt())
}

// projectLists places a new task, and moves one whose state has changed. There is no end of a task.
func projectLists(was, is *taskpb.State, into *logpb.Append) {
	if was.GetStatus() == is.GetStatus() {
		return
	}
	if was != nil {
		_, left := listsOf(was)
		place(was, left, true, into)
	}
	always, entered := listsOf(is)
	if was == nil {
		place(is, always, false, into)
	}
	place(is, entered, false, into)
}

func place(s *taskpb.State, lists []List, gone bool, into *logpb.Append) {
	delta := int64(1)
	if gone {
		delta = -1
	}
	score := cmp.Or(s.GetCreatedMicros(), s.GetCreatedAt()) // the milliseconds of an earlier release stand before all of these
	for _, list := range lists {
		into.Listings = append(into.Listings,
			&logpb.Listing{List: list.Name(), Score: score, Member: s.GetId(), Delete: gone})
		into.Counts = append(into.Counts, &logpb.Count{Name: list.CountName(), Delta: delta})
	}
}

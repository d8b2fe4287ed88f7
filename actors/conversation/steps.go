package conversation

import (
	"cmp"
	"encoding/binary"

	"google.golang.org/protobuf/proto"

	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/logpb"
)

// TableSteps holds marshalled conversationpb.Step by StepKey: what a turn that has not ended has journalled. The runner
// that goes on with the turn begins with them; they go when the turn ends.
const TableSteps = 4

// StepKey is the key of a step's row: the run, and the number of the step, big-endian, so that a run's rows stand in
// order.
func StepKey(run string, number uint32) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, len(run)+8), run...), uint64(number))
}

// turnOf is the turn that is under way or waits, nil = none.
func turnOf(s *conversationpb.State) *conversationpb.Lease {
	if lease := s.GetLease(); lease != nil {
		return lease
	}
	return s.GetPaused()
}

// stepOf is the step that an event makes, nil = none. The events that give a step are those that raise Lease.steps.
func stepOf(event *conversationpb.Event) *conversationpb.Step {
	switch body := event.GetBody().(type) {
	case *conversationpb.Event_ToolUse:
		use := body.ToolUse
		return &conversationpb.Step{Body: &conversationpb.Step_Use{Use: &conversationpb.ToolUse{
			Text: use.GetText(), Calls: use.GetCalls(), Usage: use.GetUsage(), Given: use.GetGiven(),
			State: use.GetState(),
		}}}
	case *conversationpb.Event_ToolResults:
		return &conversationpb.Step{Body: &conversationpb.Step_Results{Results: body.ToolResults}}
	case *conversationpb.Event_TurnOptions:
		return &conversationpb.Step{Body: &conversationpb.Step_Options{Options: body.TurnOptions}}
	case *conversationpb.Event_Partial:
		return &conversationpb.Step{Body: &conversationpb.Step_Partial{Partial: body.Partial}}
	case *conversationpb.Event_ActionClosed:
		if body.ActionClosed.GetResult() == nil {
			return nil
		}
		return &conversationpb.Step{Body: &conversationpb.Step_Results{Results: &conversationpb.ToolResults{
			Results: []*conversationpb.ToolCall{body.ActionClosed.GetResult()},
		}}}
	}
	return nil
}

// projectSteps writes the steps that were journalled, and removes those of a turn that ended, or that a new one
// replaces.
func projectSteps(was *conversationpb.State, events []proto.Message, into *logpb.Append) {
	run, steps := turnOf(was).GetRunId(), turnOf(was).GetSteps()
	for _, message := range events {
		event, _ := message.(*conversationpb.Event)
		if step := stepOf(event); step != nil {
			steps++
			step.Number = steps
			into.Items = append(into.Items, &logpb.Item{Table: TableSteps, Key: StepKey(run, steps), Value: encode(step)})
			continue
		}
		ended := event.GetTurnEnded()
		switch {
		case ended != nil && !ended.GetContinuable(), event.GetTurnStarted() != nil:
			for number := uint32(1); number <= steps; number++ {
				into.Items = append(into.Items, &logpb.Item{Table: TableSteps, Key: StepKey(run, number), Delete: true})
			}
			run, steps = event.GetRunId(), 0
		}
	}
}

// due is when the conversation must be looked at again, 0 = never.
func due(s *conversationpb.State) int64 {
	var at int64
	for _, action := range s.GetPending() {
		at = machine.Sooner(at, action.GetExpiresAt())
	}
	for _, file := range s.GetFiles() {
		at = machine.Sooner(at, file.GetExpiresAt())
	}
	for _, push := range s.GetPushes() {
		at = machine.Sooner(at, push.GetDelivery().GetNextAt())
	}
	return at
}

func projectDue(was, is *conversationpb.State, into *logpb.Append) {
	machine.Relist(into, ListDue, cmp.Or(is.GetId(), was.GetId()), due(was), due(is))
}

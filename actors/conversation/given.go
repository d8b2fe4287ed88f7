package conversation

import (
	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// Bounds of what comes along with a message. All of it is one append, and crosses nodes in one command.
const (
	maxEarlier      = 1000      // messages
	maxGiven        = 256       // tool uses
	maxGivenBytes   = 2 << 20   // messages and tool uses
	maxOptionsBytes = 256 << 10 // marshalled TurnOptions
)

// checkGiven bounds what comes along with a message.
func (r *request) checkGiven(c *conversationpb.Send) *machine.Failure {
	if len(c.GetEarlier()) > maxEarlier || len(c.GetGiven()) > maxGiven {
		return failure.New(failurepb.Code_VALIDATION, failure.TooManyEarlierMessages).Param("messages", maxEarlier).Param("rounds", maxGiven)
	}
	size := 0
	for _, message := range c.GetEarlier() {
		if len(message.GetContent()) > r.limits.MessageBytes {
			return failure.New(failurepb.Code_VALIDATION, failure.EarlierMessageTooLong).Param("most", r.limits.MessageBytes)
		}
		if message.GetRole() != conversationpb.Role_USER && message.GetRole() != conversationpb.Role_ASSISTANT {
			return failure.New(failurepb.Code_VALIDATION, failure.BadEarlierRole)
		}
		if f := r.checkGivenCalls(message.GetToolCalls()); f != nil {
			return f
		}
		size += proto.Size(message)
	}
	for _, use := range c.GetGiven() {
		if len(use.GetCalls()) == 0 {
			return failure.New(failurepb.Code_VALIDATION, failure.EmptyToolRound)
		}
		if f := r.checkGivenCalls(use.GetCalls()); f != nil {
			return f
		}
		size += proto.Size(use)
	}
	if size > maxGivenBytes {
		return failure.New(failurepb.Code_VALIDATION, failure.EarlierMessagesTooLarge).Param("most", maxGivenBytes)
	}
	return checkOptions(c.GetOptions())
}

func (r *request) checkGivenCalls(calls []*conversationpb.ToolCall) *machine.Failure {
	for _, call := range calls {
		if call.GetId() == "" || call.GetName() == "" {
			return failure.New(failurepb.Code_VALIDATION, failure.ToolCallUnnamed)
		}
		if limit := r.limits.ClientToolOutputBytes; max(len(call.GetResult()), len(call.GetError()), len(call.GetArguments())) > limit {
			return failure.New(failurepb.Code_INVALID_CLIENT_TOOL_RESULT, failure.ToolCallTooLarge).Param("most", limit)
		}
	}
	return nil
}

func checkOptions(options *conversationpb.TurnOptions) *machine.Failure {
	switch encoded, err := proto.Marshal(options); {
	case err != nil:
		return failure.New(failurepb.Code_VALIDATION, failure.TurnSettingsNotUTF8)
	case len(encoded) > maxOptionsBytes:
		return failure.New(failurepb.Code_VALIDATION, failure.TurnSettingsTooLarge).Param("most", maxOptionsBytes)
	}
	return nil
}

// earlier makes messages of those that were said before the one to send, elsewhere. Their numbers are given when they are stored.
func (r *request) earlier(given []*conversationpb.Message) ([]*conversationpb.Message, *machine.Failure) {
	messages := make([]*conversationpb.Message, len(given))
	asked := "" // id of the newest message of the user
	for i, said := range given {
		message := &conversationpb.Message{
			Id: r.Env.NewID("msg"), Role: said.GetRole(),
			Content: clean(said.GetContent()), ToolCalls: cleanCalls(said.GetToolCalls()), CreatedAt: r.Now, UpdatedAt: r.Now,
		}
		if said.GetRole() == conversationpb.Role_USER {
			ids := make([]string, len(said.GetFiles()))
			for j, file := range said.GetFiles() {
				ids[j] = file.GetId()
			}
			var f *machine.Failure
			if message.Files, f = r.fileRefs(ids); f != nil {
				return nil, f
			}
			asked = message.GetId()
		} else {
			message.Status, message.StopReason, message.InReplyTo = statusCompleted, conversationpb.StopReason_END_TURN, asked
		}
		messages[i] = message
	}
	return messages, nil
}

// importEarlier stores such messages.
func (r *request) importEarlier(messages []*conversationpb.Message) {
	if len(messages) == 0 {
		return
	}
	imported := &conversationpb.Imported{Messages: make([]*conversationpb.Message, len(messages))}
	for i, message := range messages {
		imported.Messages[i] = proto.CloneOf(message)
		imported.Messages[i].Number = r.state.GetNextMessage() + uint64(i)
	}
	r.emit("", &conversationpb.Event{Body: &conversationpb.Event_Imported{Imported: imported}})
	r.made = r.LastSeq()
}

// given journals, at the begin of a turn, what its caller sets for it, and what the model asked for elsewhere, with what that
// came to: the turn goes on from there.
func (r *request) given(run string, uses []*conversationpb.ToolUse, options *conversationpb.TurnOptions) {
	if options != nil {
		r.setOptions(run, options)
	}
	for _, use := range uses {
		given, results := &conversationpb.ToolUse{Text: clean(use.GetText()), Given: true}, &conversationpb.ToolResults{}
		for _, call := range cleanCalls(use.GetCalls()) {
			given.Calls = append(given.Calls, &conversationpb.ToolCall{Id: call.GetId(), Name: call.GetName(), Arguments: call.GetArguments()})
			results.Results = append(results.Results, &conversationpb.ToolCall{
				Id: call.GetId(), Name: call.GetName(), Result: call.GetResult(), Error: call.GetError(),
			})
			given.Open = append(given.Open, &conversationpb.OpenCall{Id: call.GetId(), Name: call.GetName(), Need: conversationpb.Need_CLIENT})
		}
		r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_ToolUse{ToolUse: given}})
		r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_ToolResults{ToolResults: results}})
	}
}

// cleanUses makes text from elsewhere storable.
func cleanUses(uses []*conversationpb.ToolUse) []*conversationpb.ToolUse {
	cleaned := make([]*conversationpb.ToolUse, len(uses))
	for i, use := range uses {
		cleaned[i] = &conversationpb.ToolUse{Text: clean(use.GetText()), Calls: cleanCalls(use.GetCalls())}
	}
	return cleaned
}

// givenSteps is how many steps given makes.
func givenSteps(uses []*conversationpb.ToolUse, options *conversationpb.TurnOptions) uint32 {
	steps := uint32(2 * len(uses))
	if options != nil {
		steps++
	}
	return steps
}

func (r *request) setOptions(run string, options *conversationpb.TurnOptions) {
	r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_TurnOptions{TurnOptions: options}})
}

// imported adds messages of elsewhere. The lease is not theirs.
func imported(next *conversationpb.State, event *conversationpb.Event, messages []*conversationpb.Message) {
	for _, message := range messages {
		addMessage(next, event, message)
		if message.GetRole() == conversationpb.Role_USER {
			next.LastUserMessage = message.GetNumber()
			continue
		}
		answered(next, message)
	}
	next.UpdatedAt = max(next.GetUpdatedAt(), event.GetCreatedAt())
}

// turnOptions counts the step; only its row holds the options.
func turnOptions(next *conversationpb.State) {
	if next.GetLease() == nil {
		turn := forkLease(next.GetPaused())
		turn.Steps++
		next.Paused = turn
		return
	}
	lease := forkLease(next.GetLease())
	lease.Steps++
	next.Lease = lease
}

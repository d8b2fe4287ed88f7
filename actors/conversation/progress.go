package conversation

import (
	"bytes"
	"encoding/json"
	"slices"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// progress journals what a turn must not lose before its runner goes on: that the model asked for tools, and what each
// of them came to. When nothing is left for the runner to do before a person has acted, the same append pauses the turn.
func (r *request) progress(c *conversationpb.Progress) *machine.Failure {
	if reply := r.journalled(c); reply != nil {
		return r.reply(reply)
	}
	if f := r.holds(c.GetRunId(), c.GetEpoch()); f != nil {
		return f
	}
	switch body := c.GetBody().(type) {
	case *conversationpb.Progress_Reserve:
		r.reserve(body.Reserve)
		return nil
	case *conversationpb.Progress_Doubt:
		r.doubt(c, body.Doubt)
		return nil
	}
	if c.GetStep() != r.state.GetLease().GetSteps()+1 {
		return failure.New(failurepb.Code_STALE_TURN, failure.StepOutOfOrder)
	}
	switch body := c.GetBody().(type) {
	case *conversationpb.Progress_Use:
		return r.journalUse(c, body.Use)
	case *conversationpb.Progress_Results:
		r.journalResults(c, body.Results)
		return nil
	}
	return failure.New(failurepb.Code_VALIDATION, failure.EmptyProgress)
}

// holds refuses a runner whose run is not, or not any more, the one under way.
func (r *request) holds(run string, epoch uint64) *machine.Failure {
	lease := r.state.GetLease()
	if lease == nil || lease.GetRunId() != run || epoch != 0 && epoch != lease.GetEpoch() {
		return leaseLost(r.step)
	}
	return nil
}

func leaseLost(*step) *machine.Failure {
	return failure.New(failurepb.Code_STALE_TURN, failure.TurnLeaseLost)
}

// journalled answers a progress that came before and was stored, nil = it was not. Its runner may not have heard that
// the turn was paused with it, nor that others have let it go on since: then it must end.
func (r *request) journalled(c *conversationpb.Progress) *conversationpb.Reply {
	lease, turn := r.state.GetLease(), turnOf(r.state)
	waits := r.state.GetStatus() == conversationpb.Status_WAITING
	if turn.GetRunId() == "" || turn.GetRunId() != c.GetRunId() || lease == nil && !waits {
		return nil
	}
	if c.GetDoubt() != nil && waits {
		return progressedReply(turn, true)
	}
	if c.GetUse() == nil && c.GetResults() == nil || c.GetStep() == 0 || c.GetStep() > turn.GetSteps() {
		return nil
	}
	paused := waits || c.GetStep() <= lease.GetResumedAt()
	if !paused && c.GetEpoch() != 0 && c.GetEpoch() != lease.GetEpoch() {
		return nil
	}
	return progressedReply(turn, paused)
}

func (r *request) journalUse(c *conversationpb.Progress, use *conversationpb.ToolUse) *machine.Failure {
	calls, usage := cleanCalls(use.GetCalls()), sane(use.GetUsage())
	if len(calls) == 0 || len(calls) != len(use.GetOpen()) {
		return failure.New(failurepb.Code_VALIDATION, failure.ToolUseIncomplete)
	}
	for _, call := range r.state.GetLease().GetCalls() {
		if !call.GetDone() { // its result would have no place any more
			return failure.New(failurepb.Code_VALIDATION, failure.ToolCallsOpen)
		}
	}
	open := make([]*conversationpb.OpenCall, len(calls))
	for i, call := range calls {
		if open[i] = r.opened(call, use.GetOpen()[i]); open[i] == nil {
			return failure.New(failurepb.Code_VALIDATION, failure.BadNewCall)
		}
	}
	run := c.GetRunId()
	r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_ToolUse{ToolUse: &conversationpb.ToolUse{
		Text: clean(use.GetText()), Calls: calls, Usage: usage, Open: open, State: use.GetState(),
	}}})
	r.settled(run, usage)
	r.progressed(c)
	return nil
}

// opened is a call as the head keeps it. An approval that was given for the conversation needs no other, unless a
// shield asks for it.
func (r *request) opened(call *conversationpb.ToolCall, judged *conversationpb.OpenCall) *conversationpb.OpenCall {
	open := &conversationpb.OpenCall{
		Id: call.GetId(), Name: call.GetName(), Need: judged.GetNeed(), Idempotent: judged.GetIdempotent(),
		OfCaller: judged.GetOfCaller(), Blocked: clean(judged.GetBlocked()), Guarded: judged.GetGuarded(),
	}
	switch open.GetNeed() {
	case conversationpb.Need_RUN:
		return open
	case conversationpb.Need_APPROVAL:
		if !open.GetGuarded() && slices.Contains(r.state.GetRememberedTools(), open.GetName()) {
			open.Need = conversationpb.Need_RUN
			return open
		}
	case conversationpb.Need_QUESTION, conversationpb.Need_CLIENT:
	default:
		return nil
	}
	open.Args, open.Details = shown(judged.GetArgs(), call), compact(judged.GetDetails())
	if open.GetNeed() == conversationpb.Need_APPROVAL {
		open.Schema = judged.GetSchema() // nobody else may set arguments
	}
	open.ActionTimeoutMs = judged.GetActionTimeoutMs()
	return open
}

// shown are the arguments as a person is shown them: one line of JSON, or nil if they are none.
func shown(args []byte, call *conversationpb.ToolCall) []byte {
	if len(args) == 0 {
		args = []byte(call.GetArguments())
	}
	if len(args) == 0 {
		return []byte("{}")
	}
	return compact(args)
}

// compact is a JSON text on one line, nil if it is none.
func compact(raw []byte) []byte {
	var line bytes.Buffer
	if len(raw) == 0 || !json.Valid(raw) || json.Compact(&line, raw) != nil {
		return nil
	}
	return bytes.ToValidUTF8(line.Bytes(), []byte("\uFFFD"))
}

func (r *request) journalResults(c *conversationpb.Progress, given *conversationpb.ToolResults) {
	var results []*conversationpb.ToolCall
	for _, result := range cleanCalls(given.GetResults()) {
		if runnable(r.state.GetLease().GetCalls(), result.GetId()) {
			results = append(results, result)
		}
	}
	if len(results) > 0 {
		r.emit(c.GetRunId(), &conversationpb.Event{Body: &conversationpb.Event_ToolResults{
			ToolResults: &conversationpb.ToolResults{Results: results, Images: imagesOf(results, given.GetImages())},
		}})
	}
	r.progressed(c)
}

// imagesOf are the images of results that are journalled: as many as a runner keeps.
func imagesOf(results []*conversationpb.ToolCall, given []*conversationpb.ResultImage) (images []*conversationpb.ResultImage) {
	for _, one := range given {
		of := func(result *conversationpb.ToolCall) bool { return result.GetId() == one.GetCallId() }
		if len(images) < maxResultImages && len(one.GetFile().GetId()) <= maxFileName && slices.ContainsFunc(results, of) {
			images = append(images, &conversationpb.ResultImage{CallId: one.GetCallId(), File: &conversationpb.FileRef{
				Id: clean(one.GetFile().GetId()), MimeType: clean(one.GetFile().GetMimeType()), Size: one.GetFile().GetSize(),
			}})
		}
	}
	return images
}

// maxResultImages bounds the images of a step.
const maxResultImages = 8

// runnable says that the runner may still bring the call's result.
func runnable(calls []*conversationpb.OpenCall, id string) bool {
	return slices.ContainsFunc(calls, func(call *conversationpb.OpenCall) bool {
		return call.GetId() == id && !call.GetDone() && call.GetNeed() == conversationpb.Need_RUN
	})
}

// doubt pauses a recovered turn for the calls that may have run and must not run twice, once nothing else is left to
// run. It journals nothing else: a runner that comes after this one finds the same doubt.
func (r *request) doubt(c *conversationpb.Progress, doubt *conversationpb.Doubt) {
	calls := r.state.GetLease().GetCalls()
	for _, doubted := range doubt.GetCalls() {
		calls = changeCall(calls, doubted.GetId(), func(call *conversationpb.OpenCall) {
			// In its first attempt nothing can have run: who doubts has not heard that a person has decided.
			lost := call.GetNeed() == conversationpb.Need_RUN && r.state.GetLease().GetAttempt() > 1
			if call.GetNeed() != conversationpb.Need_OUTCOME && !lost {
				return
			}
			call.Need = conversationpb.Need_OUTCOME
			if len(call.GetArgs()) == 0 { // else a person had set them
				call.Args = doubted.GetArgs()
			}
			call.Schema, call.Details = nil, compact(doubted.GetDetails())
			call.ActionTimeoutMs = doubted.GetActionTimeoutMs()
		})
	}
	r.onward(c, r.state, calls)
}

// progressed tells the runner how it goes on after what was journalled.
func (r *request) progressed(c *conversationpb.Progress) {
	after := r.State()
	r.onward(c, after, after.GetLease().GetCalls())
}

// onward pauses the turn when only people can move it. One that is being cancelled is not paused: its runner is about to
// report.
func (r *request) onward(c *conversationpb.Progress, s *conversationpb.State, calls []*conversationpb.OpenCall) {
	if !s.GetLease().GetCancelling() && stuck(calls) {
		r.pause(c, calls)
		return
	}
	r.Decision.Reply = &conversationpb.Reply{Body: &conversationpb.Reply_Progressed{
		Progressed: &conversationpb.Progressed{Steps: s.GetLease().GetSteps(), Calls: calls},
	}}
}

// stuck says that calls are open and the runner can do none of them.
func stuck(calls []*conversationpb.OpenCall) bool {
	open := false
	for _, call := range calls {
		if call.GetDone() {
			continue
		}
		if call.GetNeed() == conversationpb.Need_RUN {
			return false
		}
		open = true
	}
	return open
}

func progressedReply(turn *conversationpb.Lease, paused bool) *conversationpb.Reply {
	return &conversationpb.Reply{Body: &conversationpb.Reply_Progressed{Progressed: &conversationpb.Progressed{
		Steps: turn.GetSteps(), Paused: paused, Calls: turn.GetCalls(),
	}}}
}

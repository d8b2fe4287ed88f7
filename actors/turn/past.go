package turn

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"parley/actors/turn/model"
	"parley/proto/conversationpb"
)

// goOn asks a model to take up an answer that the budget cut.
const goOn = "Continue exactly where you stopped."

// recall reads back what the turn has journalled, so that nothing of it is done again: what the model said and asked for,
// and what that came to. Without it the turn knows nothing of what it said: it reports nothing in its place.
func (k *talk) recall(steps []*conversationpb.Step) {
	for _, step := range steps {
		switch body := step.GetBody().(type) {
		case *conversationpb.Step_Use:
			k.recallUse(step.GetNumber(), body.Use)
		case *conversationpb.Step_Results:
			k.recallResults(body.Results)
		case *conversationpb.Step_Partial:
			k.recallPartial(body.Partial)
		}
		if step.GetNumber() <= k.run.job.ResumedAt {
			k.before = k.whole.String()
		}
		k.steps = step.GetNumber()
	}
	if since := k.whole.String()[len(k.before):]; since != "" {
		k.run.output.Write(since)
	}
}

// journalled is all that the turn has journalled, nil = nothing.
func (k *talk) journalled(ctx context.Context) ([]*conversationpb.Step, error) {
	job := k.run.job
	if job.Steps == 0 {
		return nil, nil
	}
	steps, err := k.readSteps(ctx)
	if err == nil && (len(steps) != int(job.Steps) || steps[len(steps)-1].GetNumber() != job.Steps) {
		err = fmt.Errorf("the turn has %d steps, and %d are there", job.Steps, len(steps))
	}
	if err != nil {
		return nil, &model.Error{Code: "internal_error", Message: "The turn could not be taken up again.", Err: err}
	}
	return steps, nil
}

// readSteps reads for as long as a report may take: a storage that stumbles for a moment does not end the turn.
func (k *talk) readSteps(ctx context.Context) (steps []*conversationpb.Step, err error) {
	bounded, cancel := context.WithTimeout(ctx, k.runner.config.ReportTimeout)
	defer cancel()
	job := k.run.job
	var last error
	err = k.runner.persist(bounded, func(ctx context.Context) error {
		steps, last = k.runner.config.History.Steps(ctx, job.ConversationID, job.RunID)
		return last
	})
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("read steps: %w", cmp.Or(last, err))
	}
	return steps, nil
}

func (k *talk) recallUse(number uint32, use *conversationpb.ToolUse) {
	k.sayRecalled()
	k.knowIDs()
	k.recallText(use.GetText())
	k.newestText, k.newestGiven = use.GetText(), use.GetGiven()
	for index, call := range use.GetCalls() {
		k.calls = append(k.calls, call)
		k.ids[call.GetId()] = true
		k.size += len(call.GetArguments())
		k.newest = append(k.newest, &toolCall{at: len(k.calls) - 1, key: k.key(number, index)})
	}
}

func (k *talk) recallResults(results *conversationpb.ToolResults) {
	for _, result := range results.GetResults() {
		for _, c := range k.newest {
			if c.done || k.calls[c.at].GetId() != result.GetId() {
				continue
			}
			k.change(c, func(record *conversationpb.ToolCall) {
				record.Result, record.Error, record.TookMs = result.GetResult(), result.GetError(), result.GetTookMs()
				if result.GetArguments() != "" {
					record.Arguments = result.GetArguments()
				}
			})
			k.size += len(result.GetResult()) + len(result.GetError())
			c.done = true
		}
	}
}

func (k *talk) recallPartial(partial *conversationpb.Partial) {
	k.sayRecalled()
	k.request.Step++
	if partial.GetText() == "" {
		return
	}
	k.recallText(partial.GetText())
	k.joins = true
	k.request.Messages = append(k.request.Messages,
		model.Message{Role: model.Assistant, Content: partial.GetText()}, model.Message{Role: model.User, Content: goOn})
}

// recallText adds what one model call said to the turn's text.
func (k *talk) recallText(text string) {
	if text != "" && k.whole.Len() > 0 && !k.joins {
		k.whole.WriteString(separator)
	}
	k.whole.WriteString(text)
	if text != "" {
		k.joins = false
	}
	k.length = k.whole.Len()
}

// sayRecalled ends the step before.
func (k *talk) sayRecalled() {
	if k.newest != nil {
		k.sayNewest()
	}
}

// resume sees to the calls of the newest step that have no result yet, as the conversation sees them by now: a person may
// have approved one, or other arguments. One that a lost runner may have run is run again only if that does no harm, with
// the same key; else a person decides.
func (k *talk) resume(life, ctx context.Context) *ending {
	if k.newest == nil {
		return nil
	}
	calls := k.run.job.Calls
	doubt := k.rejudge(ctx, calls)
	if ctx.Err() != nil {
		return &ending{err: context.Cause(ctx)}
	}
	if len(doubt.GetCalls()) > 0 {
		reply, err := k.journal(life, &conversationpb.Progress{
			Content: k.whole.String(), ToolCalls: slices.Clone(k.calls),
			Body: &conversationpb.Progress_Doubt{Doubt: doubt},
		})
		if err != nil {
			return &ending{err: err}
		}
		if reply.GetPaused() {
			return &ending{paused: true}
		}
		calls = reply.GetCalls()
	}
	return k.complete(ctx, calls)
}

// rejudge makes the open calls ready to be run, and names those that are in doubt.
func (k *talk) rejudge(ctx context.Context, calls []*conversationpb.OpenCall) *conversationpb.Doubt {
	doubt := &conversationpb.Doubt{}
	for _, c := range k.newest {
		if c.done {
			continue
		}
		judged := k.judge(ctx, c.at, c.key)
		c.tool, c.args, c.details, c.problem, c.open = judged.tool, judged.args, judged.details, judged.problem, judged.open
		known := find(calls, c.open.GetId())
		if !k.inDoubt(known) {
			continue
		}
		args := known.GetArgs()
		if len(args) == 0 {
			args = []byte(k.calls[c.at].GetArguments())
		}
		open := &conversationpb.OpenCall{
			Id: c.open.GetId(), Name: c.open.GetName(), Need: conversationpb.Need_OUTCOME, Args: args, Details: c.details,
		}
		if c.tool != nil {
			open.Schema, open.ActionTimeoutMs = c.tool.Schema, c.tool.Policy.GetActionTimeoutMs()
		}
		doubt.Calls = append(doubt.Calls, open)
	}
	return doubt
}

// inDoubt says that a call may have run and must not be run again without a person. The rules mark those that a lost
// runner had before it; what this one's own attempt has begun is not in doubt.
func (k *talk) inDoubt(call *conversationpb.OpenCall) bool {
	switch {
	case call == nil || call.GetDone():
		return false
	case call.GetNeed() == conversationpb.Need_OUTCOME:
		return true
	}
	return k.run.job.Attempt > 1 && call.GetNeed() == conversationpb.Need_RUN && !call.GetIdempotent()
}

// find returns the call of that id, nil = there is none.
func find(calls []*conversationpb.OpenCall, id string) *conversationpb.OpenCall {
	for _, call := range calls {
		if call.GetId() == id {
			return call
		}
	}
	return nil
}

// catchUp reads results that the rules themselves gave: of calls that they would not put before a person.
func (k *talk) catchUp(ctx context.Context, calls []*conversationpb.OpenCall) error {
	known := true
	for _, c := range k.newest {
		known = known && (c.done || !find(calls, k.calls[c.at].GetId()).GetDone())
	}
	if known {
		return nil
	}
	steps, err := k.readSteps(ctx)
	if err != nil {
		return err
	}
	for _, step := range steps {
		k.recallResults(step.GetResults())
	}
	return nil
}

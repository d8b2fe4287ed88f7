package turn

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"parley/actors/turn/model"
	"parley/proto/conversationpb"
)

// goOn asks a model to continue an answer that the budget cut off.
const goOn = "Continue exactly where you stopped."

// recall restores the turn from its journalled steps, so that none is done again: the model's text and tool calls, and
// their results.
func (l *modelLoop) recall(ctx context.Context, steps []*conversationpb.Step) {
	for _, step := range steps {
		switch body := step.GetBody().(type) {
		case *conversationpb.Step_Use:
			l.recallUse(step.GetNumber(), body.Use)
		case *conversationpb.Step_Results:
			l.recallResults(ctx, body.Results)
		case *conversationpb.Step_Partial:
			l.recallPartial(body.Partial)
		}
		if step.GetNumber() <= l.run.job.ResumedAt {
			l.text.before = l.text.whole.String()
		}
		l.steps = step.GetNumber()
	}
	if since := l.text.whole.String()[len(l.text.before):]; since != "" {
		l.run.output.Write(since)
	}
}

// journalled reads the turn's steps, nil = it has none.
func (l *modelLoop) journalled(ctx context.Context) ([]*conversationpb.Step, error) {
	job := l.run.job
	if job.Steps == 0 {
		return nil, nil
	}
	steps, err := l.readSteps(ctx)
	if err == nil && (len(steps) != int(job.Steps) || steps[len(steps)-1].GetNumber() != job.Steps) {
		err = fmt.Errorf("the turn has %d steps, and %d are there", job.Steps, len(steps))
	}
	if err != nil {
		return nil, &model.Error{Code: "internal_error", Message: "The turn could not be taken up again.", Err: err}
	}
	return steps, nil
}

// readSteps retries for as long as a report may take, so that a short storage outage does not end the turn.
func (l *modelLoop) readSteps(ctx context.Context) (steps []*conversationpb.Step, err error) {
	bounded, cancel := context.WithTimeout(ctx, l.runner.config.ReportTimeout)
	defer cancel()
	job := l.run.job
	var last error
	err = l.runner.persist(bounded, func(ctx context.Context) error {
		steps, last = l.runner.config.History.Steps(ctx, job.ConversationID, job.RunID)
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

func (l *modelLoop) recallUse(number uint32, use *conversationpb.ToolUse) {
	l.endRecalled()
	l.knowIDs()
	l.recallText(use.GetText())
	l.tools.newestText, l.tools.newestState, l.tools.newestGiven = use.GetText(), use.GetState(), use.GetGiven()
	for index, call := range use.GetCalls() {
		l.tools.calls = append(l.tools.calls, call)
		l.tools.ids[call.GetId()] = true
		l.tools.size += len(call.GetArguments())
		l.tools.newest = append(l.tools.newest, &toolCall{at: len(l.tools.calls) - 1, key: l.key(number, index)})
	}
}

func (l *modelLoop) recallResults(ctx context.Context, results *conversationpb.ToolResults) {
	for _, result := range results.GetResults() {
		for _, c := range l.tools.newest {
			if c.done || l.tools.calls[c.at].GetId() != result.GetId() {
				continue
			}
			l.change(c, func(record *conversationpb.ToolCall) {
				record.Result, record.Error, record.TookMs = result.GetResult(), result.GetError(), result.GetTookMs()
				if result.GetArguments() != "" {
					record.Arguments = result.GetArguments()
				}
			})
			l.tools.size += len(result.GetResult()) + len(result.GetError())
			c.done = true
			l.recallImages(ctx, c, results.GetImages())
		}
	}
}

func (l *modelLoop) recallPartial(partial *conversationpb.Partial) {
	l.endRecalled()
	l.request.Step++
	if partial.GetText() == "" {
		return
	}
	l.recallText(partial.GetText())
	l.text.joins = true
	l.request.Messages = append(l.request.Messages,
		model.Message{Role: model.Assistant, Content: partial.GetText()}, model.Message{Role: model.User, Content: goOn})
}

// recallText adds the text of one model call to the turn's text.
func (l *modelLoop) recallText(text string) {
	if text != "" && l.text.whole.Len() > 0 && !l.text.joins {
		l.text.whole.WriteString(separator)
	}
	l.text.whole.WriteString(text)
	if text != "" {
		l.text.joins = false
	}
	l.text.length = l.text.whole.Len()
}

// endRecalled ends the step before.
func (l *modelLoop) endRecalled() {
	if l.tools.newest != nil {
		l.showResults()
	}
}

// resume completes the calls of the newest step that have no result yet, in the conversation's present view: a person may
// have approved a call or changed its arguments. A call that a lost runner may have run is run again, with the same key, only
// if it is idempotent; otherwise a person decides.
func (l *modelLoop) resume(life, ctx context.Context) *ending {
	if l.tools.newest == nil {
		return nil
	}
	calls := l.run.job.Calls
	doubt := l.rejudge(ctx, calls)
	if ctx.Err() != nil {
		return &ending{err: context.Cause(ctx)}
	}
	if len(doubt.GetCalls()) > 0 {
		reply, err := l.journal(life, &conversationpb.Progress{
			Content: l.text.whole.String(), ToolCalls: slices.Clone(l.tools.calls),
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
	return l.complete(ctx, calls)
}

// rejudge makes the open calls ready to be run, and names those that are in doubt.
func (l *modelLoop) rejudge(ctx context.Context, calls []*conversationpb.OpenCall) *conversationpb.Doubt {
	doubt := &conversationpb.Doubt{}
	for _, c := range l.tools.newest {
		if c.done {
			continue
		}
		judged := l.judge(ctx, c.at, c.key)
		c.tool, c.args, c.details, c.problem, c.open = judged.tool, judged.args, judged.details, judged.problem, judged.open
		known := find(calls, c.open.GetId())
		l.shielded.resumed(ctx, c, known)
		if !l.inDoubt(known) {
			continue
		}
		args := known.GetArgs()
		if len(args) == 0 {
			args = []byte(l.tools.calls[c.at].GetArguments())
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

// inDoubt reports whether a call may have run and must not be run again without a person's decision. The rules mark the
// calls of lost runners; calls that this attempt has started are not in doubt.
func (l *modelLoop) inDoubt(call *conversationpb.OpenCall) bool {
	switch {
	case call == nil || call.GetDone():
		return false
	case call.GetNeed() == conversationpb.Need_OUTCOME:
		return true
	}
	return l.run.job.Attempt > 1 && call.GetNeed() == conversationpb.Need_RUN && !call.GetIdempotent()
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

// catchUp reads results that the rules set themselves, for calls that they do not put before a person.
func (l *modelLoop) catchUp(ctx context.Context, calls []*conversationpb.OpenCall) error {
	known := true
	for _, c := range l.tools.newest {
		known = known && (c.done || !find(calls, l.tools.calls[c.at].GetId()).GetDone())
	}
	if known {
		return nil
	}
	steps, err := l.readSteps(ctx)
	if err != nil {
		return err
	}
	for _, step := range steps {
		l.recallResults(ctx, step.GetResults())
	}
	return nil
}

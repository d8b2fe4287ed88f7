package turn

import (
	"context"
	"fmt"
	"slices"

	"parley/actors/turn/model"
	"parley/proto/conversationpb"
)

// goOn asks a model to take up an answer that the budget cut.
const goOn = "Continue exactly where you stopped."

// unknownOutcome is the error of a call that may have run and cannot be run again.
const unknownOutcome = "it is not known whether the tool ran, and it is not there any more"

// recall reads back what the turn has journalled, so that nothing of it is done again: what the model said and asked for,
// and what that came to.
func (k *talk) recall(ctx context.Context) error {
	job := k.run.job
	steps, err := k.runner.config.History.Steps(ctx, job.ConversationID, job.RunID)
	if err != nil {
		return fmt.Errorf("read steps: %w", err)
	}
	for _, step := range steps {
		if step.GetNumber() > job.Steps {
			return fmt.Errorf("step %d is not the turn's: it has %d", step.GetNumber(), job.Steps)
		}
		switch body := step.GetBody().(type) {
		case *conversationpb.Step_Use:
			k.recallUse(step.GetNumber(), body.Use)
		case *conversationpb.Step_Results:
			k.recallResults(body.Results)
		case *conversationpb.Step_Partial:
			k.recallPartial(body.Partial)
		}
		if step.GetNumber() <= job.ResumedAt {
			k.before = k.whole.String()
		}
		k.steps = step.GetNumber()
	}
	if k.steps != job.Steps {
		return fmt.Errorf("the turn has %d steps, of which only %d are there", job.Steps, k.steps)
	}
	if since := k.whole.String()[len(k.before):]; since != "" {
		k.run.output.Write(since)
	}
	return nil
}

func (k *talk) recallUse(number uint32, use *conversationpb.ToolUse) {
	k.sayRecalled()
	k.recallText(use.GetText())
	k.newestText = use.GetText()
	for index, call := range use.GetCalls() {
		k.calls = append(k.calls, call)
		k.ids[call.GetId()] = true
		k.size += len(call.GetArguments())
		c := &toolCall{at: len(k.calls) - 1, key: k.key(number, index)}
		if index < len(use.GetOpen()) {
			c.open = use.GetOpen()[index]
		}
		k.newest = append(k.newest, c)
	}
}

func (k *talk) recallResults(results *conversationpb.ToolResults) {
	for _, result := range results.GetResults() {
		for _, c := range k.newest {
			if c.done || k.calls[c.at].GetId() != result.GetId() {
				continue
			}
			k.change(c, func(record *conversationpb.ToolCall) {
				record.Result, record.Error = result.GetResult(), result.GetError()
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

// resume sees to the calls of the newest step that have no result yet. The rules know what they need by now: a person
// may have approved one, or other arguments. When an earlier runner was lost, a call may have run: it is run again only
// if that does no harm, with the same key; else a person decides.
func (k *talk) resume(life, ctx context.Context) *ending {
	open := false
	for _, c := range k.newest {
		open = open || !c.done
	}
	if !open {
		k.sayRecalled()
		return nil
	}
	// A step that is there already changes nothing: its answer says how the rules see the calls.
	reply, err := k.journal(ctx, &conversationpb.Progress{
		Step: k.steps, Body: &conversationpb.Progress_Results{Results: &conversationpb.ToolResults{}},
	})
	if err != nil {
		return &ending{err: err}
	}
	calls := reply.GetCalls()
	doubt := k.rejudge(calls)
	if len(doubt.GetCalls()) > 0 {
		reply, err = k.journal(life, &conversationpb.Progress{
			Content: k.whole.String(), ToolCalls: slices.Clone(k.calls),
			Body: &conversationpb.Progress_Doubt{Doubt: doubt},
		})
		if err != nil {
			return &ending{err: err}
		}
		calls = reply.GetCalls()
	}
	if reply.GetPaused() {
		return &ending{paused: true}
	}
	return k.complete(ctx, calls)
}

// rejudge makes the open calls ready to be run, and names those that are in doubt.
func (k *talk) rejudge(calls []*conversationpb.OpenCall) *conversationpb.Doubt {
	lost := k.run.job.Attempt > 1
	doubt := &conversationpb.Doubt{}
	for _, c := range k.newest {
		if c.done {
			continue
		}
		judged := k.judge(c.at, c.key)
		known := c.open
		for _, call := range calls {
			if call.GetId() == judged.open.GetId() {
				known = call
			}
		}
		c.tool, c.args, c.details, c.problem = judged.tool, judged.args, judged.details, judged.problem
		c.open = judged.open
		if !lost || known.GetNeed() != conversationpb.Need_RUN || known.GetIdempotent() {
			continue
		}
		if judged.problem != "" {
			c.problem = unknownOutcome
			continue
		}
		args := judged.args
		if len(known.GetArgs()) > 0 {
			args = known.GetArgs()
		}
		doubt.Calls = append(doubt.Calls, &conversationpb.OpenCall{
			Id: judged.open.GetId(), Name: judged.open.GetName(), Need: conversationpb.Need_OUTCOME,
			Args: args, Schema: judged.tool.Schema, Details: judged.details,
			ActionTimeoutMs: judged.tool.Policy.GetActionTimeoutMs(),
		})
	}
	return doubt
}

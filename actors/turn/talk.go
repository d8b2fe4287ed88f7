package turn

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"parley/actors/turn/model"
	"parley/actors/turn/runtimecontext"
	"parley/actors/turn/tool"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// separator parts the texts of two model calls in one answer.
const separator = "\n\n"

// talk is a turn's conversation with the model: one call, or several when the model asks for tools. It is the stream
// of each call. Only the turn's goroutine uses it.
type talk struct {
	runner   *Runner
	run      *run
	agent    *agentpb.Agent
	provider model.Provider
	set      tool.Set // nil = no tools
	request  *model.Request
	title    *title                  // nil = none is made
	context  *runtimecontext.Context // nil = the turn has none
	options  *options                // nil = the caller sets none

	// What the turn has said. The output holds what is said since the turn was last resumed.
	before    string          // what it had said until then
	whole     strings.Builder // all of it, if keeps
	keeps     bool            // it may be needed before the turn's end
	length    int             // bytes of all of it
	inCall    int             // bytes said in this model call
	callStart int             // where in whole this model call's text begins
	joins     bool            // what comes goes on with the last word
	spoke     bool            // in this process
	muted     bool            // the call is cut, what comes is not taken
	cut       context.CancelCauseFunc

	// What the turn has done.
	steps       uint32 // journalled
	rounds      int    // model calls that asked for tools
	calls       []*conversationpb.ToolCall
	ids         map[string]bool // of calls
	size        int             // bytes of arguments and results
	newest      []*toolCall     // calls of the newest step that asked for tools, until all have a result
	newestText  string
	newestGiven bool // they came with the message: no model call of this turn asked for them
	asked       int  // model calls made in this process

	// What it costs.
	usage   usage                 // of model calls that are not journalled
	extra   *conversationpb.Usage // of the title, not journalled
	meter   *meter                // of the model call under way, nil = it has no price
	limited bool                  // there is a budget
	capped  bool                  // the request's cap is what the budget buys
	limit   int64                 // the budget's that ends the turn, in nano-dollars; it may have been raised since
}

// ending is why the talk ended.
type ending struct {
	reason  conversationpb.StopReason
	err     error
	partial *conversationpb.Partial
	paused  bool // nothing to report: the turn waits for a person
}

// Text hears a piece of the answer.
func (k *talk) Text(piece string) {
	if piece == "" || k.muted {
		return
	}
	if !utf8.ValidString(piece) {
		piece = strings.ToValidUTF8(piece, "\uFFFD")
	}
	if k.meter != nil {
		k.meter.count.Text(piece)
	}
	if k.inCall == 0 && k.length > 0 && !k.joins {
		piece = separator + piece
		k.callStart += len(separator)
	}
	if !k.spoke {
		k.spoke = true
		k.runner.metrics.first.Observe(time.Since(k.run.started).Seconds())
	}
	if room := k.runner.config.MaxText - k.length; len(piece) > room {
		piece = strings.ToValidUTF8(piece[:max(room, 0)], "")
		k.cut(errTooLong)
	}
	k.length += len(piece)
	k.inCall += len(piece)
	if k.keeps {
		k.whole.WriteString(piece)
	}
	k.run.output.Write(piece)
	k.check()
}

// Unsaid hears what the model produces and does not say: it costs as much.
func (k *talk) Unsaid(piece string) {
	if k.meter != nil && !k.muted {
		k.meter.count.Unsaid(piece)
		k.check()
	}
}

func (k *talk) check() {
	if k.meter != nil {
		k.meter.check()
	}
}

// ToolCall hears a tool call; the answer brings it again, with the others.
func (k *talk) ToolCall(model.ToolCall) {}

// hold calls the model, and the tools it asks for, until it has said all it wanted. life is the run's, ctx ends when
// the turn is to stop.
func (k *talk) hold(life, ctx context.Context) *ending {
	if err := k.open(ctx); err != nil {
		return &ending{err: err}
	}
	if end := k.resume(life, ctx); end != nil {
		return end
	}
	rounds := int(k.agent.GetMaxTurns())
	if rounds <= 0 {
		rounds = k.runner.config.MaxRounds
	}
	for {
		answer, end := k.ask(life, ctx)
		if end != nil {
			return end
		}
		if len(answer.ToolCalls) == 0 {
			return &ending{reason: reasonOf(answer.Stop)}
		}
		if k.rounds+1 >= rounds {
			// No model would read the results: nothing is run.
			k.refuse(answer)
			return &ending{reason: conversationpb.StopReason_MAX_TURNS}
		}
		if end = k.use(life, ctx, answer); end != nil {
			return end
		}
	}
}

// open makes everything ready for the first model call.
func (k *talk) open(ctx context.Context) error {
	config, job := &k.runner.config, k.run.job
	k.request = &model.Request{Agent: k.agent, RunID: job.RunID, ProjectID: job.ProjectID}
	k.limited = job.Budget
	if err := k.openContext(); err != nil {
		return err
	}
	steps, err := k.journalled(ctx)
	if err != nil {
		return err
	}
	k.title = newTitle(k) // which has nothing of what the caller sets for the turn
	k.take(steps)
	if hasTools(k.agent) && config.Tools != nil {
		if k.set, err = config.Tools.Open(ctx, k.agent); err != nil {
			return &model.Error{Code: "internal_error", Message: "The agent's tools are not set up as they should be.", Err: err}
		}
	}
	if k.set, err = k.options.with(k.set); err != nil {
		return err
	}
	if k.set != nil {
		k.request.Tools = k.set.Definitions()
	}
	k.keeps = k.set != nil || job.Steps > 0 || k.agent.GetModel().GetPrice() != nil
	window, err := k.runner.window(ctx, job, k.agent, windowNeeds{history: k.provider.NeedsHistory(), tools: k.request.Tools})
	if err != nil {
		return err
	}
	k.request.Messages = window
	k.recall(steps)
	return nil
}

func hasTools(agent *agentpb.Agent) bool {
	return len(agent.GetTools())+len(agent.GetApis())+len(agent.GetServers()) > 0 || agent.GetAskUser() != nil
}

// ask makes one model call, as far as the money goes.
func (k *talk) ask(life, ctx context.Context) (*model.Answer, *ending) {
	if ctx.Err() != nil {
		return nil, &ending{err: context.Cause(ctx)}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	k.inCall, k.muted, k.callStart = 0, false, k.whole.Len()
	k.cut = func(cause error) {
		k.muted = true
		cancel(cause)
	}
	k.request.MaxOutputTokens = 0
	if err := k.openMeter(life, ctx, k.cut); err != nil {
		return nil, k.unaffordable(err)
	}
	k.request.Settings.Choice = k.options.choice(k.asked)
	k.asked++
	answer, err := k.provider.Generate(ctx, k.request, k)
	cause := context.Cause(ctx)
	if answer != nil && err == nil && cause == nil && k.inCall == 0 {
		k.Text(answer.Text) // an adapter that does not stream
		cause = context.Cause(ctx)
	}
	k.usage.add(k.consumed(answer, cause != nil))
	if k.meter != nil {
		k.meter.close()
		if errors.Is(cause, errBudget) {
			k.limit = k.meter.limit // else it is the one that the request was capped by
		}
		k.meter = nil
	}
	reached := err == nil && cause == nil && k.capped && answer != nil && answer.Stop == model.StopLength
	switch {
	case reached, errors.Is(cause, errBudget):
		return nil, &ending{reason: conversationpb.StopReason_BUDGET_REACHED, partial: &conversationpb.Partial{
			Text: k.whole.String()[min(k.callStart, k.whole.Len()):], Usage: k.usage.priced(k.agent.GetModel()),
		}}
	case cause != nil:
		return nil, &ending{err: cause}
	case err != nil:
		return nil, &ending{err: err}
	case answer == nil:
		return nil, &ending{err: errors.New("the provider gave no answer")}
	}
	k.joins = k.joins && k.inCall == 0
	return answer, nil
}

// unaffordable is the end of a turn whose next model call is not made.
func (k *talk) unaffordable(err error) *ending {
	if errors.Is(err, errBudget) {
		return &ending{reason: conversationpb.StopReason_BUDGET_REACHED}
	}
	return &ending{err: err}
}

// callText is what the model said in a call that asked for tools.
func (k *talk) callText(answer *model.Answer) string {
	if k.keeps {
		return k.whole.String()[min(k.callStart, k.whole.Len()):]
	}
	return strings.ToValidUTF8(answer.Text, "\uFFFD")
}

// refuse records the calls of an answer that are not run.
func (k *talk) refuse(answer *model.Answer) {
	first := len(k.calls)
	k.record(answer.ToolCalls)
	for i := first; i < len(k.calls); i++ {
		k.calls[i].Error = "not run: the turn has used all its model calls"
	}
}

// owed is what the turn has to pay for and is not journalled.
func (k *talk) owed() *conversationpb.Usage {
	if k.extra == nil {
		k.extra = k.title.bill()
	}
	return plus(k.usage.priced(k.agent.GetModel()), k.extra)
}

// settled says that what was owed is journalled.
func (k *talk) settled() { k.usage, k.extra = usage{}, nil }

// finish is the report.
func (k *talk) finish(ctx context.Context, end *ending) *conversationpb.Finish {
	finish := k.outcome(ctx, end)
	if finish.GetStopReason() == conversationpb.StopReason_CANCELLED {
		k.title.cancel() // a cancelled turn costs nothing any more
		k.closeCalls("cancelled")
	}
	k.closeCalls("the turn ended before it had a result")
	finish.Content = k.before + k.run.output.Seal()
	finish.Usage = k.owed()
	finish.Title = k.title.text()
	finish.ToolCalls = k.calls
	return finish
}

// broken is the report of a turn that a fault of this process has ended.
func (k *talk) broken() *conversationpb.Finish {
	finish := failedWith("internal_error", "The turn ended by a fault of the server.")
	if k.meter != nil { // in the middle of a model call
		k.usage.add(k.consumed(nil, true))
		k.meter = nil
	}
	k.closeCalls("the turn ended before it had a result")
	finish.Content = k.before + k.run.output.Seal()
	finish.Usage, finish.ToolCalls = k.owed(), k.calls
	return finish
}

func (k *talk) outcome(ctx context.Context, end *ending) *conversationpb.Finish {
	var refused *model.Error
	switch {
	case errors.Is(context.Cause(ctx), errStopped):
		return &conversationpb.Finish{StopReason: conversationpb.StopReason_CANCELLED}
	case errors.Is(end.err, errTooLong):
		return &conversationpb.Finish{StopReason: conversationpb.StopReason_LIMIT}
	case errors.Is(end.err, errTimeout):
		return failedWith("provider_timeout", "The turn took too long.")
	case errors.Is(end.err, errUnstorable):
		return failedWith("internal_error", "A step of the turn could not be stored.")
	case errors.As(end.err, &refused):
		k.log(end.err)
		return failedWith(refused.Code, refused.Message)
	case end.err != nil:
		k.log(end.err)
		return failedWith("provider_error", "The model could not be called.")
	case end.reason == conversationpb.StopReason_ERROR:
		return failedWith("content_filtered", "The model's provider withheld the answer.")
	}
	finish := &conversationpb.Finish{StopReason: end.reason, Partial: end.partial}
	if end.reason == conversationpb.StopReason_BUDGET_REACHED {
		finish.LimitNanoUsd, finish.Steps = k.limit, &k.steps
	}
	return finish
}

// log tells the log what the caller must not see.
func (k *talk) log(err error) {
	var refused *model.Error
	if errors.As(err, &refused) && refused.Err != nil {
		err = errors.Join(err, refused.Err)
	}
	k.runner.config.Logger.Warn("turn ended in an error", slog.String("run", k.run.job.RunID),
		slog.String("conversation", k.run.job.ConversationID), slog.String("agent", k.agent.GetId()), slog.Any("err", err))
}

func reasonOf(stop model.Stop) conversationpb.StopReason {
	switch stop {
	case model.StopLength:
		return conversationpb.StopReason_LIMIT
	case model.StopFilter:
		return conversationpb.StopReason_ERROR
	default:
		return conversationpb.StopReason_END_TURN
	}
}

package turn

import (
	"cmp"
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

// modelLoop runs the rounds of a turn: a model call, the tools that it asks for, the next model call with their results,
// until the model asks for none. It implements model.Stream for each call. Only the turn's goroutine uses it.
type modelLoop struct {
	runner   *Runner
	run      *run
	agent    *agentpb.Agent
	provider model.Provider
	set      tool.Set // nil = no tools
	request  *model.Request
	title    *title                  // nil = none is made
	context  *runtimecontext.Context // nil = the turn has none
	options  *options                // nil = the caller sets none

	asked int                     // model calls made in this process
	steps uint32                  // journalled
	cut   context.CancelCauseFunc // ends the model call under way
	text  answerText
	tools toolLedger
	money ledger

	shielded *shielded // nil = the agent has no shield
	railed   *railed   // nil = neither the agent nor its model has a guardrail
}

// answerText is the text of the turn's answer. The run's output holds what was written since the turn was last resumed.
type answerText struct {
	before    string          // what had been written until then
	whole     strings.Builder // all of it, if keeps
	keeps     bool            // it may be needed before the turn's end
	length    int             // bytes of all of it
	inCall    int             // bytes of this model call
	callStart int             // where in whole this model call's text begins
	joins     bool            // what comes continues the last word
	started   bool            // something was written in this process
	muted     bool            // the call is cut, what comes is dropped
	lost      bool            // something was dropped
}

// toolLedger is the turn's tool calls and their results.
type toolLedger struct {
	rounds      int // model calls that asked for tools
	calls       []*conversationpb.ToolCall
	ids         map[string]bool // of calls
	size        int             // bytes of arguments and results
	newest      []*toolCall     // calls of the newest step that asked for tools, until all have a result
	newestText  string
	newestState []byte // what only its provider can read of it
	newestGiven bool   // they came with the message: no model call of this turn asked for them
	images      int    // of results, that are kept for the model
	imageBytes  int64
}

// ledger is what the turn costs, and what its budget allows.
type ledger struct {
	usage   usage                 // of model calls that are not journalled
	extra   *conversationpb.Usage // of the title, not journalled
	meter   *meter                // of the model call under way, nil = it has no price
	limited bool                  // there is a budget
	capped  bool                  // the request's cap is what the budget buys
	limit   int64                 // the budget's that ends the turn, in nano-dollars; it may have been raised since
}

// ending is why the model loop ended.
type ending struct {
	reason  conversationpb.StopReason
	err     error
	partial *conversationpb.Partial
	paused  bool // nothing to report: the turn waits for a person
}

// Text implements model.Stream: it receives the next piece of the answer.
func (l *modelLoop) Text(piece string) {
	if piece == "" || l.mutes() {
		return
	}
	if !utf8.ValidString(piece) {
		piece = strings.ToValidUTF8(piece, "\uFFFD")
	}
	if l.money.meter != nil {
		l.money.meter.count.Text(piece)
	}
	l.say(l.shielded.hear(l.railed.hear(piece)))
	l.check()
}

// say adds a piece to the answer.
func (l *modelLoop) say(piece string) {
	if piece == "" {
		return
	}
	if l.text.inCall == 0 && l.text.length > 0 && !l.text.joins {
		piece = separator + piece
		l.text.callStart += len(separator)
	}
	if !l.text.started {
		l.text.started = true
		l.runner.metrics.first.Observe(time.Since(l.run.started).Seconds())
	}
	if room := l.runner.config.MaxText - l.text.length; len(piece) > room {
		piece = strings.ToValidUTF8(piece[:max(room, 0)], "")
		l.cut(errTooLong)
	}
	l.text.length += len(piece)
	l.text.inCall += len(piece)
	if l.text.keeps {
		l.text.whole.WriteString(piece)
	}
	l.run.output.Write(piece)
}

// Unsaid implements model.Overhearer: it meters output that is not part of the answer but is charged alike.
func (l *modelLoop) Unsaid(piece string) {
	if piece != "" && l.money.meter != nil && !l.mutes() {
		l.money.meter.count.Unsaid(piece)
		l.check()
	}
}

// mutes says that what comes of the call is not taken any more, or cannot be paid.
func (l *modelLoop) mutes() bool {
	l.text.lost = l.text.lost || l.text.muted || l.money.meter != nil && !l.money.meter.affords()
	return l.text.lost
}

func (l *modelLoop) check() {
	if l.money.meter != nil {
		l.money.meter.check()
	}
}

// ToolCall implements model.Stream. It does nothing: the answer contains all tool calls.
func (l *modelLoop) ToolCall(model.ToolCall) {}

// execute calls the model and the tools it asks for until the model has finished. life is the run's context; ctx ends when
// the turn is stopped.
func (l *modelLoop) execute(life, ctx context.Context) *ending {
	defer func() { l.railed.tell(life) }()
	if err := l.open(ctx); err != nil {
		return &ending{err: err}
	}
	if end := l.resume(life, ctx); end != nil {
		return end
	}
	rounds := int(l.agent.GetMaxTurns())
	if rounds <= 0 {
		rounds = l.runner.config.MaxRounds
	}
	for {
		answer, end := l.ask(life, ctx)
		if end != nil {
			return end
		}
		if len(answer.ToolCalls) == 0 {
			return &ending{reason: reasonOf(answer.Stop)}
		}
		if l.tools.rounds+1 >= rounds {
			// No model would read the results: nothing is run.
			l.refuse(answer)
			return &ending{reason: conversationpb.StopReason_MAX_TURNS}
		}
		if end = l.use(life, ctx, answer); end != nil {
			return end
		}
	}
}

// open prepares the first model call.
func (l *modelLoop) open(ctx context.Context) error {
	config, job := &l.runner.config, l.run.job
	l.request = &model.Request{Agent: l.agent, RunID: job.RunID, ProjectID: job.ProjectID}
	l.money.limited = job.Budget
	if err := l.openContext(); err != nil {
		return err
	}
	if err := l.openShield(ctx); err != nil {
		return err
	}
	if err := l.openRails(ctx); err != nil {
		return err
	}
	steps, err := l.journalled(ctx)
	if err != nil {
		return err
	}
	l.title = newTitle(l) // which has nothing of what the caller sets for the turn
	l.take(steps)
	if hasTools(l.agent) && config.Tools != nil {
		if l.set, err = config.Tools.Open(ctx, l.agent); err != nil {
			return &model.Error{Code: "internal_error", Message: "The agent's tools are not set up as they should be.", Err: err}
		}
	}
	if l.set, err = l.options.with(l.set); err != nil {
		return err
	}
	if l.set != nil {
		l.request.Tools = l.set.Definitions()
	}
	l.text.keeps = l.text.keeps || l.set != nil || job.Steps > 0 || l.agent.GetModel().GetPrice() != nil
	window, err := l.runner.window(ctx, job, l.agent, windowNeeds{
		history: l.provider.NeedsHistory(), tools: l.request.Tools, admit: l.admit,
	})
	if err != nil {
		return err
	}
	l.request.Messages = l.railed.window(l.shielded.window(window))
	l.recall(ctx, steps)
	return nil
}

func hasTools(agent *agentpb.Agent) bool {
	return len(agent.GetTools())+len(agent.GetApis())+len(agent.GetServers()) > 0 || agent.GetAskUser() != nil
}

// ask makes one model call within the budget.
func (l *modelLoop) ask(life, ctx context.Context) (*model.Answer, *ending) {
	if ctx.Err() != nil {
		return nil, &ending{err: context.Cause(ctx)}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.text.inCall, l.text.muted, l.text.lost, l.text.callStart = 0, false, false, l.text.whole.Len()
	l.cut = func(cause error) {
		l.text.muted = true
		cancel(cause)
	}
	l.request.MaxOutputTokens = 0
	if err := l.openMeter(life, ctx, l.cut); err != nil {
		return nil, l.unaffordable(err)
	}
	l.request.Settings.Choice = l.options.choice(l.asked)
	if err := cmp.Or(l.shielded.listen(ctx), l.railed.listen(ctx)); err != nil {
		return nil, &ending{err: err}
	}
	l.asked++
	answer, err := l.runner.generate(ctx, &l.run.job, l.provider, l.request, l)
	cause := context.Cause(ctx)
	if answer != nil && err == nil && cause == nil && l.text.inCall == 0 && l.shielded.silent() && l.railed.silent() {
		l.Text(answer.Text) // an adapter that does not stream
		cause = context.Cause(ctx)
	}
	l.railed.close()
	blocked := l.shielded.heard(life)
	if cause == nil {
		cause = context.Cause(ctx)
	}
	if errors.Is(cause, errBudget) && err == nil && answer != nil && answer.Stop != model.StopLength && !l.text.lost {
		cause = nil // the last piece cost more than there is, but the answer is whole
	}
	l.money.usage.add(l.consumed(answer, cause != nil))
	if l.money.meter != nil {
		l.money.meter.close()
		if errors.Is(cause, errBudget) {
			l.money.limit = l.money.meter.limit // else it is the one that the request was capped by
		}
		l.money.meter = nil
	}
	reached := err == nil && cause == nil && l.money.capped && answer != nil && answer.Stop == model.StopLength
	stopped := l.railed.stopped()
	switch {
	case stopped != nil:
		return nil, &ending{err: stopped}
	case reached, errors.Is(cause, errBudget):
		return nil, &ending{reason: conversationpb.StopReason_BUDGET_REACHED, partial: &conversationpb.Partial{
			Text: l.text.whole.String()[min(l.text.callStart, l.text.whole.Len()):], Usage: l.money.usage.priced(l.agent.GetModel()),
		}}
	case cause != nil:
		return nil, &ending{err: cause}
	case err != nil:
		return nil, &ending{err: err}
	case answer == nil:
		return nil, &ending{err: errors.New("the provider gave no answer")}
	case blocked != nil:
		return nil, &ending{err: blocked}
	}
	if err = l.railed.calls(answer); err != nil {
		return nil, &ending{err: err}
	}
	l.text.joins = l.text.joins && l.text.inCall == 0
	return answer, nil
}

// unaffordable is the ending of a turn whose next model call cannot be made.
func (l *modelLoop) unaffordable(err error) *ending {
	if errors.Is(err, errBudget) {
		return &ending{reason: conversationpb.StopReason_BUDGET_REACHED}
	}
	return &ending{err: err}
}

// callText is what the model said in a call that asked for tools.
func (l *modelLoop) callText(answer *model.Answer) string {
	if l.text.keeps {
		return l.text.whole.String()[min(l.text.callStart, l.text.whole.Len()):]
	}
	return strings.ToValidUTF8(answer.Text, "\uFFFD")
}

// refuse records the calls of an answer that are not run.
func (l *modelLoop) refuse(answer *model.Answer) {
	l.shielded.clean(answer.ToolCalls)
	first := len(l.tools.calls)
	l.record(answer.ToolCalls)
	for i := first; i < len(l.tools.calls); i++ {
		l.tools.calls[i].Error = "not run: the turn has used all its model calls"
	}
}

// owed is the turn's usage that is not journalled yet.
func (l *modelLoop) owed() *conversationpb.Usage {
	if l.money.extra == nil {
		l.money.extra = l.title.bill()
	}
	return plus(l.money.usage.priced(l.agent.GetModel()), l.money.extra)
}

// settled resets the usage once it is journalled.
func (l *modelLoop) settled() { l.money.usage, l.money.extra = usage{}, nil }

// finish is the report.
func (l *modelLoop) finish(ctx context.Context, end *ending) *conversationpb.Finish {
	finish := l.outcome(ctx, end)
	if finish.GetStopReason() == conversationpb.StopReason_CANCELLED {
		l.title.cancel() // a cancelled turn costs nothing any more
		l.closeCalls("cancelled")
	}
	l.closeCalls("the turn ended before it had a result")
	finish.Content = l.text.before + l.run.output.Seal()
	finish.Usage = l.owed()
	finish.Title = l.title.text()
	finish.ToolCalls = l.tools.calls
	return finish
}

// broken is the report of a turn that ended by a panic.
func (l *modelLoop) broken() *conversationpb.Finish {
	finish := failedWith("internal_error", "The turn ended by a fault of the server.")
	if l.money.meter != nil { // in the middle of a model call
		l.money.usage.add(l.consumed(nil, true))
		l.money.meter = nil
	}
	l.closeCalls("the turn ended before it had a result")
	finish.Content = l.text.before + l.run.output.Seal()
	finish.Usage, finish.ToolCalls = l.owed(), l.tools.calls
	return finish
}

func (l *modelLoop) outcome(ctx context.Context, end *ending) *conversationpb.Finish {
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
		l.log(end.err)
		finish := failedWith(refused.Code, refused.Message)
		finish.Error.Details = refused.Details
		return finish
	case end.err != nil:
		l.log(end.err)
		return failedWith("provider_error", "The model could not be called.")
	case end.reason == conversationpb.StopReason_ERROR:
		return failedWith("content_filtered", "The model's provider withheld the answer.")
	}
	finish := &conversationpb.Finish{StopReason: end.reason, Partial: end.partial}
	if end.reason == conversationpb.StopReason_BUDGET_REACHED {
		finish.LimitNanoUsd, finish.Steps = l.money.limit, &l.steps
	}
	return finish
}

// log logs the details of an error that the caller must not see.
func (l *modelLoop) log(err error) {
	var refused *model.Error
	if errors.As(err, &refused) && refused.Err != nil {
		err = errors.Join(err, refused.Err)
	}
	l.runner.config.Logger.Warn("turn ended in an error", slog.String("run", l.run.job.RunID),
		slog.String("conversation", l.run.job.ConversationID), slog.String("agent", l.agent.GetId()), slog.Any("err", err))
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

package turn

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/actors/turn/model"
	"parley/actors/turn/tool"
	"parley/proto/conversationpb"
)

const (
	// maxPending bounds the calls of one answer that need a person; the rules keep no more.
	maxPending = 32
	// maxArguments bounds the arguments of one call.
	maxArguments = 64 << 10
	// maxToolError bounds the text of a call's error.
	maxToolError = 4 << 10
	// minToolResult is left to every call, however long the results before it were: an error must be told.
	minToolResult = 256
)

// toolCall is a call of the newest step that asked for tools.
type toolCall struct {
	at      int        // its record's place among the turn's calls
	key     string     // idempotency key
	tool    *tool.Tool // nil when it cannot be run
	args    []byte     // to run it with
	details []byte     // what a person is shown beside the arguments
	problem string     // why it is not run
	changed bool       // a person set other arguments
	open    *conversationpb.OpenCall
	images  []model.Image // of its result
	done    bool
}

// judge determines what a call needs before it can have a result. A call that cannot be run, because something is wrong with
// it, only needs its error reported; running that again is harmless.
func (l *modelLoop) judge(ctx context.Context, at int, key string) *toolCall {
	record := l.tools.calls[at]
	c := &toolCall{at: at, key: key, open: &conversationpb.OpenCall{
		Id: record.GetId(), Name: record.GetName(), Need: conversationpb.Need_RUN, Idempotent: true,
	}}
	if l.set != nil {
		c.tool, _ = l.set.Find(record.GetName())
	}
	if c.tool == nil {
		c.problem = "there is no such tool"
		return c
	}
	judged, err := c.tool.Judge(ctx, record.GetArguments())
	if err != nil {
		c.problem = err.Error()
		return c
	}
	c.args, c.details = judged.Args, judged.Details
	c.open.Need, c.open.OfCaller = judged.Need, c.tool.OfCaller
	c.open.Idempotent = c.tool.Policy.GetIdempotent()
	if judged.Need != conversationpb.Need_RUN {
		c.open.Args, c.open.Schema, c.open.Details = judged.Args, c.tool.Schema, judged.Details
		c.open.ActionTimeoutMs = judged.ActionTimeout.Milliseconds()
	}
	return c
}

// use journals an answer that asks for tools and completes its calls. nil = every call has a result and the model can be
// called again.
func (l *modelLoop) use(life, ctx context.Context, answer *model.Answer) *ending {
	rulings := l.shielded.rule(ctx, answer)
	use := &conversationpb.ToolUse{Text: l.callText(answer), State: answer.State}
	if l.shielded.changed(use.GetText()) {
		use.State = nil // which may hold what was taken out
	}
	first := len(l.tools.calls)
	problems := l.record(answer.ToolCalls)
	use.Calls = slices.Clone(l.tools.calls[first:])
	people := 0
	for index := range use.GetCalls() {
		c := l.judge(ctx, first+index, l.key(l.steps+1, index))
		rulings[index].apply(c)
		if c.open.GetNeed() != conversationpb.Need_RUN {
			people++
		}
		if problem := cmp.Or(problems[index], tooMany(people, c)); problem != "" {
			c.problem, c.open = problem, &conversationpb.OpenCall{
				Id: c.open.GetId(), Name: c.open.GetName(), Need: conversationpb.Need_RUN, Idempotent: true,
			}
		}
		l.tools.newest = append(l.tools.newest, c)
		use.Open = append(use.Open, c.open)
	}
	if ctx.Err() != nil {
		return &ending{err: context.Cause(ctx)} // what was judged after that is in doubt, and would ask a person
	}
	l.tools.newestText, l.tools.newestState = use.GetText(), use.GetState()
	use.Usage = l.owed()
	reply, err := l.journal(life, &conversationpb.Progress{
		Content: l.text.whole.String(), ToolCalls: slices.Clone(l.tools.calls), Body: &conversationpb.Progress_Use{Use: use},
	})
	if err != nil {
		return &ending{err: err}
	}
	l.settled()
	l.steps = max(l.steps+1, reply.GetSteps())
	if reply.GetPaused() {
		return &ending{paused: true}
	}
	return l.complete(ctx, reply.GetCalls())
}

func tooMany(people int, c *toolCall) string {
	if c.open.GetNeed() == conversationpb.Need_RUN || people <= maxPending {
		return ""
	}
	return "too many calls at once need a person"
}

// key is the idempotency key of a call: the same however often the call is tried.
func (l *modelLoop) key(step uint32, index int) string {
	return fmt.Sprintf("%s/%d/%d", l.run.job.RunID, step, index)
}

func (l *modelLoop) knowIDs() {
	if l.tools.ids == nil {
		l.tools.ids = make(map[string]bool)
	}
}

// record takes the calls of an answer into the turn's, each under an id of its own, and says what is wrong with them
// from the outset.
func (l *modelLoop) record(calls []model.ToolCall) []string {
	problems := make([]string, len(calls))
	l.knowIDs()
	for index, call := range calls {
		id := call.ID
		if id == "" || l.tools.ids[id] {
			// Some servers number the calls of every answer from the start.
			id = fmt.Sprintf("call_%s_%d_%d", strings.TrimPrefix(l.run.job.RunID, "run_"), l.steps+1, index)
		}
		arguments := call.Arguments
		switch {
		case len(arguments) > maxArguments:
			arguments, problems[index] = "{}", fmt.Sprintf("the arguments are longer than %d bytes", maxArguments)
		case l.tools.size+len(arguments) > l.runner.config.MaxTurnResults:
			arguments, problems[index] = "{}", "the tool calls of this turn are too long in all"
		}
		l.tools.size += len(arguments)
		l.tools.ids[id] = true
		l.tools.calls = append(l.tools.calls, &conversationpb.ToolCall{Id: id, Name: call.Name, Arguments: arguments})
	}
	return problems
}

// complete runs the calls that wait for nobody and journals their results as they arrive. nil = every call has a result.
func (l *modelLoop) complete(ctx context.Context, open []*conversationpb.OpenCall) *ending {
	if err := l.catchUp(ctx, open); err != nil {
		return &ending{err: err}
	}
	todo := l.runnable(ctx, open)
	if len(todo) > 0 && ctx.Err() != nil {
		return &ending{err: context.Cause(ctx)} // arguments that were checked after that are in doubt
	}
	if len(todo) > 0 {
		if end := l.runAll(ctx, todo); end != nil {
			return end
		}
	}
	for _, c := range l.tools.newest {
		if !c.done {
			return &ending{err: fmt.Errorf("call %s of step %d is neither to be run nor asked about", l.tools.calls[c.at].GetId(), l.steps)}
		}
	}
	l.showResults()
	return nil
}

// runnable is what is left to be run, as the rules see it, with the arguments that a person approved.
func (l *modelLoop) runnable(ctx context.Context, open []*conversationpb.OpenCall) []*toolCall {
	var todo []*toolCall
	for _, c := range l.tools.newest {
		call := find(open, l.tools.calls[c.at].GetId())
		if c.done || call.GetNeed() != conversationpb.Need_RUN || call.GetDone() {
			continue
		}
		if approved := call.GetArgs(); len(approved) > 0 && c.tool != nil && !bytes.Equal(approved, c.args) {
			l.approve(ctx, c, approved)
		}
		todo = append(todo, c)
	}
	return todo
}

// approve replaces the arguments by those that a person set. The model is told of them as if they had been its own.
func (l *modelLoop) approve(ctx context.Context, c *toolCall, args []byte) {
	args, problem := l.shielded.edited(ctx, c.open.GetName(), args)
	judged, err := c.tool.Judge(ctx, string(args))
	switch {
	case problem != "":
		c.problem = problem
		return
	case err != nil:
		c.problem = err.Error()
		return
	}
	c.args, c.problem, c.changed = judged.Args, "", true
	if !bytes.Equal(judged.Args, []byte(l.tools.calls[c.at].GetArguments())) {
		l.change(c, func(record *conversationpb.ToolCall) { record.Arguments = string(judged.Args) })
	}
}

// change replaces a call's record: the one before may be in somebody else's hands.
func (l *modelLoop) change(c *toolCall, with func(record *conversationpb.ToolCall)) {
	former := l.tools.calls[c.at]
	record := &conversationpb.ToolCall{
		Id: former.GetId(), Name: former.GetName(), Arguments: former.GetArguments(),
		Result: former.GetResult(), Error: former.GetError(), TookMs: former.GetTookMs(),
	}
	with(record)
	l.tools.calls[c.at] = record
}

// outcome is the result of a call.
type outcome struct {
	call   *toolCall
	text   string
	images []model.Image
	err    error
	took   time.Duration
}

// milliseconds is how long the call ran, rounded up; 0 = it was not run.
func (o outcome) milliseconds() int64 {
	return int64((o.took + time.Millisecond - 1) / time.Millisecond)
}

func (o outcome) label() string {
	if o.err != nil {
		return "error"
	}
	return "ok"
}

// runAll runs calls side by side, not more at a time than allowed, and journals what they come to. When it returns,
// none of them runs any more.
func (l *modelLoop) runAll(ctx context.Context, todo []*toolCall) *ending {
	if ctx.Err() != nil {
		return &ending{err: context.Cause(ctx)}
	}
	running, cancel := context.WithCancel(ctx)
	outcomes := make(chan outcome, len(todo))
	next := make(chan *toolCall, len(todo))
	var group sync.WaitGroup
	defer func() {
		cancel()
		group.Wait()
	}()
	for _, c := range todo {
		if c.problem != "" {
			outcomes <- outcome{call: c, err: errors.New(c.problem)}
			continue
		}
		next <- c
	}
	close(next)
	for range min(len(next), l.runner.config.MaxParallelTools) {
		group.Go(func() {
			for c := range next {
				if running.Err() != nil {
					return
				}
				outcomes <- l.shielded.result(running, l.runTool(running, c))
			}
		})
	}
	for left := len(todo); left > 0; {
		batch, err := gather(ctx, outcomes)
		if err != nil {
			return &ending{err: err}
		}
		left -= len(batch)
		reply, err := l.results(ctx, batch)
		if err == nil {
			err = l.catchUp(ctx, reply.GetCalls())
		}
		if err != nil {
			return &ending{err: err}
		}
		if reply.GetPaused() {
			return &ending{paused: true}
		}
	}
	return nil
}

// gather waits for one outcome and collects the others that are ready. Outcomes after the end of ctx are ignored.
func gather(ctx context.Context, outcomes <-chan outcome) ([]outcome, error) {
	var batch []outcome
	select {
	case first := <-outcomes:
		batch = append(batch, first)
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for {
		select {
		case another := <-outcomes:
			batch = append(batch, another)
		default:
			return batch, nil
		}
	}
}

// results journals the results of calls as one step.
func (l *modelLoop) results(ctx context.Context, batch []outcome) (*conversationpb.Progressed, error) {
	results := &conversationpb.ToolResults{}
	for _, o := range batch {
		kept, note := l.keepImages(ctx, o.call, o.images)
		o.text += note
		results.Images = append(results.Images, kept...)
		text, failure := l.bounded(o)
		l.change(o.call, func(record *conversationpb.ToolCall) {
			record.Result, record.Error, record.TookMs = text, failure, o.milliseconds()
		})
		o.call.done = true
		record := l.tools.calls[o.call.at]
		result := &conversationpb.ToolCall{Id: record.GetId(), Name: record.GetName(), Result: text, Error: failure, TookMs: record.GetTookMs()}
		if o.call.changed {
			result.Arguments = record.GetArguments()
		}
		results.Results = append(results.Results, result)
	}
	reply, err := l.journal(ctx, &conversationpb.Progress{
		Content: l.text.whole.String(), ToolCalls: slices.Clone(l.tools.calls), Body: &conversationpb.Progress_Results{Results: results},
	})
	if err == nil {
		l.steps = max(l.steps+1, reply.GetSteps())
	}
	return reply, err
}

// bounded cuts what a call came to: each result, and those of a turn in all, must fit into its message.
func (l *modelLoop) bounded(o outcome) (text, failure string) {
	text = o.text
	limit := l.runner.config.MaxToolResult
	if o.err != nil {
		text, limit = cmp.Or(o.err.Error(), "the tool failed"), maxToolError
	}
	limit = min(limit, max(l.runner.config.MaxTurnResults-l.tools.size, minToolResult))
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > limit {
		note := "\n[cut: the result is too long]"
		text = strings.ToValidUTF8(text[:max(limit-len(note), 0)], "") + note
	}
	l.tools.size += len(text)
	if o.err != nil {
		return "", text
	}
	return text, ""
}

// runTool runs a call. A panic in a tool becomes the call's error.
func (l *modelLoop) runTool(ctx context.Context, c *toolCall) (result outcome) {
	config := &l.runner.config
	defer func() {
		if fault := recover(); fault != nil {
			config.Logger.Error("tool panicked", slog.String("run", l.run.job.RunID), slog.String("tool", c.open.GetName()),
				slog.String("fault", fmt.Sprint(fault)), slog.String("stack", string(debug.Stack())))
			result = outcome{call: c, err: errors.New("the tool failed by a fault of the server")}
		}
	}()
	limit := cmp.Or(time.Duration(c.tool.Policy.GetTimeoutMs())*time.Millisecond, config.ToolTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errToolTime)
	defer cancel()
	begun := time.Now()
	defer func() {
		result.took = time.Since(begun)
		l.runner.metrics.tools.WithLabelValues(result.label()).Observe(result.took.Seconds())
	}()
	answered, err := c.tool.Run(ctx, tool.Call{
		ID: c.open.GetId(), IdempotencyKey: c.key, ConversationID: l.run.job.ConversationID, RunID: l.run.job.RunID,
		UserID: l.run.job.UserID, Args: c.args, Context: l.context,
	})
	return outcome{call: c, text: answered.Text, images: answered.Images, err: err}
}

var errToolTime = errors.New("it took too long")

// showResults adds the newest step, whose results are complete, to the next request's messages.
func (l *modelLoop) showResults() {
	asked := model.Message{Role: model.Assistant, Content: l.tools.newestText, State: l.tools.newestState}
	var results []model.Message
	var images []model.Image
	for _, c := range l.tools.newest {
		record := l.tools.calls[c.at]
		asked.ToolCalls = append(asked.ToolCalls, model.ToolCall{
			ID: record.GetId(), Name: record.GetName(), Arguments: record.GetArguments(),
		})
		results = append(results, resultMessage(record))
		images = append(images, c.images...)
	}
	if len(images) > 0 {
		results = append(results, model.Message{Role: model.User, Content: imagesOfResults, Images: images})
	}
	l.request.Messages = append(append(l.request.Messages, asked), results...)
	l.request.Step++
	if !l.tools.newestGiven {
		l.tools.rounds++
	}
	l.tools.newest, l.tools.newestText, l.tools.newestState, l.tools.newestGiven = nil, "", nil, false
}

// resultMessage is a call's result as a model reads it.
func resultMessage(call *conversationpb.ToolCall) model.Message {
	message := model.Message{Role: model.ToolRole, ToolID: call.GetId(), Content: call.GetResult()}
	if call.GetError() != "" {
		message.Content, message.Failed = "error: "+call.GetError(), true
	}
	return message
}

// closeCalls sets an error on every call of the turn that has no result.
func (l *modelLoop) closeCalls(why string) {
	for _, c := range l.tools.newest {
		if !c.done {
			l.change(c, func(record *conversationpb.ToolCall) { record.Error = why })
			c.done = true
		}
	}
}

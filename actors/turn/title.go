package turn

import (
	"context"
	"log/slog"
	"strings"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/aegis"
	"parley/actors/core/guardrail"
	"parley/actors/core/letters"
	"parley/actors/guard"
	"parley/actors/provider"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

const (
	titlePrompt = "Give the conversation that begins with the user's message a title of three or four words, in the language of " +
		"the message. Answer with the title alone: no quotation marks, no full stop, no explanation."
	// titleTokens caps a title; models that think first need more than the words.
	titleTokens = 200
	// titleSource is how many bytes of the message a title is made from.
	titleSource = 4 << 10
	// tellTries bounds the time for storing the title after the report, in report timeouts.
	tellTries = 6
	// maxTitle is document 2, "Limits", in characters.
	maxTitle = 200
	// standInWords is how many words of the message are the title where no model can make one.
	standInWords = 4
)

// title generates a conversation's title by a small model call in parallel with the first answer. Its failure is silent. A nil
// title generates nothing.
type title struct {
	runner   *Runner
	run      *run
	provider model.Provider
	request  *model.Request
	meter    model.Meter
	shield   *aegis.Shield // takes out of it what it takes out of answers
	ends     guard.Rails   // guardrails of answers, see railed
	own      guard.Rails

	end   context.CancelFunc
	done  chan struct{} // nil = not started; closed when the call has ended
	said  string
	used  *conversationpb.Usage
	given bool // with the turn's report
}

// newTitle returns nil when the turn generates no title.
func newTitle(l *modelLoop) *title {
	// Only the turn's first part makes one: what comes after a pause could find it under way.
	later := l.run.job.Steps > l.run.job.ResumedAt || l.run.job.Answer != nil
	if later || !l.run.job.Untitled || !l.agent.GetExperience().GetTitles() || strings.TrimSpace(l.run.job.UserMessage.GetContent()) == "" {
		return nil
	}
	text := letters.Head(l.run.job.UserMessage.GetContent(), titleSource)
	maker := titleMaker(l.agent, text)
	if maker.GetProvider() == agentpb.Provider_CONNECTED {
		return standIn(l, text)
	}
	asked := l.runner.config.Providers[maker.GetProvider()]
	if asked == nil || l.money.limited && maker.GetPrice() == nil {
		return nil
	}
	t := &title{runner: l.runner, run: l.run, shield: l.shielded.now(), provider: asked, request: &model.Request{
		Agent: &agentpb.Agent{Id: l.agent.GetId(), Instructions: titlePrompt, Model: maker},
		RunID: l.run.job.RunID, ProjectID: l.run.job.ProjectID, Messages: []model.Message{{Role: model.User, Content: text}}, MaxOutputTokens: titleTokens,
	}}
	t.meter = model.NewMeter(asked, t.request)
	if l.railed != nil {
		t.ends, t.own = l.railed.ends, l.railed.own
	}
	return t
}

// standIn is the title of a conversation with a connected agent, without a model call.
func standIn(l *modelLoop, text string) *title {
	done := make(chan struct{})
	close(done)
	return &title{runner: l.runner, run: l.run, end: func() {}, done: done, said: cleanTitle(firstWords(text))}
}

func firstWords(text string) string {
	words := strings.Fields(text)
	return strings.Join(words[:min(len(words), standInWords)], " ")
}

// titleMaker is the model that generates titles.
func titleMaker(agent *agentpb.Agent, text string) *agentpb.Model {
	if own := agent.GetTitleModel(); own != nil {
		return own
	}
	maker, ok := proto.Clone(agent.GetModel()).(*agentpb.Model)
	if !ok {
		return nil
	}
	if maker.GetProvider() == agentpb.Provider_SCRIPTED {
		maker.Script = &agentpb.Script{Text: firstWords(text)}
	}
	return maker
}

// estimate is the maximum cost of the title, in nano-dollars.
func (t *title) estimate() int64 {
	if t == nil || t.done != nil {
		return 0
	}
	return provider.Cost(t.request.Agent.GetModel().GetPrice(), t.meter.Input(), 0, titleTokens)
}

// start starts the model call, once. The call may outlive the answer but not the run.
func (t *title) start(life context.Context) {
	if t == nil || t.done != nil {
		return
	}
	ctx, cancel := context.WithTimeout(life, t.runner.config.TitleTimeout)
	t.end, t.done = cancel, make(chan struct{})
	go func() {
		defer close(t.done)
		defer cancel()
		t.make(ctx)
	}()
}

func (t *title) make(ctx context.Context) {
	log := t.runner.config.Logger
	defer func() {
		if fault := recover(); fault != nil {
			log.Error("title panicked", slog.String("run", t.run.job.RunID), slog.Any("fault", fault))
		}
	}()
	heard := &titleStream{meter: t.meter}
	answer, err := t.runner.generate(ctx, &t.run.job, t.provider, t.request, heard)
	var call usage
	consumed := model.Usage{}
	if answer != nil {
		consumed = answer.Usage
	}
	if !consumed.Known && t.meter.Output() > 0 {
		consumed = model.Usage{
			InputTokens:  max(consumed.InputTokens, t.meter.Input()),
			OutputTokens: max(consumed.OutputTokens, t.meter.Output()), Known: true,
		}
	}
	if consumed.Known {
		call.add(consumed)
		t.used = call.priced(t.request.Agent.GetModel())
	}
	if err != nil || answer == nil {
		log.LogAttrs(ctx, slog.LevelDebug, "no title", about(t.run, err)...)
		return
	}
	var found guard.Found
	t.said = cleanTitle(t.shield.Clean(saidBeside(t.ends, t.own, answer.Text, &found)))
	if t.runner.config.Guard != nil {
		t.runner.config.Guard.Told(ctx, t.run.job.rails(guardrail.Output), &found)
	}
}

// cancel cancels the model call and waits for its end.
func (t *title) cancel() {
	if t == nil || t.done == nil {
		return
	}
	t.end()
	<-t.done
}

// bill returns the usage once it is known, and only once.
func (t *title) bill() *conversationpb.Usage {
	if !t.ready() {
		return nil
	}
	used := t.used
	t.used = nil
	return used
}

// text is the title if it is ready by now.
func (t *title) text() string {
	if !t.ready() {
		return ""
	}
	t.given = true
	return t.said
}

func (t *title) ready() bool {
	if t == nil || t.done == nil {
		return false
	}
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// pending reports whether there is, or may be, something to store after the turn's report.
func (t *title) pending() bool {
	switch {
	case t == nil || t.done == nil:
		return false
	case !t.ready():
		return true
	}
	return t.used != nil || t.said != "" && !t.given
}

// tell waits for the title and stores it. The rules accept a run's title once, so a retry is safe.
func (t *title) tell(ctx context.Context) {
	<-t.done
	if !t.pending() || t.run.job.SetTitle == nil {
		return
	}
	set := &conversationpb.SetTitle{RunId: t.run.job.RunID, Usage: t.used}
	if !t.given {
		set.Title = t.said
	}
	ctx, cancel := context.WithTimeout(ctx, tellTries*t.runner.config.ReportTimeout)
	defer cancel()
	err := t.runner.persist(ctx, func(ctx context.Context) error { return t.run.job.SetTitle(ctx, set) })
	if err != nil {
		t.runner.config.Logger.LogAttrs(ctx, slog.LevelDebug, "title not stored", about(t.run, err)...)
	}
}

// cleanTitle is one line without the quotation marks that models like to add.
func cleanTitle(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(strings.ToValidUTF8(text, "")), "\n")
	text = strings.Join(strings.Fields(strings.Trim(text, " \t\r\"'`*#\u201c\u201d\u201e\u00ab\u00bb")), " ")
	text = strings.TrimSuffix(strings.ReplaceAll(text, "**", ""), ".")
	if runes := []rune(text); len(runes) > maxTitle {
		text = strings.TrimSpace(string(runes[:maxTitle]))
	}
	return text
}

// titleStream only counts.
type titleStream struct{ meter model.Meter }

// Text implements model.Stream.
func (s *titleStream) Text(piece string) { s.meter.Text(piece) }

// Unsaid implements model.Overhearer.
func (s *titleStream) Unsaid(piece string) { s.meter.Unsaid(piece) }

// ToolCall implements model.Stream.
func (s *titleStream) ToolCall(model.ToolCall) {}

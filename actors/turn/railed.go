package turn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/guardrail"
	"parley/actors/guard"
	"parley/actors/machine"
	"parley/actors/turn/model"
	"parley/proto/conversationpb"
	"parley/proto/decisionpb"
	"parley/proto/failurepb"
)

// Error codes of a turn that ended because of a guardrail (document 3, 7.10 and 10.2).
const (
	codeGuardrail        = "guardrail_block"
	codeGuardrailMissing = "guardrail_missing"
)

// railed is the guardrails of the turn's agent and of its model. What people say has passed them at the door (package guard); here they
// see to what was said before they were named, documents, and what the model says. nil = neither names one.
type railed struct {
	loop  *modelLoop
	input guard.Rails
	ends  guard.Rails // of the agent, for what the model says: they only block
	own   guard.Rails // of the model: they take out, too

	texts   []railedText    // of the model call under way
	said    strings.Builder // by the model in it, as it came, where something may be taken out
	heard   bool            // it has said something
	blocked *model.Error    // why nothing of it goes further

	shown, told guard.Found // in what the model is shown, and in what it says
}

// railedText is what the model says as a guardrail hears it.
type railedText struct {
	rail   *guardrail.Guardrail
	stream *guardrail.Stream
}

// openRails reads the guardrails. A turn does not begin without one that is named.
func (l *modelLoop) openRails(ctx context.Context) error {
	a := l.agent
	if a.GetInputGuardrail()+a.GetOutputGuardrail()+a.GetModel().GetInputGuardrail()+a.GetModel().GetOutputGuardrail() == "" {
		return nil
	}
	r := &railed{loop: l}
	if err := r.renew(ctx); err != nil {
		return err
	}
	l.railed, l.text.keeps = r, true
	job := &l.run.job
	if clean := r.input.Clean(job.UserMessage.GetContent(), false, nil); clean != job.UserMessage.GetContent() { // the window counts it
		job.UserMessage = proto.CloneOf(job.UserMessage)
		job.UserMessage.Content = clean
	}
	return nil
}

// renew reads the guardrails anew: a change counts from the next model call on.
func (r *railed) renew(ctx context.Context) error {
	config, agent, project := &r.loop.runner.config, r.loop.agent, r.loop.run.job.ProjectID
	if config.Guard == nil {
		return &model.Error{Code: codeGuardrailMissing, Message: "The agent has a guardrail, and there is none here."}
	}
	for _, side := range []struct {
		into *guard.Rails
		keys []string
	}{
		{&r.input, []string{agent.GetInputGuardrail(), agent.GetModel().GetInputGuardrail()}},
		{&r.ends, []string{agent.GetOutputGuardrail()}},
		{&r.own, []string{agent.GetModel().GetOutputGuardrail()}},
	} {
		rails, err := config.Guard.Rails(ctx, project, side.keys...)
		if refused, is := errors.AsType[*machine.Failure](err); is && refused.Code == failurepb.Code_GUARDRAIL_MISSING {
			return &model.Error{Code: codeGuardrailMissing, Message: refused.DefaultText()}
		}
		if err != nil {
			return &model.Error{Code: "internal_error", Message: "A guardrail of the agent could not be read.", Err: err}
		}
		*side.into = rails
	}
	return nil
}

// tell has kept what was found until the turn has ended, or waits.
func (r *railed) tell(ctx context.Context) {
	if r == nil || r.loop.runner.config.Guard == nil {
		return
	}
	job := &r.loop.run.job
	r.loop.runner.config.Guard.Told(ctx, job.rails(guardrail.Input), &r.shown)
	r.loop.runner.config.Guard.Told(ctx, job.rails(guardrail.Output), &r.told)
}

// rails says of what guardrails have found something.
func (j *Job) rails(side string) *decisionpb.Verdict {
	return &decisionpb.Verdict{
		TraceId: j.RunID, ProjectId: j.ProjectID, Stage: side, ResourceName: j.AgentID,
		Rail: &decisionpb.Rail{
			TenantId: j.TenantID, Source: guardrail.OfAgent, ConversationId: j.ConversationID, UserId: cmp.Or(j.ByUser, j.UserID), TokenId: j.ByToken,
		},
	}
}

// ---- what the model is shown ----

// window is the messages of a request without what the guardrails take out of what people say.
func (r *railed) window(messages []model.Message) []model.Message {
	if r == nil {
		return messages
	}
	for i := range messages {
		if m := &messages[i]; m.Role == model.User {
			m.Content = r.input.Clean(m.Content, false, &r.shown)
		}
	}
	return messages
}

// admit looks at a document that is about to be shown to the model, and returns what is left of its text, or a note in its place. The
// shield sees it, too, as it came.
func (l *modelLoop) admit(ctx context.Context, file *conversationpb.FileRef, text string) (left, note string) {
	if l.railed == nil {
		return l.shielded.document(ctx, file, text)
	}
	left, stopped := l.railed.input.Look(text, false, &l.railed.shown)
	if stopped != nil {
		return "", stopped.DefaultText()
	}
	shown, note := l.shielded.document(ctx, file, text)
	if shown != text {
		left = l.railed.input.Clean(shown, false, nil)
	}
	return left, note
}

// ---- what the model says ----

// listen begins a model call. What the turn has said so far stands before it: a phrase may go over from one call to the next.
func (r *railed) listen(ctx context.Context) error {
	if r == nil {
		return nil
	}
	if err := r.renew(ctx); err != nil {
		return err
	}
	r.texts, r.heard, r.blocked = r.texts[:0], false, nil
	r.said.Reset()
	before := r.loop.text.whole.String()
	if before != "" && !r.loop.text.joins {
		before += separator
	}
	for _, rail := range r.ends {
		r.texts = append(r.texts, railedText{rail, rail.Ends()})
	}
	for _, rail := range r.own {
		r.texts = append(r.texts, railedText{rail, rail.Stream()})
	}
	for _, text := range r.texts {
		text.stream.After(before)
	}
	return nil
}

// hear takes a piece of what the model says and returns what may be said by now.
func (r *railed) hear(piece string) string {
	if r == nil {
		return piece
	}
	r.heard = true
	if len(r.own) > 0 {
		r.said.WriteString(piece)
	}
	return r.pass(piece, false)
}

// pass has a piece pass one guardrail after the other; the last one ends their texts.
func (r *railed) pass(piece string, last bool) string {
	for _, text := range r.texts {
		if r.blocked != nil {
			return ""
		}
		left, blocked := text.stream.Write(piece)
		if blocked == nil && last {
			var rest string
			rest, blocked = text.stream.Close()
			left += rest
		}
		if blocked != nil {
			r.blocked = blockedBy(text.rail, blocked)
			r.loop.cut(r.blocked)
			return ""
		}
		piece = left
	}
	return piece
}

// close ends a model call: what was held back is said.
func (r *railed) close() {
	if r == nil {
		return
	}
	r.loop.say(r.loop.shielded.hear(r.pass("", true)))
	for _, text := range r.texts {
		r.told.Add(text.rail, text.stream.Tally())
	}
}

// silent says that the model has said nothing in this call.
func (r *railed) silent() bool { return r == nil || !r.heard }

// stopped is why nothing that was said in this call goes further; nil = it does.
func (r *railed) stopped() error {
	if r == nil || r.blocked == nil {
		return nil
	}
	return r.blocked
}

// calls looks at the calls of an answer: they are shown, and kept. What the model's guardrails take out of them is gone.
func (r *railed) calls(answer *model.Answer) error {
	if r == nil {
		return nil
	}
	changed := len(r.own) > 0 && strings.TrimSpace(r.loop.callText(answer)) != strings.TrimSpace(r.said.String())
	for i := range answer.ToolCalls {
		call := &answer.ToolCalls[i]
		if len(call.Arguments) > maxArguments { // it is not run, and its arguments are kept nowhere
			continue
		}
		for _, rail := range r.ends {
			if result := rail.CheckJSON(call.Arguments, false); result.Blocked() {
				r.told.Add(rail, result.Tally.Only(guardrail.Block))
				return blockedBy(rail, result)
			}
		}
		for _, rail := range r.own {
			result := rail.CheckJSON(call.Arguments, false)
			r.told.Add(rail, result.Tally)
			if result.Blocked() {
				return blockedBy(rail, result)
			}
			if result.Text != call.Arguments {
				call.Arguments, changed = result.Text, true
			}
		}
	}
	if changed {
		answer.State = nil // which may hold what was taken out
	}
	return nil
}

// saidBeside is what is left of a text that the model has made beside the answer; "" = nothing, or something in it blocks.
func saidBeside(ends, own guard.Rails, text string, found *guard.Found) string {
	for _, rail := range ends {
		if result := rail.Check(text, false); result.Blocked() {
			found.Add(rail, result.Tally.Only(guardrail.Block))
			return ""
		}
	}
	for _, rail := range own {
		result := rail.Check(text, false)
		found.Add(rail, result.Tally)
		if result.Blocked() {
			return ""
		}
		text = result.Text
	}
	return text
}

// blockedBy is the end of a turn whose text a guardrail stops. It is kept in the log, without the phrases that were found.
func blockedBy(rail *guardrail.Guardrail, result *guardrail.Result) *model.Error {
	told := *result
	told.Findings = slices.Clone(result.Findings)
	for i := range told.Findings {
		told.Findings[i].Value = ""
	}
	refused := guard.Blocked(rail, &told)
	details, err := json.Marshal(refused.Details)
	if err != nil {
		details = nil // unreachable: they are texts
	}
	return &model.Error{Code: codeGuardrail, Message: refused.DefaultText(), Details: details}
}

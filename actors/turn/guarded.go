package turn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/aegis"
	"parley/actors/guard"
	"parley/actors/machine"
	"parley/actors/turn/model"
	"parley/proto/conversationpb"
	"parley/proto/decisionpb"
	"parley/proto/failurepb"
)

// Guard asks shields and reads guardrails, see guard.Guard.
type Guard interface {
	// Rails reads guardrails by their keys; the failure of one that is not there is a *machine.Failure.
	Rails(ctx context.Context, projectID string, keys ...string) (guard.Rails, error)
	// Told has kept what guardrails have found in a turn, without the texts.
	Told(ctx context.Context, origin *decisionpb.Verdict, found *guard.Found)
	// Shield reads the shield that an agent names; the failure of one that is not there is a *machine.Failure.
	Shield(ctx context.Context, tenantID, projectID, id string) (*aegis.Shield, error)
	// Judge judges a call. An error means that it must not go on.
	Judge(ctx context.Context, shield *aegis.Shield, call *aegis.Call, how aegis.How) (*aegis.Result, error)
	// Roles are what a user may call tools as.
	Roles(ctx context.Context, tenantID, userID string) []string
}

// Words of what a shield has stopped.
const (
	blockedCall   = "Blocked by Aegis shield: "
	blockedResult = "Response blocked by Aegis shield: "
	notAsked      = "it could not be asked"
)

// codeShield is the error code of a turn that ended because of its agent's shield.
const codeShield = "shield_blocked"

// shielded is the shield of the turn's agent. nil = it has none, or one that is disabled.
type shielded struct {
	loop   *modelLoop
	actor  string
	roles  []string
	id     string
	shield *aegis.Shield // as it was when the model was last called

	stream *aegis.Stream   // of the model call under way
	holds  bool            // what the model says in this call is said once it was judged
	held   strings.Builder // what may then be said
	said   strings.Builder // by the model in this call, as it came
}

// openShield finds the agent's shield. A turn whose shield cannot be read does not begin.
func (l *modelLoop) openShield(ctx context.Context) error {
	id := l.agent.GetShield()
	if id == "" {
		return nil
	}
	job := &l.run.job
	s := &shielded{loop: l, id: id, actor: cmp.Or(job.UserID, job.ByUser, job.ByToken, job.ConversationID)}
	if err := s.renew(ctx); err != nil {
		return err
	}
	if s.shield.GetMode() == aegis.Disabled {
		return nil
	}
	s.roles = l.runner.config.Guard.Roles(ctx, job.TenantID, cmp.Or(job.UserID, job.ByUser))
	l.shielded = s
	l.text.keeps = true
	if clean := s.shield.Clean(job.UserMessage.GetContent()); clean != job.UserMessage.GetContent() {
		job.UserMessage = proto.CloneOf(job.UserMessage)
		job.UserMessage.Content = clean
	}
	return nil
}

// renew reads the shield: a change counts from the next question on.
func (s *shielded) renew(ctx context.Context) error {
	config, job := &s.loop.runner.config, &s.loop.run.job
	if config.Guard == nil {
		return &model.Error{Code: codeShield, Message: "The agent has a shield, and there is none here."}
	}
	shield, err := config.Guard.Shield(ctx, job.TenantID, job.ProjectID, s.id)
	if refused, is := errors.AsType[*machine.Failure](err); is && refused.Code == failurepb.Code_FORBIDDEN {
		return &model.Error{Code: codeShield, Message: fmt.Sprintf("The agent's shield %q does not exist", s.id), Err: err}
	}
	if err != nil {
		return &model.Error{Code: codeShield, Message: "The agent's shield could not be read.", Err: err}
	}
	s.shield = shield
	return nil
}

// judge asks the shield. An error is an answer, too: the call must not go on.
func (s *shielded) judge(ctx context.Context, call *aegis.Call, how aegis.How) (*aegis.Result, error) {
	if s.shield.GetMode() == aegis.Disabled { // since the turn began
		return &aegis.Result{}, nil
	}
	job := &s.loop.run.job
	call.Actor, call.Roles, how.TraceID, how.UserID, how.TokenID = s.actor, s.roles, job.RunID, job.ByUser, job.ByToken
	result, err := s.loop.runner.config.Guard.Judge(ctx, s.shield, call, how)
	if err != nil && ctx.Err() == nil {
		s.loop.runner.config.Logger.Warn("a shield could not be asked", slog.String("shield", s.id), slog.String("stage", call.Stage),
			slog.String("run", job.RunID), slog.Any("err", err))
	}
	return result, err
}

// part judges a text as one member of a resource, and returns what is left of it, or why it must not go on.
func (s *shielded) part(ctx context.Context, call aegis.Call, member, text string) (left, blocked string) {
	if text == "" {
		return "", ""
	}
	value, isJSON := guard.Value(text, call.Stage == aegis.ToolPost)
	if member == "result" {
		call.Result = value
	} else {
		call.Content = value
	}
	result, err := s.judge(ctx, &call, aegis.How{})
	if err != nil {
		return "", notAsked
	}
	if reasons, stopped := result.Stopped(); stopped {
		return "", reasons
	}
	return guard.Text(result.Part(member, value), text, isJSON, len(result.Sanitized) > 0), ""
}

// ---- what the model is shown ----

// window is the messages of a request without what the shield takes out: they may have been written under another shield.
func (s *shielded) window(messages []model.Message) []model.Message {
	if s == nil {
		return messages
	}
	for i := range messages {
		m := &messages[i]
		if clean := s.shield.Clean(m.Content); clean != m.Content {
			m.Content, m.State = clean, nil
		}
		for k := range m.ToolCalls {
			call := &m.ToolCalls[k]
			if clean := string(s.shield.CleanJSON([]byte(call.Arguments))); clean != call.Arguments {
				call.Arguments, m.State = clean, nil
			}
		}
	}
	return messages
}

// document judges a document that is about to be shown to the model, and returns what is left of its text, or a note in its place.
func (s *shielded) document(ctx context.Context, file *conversationpb.FileRef, text string) (left, note string) {
	if s == nil {
		return text, ""
	}
	name := s.shield.Clean(file.GetName())
	content, _ := guard.Value(file.GetName(), false)
	before, err := s.judge(ctx, &aegis.Call{Stage: aegis.RetrievalPre, Type: "file", Name: name, Content: content}, aegis.How{})
	blocked := notAsked
	if err == nil {
		var stopped bool
		if blocked, stopped = before.Stopped(); !stopped {
			left, blocked = s.part(ctx, aegis.Call{Stage: aegis.RetrievalPost, Type: "file", Name: name}, "content", text)
		}
	}
	if blocked != "" {
		return "", blockedCall + blocked
	}
	return left, ""
}

// ---- what the model says ----

// hear takes a piece of what the model says and returns what may be said by now.
func (s *shielded) hear(piece string) string {
	if s == nil {
		return piece
	}
	if s.said.Len()+len(piece) > s.loop.runner.config.MaxText { // most of which may be held back
		s.loop.cut(errTooLong)
		return ""
	}
	s.said.WriteString(piece)
	return s.hold(s.stream.Write(piece))
}

// hold is what may be said at once of what the stream lets through: nothing, where a model is to judge it first.
func (s *shielded) hold(clean string) string {
	if !s.holds {
		return clean
	}
	s.held.WriteString(clean)
	return ""
}

// changed says that something was taken out of what the model said in this call.
func (s *shielded) changed(text string) bool {
	return s != nil && strings.TrimSpace(text) != strings.TrimSpace(s.said.String())
}

// now is the shield as it is known; nil = there is none.
func (s *shielded) now() *aegis.Shield {
	if s == nil {
		return nil
	}
	return s.shield
}

// silent says that the model has said nothing in this call.
func (s *shielded) silent() bool { return s == nil || s.said.Len() == 0 }

// listen begins a model call.
func (s *shielded) listen(ctx context.Context) error {
	if s == nil {
		return nil
	}
	if err := s.renew(ctx); err != nil {
		return err
	}
	s.said.Reset()
	s.held.Reset()
	s.stream, s.holds = s.shield.Stream(), s.shield.HoldsBack()
	return nil
}

// heard ends a model call: what a stream held back is said, and all of it judged; what a judge is to hear first is said after that. Of a
// turn that is over by then nothing more is said.
func (s *shielded) heard(ctx context.Context) error {
	if s == nil {
		return nil
	}
	s.loop.say(s.hold(s.stream.Close()))
	s.stream = nil
	if s.said.Len() == 0 || over(ctx) {
		return nil
	}
	_, blocked := s.part(ctx, aegis.Call{Stage: aegis.OutputPre, Type: "message", Name: s.loop.agent.GetId()}, "content", s.said.String())
	if over(ctx) {
		return nil
	}
	if blocked == "" {
		s.loop.say(s.held.String())
		return nil
	}
	return &model.Error{Code: codeShield, Message: blockedResult + blocked}
}

func over(ctx context.Context) bool { return ctx.Err() != nil }

// ---- what it calls ----

// ruling is what the shield says about a call. The zero value lets it run.
type ruling struct {
	blocked string // why it is not run
	asks    string // why a person must approve it
}

// rule judges the calls of an answer, which become what is left of them.
func (s *shielded) rule(ctx context.Context, answer *model.Answer) []ruling {
	rulings := make([]ruling, len(answer.ToolCalls))
	if s == nil {
		return rulings
	}
	for i := range answer.ToolCalls {
		call := &answer.ToolCalls[i]
		left := call.Arguments
		if len(left) > maxArguments { // it is not run, and its arguments are kept nowhere
			continue
		}
		left, rulings[i] = s.call(ctx, call.Name, left, aegis.How{})
		if left != call.Arguments {
			call.Arguments, answer.State = left, nil // which may hold what was taken out
		}
	}
	return rulings
}

// clean takes out of calls that are not run what the shield takes out.
func (s *shielded) clean(calls []model.ToolCall) {
	if s == nil {
		return
	}
	for i := range calls {
		calls[i].Arguments = string(s.shield.CleanJSON([]byte(calls[i].Arguments)))
	}
}

// call judges one call, and returns what is left of its arguments.
func (s *shielded) call(ctx context.Context, name, arguments string, how aegis.How) (string, ruling) {
	value, isJSON := guard.Value(strings.TrimSpace(arguments), true)
	call, member := &aegis.Call{Stage: aegis.ToolPre, Type: "tool", Name: name}, "arguments"
	switch {
	case isJSON && value[0] == '{':
		call.Arguments = value
	case strings.TrimSpace(arguments) != "": // what the tool will refuse
		call.Content, member = value, "content"
	}
	result, err := s.judge(ctx, call, how)
	if err != nil {
		return string(s.shield.CleanJSON([]byte(arguments))), ruling{blocked: blockedCall + notAsked}
	}
	left := guard.Text(result.Part(member, value), arguments, isJSON, len(result.Sanitized) > 0)
	reasons, stopped := result.Stopped()
	switch {
	case !stopped:
		return left, ruling{}
	case result.Decision == aegis.RequireApproval:
		return left, ruling{asks: reasons}
	}
	return string(s.shield.CleanJSON([]byte(arguments))), ruling{blocked: blockedCall + reasons} // a blocked resource is not left in part
}

// apply puts a ruling on a call that was just judged by its tool.
func (r ruling) apply(c *toolCall) {
	if r.asks != "" && c.problem == "" {
		switch c.open.GetNeed() {
		case conversationpb.Need_RUN:
			c.open.Need, c.open.Args, c.open.Schema = conversationpb.Need_APPROVAL, c.args, c.tool.Schema
			c.open.ActionTimeoutMs = c.tool.Policy.GetActionTimeoutMs()
			c.open.Details = withReasons(c.details, r.asks)
			c.open.Guarded = true
		case conversationpb.Need_APPROVAL:
			c.open.Guarded, c.open.Details = true, withReasons(c.details, r.asks)
		default: // a person or a program answers it elsewhere, and nobody approves that first
			r.blocked = blockedCall + r.asks
		}
	}
	if r.blocked != "" {
		c.problem = cmp.Or(c.problem, r.blocked)
		c.open = &conversationpb.OpenCall{
			Id: c.open.GetId(), Name: c.open.GetName(), Need: conversationpb.Need_RUN, Idempotent: true, Blocked: r.blocked,
		}
	}
}

// withReasons adds to what a person is shown why the shield asks.
func withReasons(details []byte, reasons string) []byte {
	members := map[string]any{}
	if len(details) > 0 && json.Unmarshal(details, &members) != nil {
		return details // unreachable: they are an object
	}
	members["shield"] = reasons
	text, err := json.Marshal(members)
	if err != nil {
		return details // unreachable: it was JSON
	}
	return text
}

// resumed judges a call again that waited, or whose runner was lost: the decision that was made stands, unless the shield has become
// stricter since. It counts nothing anew.
func (s *shielded) resumed(ctx context.Context, c *toolCall, known *conversationpb.OpenCall) {
	if known.GetBlocked() != "" {
		c.problem = known.GetBlocked()
		return
	}
	if s == nil || c.problem != "" {
		return
	}
	approved := known.GetGuarded() && known.GetNeed() != conversationpb.Need_APPROVAL // by a person, for it was asked about
	how := s.approval(approved)
	how.Again = !approved || s.loop.run.job.Attempt > 1 // that it runs now, since a person has approved it, is kept once
	left, r := s.call(ctx, c.open.GetName(), string(c.args), how)
	switch {
	case r.blocked != "":
		c.problem = r.blocked
	case r.asks != "" && !known.GetGuarded():
		c.problem = blockedCall + r.asks
	default:
		c.args = []byte(left)
	}
}

// edited judges a call whose arguments a person has set, and approved with that.
func (s *shielded) edited(ctx context.Context, name string, args []byte) (left []byte, problem string) {
	if s == nil {
		return args, ""
	}
	text, r := s.call(ctx, name, string(args), s.approval(true))
	if r.asks != "" {
		r.blocked = blockedCall + r.asks
	}
	return []byte(text), r.blocked
}

func (s *shielded) approval(given bool) aegis.How {
	return aegis.How{Counted: true, Approved: func(context.Context) (bool, error) { return given, nil }}
}

// result judges what a tool came to.
func (s *shielded) result(ctx context.Context, o outcome) outcome {
	if s == nil {
		return o
	}
	text := o.text
	if o.err != nil {
		text = o.err.Error()
	}
	left, blocked := s.part(ctx, aegis.Call{Stage: aegis.ToolPost, Type: "tool", Name: o.call.open.GetName()}, "result", text)
	switch {
	case blocked != "":
		o.err, o.text, o.images = errors.New(blockedResult+blocked), "", nil
	case o.err != nil:
		if left != text {
			o.err = errors.New(left)
		}
	default:
		o.text = left
	}
	return o
}

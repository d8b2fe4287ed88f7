package guard

import (
	"cmp"
	"context"
	"encoding/json"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/aegis"
	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/actors/core/guardrail"
	"parley/actors/machine/rawjson"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/decisionpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
	"parley/proto/runpb"
	"parley/proto/taskpb"
)

// Agents finds the agent that a command is for, see turn.Agents.
type Agents interface {
	Agent(projectID, id string, version int64) (*agentpb.Agent, bool)
}

// Door is a client of entities for those who bring what people and programs say. Messages to an agent with a shield are judged at
// input.pre, results of calls that the caller ran at tool.post; the rest of what comes along, and what comes a second time, is cleaned. All
// that they say passes the input guardrails of the agent and its model, before the shield is asked; both see it as it came.
type Door struct {
	entity.Client

	Guard  *Guard
	Agents Agents
	Known  *Known
}

// Ask implements entity.Client.
func (d *Door) Ask(ctx context.Context, id string, command proto.Message) (proto.Message, error) {
	var err error
	switch c := command.(type) {
	case *conversationpb.Command:
		err = d.conversation(ctx, id, c)
	case *runpb.Command:
		err = d.run(ctx, id, c)
	case *taskpb.Command:
		err = d.task(ctx, id, c)
	}
	if err != nil {
		return nil, err
	}
	return d.Client.Ask(ctx, id, command)
}

// visit is one command at the door.
type visit struct {
	guard    *Guard
	shield   *aegis.Shield // nil = the agent has none, or one that is disabled
	rails    Rails
	caller   *conversationpb.Caller
	actor    string
	agent    string
	repeated bool // it came before: it was counted and kept then
	origin   *decisionpb.Verdict
	found    Found
}

// visitor is who brings a command for an agent, and of what.
type visitor struct {
	caller    *conversationpb.Caller
	id, agent string
	version   int64
	repeated  bool
	run       string // if one is known
}

// visit is nil when there is nothing to be guarded.
func (d *Door) visit(ctx context.Context, of visitor) (*visit, error) {
	if of.agent == "" {
		return nil, nil //nolint:nilnil // no agent, no shield
	}
	caller := of.caller
	agent, found := d.Agents.Agent(caller.GetProjectId(), of.agent, of.version)
	if !found {
		return nil, nil //nolint:nilnil // no agent, no shield
	}
	rails, err := d.Guard.Rails(ctx, caller.GetProjectId(), agent.GetInputGuardrail(), agent.GetModel().GetInputGuardrail())
	if err != nil {
		return nil, err
	}
	var shield *aegis.Shield
	if id := agent.GetShield(); id != "" {
		if shield, err = d.Guard.Shield(ctx, caller.GetTenantId(), caller.GetProjectId(), id); err != nil {
			return nil, err
		}
	}
	if shield != nil && shield.GetMode() == aegis.Disabled {
		shield = nil
	}
	if shield == nil && len(rails) == 0 {
		return nil, nil //nolint:nilnil // nothing looks at it
	}
	return &visit{
		guard: d.Guard, shield: shield, rails: rails, caller: caller, actor: cmp.Or(caller.GetUserId(), caller.GetTokenId(), of.id), agent: of.agent,
		repeated: of.repeated,
		origin: &decisionpb.Verdict{
			TraceId: of.run, ProjectId: caller.GetProjectId(), Stage: guardrail.Input, ResourceName: of.agent,
			Rail: &decisionpb.Rail{
				TenantId: caller.GetTenantId(), Source: guardrail.OfAgent, ConversationId: of.id, UserId: caller.GetUserId(), TokenId: caller.GetTokenId(),
			},
		},
	}, nil
}

// close has kept what the guardrails have found.
func (v *visit) close(ctx context.Context) {
	if !v.repeated {
		v.guard.Told(ctx, v.origin, &v.found)
	}
}

func (d *Door) conversation(ctx context.Context, id string, c *conversationpb.Command) error {
	var agent string
	version := c.GetAgentVersion()
	var state *conversationpb.State
	switch body := c.GetBody().(type) {
	case *conversationpb.Command_Send:
		agent = body.Send.GetAgent().GetId()
	case *conversationpb.Command_Edit:
		agent = body.Edit.GetAgent().GetId()
	case *conversationpb.Command_Regenerate:
		agent = body.Regenerate.GetAgent().GetId()
	case *conversationpb.Command_Create:
		agent = body.Create.GetAgent().GetId()
	case *conversationpb.Command_Resolve, *conversationpb.Command_Answer:
		read, err := entity.Read[*nodepb.StateReply](ctx, d.Client, &nodepb.StateQuery{Id: id})
		if err != nil {
			return err
		}
		state = read.GetState()
		agent, version = state.GetAgentId(), state.GetPaused().GetAgentVersion()
	default:
		return nil
	}
	if agent == "" {
		var err error
		if agent, err = d.agentOf(ctx, id, c); err != nil {
			return err
		}
	}
	v, err := d.visit(ctx, visitor{c.GetCaller(), id, agent, version, c.GetRepeated(), c.GetBackgroundRun()})
	if err != nil || v == nil {
		return err
	}
	defer v.close(ctx)
	v.create(c.GetOpening().GetCreate())
	switch body := c.GetBody().(type) {
	case *conversationpb.Command_Create:
		v.create(body.Create)
	case *conversationpb.Command_Send:
		return v.send(ctx, body.Send)
	case *conversationpb.Command_Edit:
		body.Edit.Content, err = v.said(ctx, body.Edit.GetContent())
	case *conversationpb.Command_Regenerate: // what is stored stays; the runner shows the model what is left of it
		_, err = v.said(ctx, body.Regenerate.GetUserMessage().GetContent())
	case *conversationpb.Command_Resolve:
		return v.resolve(ctx, state, body.Resolve)
	case *conversationpb.Command_Answer:
		for _, output := range body.Answer.GetOutputs() {
			if err = v.result(ctx, toolOf(state, "", output.GetId()), &output.Result, &output.Error); err != nil {
				return err
			}
		}
		v.options(body.Answer.GetOptions())
	}
	return err
}

func (d *Door) run(ctx context.Context, id string, c *runpb.Command) error {
	create := c.GetCreate()
	if create == nil {
		return nil
	}
	v, err := d.visit(ctx, visitor{caller: c.GetCaller(), id: create.GetConversationId(), agent: create.GetAgentId(), version: create.GetAgentVersion(), run: id})
	if err != nil || v == nil {
		return err
	}
	defer v.close(ctx)
	v.create(create.GetOpening().GetCreate())
	order := create.GetOrder()
	if order.GetContinues() {
		return nil
	}
	if order.Content, err = v.said(ctx, order.GetContent()); err == nil {
		order.Metadata = v.cleanJSON(order.GetMetadata())
	}
	return err
}

func (d *Door) task(ctx context.Context, id string, c *taskpb.Command) error {
	switch body := c.GetBody().(type) {
	case *taskpb.Command_Create:
		v, err := d.visit(ctx, visitor{caller: c.GetCaller(), id: id, agent: body.Create.GetAgentId()})
		if err != nil || v == nil {
			return err
		}
		defer v.close(ctx)
		if body.Create.Input, err = v.said(ctx, body.Create.GetInput()); err == nil {
			body.Create.Metadata = v.cleanJSON(body.Create.GetMetadata())
		}
		return err
	case *taskpb.Command_AddComment:
		read, err := entity.Read[*nodepb.TaskReply](ctx, d.Client, &nodepb.TaskQuery{Id: id})
		if err != nil {
			return err
		}
		v, err := d.visit(ctx, visitor{caller: c.GetCaller(), id: id, agent: read.GetTask().GetAgentId()})
		if err != nil || v == nil {
			return err
		}
		defer v.close(ctx)
		if body.AddComment.Content, err = v.said(ctx, body.AddComment.GetContent()); err == nil {
			body.AddComment.Metadata = v.cleanJSON(body.AddComment.GetMetadata())
		}
		return err
	}
	return nil
}

// create cleans what comes with a new conversation.
func (v *visit) create(c *conversationpb.Create) {
	if c == nil {
		return
	}
	c.Title, c.FirstMessage, c.Metadata = v.clean(c.GetTitle()), v.clean(c.GetFirstMessage()), v.cleanJSON(c.GetMetadata())
}

// clean is what is left of a text that stops nothing.
func (v *visit) clean(text string) string {
	return v.rails.Clean(v.shield.Clean(text), false, &v.found)
}

func (v *visit) cleanJSON(raw []byte) []byte {
	if len(raw) == 0 {
		return raw
	}
	return []byte(v.rails.Clean(string(v.shield.CleanJSON(raw)), true, &v.found))
}

// hear has the guardrails look at a text that the shield does not judge. cleaned is what the shield leaves of it.
func (v *visit) hear(text, cleaned string, isJSON bool) (left string, err error) {
	left, stopped := v.rails.Look(text, isJSON, &v.found)
	if stopped != nil {
		return "", stopped
	}
	if cleaned != text {
		left = v.rails.Clean(cleaned, isJSON, nil)
	}
	return left, nil
}

func (v *visit) send(ctx context.Context, c *conversationpb.Send) error {
	content, err := v.said(ctx, c.GetContent())
	if err != nil {
		return err
	}
	c.Content, c.Metadata = content, v.cleanJSON(c.GetMetadata())
	for _, message := range c.GetEarlier() {
		if message.GetRole() != conversationpb.Role_USER { // it is the model's: it may say what is not to be said to it
			message.Content = v.clean(message.GetContent())
		} else if message.Content, err = v.hear(message.GetContent(), v.shield.Clean(message.GetContent()), false); err != nil {
			return err
		}
		if err = v.calls(message.GetToolCalls()); err != nil {
			return err
		}
	}
	for _, use := range c.GetGiven() {
		use.Text = v.clean(use.GetText())
		if err = v.calls(use.GetCalls()); err != nil {
			return err
		}
	}
	v.options(c.GetOptions())
	return nil
}

// calls looks at calls that were made elsewhere: their results are said to the model.
func (v *visit) calls(calls []*conversationpb.ToolCall) error {
	for _, call := range calls {
		for _, said := range []*string{&call.Result, &call.Error} {
			left, err := v.hear(*said, v.shield.Clean(*said), true)
			if err != nil {
				return err
			}
			*said = left
		}
		call.Arguments = string(v.cleanJSON([]byte(call.GetArguments())))
	}
	return nil
}

func (v *visit) options(options *conversationpb.TurnOptions) {
	if options != nil {
		options.Instructions = v.clean(options.GetInstructions())
	}
}

// said judges what a person says, and returns what is left of it.
func (v *visit) said(ctx context.Context, text string) (string, error) {
	left, err := v.judge(ctx, aegis.InputPre, "message", v.agent, text)
	return left, err
}

func (v *visit) resolve(ctx context.Context, state *conversationpb.State, c *conversationpb.Resolve) error {
	name := toolOf(state, c.GetActionId(), "")
	switch given := c.GetResolution().(type) {
	case *conversationpb.Resolve_Approval: // the shield judges the arguments where they are about to be used
		approval, args := given.Approval, string(given.Approval.GetApprovedArgs())
		var err error
		if approval.Comment, err = v.hear(approval.GetComment(), v.shield.Clean(approval.GetComment()), false); err != nil || args == "" {
			return err
		}
		if args, err = v.hear(args, string(v.shield.CleanJSON([]byte(args))), true); err != nil {
			return err
		}
		approval.ApprovedArgs = []byte(args)
	case *conversationpb.Resolve_Answers:
		left, err := v.judge(ctx, aegis.InputPre, "answers", name, string(given.Answers.GetAnswers()))
		if err != nil {
			return err
		}
		given.Answers.Answers = []byte(left)
	case *conversationpb.Resolve_Client:
		output := string(given.Client.GetOutput())
		if err := v.result(ctx, name, &output, &given.Client.Error); err != nil {
			return err
		}
		given.Client.Output = []byte(output)
	}
	return nil
}

// result judges what a tool came to that the caller ran.
func (v *visit) result(ctx context.Context, tool string, output, problem *string) error {
	for _, text := range []*string{output, problem} {
		if *text == "" {
			continue
		}
		left, err := v.judge(ctx, aegis.ToolPost, "tool", tool, *text)
		if err != nil {
			return err
		}
		*text = left
	}
	return nil
}

// judge has the guardrails, then the shield judge a text, and returns what is left of it. JSON is judged as what it says.
func (v *visit) judge(ctx context.Context, stage, kind, name, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	wantJSON := stage != aegis.InputPre || kind != "message"
	left, stopped := v.rails.Look(text, wantJSON, &v.found)
	if stopped != nil {
		return "", stopped
	}
	if v.shield == nil {
		return left, nil
	}
	asked, err := v.ask(ctx, &aegis.Call{Stage: stage, Type: kind, Name: name}, text, wantJSON)
	if err != nil {
		return "", err
	}
	if asked != text {
		left = v.rails.Clean(asked, wantJSON, nil)
	}
	return left, nil
}

// ask asks the shield about a text of a call.
func (v *visit) ask(ctx context.Context, call *aegis.Call, text string, wantJSON bool) (string, error) {
	value, isJSON := Value(text, wantJSON)
	call.Actor, call.Roles = v.actor, v.guard.Roles(ctx, v.caller.GetTenantId(), v.caller.GetUserId())
	member := "content"
	if call.Content = value; call.Stage == aegis.ToolPost {
		member, call.Content, call.Result = "result", nil, value
	}
	result, err := v.guard.Judge(ctx, v.shield, call, aegis.How{
		Again: v.repeated, UserID: v.caller.GetUserId(), TokenID: v.caller.GetTokenId(),
	})
	if err != nil {
		return "", err
	}
	if reasons, stopped := result.Stopped(); stopped {
		return "", failure.New(failurepb.Code_FORBIDDEN, failure.ShieldBlocked).Param("reasons", reasons)
	}
	return Text(result.Part(member, value), text, isJSON, len(result.Sanitized) > 0), nil
}

// toolOf is the name of the tool whose call waits: by the id of its action, or its own.
func toolOf(state *conversationpb.State, action, call string) string {
	for _, pending := range state.GetPending() {
		if action != "" && pending.GetId() == action || call != "" && pending.GetToolCallId() == call {
			return pending.GetToolName()
		}
	}
	return ""
}

// Value is a text as a shield is shown it: the JSON that it is, if that is wanted and it is an object or array of modest size, else the
// text as a JSON string.
func Value(text string, wantJSON bool) (value json.RawMessage, isJSON bool) {
	const depth, values = 64, 1 << 16
	if wantJSON && len(text) > 1 && (text[0] == '{' || text[0] == '[') && rawjson.Modest([]byte(text), depth, values) && json.Valid([]byte(text)) {
		return json.RawMessage(text), true
	}
	value, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage(`""`), false // unreachable: texts are always encoded
	}
	return value, false
}

// Text is what is left of a text that was shown as Value.
func Text(left json.RawMessage, came string, isJSON, changed bool) string {
	if !changed {
		return came
	}
	if isJSON {
		return string(left)
	}
	var text string
	if json.Unmarshal(left, &text) != nil {
		return "" // unreachable: a string stays a string
	}
	return text
}

package convapi

import (
	"encoding/json"

	"parley/actors/machine"
	"parley/httpedge/endpoint/wire"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// Kinds of pending actions, and types of what resolves them.
const (
	kindApproval = "tool_approval"
	kindQuestion = "user_question"
	kindClient   = "client_tool"
)

// resolutionInput is a decision in one of its three forms (document 2, POST /conversations/:id/actions/:actionId).
type resolutionInput struct {
	Kind     string
	approval *conversationpb.ToolApproval
	answers  *conversationpb.UserAnswers
	client   *conversationpb.ClientResult
}

// resolutionSchema is what a body may hold of all forms.
type resolutionSchema struct {
	Type               string          `json:"type" enum:"tool_approval,user_question,client_tool"`
	Decision           string          `json:"decision" enum:"allow,deny" doc:"tool_approval"`
	RememberForSession bool            `json:"rememberForSession" doc:"tool_approval: the tool needs no approval any more in this conversation"`
	ApprovedArgs       json.RawMessage `json:"approvedArgs" doc:"tool_approval: run the tool with these arguments instead"`
	Comment            string          `json:"comment" doc:"tool_approval: shown to the model with a denial"`
	Answers            json.RawMessage `json:"answers" doc:"user_question: question to answer"`
	Cancelled          bool            `json:"cancelled" doc:"user_question: the person will not answer"`
	Output             json.RawMessage `json:"output" any:"true" doc:"client_tool: any JSON value"`
	Error              string          `json:"error" doc:"client_tool: why the tool failed"`
}

// Described implements openapi.Described.
func (r resolutionInput) Described() (value any, nullable bool) { return resolutionSchema{}, false }

// UnmarshalJSON implements json.Unmarshaler.
func (r *resolutionInput) UnmarshalJSON(raw []byte) error {
	if isNull(raw) {
		return nil
	}
	var in resolutionSchema
	if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	r.Kind = in.Type
	switch in.Type {
	case kindApproval:
		return r.setApproval(&in)
	case kindQuestion:
		return r.setAnswers(&in)
	case kindClient:
		return r.setClient(&in)
	default:
		return badResolution("resolution.type must be tool_approval, user_question or client_tool")
	}
}

func (r *resolutionInput) setApproval(in *resolutionSchema) error {
	if in.Decision != "allow" && in.Decision != "deny" {
		return badResolution("resolution.decision must be allow or deny")
	}
	args := compact(in.ApprovedArgs)
	if len(args) > 0 && args[0] != '{' {
		return machine.Fail(failurepb.Code_INVALID_APPROVED_ARGS, "approvedArgs must be an object")
	}
	r.approval = &conversationpb.ToolApproval{
		Allow: in.Decision == "allow", Remember: in.RememberForSession, ApprovedArgs: args, Comment: in.Comment,
	}
	return nil
}

func (r *resolutionInput) setAnswers(in *resolutionSchema) error {
	answers := compact(in.Answers)
	switch {
	case len(answers) == 0 && !in.Cancelled:
		return badResolution("resolution.answers is required")
	case len(answers) > 0 && answers[0] != '{':
		return badResolution("resolution.answers must be an object: question to answer")
	}
	r.answers = &conversationpb.UserAnswers{Answers: answers, Cancelled: in.Cancelled}
	return nil
}

func (r *resolutionInput) setClient(in *resolutionSchema) error {
	if len(in.Output) == 0 && in.Error == "" {
		return badResolution("resolution.output is required, or error")
	}
	output := in.Output // null is a result, too
	if len(output) > 0 {
		output = wire.Line(output)
	}
	r.client = &conversationpb.ClientResult{Output: output, Error: in.Error}
	return nil
}

func (r *resolutionInput) command(actionID string) *conversationpb.Resolve {
	resolve := &conversationpb.Resolve{ActionId: actionID}
	switch {
	case r.approval != nil:
		resolve.Resolution = &conversationpb.Resolve_Approval{Approval: r.approval}
	case r.answers != nil:
		resolve.Resolution = &conversationpb.Resolve_Answers{Answers: r.answers}
	case r.client != nil:
		resolve.Resolution = &conversationpb.Resolve_Client{Client: r.client}
	}
	return resolve
}

func badResolution(text string) *machine.Failure {
	return machine.Fail(failurepb.Code_VALIDATION, "%s", text)
}

// compact is a JSON value on one line; nil for null.
func compact(raw []byte) []byte {
	if len(raw) == 0 || isNull(raw) {
		return nil
	}
	return wire.Line(raw)
}

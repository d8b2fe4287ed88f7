package conversation

import (
	"encoding/json"
	"unicode/utf8"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/actors/schema"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// What the model is told of a call that a person decided.
const (
	tellDenied      = "not run: the user denied this call"
	tellUnknown     = "it is not known whether this call ran: the server was interrupted, and the user does not want it to run again"
	tellLateUnknown = "it is not known whether this call ran: the server was interrupted, and nobody said in time what to do"
	tellUnanswered  = "the user did not answer"
	tellLateApprove = "not run: nobody approved this call in time"
	tellLateAnswer  = "nobody answered in time"
	tellLateClient  = "timed out: the client did not return a result in time"
)

const maxComment = 4096 // bytes

// resolution is how a decision is told in the log, in the words of document 2, POST /conversations/:id/actions/:actionId.
type resolution struct {
	Type         string          `json:"type"`
	Decision     string          `json:"decision,omitempty"`
	Remember     bool            `json:"rememberForSession,omitempty"`
	ApprovedArgs json.RawMessage `json:"approvedArgs,omitempty"`
	Comment      string          `json:"comment,omitempty"`
	Answers      json.RawMessage `json:"answers,omitempty"`
	Cancelled    bool            `json:"cancelled,omitempty"`
	Output       json.RawMessage `json:"output,omitempty"`
	Error        string          `json:"error,omitempty"`
}

// decide checks a resolution against its action and says what the call comes to.
func (r *request) decide(
	action *conversationpb.PendingAction, c *conversationpb.Resolve,
) (*conversationpb.ActionClosed, *machine.Failure) {
	switch given := c.GetResolution().(type) {
	case *conversationpb.Resolve_Approval:
		if action.GetKind() == conversationpb.KindApproval {
			return r.decideApproval(action, given.Approval)
		}
	case *conversationpb.Resolve_Answers:
		if action.GetKind() == conversationpb.KindQuestion {
			return r.decideAnswers(action, given.Answers)
		}
	case *conversationpb.Resolve_Client:
		if action.GetKind() == conversationpb.KindClient {
			return r.decideClient(action, given.Client)
		}
	}
	return nil, failure.New(failurepb.Code_VALIDATION, failure.OtherResolutionType).Param("type", action.GetKind())
}

func (r *request) decideApproval(
	action *conversationpb.PendingAction, given *conversationpb.ToolApproval,
) (*conversationpb.ActionClosed, *machine.Failure) {
	if len(given.GetComment()) > maxComment || !utf8.ValidString(given.GetComment()) {
		return nil, failure.New(failurepb.Code_VALIDATION, failure.BadText).In("comment").Param("what", "a comment").Param("most", maxComment)
	}
	if !given.GetAllow() {
		if len(given.GetApprovedArgs()) > 0 {
			return nil, failure.New(failurepb.Code_VALIDATION, failure.ArgsWithoutAllow).In("approvedArgs")
		}
		tell := tellDenied
		if action.GetUnknownOutcome() {
			tell = tellUnknown
		}
		if given.GetComment() != "" {
			tell += ": " + given.GetComment()
		}
		return closedWith(action, resolution{Type: conversationpb.KindApproval, Decision: "deny", Comment: given.GetComment()}, "", tell), nil
	}
	args, f := r.approvedArgs(action, given)
	remember := given.GetRemember() && !action.GetUnknownOutcome() // that it may run again says nothing of other calls
	if f == nil && remember {
		f = r.roomToRemember(action.GetToolName())
	}
	if f != nil {
		return nil, f
	}
	run := args
	if action.GetUnknownOutcome() {
		run = action.GetArgs() // a person may have set them when it was approved
	}
	return &conversationpb.ActionClosed{Run: true, Args: run, Resolution: resolution{
		Type: conversationpb.KindApproval, Decision: "allow", Remember: remember, ApprovedArgs: args, Comment: given.GetComment(),
	}.encode()}, nil
}

// approvedArgs checks the arguments that a person put in the place of the model's. A call that may have run already
// keeps its own: with others it would be another call under the same idempotency key.
func (r *request) approvedArgs(action *conversationpb.PendingAction, approval *conversationpb.ToolApproval) ([]byte, *machine.Failure) {
	given := approval.GetApprovedArgs()
	if len(given) == 0 {
		return nil, nil
	}
	fail := func(reason failure.Reason) *failure.Failure {
		return failure.New(failurepb.Code_INVALID_APPROVED_ARGS, reason)
	}
	if action.GetUnknownOutcome() {
		return nil, fail(failure.ArgsOfCallThatRan).In("approvedArgs")
	}
	if len(given) > r.limits.ActionArgsBytes {
		return nil, fail(failure.ValuesTooLarge).In("approvedArgs").Param("most", r.limits.ActionArgsBytes)
	}
	args := compact(given)
	if len(args) == 0 || args[0] != '{' || !utf8.Valid(given) {
		return nil, fail(failure.ValuesNotAnObject).In("approvedArgs")
	}
	if problem := misfit(action, args, approval.GetVerdict()); problem != "" {
		return nil, fail(failure.ArgsAgainstSchema).In("approvedArgs").Param("problem", problem)
	}
	return args, nil
}

// misfit is what the sender found wrong with the arguments. The release before sends them unchecked: what is small is checked here, in
// some milliseconds, the rest is too complex. With its commands this goes, and what has no verdict is refused.
func misfit(action *conversationpb.PendingAction, args []byte, verdict *conversationpb.ArgsVerdict) string {
	if verdict != nil {
		return verdict.GetProblem()
	}
	if err := schema.ValidateBriefly(action.GetSchema(), args); err != nil {
		return err.Error()
	}
	return ""
}

func (r *request) decideAnswers(
	action *conversationpb.PendingAction, given *conversationpb.UserAnswers,
) (*conversationpb.ActionClosed, *machine.Failure) {
	if given.GetCancelled() {
		return closedWith(action, resolution{Type: conversationpb.KindQuestion, Cancelled: true}, "", tellUnanswered), nil
	}
	answers := compact(given.GetAnswers())
	if len(given.GetAnswers()) > r.limits.ClientToolOutputBytes {
		return nil, failure.New(failurepb.Code_VALIDATION, failure.ValuesTooLarge).In("answers").Param("most", r.limits.ClientToolOutputBytes)
	}
	if len(answers) == 0 || answers[0] != '{' || !utf8.Valid(given.GetAnswers()) {
		return nil, failure.New(failurepb.Code_VALIDATION, failure.BadAnswers).In("answers")
	}
	if f := checkAnswers(action, answers); f != nil {
		return nil, f
	}
	return closedWith(action, resolution{Type: conversationpb.KindQuestion, Answers: answers}, string(answers), ""), nil
}

func (r *request) decideClient(
	action *conversationpb.PendingAction, given *conversationpb.ClientResult,
) (*conversationpb.ActionClosed, *machine.Failure) {
	fail := func(reason failure.Reason) *failure.Failure {
		return failure.New(failurepb.Code_INVALID_CLIENT_TOOL_RESULT, reason)
	}
	if limit := r.limits.ClientToolOutputBytes; max(len(given.GetOutput()), len(given.GetError())) > limit {
		return nil, fail(failure.OutputTooLarge).In("output").Param("most", limit)
	}
	if !utf8.ValidString(given.GetError()) {
		return nil, fail(failure.ErrorNotUTF8).In("error")
	}
	output := compact(given.GetOutput())
	if len(output) == 0 && (given.GetError() == "" || len(given.GetOutput()) > 0) || !utf8.Valid(given.GetOutput()) {
		return nil, fail(failure.OutputNotJSON).In("output")
	}
	told := resolution{Type: conversationpb.KindClient, Output: output, Error: given.GetError()}
	return closedWith(action, told, plain(output), given.GetError()), nil
}

// plain is a JSON value as a model reads it: a string without its quotes.
func plain(value []byte) string {
	var text string
	if len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &text) == nil {
		return clean(text)
	}
	return string(value)
}

// closedWith closes an action with what its call came to.
func closedWith(action *conversationpb.PendingAction, told resolution, result, failed string) *conversationpb.ActionClosed {
	return &conversationpb.ActionClosed{
		Result: &conversationpb.ToolCall{
			Id: action.GetToolCallId(), Name: action.GetToolName(), Result: result, Error: failed,
		},
		Resolution: told.encode(),
	}
}

func (r resolution) encode() []byte {
	raw, _ := json.Marshal(r) // its raw parts have just been compacted
	return raw
}

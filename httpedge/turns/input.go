package turns

import (
	"encoding/json"
	"math"

	"parley/actors/machine"
	"parley/httpedge/endpoint/wire"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// Budget is a budget as a client sends it; nil = left out. A surface's own struct, with its names, converts to it.
type Budget struct {
	MaxCostUSD *float64
	OnReach    *string
}

// Read returns the budget, or INVALID_BUDGET with the fields' names in camelCase.
func (in Budget) Read() (*conversationpb.Budget, *machine.Failure) {
	bad := func(format string, args ...any) (*conversationpb.Budget, *machine.Failure) {
		return nil, machine.Fail(failurepb.Code_INVALID_BUDGET, format, args...)
	}
	if in.MaxCostUSD == nil {
		return bad("budget must be {maxCostUsd: number, onReach: pause or stop}")
	}
	nano, ok := conversationpb.NanoUSD(*in.MaxCostUSD)
	if !ok {
		return bad("maxCostUsd must be above 0 and below %d", math.MaxInt64/int64(1e9))
	}
	budget := &conversationpb.Budget{MaxCostNanoUsd: nano}
	if in.OnReach != nil {
		if *in.OnReach != conversationpb.OnReachPause && *in.OnReach != conversationpb.OnReachStop {
			return bad("onReach must be pause or stop")
		}
		budget.OnReach = *in.OnReach
	}
	return budget, nil
}

// Resolution is a decision on a pending action in one of its three forms, as a client sends it (document 2, POST
// /conversations/:id/actions/:actionId). A surface's own struct, with its names, converts to it.
type Resolution struct {
	Type               string
	Decision           string
	RememberForSession bool
	ApprovedArgs       json.RawMessage
	Comment            string
	Answers            json.RawMessage
	Cancelled          bool
	Output             json.RawMessage
	Error              string
}

// Read returns the decision, which does not say of what, or a refusal with the fields' names in camelCase.
func (in Resolution) Read() (*conversationpb.Resolve, *machine.Failure) {
	switch in.Type {
	case conversationpb.KindApproval:
		return in.approval()
	case conversationpb.KindQuestion:
		return in.answers()
	case conversationpb.KindClient:
		return in.clientResult()
	}
	return nil, invalid("resolution.type must be tool_approval, user_question or client_tool")
}

func (in Resolution) approval() (*conversationpb.Resolve, *machine.Failure) {
	args := wire.Compact(in.ApprovedArgs)
	switch {
	case in.Decision != "allow" && in.Decision != "deny":
		return nil, invalid("resolution.decision must be allow or deny")
	case len(args) > 0 && args[0] != '{':
		return nil, machine.Fail(failurepb.Code_INVALID_APPROVED_ARGS, "approvedArgs must be an object")
	}
	return &conversationpb.Resolve{Resolution: &conversationpb.Resolve_Approval{Approval: &conversationpb.ToolApproval{
		Allow: in.Decision == "allow", Remember: in.RememberForSession, ApprovedArgs: args, Comment: in.Comment,
	}}}, nil
}

func (in Resolution) answers() (*conversationpb.Resolve, *machine.Failure) {
	answers := wire.Compact(in.Answers)
	switch {
	case len(answers) == 0 && !in.Cancelled:
		return nil, invalid("resolution.answers is required")
	case len(answers) > 0 && answers[0] != '{':
		return nil, invalid("resolution.answers must be an object: question to answer")
	}
	return &conversationpb.Resolve{Resolution: &conversationpb.Resolve_Answers{Answers: &conversationpb.UserAnswers{
		Answers: answers, Cancelled: in.Cancelled,
	}}}, nil
}

func (in Resolution) clientResult() (*conversationpb.Resolve, *machine.Failure) {
	if len(in.Output) == 0 && in.Error == "" {
		return nil, invalid("resolution.output is required, or error")
	}
	output := in.Output // null is a result, too
	if len(output) > 0 {
		output = wire.Line(output)
	}
	return &conversationpb.Resolve{Resolution: &conversationpb.Resolve_Client{Client: &conversationpb.ClientResult{
		Output: output, Error: in.Error,
	}}}, nil
}

func invalid(text string) *machine.Failure {
	return machine.Fail(failurepb.Code_VALIDATION, "%s", text)
}

package turns

import (
	"encoding/json"
	"math"
	"reflect"

	"parley/actors/core/failure"
	"parley/actors/core/money"
	"parley/actors/machine"
	"parley/actors/machine/rawjson"
	"parley/httpedge/endpoint/wire"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// Budget is a budget as a client sends it; nil = left out. Each surface converts its own struct to it.
type Budget struct {
	MaxCostUSD *float64
	OnReach    *string
}

// Read returns the budget, or INVALID_BUDGET with the fields' names in camelCase.
func (in Budget) Read() (*conversationpb.Budget, *machine.Failure) {
	bad := func(reason failure.Reason) *failure.Failure {
		return failure.New(failurepb.Code_INVALID_BUDGET, reason)
	}
	if in.MaxCostUSD == nil {
		return nil, bad(failure.BadBudget).In("budget")
	}
	nano, ok := money.FromUSD(*in.MaxCostUSD)
	if !ok {
		return nil, bad(failure.BudgetOutOfRange).In("maxCostUsd").Param("most", math.MaxInt64/money.PerUSD)
	}
	budget := &conversationpb.Budget{MaxCostNanoUsd: nano}
	if in.OnReach != nil {
		if *in.OnReach != conversationpb.OnReachPause && *in.OnReach != conversationpb.OnReachStop {
			return nil, bad(failure.OnReachChoice).In("onReach")
		}
		budget.OnReach = *in.OnReach
	}
	return budget, nil
}

// Resolution is a decision on a pending action in one of its three forms, as a client sends it (document 2, POST
// /conversations/:id/actions/:actionId). Each surface converts its own struct to it.
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

// KnownFields refuses a JSON object with a field that the struct it is read into does not have. What decides on what runs is not guessed:
// with args for approvedArgs, the model's own arguments would run.
func KnownFields(field string, object []byte, in any) *machine.Failure {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(object, &members) // it is one
	if names := rawjson.NamesOf(reflect.TypeOf(in)).Unknown(members); len(names) > 0 {
		return invalid(failure.UnknownField).In(field).Param("name", failure.Shown(names[0]))
	}
	return nil
}

// Read returns the decision, without the action's id, or a failure with the fields' names in camelCase.
func (in Resolution) Read() (*conversationpb.Resolve, *machine.Failure) {
	switch in.Type {
	case conversationpb.KindApproval:
		return in.approval()
	case conversationpb.KindQuestion:
		return in.answers()
	case conversationpb.KindClient:
		return in.clientResult()
	}
	return nil, invalid(failure.BadResolutionType).In("resolution.type")
}

func (in Resolution) approval() (*conversationpb.Resolve, *machine.Failure) {
	args := wire.Compact(in.ApprovedArgs)
	switch {
	case in.Decision != "allow" && in.Decision != "deny":
		return nil, invalid(failure.BadDecision).In("resolution.decision")
	case len(args) > 0 && args[0] != '{':
		return nil, failure.New(failurepb.Code_INVALID_APPROVED_ARGS, failure.ArgsNoObject).In("approvedArgs")
	}
	return &conversationpb.Resolve{Resolution: &conversationpb.Resolve_Approval{Approval: &conversationpb.ToolApproval{
		Allow: in.Decision == "allow", Remember: in.RememberForSession, ApprovedArgs: args, Comment: in.Comment,
	}}}, nil
}

func (in Resolution) answers() (*conversationpb.Resolve, *machine.Failure) {
	answers := wire.Compact(in.Answers)
	switch {
	case len(answers) == 0 && !in.Cancelled:
		return nil, invalid(failure.Required).In("resolution.answers")
	case len(answers) > 0 && answers[0] != '{':
		return nil, invalid(failure.AnswersNoObject).In("resolution.answers")
	}
	return &conversationpb.Resolve{Resolution: &conversationpb.Resolve_Answers{Answers: &conversationpb.UserAnswers{
		Answers: answers, Cancelled: in.Cancelled,
	}}}, nil
}

func (in Resolution) clientResult() (*conversationpb.Resolve, *machine.Failure) {
	if len(in.Output) == 0 && in.Error == "" {
		return nil, invalid(failure.ResolutionWithoutOutput).In("resolution.output")
	}
	output := in.Output // null is a valid result
	if len(output) > 0 {
		output = wire.Line(output)
	}
	return &conversationpb.Resolve{Resolution: &conversationpb.Resolve_Client{Client: &conversationpb.ClientResult{
		Output: output, Error: in.Error,
	}}}, nil
}

func invalid(reason failure.Reason) *failure.Failure {
	return failure.New(failurepb.Code_VALIDATION, reason)
}

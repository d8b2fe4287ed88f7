package hook

import (
	"context"
	"encoding/json"

	"parley/actors/core/failure"
	"parley/actors/core/money"
	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// Authorizer calls authorizeBudget and authorizeResolve. A hook that is off permits.
func (h *Hooks) Authorizer() endpoint.Authorizer {
	return &authorizer{budget: h.budget, resolve: h.resolve}
}

type authorizer struct{ budget, resolve *hookClient }

// subject is the conversation that a call is about.
type subject struct {
	ConversationID string `json:"conversationId"`
	AgentID        string `json:"agentId"`
	OwnerID        string `json:"ownerId,omitempty"`
}

type budgetQuestion struct {
	Hook   string `json:"hook"`
	Caller person `json:"caller"`
	subject
	Budget   *allowance `json:"budget"` // null = no limit any more
	Previous *allowance `json:"previous"`
	SpentUSD dollars    `json:"spentUsd"`
}

type allowance struct {
	MaxCostUSD dollars `json:"maxCostUsd"`
	OnReach    string  `json:"onReach,omitempty"`
}

// AuthorizeBudget implements endpoint.Authorizer.
func (a *authorizer) AuthorizeBudget(ctx context.Context, raise *endpoint.BudgetRaise) error {
	question := &budgetQuestion{
		Hook: authorizeBudget, Caller: personOf(endpoint.CallerFrom(ctx)),
		subject: subject{raise.ConversationID, raise.AgentID, raise.OwnerID},
		Budget:  moneyOf(raise.To), Previous: moneyOf(raise.From), SpentUSD: dollars(raise.SpentNanoUSD),
	}
	return permitted(ctx, a.budget, question, failurepb.Code_BUDGET_FORBIDDEN)
}

type resolveQuestion struct {
	Hook   string `json:"hook"`
	Caller person `json:"caller"`
	subject
	ActionID   string          `json:"actionId"`
	Kind       string          `json:"kind,omitempty"` // of the action, if it is pending
	ToolName   string          `json:"toolName,omitempty"`
	Args       json.RawMessage `json:"args,omitempty"`
	Resolution resolution      `json:"resolution"`
}

// resolution is a decision, in the API's form.
type resolution struct {
	Type               string          `json:"type"`
	Decision           string          `json:"decision,omitempty"`
	RememberForSession bool            `json:"rememberForSession,omitempty"`
	ApprovedArgs       json.RawMessage `json:"approvedArgs,omitempty"`
	Answers            json.RawMessage `json:"answers,omitempty"`
	Cancelled          bool            `json:"cancelled,omitempty"`
	Error              string          `json:"error,omitempty"` // a client tool's output is not sent: it may be large
}

// AuthorizeResolve implements endpoint.Authorizer.
func (a *authorizer) AuthorizeResolve(ctx context.Context, decision *endpoint.ActionDecision) error {
	question := &resolveQuestion{
		Hook: authorizeResolve, Caller: personOf(endpoint.CallerFrom(ctx)),
		subject:  subject{decision.ConversationID, decision.AgentID, decision.OwnerID},
		ActionID: decision.ActionID, Kind: decision.Action.GetKind(), ToolName: decision.Action.GetToolName(),
		Args: decision.Action.GetArgs(), Resolution: resolutionOf(decision.Resolution),
	}
	return permitted(ctx, a.resolve, question, failurepb.Code_ACTION_FORBIDDEN)
}

func resolutionOf(resolve *conversationpb.Resolve) resolution {
	switch {
	case resolve.GetAnswers() != nil:
		answers := resolve.GetAnswers()
		return resolution{Type: conversationpb.KindQuestion, Answers: answers.GetAnswers(), Cancelled: answers.GetCancelled()}
	case resolve.GetClient() != nil:
		return resolution{Type: conversationpb.KindClient, Error: resolve.GetClient().GetError()}
	}
	approval := resolve.GetApproval()
	out := resolution{
		Type: conversationpb.KindApproval, Decision: "deny", RememberForSession: approval.GetRemember(),
		ApprovedArgs: approval.GetApprovedArgs(),
	}
	if approval.GetAllow() {
		out.Decision = "allow"
	}
	return out
}

// permitted calls the hook; a no becomes a failure with the given code.
func permitted(ctx context.Context, hook *hookClient, question any, code failurepb.Code) error {
	if hook == nil {
		return nil
	}
	got, err := hook.ask(ctx, question)
	switch {
	case err != nil && hook.lenient():
		return nil
	case err != nil:
		return failure.New(code, failure.PermissionNotChecked)
	case got.denied() || got.Allowed == nil:
		return denied(code, got, failure.NotPermitted)
	}
	return nil
}

// dollars is an amount in nano-dollars, written as a number of dollars.
type dollars int64

func moneyOf(budget *conversationpb.Budget) *allowance {
	if budget == nil {
		return nil
	}
	return &allowance{MaxCostUSD: dollars(budget.GetMaxCostNanoUsd()), OnReach: budget.GetOnReach()}
}

// MarshalJSON implements json.Marshaler.
func (d dollars) MarshalJSON() ([]byte, error) { return money.Append(nil, int64(d)), nil }

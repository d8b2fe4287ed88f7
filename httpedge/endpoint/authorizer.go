package endpoint

import (
	"context"

	"parley/proto/conversationpb"
)

// Authorizer asks a policy outside the rules whether this caller may do something. It is asked after the caller was found
// to have access to the conversation; who asks is CallerFrom. Nil permits, a *machine.Failure refuses.
type Authorizer interface {
	// AuthorizeBudget permits that a conversation may cost more than it might so far (BUDGET_FORBIDDEN).
	AuthorizeBudget(ctx context.Context, raise *BudgetRaise) error
	// AuthorizeResolve permits a decision about a pending action (ACTION_FORBIDDEN).
	AuthorizeResolve(ctx context.Context, decision *ActionDecision) error
}

// BudgetRaise is a change that lets a conversation cost more.
type BudgetRaise struct {
	ConversationID string // of the new conversation, when it is being created
	AgentID        string
	OwnerID        string
	From           *conversationpb.Budget
	To             *conversationpb.Budget // nil = no limit
	SpentNanoUSD   int64
}

// ActionDecision is the answer that a caller wants to give to a pending action.
type ActionDecision struct {
	ConversationID string
	AgentID        string
	OwnerID        string
	ActionID       string
	Action         *conversationpb.PendingAction // nil when it is not pending any more
	Resolution     *conversationpb.Resolve
}

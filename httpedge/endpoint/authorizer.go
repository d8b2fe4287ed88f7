package endpoint

import (
	"context"

	"parley/proto/conversationpb"
)

// Authorizer decides what the rules cannot know: whether this caller may do it. It is asked after the caller was found
// to have access to the conversation; who asks is CallerFrom. Nil permits, a *machine.Failure refuses.
type Authorizer interface {
	// AuthorizeBudget permits that a conversation may cost more than it might so far (BUDGET_FORBIDDEN).
	AuthorizeBudget(ctx context.Context, raise *BudgetRaise) error
	// AuthorizeResolve permits a decision about a pending action (ACTION_FORBIDDEN).
	AuthorizeResolve(ctx context.Context, decision *ActionDecision) error
}

// BudgetRaise is a change after which a conversation may cost more.
type BudgetRaise struct {
	ConversationID string // of the new conversation, when it is being created
	AgentID        string
	OwnerID        string
	From           *conversationpb.Budget
	To             *conversationpb.Budget // nil = no limit
	SpentNanoUSD   int64
}

// ActionDecision is what somebody wants to answer to a pending action.
type ActionDecision struct {
	ConversationID string
	AgentID        string
	OwnerID        string
	ActionID       string
	Action         *conversationpb.PendingAction // nil when it is not pending any more
	Resolution     *conversationpb.Resolve
}

package turns

import (
	"context"
	"slices"

	"parley/proto/conversationpb"
)

// CheckArgs checks arguments, a JSON object, against a JSON Schema; empty = any object fits. The error says in words what does not fit,
// or is the context's.
type CheckArgs func(ctx context.Context, schema, args []byte) error

// Judge checks the arguments that a decision puts in the place of the model's, and adds the verdict to the decision: the rules of the
// conversation take it, for others wait while they decide. The schema is that of the pending action, which stays the same as long
// as the action is pending. Of an action that is not, the rules say so. The error is the context's.
func Judge(ctx context.Context, check CheckArgs, pending []*conversationpb.PendingAction, resolve *conversationpb.Resolve) error {
	approval := resolve.GetApproval()
	if check == nil || !approval.GetAllow() || len(approval.GetApprovedArgs()) == 0 {
		return nil
	}
	at := slices.IndexFunc(pending, func(p *conversationpb.PendingAction) bool { return p.GetId() == resolve.GetActionId() })
	if at < 0 || pending[at].GetUnknownOutcome() {
		return nil
	}
	approval.Verdict = &conversationpb.ArgsVerdict{}
	if err := check(ctx, pending[at].GetSchema(), approval.GetApprovedArgs()); err != nil {
		if stopped := ctx.Err(); stopped != nil {
			return stopped
		}
		approval.Verdict.Problem = err.Error()
	}
	return nil
}

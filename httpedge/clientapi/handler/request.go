package handler

import (
	"context"
	"errors"
	"time"

	"parley/actors/core/failure"
	"parley/httpedge/endpoint"
	"parley/httpedge/filing"
	"parley/httpedge/turns"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// Asker asks conversations.
func (a *API) Asker() turns.Asker {
	return turns.Asker{Runtime: a.Runtime, Entities: a.Entities}
}

// Filer stores files.
func (a *API) Filer() filing.Filer {
	return filing.Filer{Asker: a.Asker(), Files: a.Files, IDs: a.IDs, MaxBytes: int64(a.Config.FileBytes), Counts: a.countsFiles}
}

func (a *API) countsFiles() bool { return a.CanBudget == nil || a.CanBudget() }

// Command returns a command of the request's caller. step names it within the request, so that a repeated request
// (Idempotency-Key) repeats the same command.
func (a *API) Command(ctx context.Context, conversationID, step string) *conversationpb.Command {
	return &conversationpb.Command{
		ConversationId: conversationID,
		CommandId:      endpoint.CommandID(ctx, a.IDs, step),
		Caller:         callerOf(ctx),
		IssuedAt:       time.Now().UnixMilli(),
	}
}

// Mint makes an id for what the request creates; a repeated request gets the same one. With like it routes to the shard of that id.
func (a *API) Mint(ctx context.Context, kind, like string) string {
	return endpoint.MintID(ctx, a.IDs, kind, like)
}

// callerOf is the caller as the rules know it.
func callerOf(ctx context.Context) *conversationpb.Caller {
	caller := endpoint.CallerFrom(ctx)
	return &conversationpb.Caller{
		TenantId: caller.TenantID, ProjectId: caller.ProjectID, UserId: caller.UserID, TokenId: caller.TokenID(),
		Identified: caller.Identified, Trusted: caller.Trusted,
	}
}

// Invalid refuses a request for a reason in its content.
func Invalid(reason failure.Reason) *failure.Failure {
	return failure.New(failurepb.Code_INVALID_REQUEST, reason)
}

// IsCode says whether an error is a failure of that code.
func IsCode(err error, code failurepb.Code) bool {
	var refused *failure.Failure
	return errors.As(err, &refused) && refused.Code == code
}

// ReportedID is the id of the entity of a session or thread that a program of the caller's project reports under a name.
func (a *API) ReportedID(kind string, caller endpoint.Caller, name string) string {
	return a.IDs.NewIDFrom(kind, caller.TenantID+"/"+caller.ProjectID+"/"+name)
}

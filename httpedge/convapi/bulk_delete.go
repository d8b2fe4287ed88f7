package convapi

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"parley/actors/core/failure"
	"parley/httpedge/convapi/body"
	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

type bulkDeleteIn struct {
	IDs []string `json:"ids" required:"true" doc:"1 to 100 conversation ids; duplicates count once"`
}

// Outcomes for one id.
const (
	bulkDeleted  = "deleted"
	bulkNotFound = "not_found"
	bulkBusy     = "busy"
	bulkError    = "error"
)

type bulkDeleteOut struct {
	Results []bulkDeleteResult `json:"results"`
	Deleted int                `json:"deleted"`
}

type bulkDeleteResult struct {
	ID      string `json:"id"`
	Status  string `json:"status" enum:"deleted,not_found,busy,error"`
	Message string `json:"message,omitempty"`
}

func (a *API) bulkDeleteConversations(ctx context.Context, in *bulkDeleteIn) (*bulkDeleteOut, error) {
	if slices.Contains(in.IDs, "") { // null in the list decodes to the same
		return nil, failure.New(failurepb.Code_VALIDATION, failure.BulkIDMissing).In("ids")
	}
	ids := unique(in.IDs)
	if len(ids) == 0 || len(ids) > a.config.MaxBulkDelete {
		return nil, failure.New(failurepb.Code_VALIDATION, failure.BulkIDsCount).In("ids").Param("most", a.config.MaxBulkDelete)
	}
	out := &bulkDeleteOut{Results: make([]bulkDeleteResult, len(ids))}
	var group errgroup.Group
	group.SetLimit(a.config.BulkDeleteWorkers)
	for i, id := range ids {
		group.Go(func() error {
			out.Results[i] = bulkResult(id, a.deleteIdle(endpoint.Apart(ctx), id))
			return nil
		})
	}
	_ = group.Wait() // no worker returns an error: each has its own result
	for _, result := range out.Results {
		if result.Status == bulkDeleted {
			out.Deleted++
		}
	}
	return out, nil
}

// deleteIdle deletes a conversation unless a turn is running in it.
func (a *API) deleteIdle(ctx context.Context, id string) error {
	state, err := a.readable(ctx, id)
	if err != nil {
		return err
	}
	if !a.mayBulkDelete(state) {
		return failure.New(failurepb.Code_ACTION_DISABLED, failure.BulkDeleteDisabled)
	}
	command := a.command(ctx, id)
	command.Body = &conversationpb.Command_Delete{Delete: &conversationpb.Delete{OnlyIdle: true}}
	_, err = a.ask(ctx, command)
	return err
}

// bulkResult converts an outcome. A conversation of another user is reported as missing.
func bulkResult(id string, err error) bulkDeleteResult {
	var refused *failure.Failure
	switch {
	case err == nil:
		return bulkDeleteResult{ID: id, Status: bulkDeleted}
	case !errors.As(err, &refused):
		return bulkDeleteResult{ID: id, Status: bulkError, Message: "could not be deleted now, try again"}
	}
	switch refused.Code {
	case failurepb.Code_NOT_FOUND, failurepb.Code_FORBIDDEN:
		return bulkDeleteResult{ID: id, Status: bulkNotFound}
	case failurepb.Code_CONVERSATION_BUSY:
		return bulkDeleteResult{ID: id, Status: bulkBusy, Message: body.Wording().Text(refused)}
	default:
		return bulkDeleteResult{ID: id, Status: bulkError, Message: body.Wording().Text(refused)}
	}
}

// unique removes duplicates and keeps the order.
func unique(ids []string) []string {
	seen := make(map[string]bool, len(ids))
	kept := make([]string, 0, len(ids))
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			kept = append(kept, id)
		}
	}
	return kept
}

package approval

import (
	"context"

	"parley/actors/kit"
	"parley/proto/approvalpb"
)

// readApproval finds an approval of a project.
func readApproval(state *approvalpb.State, query *approvalpb.ApprovalQuery) (*approvalpb.ApprovalReply, error) {
	if call := state.GetCall(); call.GetTenantId() != query.GetTenantId() || call.GetProjectId() != query.GetProjectId() {
		return nil, missing()
	}
	return &approvalpb.ApprovalReply{State: state}, nil
}

// listApprovals lists the approvals of a project, newest first.
func listApprovals(ctx context.Context, from kit.Lists, query *approvalpb.ApprovalsQuery) (*approvalpb.ApprovalsReply, error) {
	list := ListOf(query.GetProjectId())
	if query.GetWaiting() {
		list = ListWaiting(query.GetProjectId())
	}
	rows, err := from.Page(ctx, kit.ListQuery{List: list, Descending: true, Limit: int(query.GetLimit())})
	if err != nil {
		return nil, err
	}
	states, err := kit.States[approvalpb.State](ctx, from, rows)
	return &approvalpb.ApprovalsReply{States: states}, err
}

package shields

import (
	"context"
	"encoding/json"
	"strings"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/proto/approvalpb"
	"parley/proto/decisionpb"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

type nothing struct{}

func (a *api) listShields(ctx context.Context, _ *nothing) ([]*directorypb.Shield, error) {
	caller := endpoint.CallerFrom(ctx)
	return a.Catalog.ListShields(caller.TenantID, caller.ProjectID)
}

func (a *api) getShield(ctx context.Context, id string) (*directorypb.Shield, error) {
	caller := endpoint.CallerFrom(ctx)
	return a.Catalog.Shield(ctx, caller.TenantID, caller.ProjectID, id)
}

type verdictSchema struct {
	TraceID       string   `json:"traceId"`
	ShieldID      string   `json:"shieldId"`
	ActorID       string   `json:"actorId"`
	Stage         string   `json:"stage"`
	ResourceName  string   `json:"resourceName"`
	Decision      string   `json:"decision" enum:"allow,redact,require_approval,sandbox,block"`
	RiskScore     float64  `json:"riskScore"`
	Reasons       []string `json:"reasons"`
	PolicyVersion string   `json:"policyVersion"`
	At            string   `json:"at" format:"date-time"`
}

type verdictListOut struct {
	Events []verdictSchema `json:"events"`
}

type verdictListInput struct {
	ID       string `path:"id"`
	Limit    int    `query:"limit"`
	Decision string `query:"decision" enum:"allow,redact,require_approval,sandbox,block"`
}

func (a *api) listVerdicts(ctx context.Context, in *verdictListInput) (*verdictListOut, error) {
	shield, err := a.getShield(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	reply, err := entity.Read[*decisionpb.VerdictsReply](ctx, a.Entities, &decisionpb.VerdictsQuery{
		ProjectId: shield.GetProjectId(), ShieldId: shield.GetId(), Decision: in.Decision, Limit: uint32(max(in.Limit, 1)), //nolint:gosec // at most maxPage
	})
	if err != nil {
		return nil, err
	}
	out := &verdictListOut{Events: []verdictSchema{}}
	for _, v := range reply.GetVerdicts() {
		out.Events = append(out.Events, verdictSchema{
			TraceID: v.GetTraceId(), ShieldID: v.GetShieldId(), ActorID: v.GetActorId(), Stage: v.GetStage(), ResourceName: v.GetResourceName(),
			Decision: v.GetDecision(), RiskScore: v.GetRisk(), Reasons: append([]string{}, v.GetReasons()...), PolicyVersion: v.GetPolicyVersion(), At: render.Time(v.GetAt()),
		})
	}
	return out, nil
}

type approvalSchema struct {
	ID           string          `json:"id"`
	Status       string          `json:"status" enum:"pending,approved,denied,used"`
	ShieldID     string          `json:"shieldId"`
	TraceID      string          `json:"traceId"`
	ActorID      string          `json:"actorId"`
	Stage        string          `json:"stage"`
	ResourceType string          `json:"resourceType"`
	ResourceName string          `json:"resourceName"`
	Resource     json.RawMessage `json:"resource,omitempty" doc:"Without what is redacted; left out when it is too large to be shown"`
	Reasons      []string        `json:"reasons"`
	CreatedAt    string          `json:"createdAt" format:"date-time"`
	ExpiresAt    string          `json:"expiresAt" format:"date-time"`
	DecidedBy    *string         `json:"decidedBy"`
	DecidedAt    *string         `json:"decidedAt" format:"date-time"`
}

func approvalJSON(s *approvalpb.State) *approvalSchema {
	call := s.GetCall()
	return &approvalSchema{
		ID: s.GetId(), Status: strings.ToLower(s.GetStatus().String()), ShieldID: call.GetShieldId(), TraceID: call.GetTraceId(), ActorID: call.GetActorId(),
		Stage: call.GetStage(), ResourceType: call.GetResourceType(), ResourceName: call.GetResourceName(), Resource: call.GetResource(),
		Reasons: append([]string{}, call.GetReasons()...), CreatedAt: render.Time(s.GetCreatedAt()), ExpiresAt: render.Time(s.GetExpiresAt()),
		DecidedBy: render.Nullable(s.GetDecidedBy()), DecidedAt: render.NullableTime(s.GetDecidedAt()),
	}
}

type approvalListInput struct {
	Status string `query:"status" enum:"pending" doc:"pending: those alone that wait for a person"`
	Limit  int    `query:"limit"`
}

type approvalListOut struct {
	Approvals []*approvalSchema `json:"approvals"`
}

func (a *api) listApprovals(ctx context.Context, in *approvalListInput) (*approvalListOut, error) {
	reply, err := entity.Read[*approvalpb.ApprovalsReply](ctx, a.Entities, &approvalpb.ApprovalsQuery{
		ProjectId: endpoint.CallerFrom(ctx).ProjectID, Limit: uint32(max(in.Limit, 1)), Waiting: in.Status != "", //nolint:gosec // at most maxPage
	})
	if err != nil {
		return nil, err
	}
	out := &approvalListOut{Approvals: []*approvalSchema{}}
	for _, state := range reply.GetStates() {
		out.Approvals = append(out.Approvals, approvalJSON(state))
	}
	return out, nil
}

type approvalInput struct {
	ID string `path:"id"`
}

type approvalOut struct {
	Approval *approvalSchema `json:"approval"`
	// ApprovalToken is shown once.
	ApprovalToken string `json:"approvalToken,omitempty" doc:"For context.approvalToken of the same call; shown once"`
}

func (a *api) getApproval(ctx context.Context, in *approvalInput) (*approvalOut, error) {
	caller := endpoint.CallerFrom(ctx)
	if !a.Aegis.IsApproval(in.ID) {
		return nil, failure.New(failurepb.Code_NOT_FOUND, failure.ApprovalNotFound)
	}
	reply, err := entity.Read[*approvalpb.ApprovalReply](ctx, a.Entities, &approvalpb.ApprovalQuery{
		Id: in.ID, TenantId: caller.TenantID, ProjectId: caller.ProjectID,
	})
	if err != nil {
		return nil, err
	}
	return &approvalOut{Approval: approvalJSON(reply.GetState())}, nil
}

type decideInput struct {
	approvalInput
	Decision string `json:"decision" required:"true" enum:"approve,deny"`
}

// Validate implements endpoint.Validator.
func (in *decideInput) Validate() *failure.Failure {
	if in.Decision != "approve" && in.Decision != "deny" {
		return failure.New(failurepb.Code_INVALID_REQUEST, failure.NotOneOf).Param("name", "decision").Param("choices", "approve, deny")
	}
	return nil
}

func (a *api) decideApproval(ctx context.Context, in *decideInput) (*approvalOut, error) {
	caller := endpoint.CallerFrom(ctx)
	if !a.Aegis.IsApproval(in.ID) {
		return nil, failure.New(failurepb.Code_NOT_FOUND, failure.ApprovalNotFound)
	}
	decide := &approvalpb.Decide{TenantId: caller.TenantID, ProjectId: caller.ProjectID, Approve: in.Decision == "approve", By: caller.UserID}
	token := ""
	if decide.GetApprove() {
		token, decide.TokenHash = newToken()
	}
	reply, err := entity.Ask[*approvalpb.Reply](ctx, a.Entities, in.ID, &approvalpb.Command{Id: in.ID, Body: &approvalpb.Command_Decide{Decide: decide}})
	if err != nil {
		return nil, err
	}
	return &approvalOut{Approval: approvalJSON(reply.GetState()), ApprovalToken: token}, nil
}

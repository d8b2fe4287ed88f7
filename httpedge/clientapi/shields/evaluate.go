package shields

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/actors/core/aegis"
	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/proto/approvalpb"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// approvalTime is how long a call waits for a person, and then for being repeated.
const approvalTime = time.Hour

type resourceInput struct {
	Type      string          `json:"type" required:"true"`
	Name      string          `json:"name" required:"true"`
	Arguments json.RawMessage `json:"arguments"`
	Content   json.RawMessage `json:"content" any:"true"`
	Result    json.RawMessage `json:"result" any:"true"`
}

type actorInput struct {
	ID    string   `json:"id" doc:"The token's user when absent"`
	Roles []string `json:"roles"`
}

type contextInput struct {
	ApprovalToken    string `json:"approvalToken" doc:"Of the person's answer, or the approval's id once it was approved"`
	SandboxAvailable bool   `json:"sandboxAvailable" doc:"Calls with effects become sandbox instead of require_approval"`
}

type evaluateInput struct {
	Stage    string         `json:"stage" required:"true" enum:"input.pre,retrieval.pre,retrieval.post,tool.pre,tool.post,output.pre"`
	Resource *resourceInput `json:"resource" required:"true"`
	Actor    actorInput     `json:"actor"`
	ShieldID string         `json:"shieldId" doc:"default when absent"`
	TraceID  string         `json:"traceId" doc:"Made when absent"`
	Context  contextInput   `json:"context"`
}

// Validate implements endpoint.Validator.
func (in *evaluateInput) Validate() *failure.Failure {
	const maxID = 256
	missing := func(field string) *failure.Failure {
		return failure.New(failurepb.Code_INVALID_REQUEST, failure.Required).In(field)
	}
	switch {
	case in.Stage == "":
		return missing("stage")
	case !slices.Contains(aegis.Stages(), in.Stage):
		return failure.New(failurepb.Code_INVALID_REQUEST, failure.NotOneOf).Param("name", "stage").Param("choices", strings.Join(aegis.Stages(), ", "))
	case in.Resource == nil:
		return missing("resource")
	case in.Resource.Type == "":
		return missing("resource.type")
	case in.Resource.Name == "":
		return missing("resource.name")
	case len(in.Resource.Arguments) > 0 && in.Resource.Arguments[0] != '{' && !handler.IsNull(in.Resource.Arguments):
		return failure.New(failurepb.Code_INVALID_REQUEST, failure.MustBeObject).In("resource.arguments")
	case max(len(in.Resource.Name), len(in.Resource.Type), len(in.Actor.ID), len(in.TraceID), len(in.ShieldID)) > maxID:
		return failure.New(failurepb.Code_INVALID_REQUEST, failure.AtMostBytes).In("resource.name, resource.type, actor.id, traceId and shieldId").Param("most", maxID)
	}
	return nil
}

type findingSchema struct {
	Code     string `json:"code"`
	Severity string `json:"severity" enum:"low,medium,high,critical"`
	Reason   string `json:"reason"`
	Path     string `json:"path,omitempty"`
}

type mutationSchema struct {
	Path        string `json:"path"`
	Action      string `json:"action" enum:"redact,remove"`
	Replacement string `json:"replacement,omitempty"`
}

type approvalGiven struct {
	ApprovalID string `json:"approvalId"`
	ExpiresAt  string `json:"expiresAt" format:"date-time"`
	Scope      string `json:"scope" enum:"call_bound"`
}

type evaluationOut struct {
	TraceID           string           `json:"traceId"`
	ShieldID          string           `json:"shieldId"`
	ShieldMode        string           `json:"shieldMode" enum:"enforce,simulate,disabled"`
	Decision          string           `json:"decision" enum:"allow,redact,require_approval,sandbox,block"`
	Enforced          bool             `json:"enforced"`
	RiskScore         float64          `json:"riskScore"`
	Reasons           []string         `json:"reasons"`
	PolicyVersion     string           `json:"policyVersion"`
	Findings          []findingSchema  `json:"findings"`
	Mutations         []mutationSchema `json:"mutations"`
	SanitizedResource json.RawMessage  `json:"sanitizedResource,omitempty" doc:"What to go on with"`
	Approval          *approvalGiven   `json:"approval,omitempty"`
}

func (a *api) evaluateCall(ctx context.Context, in *evaluateInput) (*evaluationOut, error) {
	if err := a.Aegis.Ready(); err != nil {
		return nil, err
	}
	caller := endpoint.CallerFrom(ctx)
	record, err := a.Catalog.Shield(ctx, caller.TenantID, caller.ProjectID, cmp.Or(in.ShieldID, aegis.DefaultID))
	if err != nil {
		return nil, err
	}
	shield, wrong := aegis.Of(record)
	if wrong != nil {
		return nil, wrong
	}
	call := &aegis.Call{
		Stage: in.Stage, Type: in.Resource.Type, Name: in.Resource.Name, Arguments: present(in.Resource.Arguments), Content: in.Resource.Content,
		Result: in.Resource.Result, Actor: cmp.Or(in.Actor.ID, caller.UserID), Roles: in.Actor.Roles, SandboxReady: in.Context.SandboxAvailable,
	}
	approval := sync.OnceValue(func() string { return a.Aegis.ApprovalID(call.Binding(shield)) }) // few calls need one
	how := aegis.How{
		TraceID: in.TraceID, UserID: caller.UserID, TokenID: caller.TokenID(),
		Approved: func(ctx context.Context) (bool, error) { return a.approved(ctx, approval(), in.Context.ApprovalToken) },
	}
	result, err := a.Aegis.Judge(ctx, shield, call, how)
	if err != nil {
		return nil, err
	}
	out := shown(result)
	out.TraceID, out.ShieldID = result.TraceID, record.GetId()
	if result.Decision == aegis.RequireApproval && result.Enforced {
		out.Approval, err = a.ask(ctx, approval(), record, call, out)
	}
	return out, err
}

// present is a member that is there and not null.
func present(raw json.RawMessage) json.RawMessage {
	if handler.IsNull(raw) {
		return nil
	}
	return raw
}

func shown(result *aegis.Result) *evaluationOut {
	out := &evaluationOut{
		ShieldMode: result.Mode, Decision: result.Decision.String(), Enforced: result.Enforced, RiskScore: result.Risk, Reasons: result.Reasons(),
		PolicyVersion: result.Version, Findings: []findingSchema{}, Mutations: []mutationSchema{}, SanitizedResource: result.Sanitized,
	}
	for _, f := range result.Findings {
		out.Findings = append(out.Findings, findingSchema{f.Code, f.Severity, f.Reason, f.Path})
	}
	for _, m := range result.Mutations {
		out.Mutations = append(out.Mutations, mutationSchema{m.Path, m.Action, m.Replacement})
	}
	return out
}

// approved uses up the approval of a call by its token, or by its id.
func (a *api) approved(ctx context.Context, approval, token string) (bool, error) {
	if token == "" {
		return false, nil
	}
	use := &approvalpb.Use{}
	if token != approval {
		hash := sha256.Sum256([]byte(token))
		use.TokenHash = hash[:]
	}
	reply, err := entity.Ask[*approvalpb.Reply](ctx, a.Entities, approval, &approvalpb.Command{Id: approval, Body: &approvalpb.Command_Use{Use: use}})
	return reply.GetUsed(), err
}

// ask has a person asked about a call.
func (a *api) ask(ctx context.Context, approval string, shield *directorypb.Shield, call *aegis.Call, out *evaluationOut) (*approvalGiven, error) {
	seen := out.SanitizedResource
	if seen == nil {
		seen, _ = json.Marshal(resourceInput{Type: call.Type, Name: call.Name, Arguments: call.Arguments, Content: call.Content, Result: call.Result}) //nolint:errchkjson // it was JSON
	}
	reply, err := entity.Ask[*approvalpb.Reply](ctx, a.Entities, approval, &approvalpb.Command{Id: approval, Body: &approvalpb.Command_Ask{Ask: &approvalpb.Ask{
		KeepMs: approvalTime.Milliseconds(),
		Call: &approvalpb.Call{
			TenantId: shield.GetTenantId(), ProjectId: shield.GetProjectId(), ShieldId: shield.GetId(), TraceId: out.TraceID, ActorId: call.Actor,
			Stage: call.Stage, ResourceType: call.Type, ResourceName: call.Name, Resource: seen, Reasons: out.Reasons,
		},
	}}})
	if err != nil {
		return nil, err
	}
	return &approvalGiven{ApprovalID: approval, ExpiresAt: render.Time(reply.GetState().GetExpiresAt()), Scope: "call_bound"}, nil
}

// newToken is what whoever approved is given.
func newToken() (token string, hash []byte) {
	var secret [24]byte
	_, _ = rand.Read(secret[:]) // never fails
	token = "apt_" + hex.EncodeToString(secret[:])
	sum := sha256.Sum256([]byte(token))
	return token, sum[:]
}

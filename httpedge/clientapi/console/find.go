package console

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"

	"parley/actors/core/access"
	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/actors/core/quota"
	"parley/actors/core/subscription"
	"parley/actors/core/tracing"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/proto/approvalpb"
	"parley/proto/conversationpb"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
	"parley/proto/tracepb"
	"parley/proto/webhookpb"
)

const (
	// longestID bounds what is looked for, in bytes.
	longestID = 256
	// waitingSearched is how many sessions that wait for a person are searched for an action.
	waitingSearched = 1000
)

// Reach says which webhook endpoints a caller manages.
type Reach func(caller endpoint.Caller) subscription.Reach

type findIn struct {
	ID string `path:"id" doc:"An id of any kind, the key of an agent, a model, a provider or a guardrail, or what a program calls a session that it reported"`
}

// foundOut says what an id is.
type foundOut struct {
	Kind    string  `json:"kind" enum:"session,action,run,task,webhook,delivery,agent,model,provider,user,token,project,shield,approval,guardrail,budget,limit,trace"`
	ID      string  `json:"id" doc:"As its page has it: of agents, models and guardrails the key"`
	Page    string  `json:"page" doc:"Where its page is on this origin"`
	Session *string `json:"session_id" doc:"Of what is part of a session"`
}

// pageOf is a page of the console.
func pageOf(kind, id string, path ...string) *foundOut {
	page := "/dashboard"
	for _, part := range path {
		page += "/" + url.PathEscape(part)
	}
	return &foundOut{Kind: kind, ID: id, Page: page}
}

// in has what was found belong to a session, and be at a place of its page.
func (f *foundOut) in(session, place string) *foundOut {
	f.Session = &session
	if place != "" {
		f.Page += "?" + place
	}
	return f
}

// finder looks for what has an id, within the reach of the caller; nil = it is not of its kind. An error of any failure is "not found".
type finder struct {
	prefix  string
	service access.Service // of which one must hold read
	find    func(ctx context.Context, id string) (*foundOut, error)
}

func (a *api) finders() []finder {
	return []finder{
		{"conv_", access.Agents, a.findSession},
		{"act_", access.Agents, a.findAction},
		{"run_", access.Agents, a.findRun},
		{"task_", access.Agents, a.findTask},
		{"wh_", access.Webhooks, a.findWebhook},
		{"whd_", access.Webhooks, a.findDelivery},
		{"usr_", access.Members, a.findUser},
		{"tok_", access.Members, a.findToken},
		{"proj_", access.Projects, a.findProject},
		{"", access.Agents, a.findAgent},
		{"", access.Models, a.findModel},
		{"", access.Models, a.findProvider},
		{"", access.Guardrails, a.findGuardrail},
		{"shd_", "aegis", a.findShield},
		{"", "aegis", a.findApproval},
		{"qp_", access.Models, a.findBudget},
		{"qp_", access.Projects, a.findLimit},
		{"", "tracing", a.findTrace},
	}
}

// findAnything says what an id is, of what the caller may see. What is not there and what they may not see is the same.
func (a *api) findAnything(ctx context.Context, in *findIn) (*foundOut, error) {
	if len(in.ID) > longestID {
		return nil, nothingFound()
	}
	caller := endpoint.CallerFrom(ctx)
	for _, f := range a.finders() {
		if !strings.HasPrefix(in.ID, f.prefix) {
			continue
		}
		allowed, err := a.Permissions.Allows(ctx, caller, f.service, access.Read)
		if err != nil {
			return nil, err
		}
		if !allowed {
			continue
		}
		found, err := f.find(ctx, in.ID)
		switch {
		case found != nil && err == nil:
			return found, nil
		case handler.IsCode(err, failurepb.Code_UNAVAILABLE), handler.IsCode(err, failurepb.Code_STORAGE_FAILED):
			return nil, err // it may be there
		}
	}
	return nil, nothingFound()
}

func nothingFound() *failure.Failure {
	return failure.New(failurepb.Code_NOT_FOUND, failure.RecordMissing).Param("noun", "object").Param("key", "")
}

func (a *api) findSession(ctx context.Context, id string) (*foundOut, error) {
	state, err := a.Session(ctx, id)
	if err != nil {
		return nil, err
	}
	return pageOf("session", state.GetId(), "sessions", state.GetId()).in(state.GetId(), ""), nil
}

// findAction looks at the newest sessions that wait for a person.
func (a *api) findAction(ctx context.Context, id string) (*foundOut, error) {
	caller := endpoint.CallerFrom(ctx)
	reply, err := entity.Read[*conversationpb.SessionsReply](ctx, a.Entities, &conversationpb.SessionsQuery{
		TenantId: caller.TenantID, ProjectId: caller.ProjectID, Anybody: caller.Trusted, UserId: caller.UserID,
		Status: conversationpb.RuntimeRequiresAction, Limit: waitingSearched,
	})
	if err != nil {
		return nil, err
	}
	for _, state := range reply.GetSessions() {
		if slices.ContainsFunc(state.GetPending(), func(p *conversationpb.PendingAction) bool { return p.GetId() == id }) {
			return pageOf("action", id, "sessions", state.GetId()).in(state.GetId(), "action="+url.QueryEscape(id)), nil
		}
	}
	return nil, nothingFound()
}

func (a *api) findRun(ctx context.Context, id string) (*foundOut, error) {
	reply, err := a.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	return pageOf("run", id, "runs", id).in(reply.GetRun().GetConversationId(), ""), nil
}

func (a *api) findWebhook(ctx context.Context, id string) (*foundOut, error) {
	if _, err := a.Webhooks.Get(ctx, a.reach(endpoint.CallerFrom(ctx)), id); err != nil {
		return nil, err
	}
	return pageOf("webhook", id, "webhooks", id), nil
}

func (a *api) findDelivery(ctx context.Context, id string) (*foundOut, error) {
	hook, number, is := subscription.DeliveryOf(id)
	if !is {
		return nil, nothingFound()
	}
	if _, err := a.findWebhook(ctx, hook); err != nil {
		return nil, err
	}
	reply, err := entity.Read[*webhookpb.DeliveryReply](ctx, a.Entities, &webhookpb.DeliveryQuery{Id: hook, Number: number})
	if err != nil || reply.GetDelivery() == nil {
		return nil, cmp.Or(err, error(nothingFound()))
	}
	found := pageOf("delivery", id, "webhooks", hook)
	found.Page += "?delivery=" + url.QueryEscape(id)
	return found, nil
}

func (a *api) findUser(ctx context.Context, id string) (*foundOut, error) {
	if _, _, err := a.Accounts.PageTokens(ctx, identity.Bearer(endpoint.CallerFrom(ctx).Grant), id, 1, 0); err != nil {
		return nil, err
	}
	return pageOf("user", id, "members", id), nil
}

// findToken looks among the tokens of the tenant, which owners and admins see.
func (a *api) findToken(ctx context.Context, id string) (*foundOut, error) {
	caller := endpoint.CallerFrom(ctx)
	if !caller.Grant.Administrates() {
		return nil, nothingFound()
	}
	tokens, err := a.Accounts.ListTokens(identity.Bearer(caller.Grant), caller.TenantID)
	if err != nil || !slices.ContainsFunc(tokens, func(token *directorypb.Token) bool { return token.GetId() == id }) {
		return nil, cmp.Or(err, error(nothingFound()))
	}
	return pageOf("token", id, "tokens", id), nil
}

func (a *api) findProject(ctx context.Context, id string) (*foundOut, error) {
	if _, err := a.Accounts.ChooseProject(endpoint.CallerFrom(ctx).Grant.Owner, id); err != nil {
		return nil, err
	}
	return pageOf("project", id, "projects", id), nil
}

func (a *api) findAgent(ctx context.Context, key string) (*foundOut, error) {
	if _, err := a.Catalog.Agent(ctx, endpoint.CallerFrom(ctx).ProjectID, key); err != nil {
		return nil, err
	}
	return pageOf("agent", key, "agents", key), nil
}

func (a *api) findModel(ctx context.Context, id string) (*foundOut, error) {
	model, err := a.Catalog.Model(ctx, endpoint.CallerFrom(ctx).ProjectID, id)
	if err != nil {
		return nil, err
	}
	return pageOf("model", model.GetKey(), "models", model.GetKey()), nil
}

func (a *api) findProvider(ctx context.Context, key string) (*foundOut, error) {
	if _, err := a.Catalog.Provider(ctx, endpoint.CallerFrom(ctx).ProjectID, key); err != nil {
		return nil, err
	}
	return pageOf("provider", key, "models", "providers", key), nil
}

func (a *api) findGuardrail(ctx context.Context, key string) (*foundOut, error) {
	if _, err := a.Catalog.Guardrail(ctx, endpoint.CallerFrom(ctx).ProjectID, key); err != nil {
		return nil, err
	}
	return pageOf("guardrail", key, "guardrails", key), nil
}

func (a *api) findShield(ctx context.Context, id string) (*foundOut, error) {
	caller := endpoint.CallerFrom(ctx)
	if _, err := a.Catalog.Shield(ctx, caller.TenantID, caller.ProjectID, id); err != nil {
		return nil, err
	}
	return pageOf("shield", id, "shields", id), nil
}

func (a *api) findApproval(ctx context.Context, id string) (*foundOut, error) {
	if !a.Aegis.IsApproval(id) {
		return nil, nothingFound()
	}
	caller := endpoint.CallerFrom(ctx)
	_, err := entity.Read[*approvalpb.ApprovalReply](ctx, a.Entities, &approvalpb.ApprovalQuery{Id: id, TenantId: caller.TenantID, ProjectId: caller.ProjectID})
	if err != nil {
		return nil, err
	}
	return pageOf("approval", id, "approvals", id), nil
}

// findBudget finds a quota policy that spends; the others are limits, which another service has.
func (a *api) findBudget(ctx context.Context, id string) (*foundOut, error) {
	limits, err := a.limits(ctx, id)
	if err != nil || limits.Budget == nil {
		return nil, cmp.Or(err, error(nothingFound()))
	}
	return pageOf("budget", id, "budgets", id), nil
}

func (a *api) findLimit(ctx context.Context, id string) (*foundOut, error) {
	if _, err := a.limits(ctx, id); err != nil {
		return nil, err
	}
	return pageOf("limit", id, "limits", id), nil
}

func (a *api) limits(ctx context.Context, id string) (*quota.Limits, error) {
	policy, err := a.Catalog.Policy(ctx, handler.Maker(ctx), id)
	if err != nil {
		return nil, err
	}
	return quota.LimitsOf(policy)
}

// findTrace finds a session that a program reported, by the name that it gave it.
func (a *api) findTrace(ctx context.Context, name string) (*foundOut, error) {
	if a.CanTrace != nil && !a.CanTrace() {
		return nil, nothingFound()
	}
	id := a.ReportedID(tracing.Prefix, endpoint.CallerFrom(ctx), name)
	reply, err := entity.Read[*tracepb.SessionReply](ctx, a.Entities, &tracepb.SessionQuery{Id: id})
	if err != nil {
		return nil, err
	}
	thread := name // it may be a thread of its own
	if reply.GetSession().GetThread() != "" {
		thread = reply.GetSession().GetRecord().GetThreadId()
	}
	found := pageOf("trace", name, "tracing", thread)
	found.Page += "?session=" + url.QueryEscape(name)
	return found, nil
}

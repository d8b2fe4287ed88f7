package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/actors/core/naming"
	"parley/actors/core/quota"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// Bounds of quota policies: all of a tenant's are looked at before a call.
const (
	maxPolicies   = 200
	maxPolicyText = 2048 // bytes of label, description and scope id, each
)

// DefaultPriority is that of a policy that says none.
const DefaultPriority = 100

// PolicyInput is what to create or change of a quota policy. What is nil stays as it is.
type PolicyInput struct {
	Scope, ScopeID, Domain, Label, Description *string
	// ProjectID is the caller's project, or "" for all of the tenant.
	ProjectID *string
	Priority  *int64
	Enabled   *bool
	// Edit changes the limits.
	Edit func(*quota.Limits) *failure.Failure
}

// CreatePolicy creates a quota policy: of the caller's project, of its tenant's calls and for models, unless the input says otherwise.
func (c *Catalog) CreatePolicy(ctx context.Context, caller Caller, in PolicyInput) (*directorypb.QuotaPolicy, error) {
	policy := &directorypb.QuotaPolicy{
		Id: c.env.NewID("qp"), TenantId: caller.TenantID, ProjectId: caller.ProjectID, Scope: quota.Tenant, Domain: quota.LLM,
		Priority: DefaultPriority, Enabled: true, CreatedBy: caller.UserID, CreatedAt: c.env.Now().UnixMilli(),
	}
	if err := c.applyPolicy(caller, in, policy); err != nil {
		return nil, err
	}
	return policy, c.policies.Create(ctx, policy, nil, limit("quota policies", tenantTerm(caller.TenantID), maxPolicies))
}

// ListPolicies returns the quota policies that bound a project, those of the whole tenant included, by age.
func (c *Catalog) ListPolicies(tenantID, projectID string) ([]*directorypb.QuotaPolicy, error) {
	all, err := c.policies.ByKey(Key(tenantID, ""))
	all = slices.DeleteFunc(all, func(p *directorypb.QuotaPolicy) bool { return !reaches(p, projectID) })
	slices.SortStableFunc(all, func(a, b *directorypb.QuotaPolicy) int { return int(a.GetCreatedAt() - b.GetCreatedAt()) })
	return all, err
}

func reaches(p *directorypb.QuotaPolicy, projectID string) bool {
	return p.GetProjectId() == "" || p.GetProjectId() == projectID
}

// room refuses one more of a tenant's records when a quota policy says so. It is for what decides in collection.Create.
func room[T any](c *Catalog, tenantID string, kept quota.Kept[T], made T) error {
	if c.env.Policies == nil {
		return nil
	}
	kept.Term = tenantTerm(tenantID)
	return kept.Room(c.env.Policies(tenantID), made)
}

// agentRoom refuses an agent that no quota leaves room for.
func (c *Catalog) agentRoom(agent *directorypb.Agent) error {
	return room(c, agent.GetTenantId(), quota.Kept[*directorypb.Agent]{
		Records: c.agents, What: "agents", Quota: quota.MaxAgents, Of: func(a *directorypb.Agent) quota.Thing {
			return quota.Thing{ProjectID: a.GetProjectId(), UserID: a.GetCreatedBy()}
		},
	}, agent)
}

// modelRoom refuses a model that no quota leaves room for. Its category is the domain that it is in.
func (c *Catalog) modelRoom(model *directorypb.Model) error {
	return room(c, model.GetTenantId(), quota.Kept[*directorypb.Model]{
		Records: c.models, What: "models", Quota: quota.MaxModels, Of: func(m *directorypb.Model) quota.Thing {
			return quota.Thing{ProjectID: m.GetProjectId(), Domain: m.GetCategory(), UserID: m.GetCreatedBy(), Provider: m.GetProviderKey()}
		},
	}, model)
}

// Policy finds a quota policy that bounds the caller's project.
func (c *Catalog) Policy(ctx context.Context, caller Caller, id string) (*directorypb.QuotaPolicy, error) {
	if !isKey(id) {
		return nil, noPolicy()
	}
	policy, err := c.policies.Get(ctx, Key(caller.TenantID, id))
	if _, none := errors.AsType[*collection.MissingError](err); none || err == nil && !reaches(policy, caller.ProjectID) {
		return nil, noPolicy()
	}
	return policy, err
}

func noPolicy() error { return failure.New(failurepb.Code_NOT_FOUND, failure.PolicyNotFound) }

// UpdatePolicy changes what the input names of a quota policy.
func (c *Catalog) UpdatePolicy(ctx context.Context, caller Caller, id string, in PolicyInput) (*directorypb.QuotaPolicy, error) {
	if _, err := c.Policy(ctx, caller, id); err != nil {
		return nil, err
	}
	return c.policies.Change(ctx, Key(caller.TenantID, id), func(policy *directorypb.QuotaPolicy) error { return c.applyPolicy(caller, in, policy) })
}

// DeletePolicy deletes a quota policy.
func (c *Catalog) DeletePolicy(ctx context.Context, caller Caller, id string) error {
	if _, err := c.Policy(ctx, caller, id); err != nil {
		return err
	}
	return c.policies.Delete(ctx, Key(caller.TenantID, id), nil)
}

// applyPolicy puts an input into a policy.
func (c *Catalog) applyPolicy(caller Caller, in PolicyInput, policy *directorypb.QuotaPolicy) error {
	policy.UpdatedAt, policy.UpdatedBy = c.env.Now().UnixMilli(), caller.UserID
	for _, text := range []struct {
		name string
		from *string
		to   *string
	}{
		{"scope", in.Scope, &policy.Scope},
		{"scope_id", in.ScopeID, &policy.ScopeId},
		{"domain", in.Domain, &policy.Domain},
		{"label", in.Label, &policy.Label},
		{"description", in.Description, &policy.Description},
	} {
		if text.from == nil {
			continue
		}
		if *text.to = strings.TrimSpace(naming.Plain(*text.from)); len(*text.to) > maxPolicyText {
			return invalid(failure.TooLong).In(text.name).Param("maxBytes", maxPolicyText)
		}
	}
	if in.ProjectID != nil {
		policy.ProjectId = *in.ProjectID
	}
	if in.Priority != nil {
		policy.Priority = *in.Priority
	}
	if in.Enabled != nil {
		policy.Enabled = *in.Enabled
	}
	if policy.GetScope() == quota.Tenant {
		policy.ScopeId = ""
	}
	switch {
	case !slices.Contains(quota.Scopes(), policy.GetScope()):
		return invalid(failure.NotOneOf).Param("name", "scope").Param("choices", strings.Join(quota.Scopes(), ", "))
	case !slices.Contains(quota.Domains(), policy.GetDomain()):
		return invalid(failure.NotOneOf).Param("name", "domain").Param("choices", strings.Join(quota.Domains(), ", "))
	case policy.GetScope() != quota.Tenant && policy.GetScopeId() == "":
		return invalid(failure.Required).In("scope_id")
	case policy.GetPriority() < 0:
		return invalid(failure.NegativePriority)
	case policy.GetProjectId() != "" && policy.GetProjectId() != caller.ProjectID:
		return invalid(failure.NotOneOf).Param("name", "project_id").Param("choices", caller.ProjectID)
	}
	limits, err := quota.LimitsOf(policy)
	if err != nil {
		return err
	}
	if in.Edit != nil {
		if wrong := in.Edit(limits); wrong != nil {
			return wrong
		}
	}
	if wrong := limits.Validate(); wrong != nil {
		return wrong
	}
	policy.Limits, err = json.Marshal(limits)
	return err
}

package access

import (
	"slices"
	"strings"
)

// Tier is what a tenant has a licence for.
type Tier string

// Tiers.
const (
	Free         Tier = "FREE"
	Starter      Tier = "STARTER"
	Professional Tier = "PROFESSIONAL"
	Enterprise   Tier = "ENTERPRISE"
	OnPremise    Tier = "ON_PREMISE"
)

// ParseTier reads a tier; what nobody knows is the lowest.
func ParseTier(text string) Tier {
	switch tier := Tier(text); tier {
	case Starter, Professional, Enterprise, OnPremise:
		return tier
	default:
		return Free
	}
}

// Features of a licence (document 3, 3.2).
const (
	userManagement    = "USER_MANAGEMENT"
	projectManagement = "PROJECT_MANAGEMENT"
	modelManagement   = "MODEL_MANAGEMENT"
	dashboard         = "DASHBOARD"
)

// Features lists what a tier has, by the names of document 3, 3.2.
func (t Tier) Features() []string {
	starter := []string{
		"LLM_CHAT", "LLM_EMBEDDINGS", "AGENT_TRACING", "API_KEYS", "PROMPTS", "QUOTA_MANAGEMENT", "INFERENCE_MONITORING",
		"ALERTS", "MEMORY", "RAG_PIPELINE",
	}
	switch t {
	case Starter:
		return starter
	case Professional:
		return append(starter, "AGENT_ORCHESTRATION", "VECTOR_STORE", "ANALYTICS", "GUARDRAILS")
	case Enterprise, OnPremise:
		return []string{
			userManagement, projectManagement, "LLM_CHAT", "LLM_EMBEDDINGS", "AGENT_ORCHESTRATION", "AGENT_TRACING",
			modelManagement, "VECTOR_STORE", "FILES", "WORKFLOW_AUTOMATION", "ANALYTICS", "API_KEYS", "PROMPTS",
			"QUOTA_MANAGEMENT", "INFERENCE_MONITORING", "GUARDRAILS", "ALERTS", "MEMORY", "RAG_PIPELINE", dashboard,
		}
	default:
		return []string{
			userManagement, projectManagement, "LLM_CHAT", "AGENT_TRACING", "API_KEYS", modelManagement, "PROMPTS",
			"VECTOR_STORE", "FILES", "QUOTA_MANAGEMENT", "INFERENCE_MONITORING", "GUARDRAILS", "ALERTS", "MEMORY", "RAG_PIPELINE",
			dashboard,
		}
	}
}

// pattern says that a path, and everything below it, belongs to a feature.
type pattern struct{ path, feature string }

// dashboardPatterns are the paths of signed-in users, below /api (document 3, 3.3). What is in none of them needs no feature.
func dashboardPatterns() []pattern {
	return []pattern{
		{"/users", userManagement},
		{"/dashboard", dashboard},
		{"/projects", projectManagement},
		{"/llm/chat", "LLM_CHAT"},
		{"/llm/embeddings", "LLM_EMBEDDINGS"},
		{"/models", modelManagement},
		{"/prompts", "PROMPTS"},
		{"/agents", "AGENT_ORCHESTRATION"},
		{"/tracing", "AGENT_TRACING"},
		{"/vector", "VECTOR_STORE"},
		{"/keys", "API_KEYS"},
		{"/tokens", "API_KEYS"},
		{"/files", "FILES"},
		{"/providers", "FILES"},
		{"/quota", "QUOTA_MANAGEMENT"},
		{"/inference-monitoring", "INFERENCE_MONITORING"},
		{"/guardrails", "GUARDRAILS"},
		{"/alerts", "ALERTS"},
		{"/memory", "MEMORY"},
		{"/rag", "RAG_PIPELINE"},
	}
}

// clientPatterns are those of the Client API, relative to it. Agents and responses are in no need of a licence (document 3, 3.2).
func clientPatterns() []pattern {
	return []pattern{
		{"/prompts", "PROMPTS"},
		{"/traces", "AGENT_TRACING"},
		{"/guardrails", "GUARDRAILS"},
		{"/moderations", "GUARDRAILS"},
		{"/memory", "MEMORY"},
		{"/rag", "RAG_PIPELINE"},
	}
}

// enterpriseAreas are the paths of the Client API that only the highest tiers have (document 1, "Client API"; document 3, 3.1).
func enterpriseAreas() []string { return []string{"/realtime", "/sandbox", "/mcp/hubs", "/aegis"} }

// EnterpriseArea says that a path, relative to its surface, is in an area of the highest tiers.
func EnterpriseArea(path string) bool {
	return slices.ContainsFunc(enterpriseAreas(), func(area string) bool { return below(path, area) })
}

// HasEnterprise says that the tier has the areas of the highest tiers.
func (t Tier) HasEnterprise() bool { return t == Enterprise || t == OnPremise }

// Allows says whether a route of the Client API is within the tier; path is relative to the surface.
func (t Tier) Allows(path string) bool {
	return t.HasEnterprise() || !EnterpriseArea(path) && t.hasAll(clientPatterns(), path)
}

// AllowsSignedIn says the same of a route of signed-in users; path is relative to /api.
func (t Tier) AllowsSignedIn(path string) bool {
	return t.HasEnterprise() || t.hasAll(dashboardPatterns(), path)
}

func (t Tier) hasAll(patterns []pattern, path string) bool {
	for _, p := range patterns {
		if below(path, p.path) && !implied(p.feature) && !slices.Contains(t.Features(), p.feature) {
			return false
		}
	}
	return true
}

// implied says that every tier has a feature whether or not it is among its own. The lists give STARTER and PROFESSIONAL no way to
// manage the users, projects and models of which their plans count more than FREE's: an upgrade would lock a tenant out.
func implied(feature string) bool {
	switch feature {
	case userManagement, projectManagement, modelManagement, dashboard:
		return true
	}
	return false
}

// below says whether a path is a prefix or something under it.
func below(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '/')
}

// Unlimited is a plan limit that is none.
const Unlimited = -1

// Limits are how much of something a plan has (document 3, 3.4); Unlimited = as much as is wanted.
type Limits struct {
	RequestsPerMonth int64
	MaxModels        int // of a tenant, as the others
	MaxAPITokens     int
	MaxUsers         int
	MaxProjects      int
}

// Limits returns the plan limits of a tier.
func (t Tier) Limits() Limits {
	switch t {
	case Starter:
		return Limits{RequestsPerMonth: 10_000, MaxModels: 10, MaxAPITokens: 20, MaxUsers: 20, MaxProjects: Unlimited}
	case Professional:
		return Limits{RequestsPerMonth: 100_000, MaxModels: 50, MaxAPITokens: 100, MaxUsers: 200, MaxProjects: Unlimited}
	case Enterprise, OnPremise:
		return Limits{RequestsPerMonth: Unlimited, MaxModels: Unlimited, MaxAPITokens: Unlimited, MaxUsers: Unlimited, MaxProjects: Unlimited}
	default:
		return Limits{RequestsPerMonth: 1_000, MaxModels: 5, MaxAPITokens: 5, MaxUsers: 5, MaxProjects: 2}
	}
}

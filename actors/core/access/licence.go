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
			"USER_MANAGEMENT", "PROJECT_MANAGEMENT", "LLM_CHAT", "LLM_EMBEDDINGS", "AGENT_ORCHESTRATION", "AGENT_TRACING",
			"MODEL_MANAGEMENT", "VECTOR_STORE", "FILES", "WORKFLOW_AUTOMATION", "ANALYTICS", "API_KEYS", "PROMPTS",
			"QUOTA_MANAGEMENT", "INFERENCE_MONITORING", "GUARDRAILS", "ALERTS", "MEMORY", "RAG_PIPELINE", "DASHBOARD",
		}
	default:
		return []string{
			"USER_MANAGEMENT", "PROJECT_MANAGEMENT", "LLM_CHAT", "AGENT_TRACING", "API_KEYS", "MODEL_MANAGEMENT", "PROMPTS",
			"VECTOR_STORE", "FILES", "QUOTA_MANAGEMENT", "INFERENCE_MONITORING", "GUARDRAILS", "ALERTS", "MEMORY", "RAG_PIPELINE",
			"DASHBOARD",
		}
	}
}

// Allows says whether a route of the Client API is within the licence; path is relative to the surface. Agents are in no need
// of one (document 3, 3.2).
func (t Tier) Allows(path string) bool {
	if t == Enterprise || t == OnPremise {
		return true
	}
	for _, prefix := range [...]string{"/realtime", "/sandbox", "/mcp/hubs", "/aegis"} {
		if below(path, prefix) {
			return false
		}
	}
	switch {
	case below(path, "/moderations"), below(path, "/guardrails"):
		return t.has("GUARDRAILS")
	case below(path, "/prompts"):
		return t.has("PROMPTS")
	case below(path, "/traces"):
		return t.has("AGENT_TRACING")
	default:
		return true
	}
}

func (t Tier) has(feature string) bool { return slices.Contains(t.Features(), feature) }

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
}

// Limits returns the plan limits of a tier.
func (t Tier) Limits() Limits {
	switch t {
	case Starter:
		return Limits{RequestsPerMonth: 10_000, MaxModels: 10, MaxAPITokens: 20, MaxUsers: 20}
	case Professional:
		return Limits{RequestsPerMonth: 100_000, MaxModels: 50, MaxAPITokens: 100, MaxUsers: 200}
	case Enterprise, OnPremise:
		return Limits{RequestsPerMonth: Unlimited, MaxModels: Unlimited, MaxAPITokens: Unlimited, MaxUsers: Unlimited}
	default:
		return Limits{RequestsPerMonth: 1_000, MaxModels: 5, MaxAPITokens: 5, MaxUsers: 5}
	}
}

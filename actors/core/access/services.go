package access

import "strings"

// Service is a part of the product that permissions are about (document 3, 2.5; webhooks from document 1).
type Service string

// Services that have routes so far.
const (
	Agents     Service = "agents"
	Audit      Service = "audit"
	Guardrails Service = "guardrails"
	Licensing  Service = "license"
	Members    Service = "members"
	Models     Service = "models"
	Projects   Service = "projects"
	Tokens     Service = "tokens"
	Webhooks   Service = "webhooks"
)

// Definition describes a service.
type Definition struct {
	Service  Service
	Category string // build, data, operate, admin
	// Administration services give project admins and users nothing by default, and whatever changes something takes admin.
	Administration bool
	// OwnersOnly services are for tokens of owners and admins, whatever else a user or a token was given (document 1,
	// "Authentication", 6).
	OwnersOnly bool
}

// Definitions lists all services.
func Definitions() []Definition {
	var all []Definition
	add := func(category string, administration bool, services ...Service) {
		for _, service := range services {
			all = append(all, Definition{
				Service: service, Category: category, Administration: administration,
				OwnersOnly: service == Audit || service == "inference-monitoring",
			})
		}
	}
	add("build", false, Models, "prompts", Agents, "mcp", "tools", "realtime")
	add("data", false, "vector", "memory", "files", "rag", "reranker", "crawler", "websearch", "ocr")
	add("operate", false, "tracing", "inference-monitoring", Guardrails, "evaluations", "redteam", "analysis", "pii", "browser",
		"alerts", "cost", "aegis", "abacus")
	add("operate", true, "gpu-fleet", "sandbox")
	add("admin", false, Projects, Tokens)
	add("admin", true, "automations", Members, "providers", "config", Licensing, Audit, "cluster", Webhooks)
	return all
}

// Known says that there is such a service.
func Known(service Service) bool {
	for _, definition := range Definitions() {
		if definition.Service == service {
			return true
		}
	}
	return false
}

// Label is the service's name for people.
func (d Definition) Label() string {
	switch name := string(d.Service); d.Service {
	case "mcp", "rag", "ocr", "pii", "gpu-fleet":
		acronym, rest, _ := strings.Cut(name, "-")
		return strings.TrimSpace(strings.ToUpper(acronym) + " " + rest)
	case "websearch":
		return "Web search"
	case "redteam":
		return "Red team"
	default:
		name = strings.ReplaceAll(name, "-", " ")
		return strings.ToUpper(name[:1]) + name[1:]
	}
}

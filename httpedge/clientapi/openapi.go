package clientapi

import (
	"slices"

	"parley/actors/core/guardrail"
	"parley/httpedge/apidocs"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/httpedge/openapi"
)

const (
	documentTitle = "Client API"

	documentDescription = "Agents, their sessions and runs, models, users and tokens, and an OpenAI-compatible gateway, for integrations.\n\n" +
		"## How to get a token\n\nEvery request carries an API token: Authorization: Bearer TOKEN (as apiKey in OpenAI's clients). \"Authorize\" on the page of " +
		"this document sets it for all requests.\n\n" +
		"- The first start of a new server makes a tenant, an owner, a project and a token, and prints the token, this once, below \"The first API token\" " +
		"in its terminal (or the log of its service).\n" +
		"- bootstrap_token in the configuration, or PARLEY_BOOTSTRAP_TOKEN, gives the first token instead: then nothing is printed.\n" +
		"- parley token create on the machine of the server makes another one, of the first tenant's owner unless -user says whose.\n" +
		"- Who signs in to the console makes tokens at /dashboard/tokens; POST /users/{id}/tokens does the same.\n\n" +
		"A token's secret is shown when it is made and never again. What it may do is what its user may do, within the scope that it was given.\n\n" +
		"## The two APIs\n\nThis API and the conversation server (/api/agents, its page is /api/agents/docs) are two ways to the same agents and conversations. " +
		"This one is for integrations with an API token of a tenant. The conversation server is for the pages and backends of one application, whose " +
		"configuration says who its users are. What is a session here is a conversation there, with the same id and the same log; names are snake_case here, " +
		"camelCase there, and snake_case in the event log on both."
)

// documentRoutes are the routes of the API's description.
func (a *API) documentRoutes(routes []endpoint.Route) []endpoint.Route {
	return apidocs.Routes(documentTitle, Document(a.shared.Config, routes, a.shared.Gateway), a.shared.Config.Docs)
}

// Document renders the OpenAPI document of the Client API, the routes of the gateway included.
func Document(config Config, routes []endpoint.Route, gateway endpoint.Surface) []byte {
	return openapi.Document(openapi.Info{
		Title: documentTitle, Version: "1.0.0",
		Description: documentDescription,
		Server:      config.BasePath, BearerAuth: true,
		Refusals: handler.Refusals(), Error: problemSchema{},
		Others: []openapi.Part{{Routes: gateway.Routes, Refusals: gateway.Refusals, Error: gatewayErrorSchema{}}},
	}, slices.Clone(routes))
}

type problemSchema struct {
	Error      errorSchema    `json:"error" doc:"For people; of guardrail_block an object"`
	Code       string         `json:"code" doc:"For programs"`
	Reason     string         `json:"reason,omitempty" doc:"Of the permission engine"`
	DecisionID string         `json:"decisionId,omitempty" doc:"Under which its decision is kept"`
	SpentUSD   *float64       `json:"spent_usd,omitempty" doc:"Of a budget that is used up"`
	MaxCostUSD *float64       `json:"max_cost_usd,omitempty" doc:"Of a budget that is used up"`
	Details    map[string]any `json:"details,omitempty"`
}

// errorSchema is a text, or why a guardrail stopped a text that an agent was told or has said (document 3, 7.10).
type errorSchema struct{}

// Either implements openapi.Either.
func (errorSchema) Either() []any { return []any{"", guardrailErrorSchema{}} }

type guardrailErrorSchema struct {
	Message      string              `json:"message" doc:"For people: the guardrail's own, where it has one"`
	Type         string              `json:"type" enum:"guardrail_block"`
	Code         string              `json:"code" enum:"guardrail_block"`
	GuardrailKey string              `json:"guardrail_key"`
	Action       string              `json:"action" enum:"block"`
	Findings     []guardrail.Finding `json:"findings" doc:"Of what a model said without their value"`
}

// gatewayErrorSchema is how OpenAI-compatible routes word an error (document 3, 1.3).
type gatewayErrorSchema struct {
	Error gatewayErrorBodySchema `json:"error"`
}

type gatewayErrorBodySchema struct {
	Message    string  `json:"message"`
	Type       string  `json:"type"`
	Code       *string `json:"code"`
	Param      *string `json:"param"`
	Reason     string  `json:"reason,omitempty" doc:"Of the permission engine"`
	DecisionID string  `json:"decisionId,omitempty" doc:"Under which its decision is kept"`

	GuardrailKey string              `json:"guardrail_key,omitempty" doc:"Of guardrail_block"`
	Action       string              `json:"action,omitempty" enum:"block" doc:"Of guardrail_block"`
	Findings     []guardrail.Finding `json:"findings,omitempty" doc:"Of guardrail_block"`
}

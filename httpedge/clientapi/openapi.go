package clientapi

import (
	"slices"

	"parley/httpedge/apidocs"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/httpedge/openapi"
)

const documentTitle = "Client API"

// documentRoutes are the routes of the API's description.
func (a *API) documentRoutes(routes []endpoint.Route) []endpoint.Route {
	return apidocs.Routes(documentTitle, Document(a.shared.Config, routes, a.shared.Gateway), a.shared.Config.Docs)
}

// Document renders the OpenAPI document of the Client API, the routes of the gateway included.
func Document(config Config, routes []endpoint.Route, gateway endpoint.Surface) []byte {
	return openapi.Document(openapi.Info{
		Title: documentTitle, Version: "1.0.0",
		Description: "Agents, their sessions and runs, models, users and tokens, and an OpenAI-compatible gateway.",
		Server:      config.BasePath, BearerAuth: true,
		Refusals: handler.Refusals(), Error: problemSchema{},
		Others: []openapi.Part{{Routes: gateway.Routes, Refusals: gateway.Refusals, Error: gatewayErrorSchema{}}},
	}, slices.Clone(routes))
}

type problemSchema struct {
	Error      string         `json:"error" doc:"For people"`
	Code       string         `json:"code" doc:"For programs"`
	Reason     string         `json:"reason,omitempty" doc:"Of the permission engine"`
	DecisionID string         `json:"decisionId,omitempty" doc:"Under which its decision is kept"`
	SpentUSD   *float64       `json:"spent_usd,omitempty" doc:"Of a budget that is used up"`
	MaxCostUSD *float64       `json:"max_cost_usd,omitempty" doc:"Of a budget that is used up"`
	Details    map[string]any `json:"details,omitempty"`
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
}

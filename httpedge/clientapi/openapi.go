package clientapi

import (
	"context"
	"slices"

	"parley/httpedge/endpoint"
	"parley/httpedge/openapi"
)

type openAPIIn struct{}

// documentRow is the route of the API's description. Anybody may read it.
func (a *API) documentRow(rows []endpoint.Row) endpoint.Row {
	document := endpoint.NewFile("application/json", Document(a.config, rows, a.Gateway))
	serve := func(context.Context, *openAPIIn) (*endpoint.File, error) { return document, nil }
	row := endpoint.OnBytes("GET /openapi.json", "docs:read", serve,
		endpoint.Public(), endpoint.Hidden(), endpoint.Summary("This API as an OpenAPI document"), endpoint.Tag("Docs"))
	row.Handler = "getOpenAPI"
	return row
}

// Document renders the OpenAPI document of the Client API, the routes of the gateway included.
func Document(config Config, rows []endpoint.Row, gateway endpoint.Surface) []byte {
	return openapi.Document(openapi.Info{
		Title: "Client API", Version: "1.0.0",
		Description: "Agents, their sessions and runs, models, users and tokens, and an OpenAI-compatible gateway.",
		Server:      config.BasePath, BearerAuth: true,
		Refusals: refusals(), Error: problemSchema{},
		Others: []openapi.Part{{Rows: gateway.Rows, Refusals: gateway.Refusals, Error: gatewayErrorSchema{}}},
	}, slices.Clone(rows))
}

type problemSchema struct {
	Error      string         `json:"error" doc:"For people"`
	Code       string         `json:"code" doc:"For programs"`
	SpentUSD   *float64       `json:"spent_usd,omitempty" doc:"Of a budget that is used up"`
	MaxCostUSD *float64       `json:"max_cost_usd,omitempty" doc:"Of a budget that is used up"`
	Details    map[string]any `json:"details,omitempty"`
}

// gatewayErrorSchema is how OpenAI-compatible routes word an error (document 3, 1.3).
type gatewayErrorSchema struct {
	Error gatewayErrorBodySchema `json:"error"`
}

type gatewayErrorBodySchema struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Code    *string `json:"code"`
	Param   *string `json:"param"`
}

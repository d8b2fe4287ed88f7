package clientapi

import (
	"context"
	"slices"

	"parley/actors/machine"
	"parley/httpedge/apidocs"
	"parley/httpedge/endpoint"
	"parley/httpedge/openapi"
	"parley/proto/failurepb"
)

const documentTitle = "Client API"

type openAPIIn struct{}

type docsFileIn struct {
	File string `path:"file"`
}

// documentRows are the routes of the API's description: the document, and the page that shows it. Anybody may read them.
func (a *API) documentRows(rows []endpoint.Row) []endpoint.Row {
	options := func(summary string) []endpoint.Option {
		return []endpoint.Option{endpoint.Public(), endpoint.Hidden(), endpoint.Summary(summary), endpoint.Tag("Docs")}
	}
	document := endpoint.NewFile("application/json", Document(a.config, rows, a.Gateway))
	described := endpoint.OnBytes("GET /openapi.json", "docs:read",
		func(context.Context, *openAPIIn) (*endpoint.File, error) { return document, nil },
		options("This API as an OpenAPI document")...)
	described.Handler = "getOpenAPI"
	if !a.config.Docs {
		return []endpoint.Row{described}
	}
	site := apidocs.New(documentTitle, "openapi.json")
	page := endpoint.OnBytes("GET /docs", "docs:read",
		func(context.Context, *openAPIIn) (*endpoint.File, error) { return site.Page(), nil },
		options("This API as a page")...)
	page.Handler = "getDocs"
	files := endpoint.OnBytes("GET /docs/{file}", "docs:read",
		func(_ context.Context, in *docsFileIn) (*endpoint.File, error) {
			if file := site.File(in.File); file != nil {
				return file, nil
			}
			return nil, machine.Fail(failurepb.Code_NOT_FOUND, "file not found")
		},
		append(options("Scripts and styles of the page"), endpoint.Errors(failurepb.Code_NOT_FOUND))...)
	files.Handler = "getDocsFile"
	return []endpoint.Row{described, page, files}
}

// Document renders the OpenAPI document of the Client API, the routes of the gateway included.
func Document(config Config, rows []endpoint.Row, gateway endpoint.Surface) []byte {
	return openapi.Document(openapi.Info{
		Title: documentTitle, Version: "1.0.0",
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

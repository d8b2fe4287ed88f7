package convapi

import (
	"context"

	"parley/actors/core/failure"
	"parley/httpedge/apidocs"
	"parley/httpedge/convapi/body"
	"parley/httpedge/endpoint"
	"parley/httpedge/openapi"
)

const documentTitle = "Conversation server API"

// documents holds what the docs routes serve, rendered once.
type documents struct {
	site    *apidocs.Site
	openAPI *endpoint.File
}

func newDocuments(config Config, routes []endpoint.Route) documents {
	return documents{
		site:    apidocs.New(documentTitle, "docs/openapi.json"),
		openAPI: endpoint.NewFile("application/json", document(config, routes)),
	}
}

// document renders the OpenAPI document of this surface.
func document(config Config, routes []endpoint.Route) []byte {
	return openapi.Document(openapi.Info{
		Title: documentTitle, Version: "1.0.0",
		Description: "Conversations with agents: create, send messages, stream answers, cancel, read the event log.",
		Server:      config.basePath(), BearerAuth: config.AuthEnabled,
		Refusals: body.Problems(),
		Error:    errorSchema{},
	}, routes)
}

type errorSchema struct {
	Error   string         `json:"error" doc:"For people"`
	Code    string         `json:"code" doc:"For programs"`
	Message string         `json:"message" doc:"The same text as error"`
	Details map[string]any `json:"details,omitempty"`
}

type docsIn struct{}

func (a *API) getDocs(context.Context, *docsIn) (*endpoint.File, error) {
	return a.docs.site.Page(), nil
}

func (a *API) getOpenAPI(context.Context, *docsIn) (*endpoint.File, error) {
	return a.docs.openAPI, nil
}

type docsFileIn struct {
	File string `path:"file"`
}

func (a *API) getDocsFile(_ context.Context, in *docsFileIn) (*endpoint.File, error) {
	file := a.docs.site.File(in.File)
	if file == nil {
		return nil, notFound(failure.FileNotFound)
	}
	return file, nil
}

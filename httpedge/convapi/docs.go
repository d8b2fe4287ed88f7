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

const (
	description = "Conversations with agents, for an application that has users of its own: make a conversation, send messages, stream the answers, " +
		"decide what a turn waits for, read the event log.\n\n"

	openAccess = "## Access\n\nThis server takes requests without a token, from its own machine, and believes the userId that it is told: " +
		"every operation here can be tried as it stands. With auth.enabled in the configuration it asks for a token.\n\n"

	tokenAccess = "## Access\n\nA request carries a token: Authorization: Bearer TOKEN. Which tokens are taken is said by the configuration: " +
		"those listed in auth.tokens, the JWTs that auth.jwt describes, or what the service at auth.callout.url accepts; API tokens of the Client API are " +
		"taken, too. \"Authorize\" on the page of this document sets it for all requests.\n\n"

	twoAPIs = "## The two APIs\n\nThis API and the Client API (/api/client/v1, its page is /api/client/v1/docs) are two ways to the same agents and conversations. " +
		"This one is for the pages and backends of one application, whose configuration says who its users are. The Client API is for integrations with an API " +
		"token of a tenant, and has what they manage besides: agents, models, users, webhooks, usage, an OpenAI-compatible gateway. What is a conversation here is " +
		"a session there, with the same id and the same log; names are camelCase here, snake_case there, and in the event log on both."
)

// describe is the text above the operations.
func describe(config Config) string {
	if config.AuthEnabled {
		return description + tokenAccess + twoAPIs
	}
	return description + openAccess + twoAPIs
}

// document renders the OpenAPI document of this surface.
func document(config Config, routes []endpoint.Route) []byte {
	return openapi.Document(openapi.Info{
		Title: documentTitle, Version: "1.0.0",
		Description: describe(config),
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

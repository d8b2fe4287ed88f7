package apidocs

import (
	"context"

	"parley/actors/core/failure"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

type nothing struct{}

type fileInput struct {
	File string `path:"file"`
}

// Routes returns the routes of a surface's description, which anybody may read: the document, and with page the page that shows it.
func Routes(title string, document []byte, page bool) []endpoint.Route {
	file := endpoint.NewFile("application/json", document)
	described := route("GET /openapi.json", "getOpenAPI", "This API as an OpenAPI document",
		func(context.Context, *nothing) (*endpoint.File, error) { return file, nil })
	if !page {
		return []endpoint.Route{described}
	}
	site := New(title, "openapi.json")
	return []endpoint.Route{
		described,
		route("GET /docs", "getDocs", "This API as a page",
			func(context.Context, *nothing) (*endpoint.File, error) { return site.Page(), nil }),
		route("GET /docs/{file}", "getDocsFile", "Scripts and styles of the page",
			func(_ context.Context, in *fileInput) (*endpoint.File, error) {
				if part := site.File(in.File); part != nil {
					return part, nil
				}
				return nil, failure.New(failurepb.Code_NOT_FOUND, failure.FileNotFound)
			}, endpoint.Errors(failurepb.Code_NOT_FOUND)),
	}
}

func route[In any](
	pattern, handler, summary string, serve func(context.Context, *In) (*endpoint.File, error), options ...endpoint.Option,
) endpoint.Route {
	options = append(options, endpoint.Public(), endpoint.Hidden(), endpoint.Summary(summary), endpoint.Tag("Docs"))
	made := endpoint.OnBytes(pattern, "docs:read", serve, options...)
	made.Handler = handler
	return made
}

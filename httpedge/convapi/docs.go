package convapi

import (
	"context"
	"io/fs"
	"path"
	"strings"
	"sync"

	swagger "github.com/swaggo/files/v2" // the API page's scripts, embedded so that it works offline

	"parley/httpedge/endpoint"
	"parley/httpedge/openapi"
)

// documents is what the docs routes serve, made once.
type documents struct {
	page    *endpoint.File
	openAPI *endpoint.File
	start   *endpoint.File
	assets  func(name string) *endpoint.File
}

// docsPolicy lets the page run its own scripts and call its own origin, and nothing else. The page styles elements
// from its script, hence unsafe-inline for styles.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const docsPage = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Conversation server API</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="stylesheet" href="docs/index.css">
<link rel="icon" type="image/png" href="docs/favicon-32x32.png">
</head>
<body>
<div id="swagger-ui"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/swagger-initializer.js"></script>
</body>
</html>
`

// docsStart draws the page; its own file because the policy forbids scripts inside the page.
const docsStart = `window.addEventListener("load", function () {
  window.ui = SwaggerUIBundle({
    url: "docs/openapi.json",
    dom_id: "#swagger-ui",
    deepLinking: true,
    presets: [SwaggerUIBundle.presets.apis],
    layout: "BaseLayout",
    validatorUrl: null
  });
});
`

func newDocuments(config Config, rows []endpoint.Row) documents {
	page := endpoint.NewFile("text/html; charset=utf-8", []byte(docsPage))
	page.Header = map[string]string{
		"Content-Security-Policy": docsPolicy,
		"Referrer-Policy":         "no-referrer",
	}
	return documents{
		page:    page,
		start:   endpoint.NewFile(contentTypeOf("x.js"), []byte(docsStart)),
		openAPI: endpoint.NewFile("application/json", document(config, rows)),
		assets:  cachedAssets(),
	}
}

// document renders the OpenAPI document of this surface.
func document(config Config, rows []endpoint.Row) []byte {
	return openapi.Document(openapi.Info{
		Title: "Conversation server API", Version: "1.0.0",
		Description: "Conversations with agents: create, send messages, stream answers, cancel, read the event log.",
		Server:      config.basePath(), BearerAuth: config.AuthEnabled,
		Refusals: refusals(),
		Error:    errorSchema{},
	}, rows)
}

type errorSchema struct {
	Error   string         `json:"error" doc:"For people"`
	Code    string         `json:"code" doc:"For programs"`
	Message string         `json:"message" doc:"The same text as error"`
	Details map[string]any `json:"details,omitempty"`
}

// cachedAssets returns a reader of the embedded files that hashes each at most once.
func cachedAssets() func(string) *endpoint.File {
	var kept sync.Map
	return func(name string) *endpoint.File {
		if file, ok := kept.Load(name); ok {
			return file.(*endpoint.File) //nolint:errcheck,forcetypeassert // only files are stored
		}
		body, err := fs.ReadFile(swagger.FS, name)
		if err != nil {
			return nil
		}
		file := endpoint.NewFile(contentTypeOf(name), body)
		kept.Store(name, file)
		return file
	}
}

type docsIn struct{}

func (a *API) getDocs(context.Context, *docsIn) (*endpoint.File, error) { return a.docs.page, nil }

func (a *API) getOpenAPI(context.Context, *docsIn) (*endpoint.File, error) {
	return a.docs.openAPI, nil
}

type docsFileIn struct {
	File string `path:"file"`
}

func (a *API) getDocsFile(_ context.Context, in *docsFileIn) (*endpoint.File, error) {
	if in.File == "swagger-initializer.js" {
		return a.docs.start, nil
	}
	file := a.docs.assets(in.File)
	if file == nil || strings.HasSuffix(in.File, ".html") {
		return nil, notFound("file")
	}
	return file, nil
}

func contentTypeOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".png":
		return "image/png"
	default:
		return "application/octet-stream"
	}
}

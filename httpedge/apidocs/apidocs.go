// Package apidocs serves the page on which a surface's OpenAPI document can be read and tried out. Its scripts and
// styles are embedded, so it works without internet access.
package apidocs

import (
	"fmt"
	"html"
	"io/fs"
	"path"
	"strings"
	"sync"

	swagger "github.com/swaggo/files/v2" // the page's scripts

	"parley/httpedge/endpoint"
)

// policy lets the page run its own scripts and call its own origin, and nothing else. The page styles elements from its
// script, hence unsafe-inline for styles.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
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

// initializer is the script that builds the page, in a file of its own because the policy forbids inline scripts.
const initializer = `window.addEventListener("load", function () {
  window.ui = SwaggerUIBundle({
    url: %q,
    dom_id: "#swagger-ui",
    deepLinking: true,
    presets: [SwaggerUIBundle.presets.apis],
    layout: "BaseLayout",
    validatorUrl: null
  });
});
`

// Site is the page of one surface. It belongs at the surface's /docs, and its files below that.
type Site struct {
	page        *endpoint.File
	initializer *endpoint.File
	assets      sync.Map // by name, each hashed at most once
}

// New returns the page of a document, which is served at a path relative to the surface's base path.
func New(title, documentPath string) *Site {
	s := &Site{
		page:        endpoint.NewFile("text/html; charset=utf-8", fmt.Appendf(nil, page, html.EscapeString(title))),
		initializer: endpoint.NewFile(contentTypeOf("x.js"), fmt.Appendf(nil, initializer, documentPath)),
	}
	s.page.Header = map[string]string{"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer"}
	return s
}

// Page returns the page itself.
func (s *Site) Page() *endpoint.File { return s.page }

// File returns a script, style or picture of the page by name, nil if there is none.
func (s *Site) File(name string) *endpoint.File {
	if name == "swagger-initializer.js" {
		return s.initializer
	}
	if strings.HasSuffix(name, ".html") {
		return nil // the directory's own index
	}
	if file, ok := s.assets.Load(name); ok {
		return file.(*endpoint.File) //nolint:errcheck,forcetypeassert // only files are stored
	}
	body, err := fs.ReadFile(swagger.FS, name)
	if err != nil {
		return nil
	}
	file := endpoint.NewFile(contentTypeOf(name), body)
	s.assets.Store(name, file)
	return file
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

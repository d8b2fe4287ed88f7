// Package apidocs serves the page on which a surface's OpenAPI document can be read and tried out. Its scripts and
// styles are embedded, compressed, so it works without internet access.
package apidocs

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"html"
	"io"
	"path"
	"sync"

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
	if file, ok := s.assets.Load(name); ok {
		return file.(*endpoint.File) //nolint:errcheck,forcetypeassert // only files are stored
	}
	body, err := unpacked(name)
	if err != nil {
		return nil
	}
	file := endpoint.NewFile(contentTypeOf(name), body)
	s.assets.Store(name, file)
	return file
}

// files are the four that the page loads, of a package that has thirty times as much.
//
//go:embed swagger/*.gz
var files embed.FS

func unpacked(name string) ([]byte, error) {
	packed, err := files.ReadFile("swagger/" + name + ".gz")
	if err != nil {
		return nil, err
	}
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(reader)
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

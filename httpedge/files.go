package httpedge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"parley/httpedge/endpoint"
)

// PagePolicy is the content security policy of the pages: their own scripts, styles and images, calls to their own
// origin, no framing, and no text that turns into HTML or code.
const PagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// Files returns a surface that serves a folder without authentication, index.html at its root. The files are read once, here.
// Missing files are answered like unknown routes of another surface.
func Files(files fs.FS, like endpoint.Surface) (endpoint.Surface, error) {
	surface := endpoint.Surface{Name: "files", Refusals: like.Refusals, AppendProblem: like.AppendProblem}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		row, err := fileRow(files, name)
		if err != nil {
			return err
		}
		surface.Rows = append(surface.Rows, row)
		return nil
	})
	if err != nil {
		return endpoint.Surface{}, fmt.Errorf("read files: %w", err)
	}
	if len(surface.Rows) == 0 {
		return endpoint.Surface{}, errors.New("read files: the folder is empty")
	}
	return surface, nil
}

func fileRow(files fs.FS, name string) (endpoint.Row, error) {
	if strings.ContainsAny(name, "{}?#% ") {
		return endpoint.Row{}, fmt.Errorf("name %q cannot be a path", name)
	}
	body, err := fs.ReadFile(files, name)
	if err != nil {
		return endpoint.Row{}, err
	}
	file := staticFile{endpoint.NewFile(contentType(name), body)}
	if path.Ext(name) == ".html" {
		file.Header = map[string]string{"Content-Security-Policy": PagePolicy, "Referrer-Policy": "no-referrer"}
	}
	at := "/" + strings.TrimSuffix(name, "index.html")
	return endpoint.OnBytes("GET "+at, "page:read", file.serveFile,
		endpoint.Public(), endpoint.Hidden(), endpoint.Tag("Pages")), nil
}

type staticFile struct{ *endpoint.File }

type noInput struct{}

func (f staticFile) serveFile(context.Context, *noInput) (*endpoint.File, error) { return f.File, nil }

// contentType depends on the file extension alone, so that a page is the same on every machine.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js", ".mjs":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".json", ".map":
		return "application/json"
	case ".webmanifest":
		return "application/manifest+json"
	case ".svg":
		return "image/svg+xml"
	case ".png":
		return "image/png"
	case ".ico":
		return "image/x-icon"
	case ".woff2":
		return "font/woff2"
	case ".txt":
		return "text/plain; charset=utf-8"
	default:
		return "application/octet-stream"
	}
}

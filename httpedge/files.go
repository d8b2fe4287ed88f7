package httpedge

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"strings"

	"parley/httpedge/endpoint"
)

// PagePolicy is the content security policy of the pages: their own scripts, styles and images, sound that they have made of an answer,
// calls to their own origin, no framing, and no text that turns into HTML or code.
const PagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src blob:; font-src 'self'; " +
	"connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// Alias is a file that is served at further paths, which may hold parameters: {name}.
type Alias struct {
	File  string
	Paths []string
}

// Files returns a surface that serves a folder without authentication, index.html at its root. The files are read, and compressed, once,
// here. Missing files are answered like unknown routes of another surface. What is no page is also below /v/VERSION, where a browser keeps
// it without asking again; below another version, which a node of another release may have named, it is what this node has, to be asked for.
func Files(files fs.FS, version string, like endpoint.Surface, aliases ...Alias) (endpoint.Surface, error) {
	surface := endpoint.Surface{Name: "files", Refusals: like.Refusals, AppendProblem: like.AppendProblem}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(name, ".d.mts") { // types are for tools
			return err
		}
		file, err := newStaticFile(files, name)
		if err != nil {
			return err
		}
		paths := []string{"/" + strings.TrimSuffix(name, "index.html")}
		for _, alias := range aliases {
			if alias.File == name {
				paths = append(paths, alias.Paths...)
			}
		}
		if path.Ext(name) != ".html" {
			surface.Routes = append(surface.Routes, endpoint.OnBytes("GET /v/{version}/"+name, "page:read", file.versioned(version),
				endpoint.Public(), endpoint.Hidden(), endpoint.Tag("Pages")))
		}
		for _, at := range paths {
			surface.Routes = append(surface.Routes, endpoint.OnBytes("GET "+at, "page:read", file.serveFile,
				endpoint.Public(), endpoint.Hidden(), endpoint.Tag("Pages")))
		}
		return nil
	})
	if err != nil {
		return endpoint.Surface{}, fmt.Errorf("read files: %w", err)
	}
	if len(surface.Routes) == 0 {
		return endpoint.Surface{}, errors.New("read files: the folder is empty")
	}
	return surface, nil
}

func newStaticFile(files fs.FS, name string) (staticFile, error) {
	if strings.ContainsAny(name, "{}?#% ") {
		return staticFile{}, fmt.Errorf("name %q cannot be a path", name)
	}
	body, err := fs.ReadFile(files, name)
	if err != nil {
		return staticFile{}, err
	}
	file := staticFile{plain: endpoint.NewFile(contentType(name), body)}
	file.plain.Header = map[string]string{"Vary": "Accept-Encoding"}
	if path.Ext(name) == ".html" {
		file.plain.Header["Content-Security-Policy"], file.plain.Header["Referrer-Policy"] = PagePolicy, "no-referrer"
	}
	packed := pack(body)
	if len(packed) >= len(body) {
		return file, nil
	}
	file.packed = endpoint.NewFile(file.plain.ContentType, packed)
	file.packed.Header = maps.Clone(file.plain.Header)
	file.packed.Header["Content-Encoding"] = "gzip"
	return file, nil
}

// pack compresses bytes as well as gzip can.
func pack(body []byte) []byte {
	var packed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err == nil {
		_, err = writer.Write(body)
		err = errors.Join(err, writer.Close())
	}
	if err != nil { // a level that exists, and memory: neither fails
		return body
	}
	return packed.Bytes()
}

// staticFile is a file, and the same file compressed where that makes it smaller.
type staticFile struct{ plain, packed *endpoint.File }

type fileIn struct {
	AcceptEncoding string `header:"Accept-Encoding"`
}

type versionedIn struct {
	Version        string `path:"version"`
	AcceptEncoding string `header:"Accept-Encoding"`
}

// versioned serves the file below a version: its own is kept forever.
func (f staticFile) versioned(version string) func(context.Context, *versionedIn) (*endpoint.File, error) {
	kept := staticFile{plain: keptForever(f.plain), packed: keptForever(f.packed)}
	return func(ctx context.Context, in *versionedIn) (*endpoint.File, error) {
		if in.Version == version {
			return kept.serveFile(ctx, &fileIn{in.AcceptEncoding})
		}
		return f.serveFile(ctx, &fileIn{in.AcceptEncoding})
	}
}

func keptForever(file *endpoint.File) *endpoint.File {
	if file == nil {
		return nil
	}
	kept := *file
	kept.Header = maps.Clone(file.Header)
	kept.Header["Cache-Control"] = "public, max-age=31536000, immutable"
	return &kept
}

func (f staticFile) serveFile(_ context.Context, in *fileIn) (*endpoint.File, error) {
	if f.packed != nil && takesGzip(in.AcceptEncoding) {
		return f.packed, nil
	}
	return f.plain, nil
}

// takesGzip says whether a client takes gzip (RFC 9110, 12.5.3). Weights other than 0 do not count: there is only one encoding.
func takesGzip(accepted string) bool {
	for part := range strings.SplitSeq(accepted, ",") {
		name, parameters, _ := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		weight := strings.ReplaceAll(strings.ToLower(parameters), " ", "")
		return !strings.HasPrefix(weight, "q=0") || strings.Trim(weight, "q=0.") != ""
	}
	return false
}

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

// Package web holds the playground: a page that uses the conversation server like any client. It is embedded in the
// binary, needs no build step, loads nothing from elsewhere and has no special rights.
package web

import (
	"bytes"
	"embed"
	"fmt"
	"html"
	"io/fs"
	"time"
)

//go:embed page
var embedded embed.FS

// basePathMark is the placeholder in index.html for the conversation server's base path.
const basePathMark = "{{base-path}}"

// Files returns the page's files, with an index for a conversation server at basePath.
func Files(basePath string) (fs.FS, error) {
	page, err := fs.Sub(embedded, "page")
	if err != nil {
		return nil, fmt.Errorf("open embedded page: %w", err)
	}
	index, err := fs.ReadFile(page, "index.html")
	if err != nil {
		return nil, fmt.Errorf("read index.html: %w", err)
	}
	index = bytes.ReplaceAll(index, []byte(basePathMark), []byte(html.EscapeString(basePath)))
	return &site{FS: page, index: index}, nil
}

// site is the embedded directory with a generated index.html.
type site struct {
	fs.FS
	index []byte
}

// Open implements fs.FS.
func (s *site) Open(name string) (fs.File, error) {
	if name != "index.html" {
		return s.FS.Open(name)
	}
	return &file{Reader: bytes.NewReader(s.index), size: int64(len(s.index))}, nil
}

// file is index.html in memory, and its own FileInfo.
type file struct {
	*bytes.Reader
	size int64
}

// Close implements fs.File.
func (f *file) Close() error { return nil }

// Stat implements fs.File.
func (f *file) Stat() (fs.FileInfo, error) { return f, nil }

// Name implements fs.FileInfo.
func (f *file) Name() string { return "index.html" }

// Size implements fs.FileInfo.
func (f *file) Size() int64 { return f.size }

// Mode implements fs.FileInfo.
func (f *file) Mode() fs.FileMode { return 0o444 }

// ModTime implements fs.FileInfo: embedded files have none.
func (f *file) ModTime() time.Time { return time.Time{} }

// IsDir implements fs.FileInfo.
func (f *file) IsDir() bool { return false }

// Sys implements fs.FileInfo.
func (f *file) Sys() any { return nil }

// Package web holds the pages: the playground, which uses the conversation server like any client, and the console of signed-in users
// (folder page/dashboard). They are embedded in the binary, need no build step, load nothing from elsewhere and have no special rights.
package web

import (
	"bytes"
	"embed"
	"fmt"
	"html"
	"io/fs"
	"path"
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
	console, err := consoleIndex(page)
	if err != nil {
		return nil, err
	}
	return &site{FS: page, made: map[string][]byte{"index.html": index, ConsoleFile: console}}, nil
}

// site is the embedded directory, with generated pages in the place of their files.
type site struct {
	fs.FS
	made map[string][]byte
}

// Open implements fs.FS.
func (s *site) Open(name string) (fs.File, error) {
	made, is := s.made[name]
	if !is {
		return s.FS.Open(name)
	}
	return &file{Reader: bytes.NewReader(made), name: path.Base(name), size: int64(len(made))}, nil
}

// file is a page in memory, and its own FileInfo.
type file struct {
	*bytes.Reader
	name string
	size int64
}

// Close implements fs.File.
func (f *file) Close() error { return nil }

// Stat implements fs.File.
func (f *file) Stat() (fs.FileInfo, error) { return f, nil }

// Name implements fs.FileInfo.
func (f *file) Name() string { return f.name }

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

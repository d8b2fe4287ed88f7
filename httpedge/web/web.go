// Package web holds the pages: the playground, which uses the conversation server like any client, and the console of signed-in users
// (folder page/dashboard). They are embedded in the binary, need no build step, load nothing from elsewhere and have no special rights.
package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html"
	"io/fs"
	"path"
	"strings"
	"time"
)

//go:embed page
var embedded embed.FS

// basePathMark is the placeholder in index.html for the conversation server's base path.
const basePathMark = "{{base-path}}"

// versionMark is the placeholder in the pages for the version of all files, which is in the paths of what they load.
const versionMark = "{{version}}"

// Files returns the page's files, with an index for a conversation server at basePath, and their version, which changes with any of them.
func Files(basePath string) (files fs.FS, version string, err error) {
	page, err := fs.Sub(embedded, "page")
	if err != nil {
		return nil, "", fmt.Errorf("open embedded page: %w", err)
	}
	made, version, err := makeFiles(page)
	if err != nil {
		return nil, "", err
	}
	index, err := fs.ReadFile(page, "index.html")
	if err != nil {
		return nil, "", fmt.Errorf("read index.html: %w", err)
	}
	index = bytes.ReplaceAll(index, []byte(basePathMark), []byte(html.EscapeString(basePath)))
	console, err := consoleIndex(page)
	if err != nil {
		return nil, "", err
	}
	made["index.html"] = bytes.ReplaceAll(index, []byte(versionMark), []byte(version))
	made[ConsoleFile] = bytes.ReplaceAll(console, []byte(versionMark), []byte(version))
	return &site{FS: page, made: made}, version, nil
}

// makeFiles returns the files that are not served as they are embedded, and the version of all.
func makeFiles(page fs.FS) (made map[string][]byte, version string, err error) {
	made, sum := map[string][]byte{}, sha256.New()
	err = fs.WalkDir(page, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(page, name)
		if err != nil {
			return err
		}
		if ext := path.Ext(name); (ext == ".js" || ext == ".css") && !strings.Contains(name, "/") {
			text = lean(text)
			made[name] = text
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
		return nil
	})
	return made, base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:9]), err
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

package web

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// ConsoleFile is the page of the console: one for all of its paths, which its modules tell apart.
const ConsoleFile = "console.html"

// consoleDepth is how many segments a path below /dashboard may have.
const consoleDepth = 6

// ConsolePaths are the paths that the console's page answers: those below /dashboard, and the pages for people who are not signed in. A
// module's own path wins over them.
func ConsolePaths() []string {
	paths := []string{"/login", "/register", "/forgot-password", "/reset-password", "/accept-invite", "/change-password", "/dashboard"}
	below := new(strings.Builder)
	below.WriteString("/dashboard")
	for depth := range consoleDepth {
		below.WriteString("/{" + string(rune('a'+depth)) + "}")
		paths = append(paths, below.String())
	}
	return paths
}

// preloadMark is the placeholder in the console's page for the modules that every page of it needs: a browser asks for them at once,
// rather than for each when it has read another.
const preloadMark = "{{preload}}"

// consoleIndex returns the console's page.
func consoleIndex(page fs.FS) ([]byte, error) {
	index, err := fs.ReadFile(page, ConsoleFile)
	if err != nil {
		return nil, fmt.Errorf("read the console's page: %w", err)
	}
	var links bytes.Buffer
	for _, pattern := range []string{"dashboard/*.js", "dashboard/words/*.js", "dashboard/components/*.js", "vendor/preact*.mjs", "vendor/htm.mjs"} {
		modules, err := fs.Glob(page, pattern)
		if err != nil {
			return nil, err
		}
		for _, module := range modules {
			if name := path.Base(module); !laterModules[name] {
				fmt.Fprintf(&links, "<link rel=\"modulepreload\" href=\"/v/{{version}}/%s\">\n", module)
			}
		}
	}
	return bytes.Replace(index, []byte(preloadMark), bytes.TrimSpace(links.Bytes()), 1), nil
}

// laterModules are those that only some pages need: they come with these.
//
//nolint:gochecknoglobals // a table; nothing writes to it
var laterModules = map[string]bool{"chart.js": true, "waterfall.js": true}

package convapi_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/httpedge"
	"parley/httpedge/convapi"
	"parley/proto/failurepb"
)

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run with -rewrite when the change is meant")
}

func surface(change func(*convapi.Config)) httpedge.Mounted {
	config := convapi.DefaultConfig()
	if change != nil {
		change(&config)
	}
	api := convapi.New(config, convapi.Parts{})
	return httpedge.Mounted{Prefix: api.BasePath(), Surface: api.Surface()}
}

func TestRoutesGolden(t *testing.T) {
	var table bytes.Buffer
	require.NoError(t, httpedge.WriteRoutes(&table, []httpedge.Mounted{surface(nil)}, httpedge.RouteTable{}))
	golden(t, "routes.golden", table.Bytes())
	var located bytes.Buffer
	require.NoError(t, httpedge.WriteRoutes(&located, []httpedge.Mounted{surface(nil)}, httpedge.RouteTable{Source: true}))
	require.Regexp(t, `GET +/api/agents/agents +listAgents +.*httpedge/convapi/routes\.go:\d+`, located.String())
}

func TestOpenAPIGolden(t *testing.T) {
	k := serve(t)
	served := k.do("GET", "/docs/openapi.json", "")
	require.Equal(t, 200, served.status)
	require.Equal(t, "application/json", served.header.Get("Content-Type"))
	golden(t, "openapi.golden.json", served.raw)
}

func TestEveryRowIsComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, route := range surface(nil).Surface.Routes {
		key := route.Method + " " + route.Path
		require.False(t, seen[key], "%s twice", key)
		seen[key] = true
		require.NotEmpty(t, route.Access, key)
		require.NotEmpty(t, route.Summary, key)
		require.NotEmpty(t, route.Tag, key)
	}
}

func TestEveryFailureCodeIsMapped(t *testing.T) {
	refusals := surface(nil).Surface.Refusals
	for number, name := range failurepb.Code_name {
		code := failurepb.Code(number)
		if code == failurepb.Code_CODE_UNSPECIFIED {
			continue
		}
		refusal, ok := refusals[code]
		require.True(t, ok, "%s has no status", name)
		require.True(t, refusal.Status >= 400 && refusal.Status < 600, name)
		require.NotEmpty(t, refusal.Code, name)
	}
}

// TestOpenAPIStructure checks what a generator of clients relies on.
func TestOpenAPIStructure(t *testing.T) {
	for name, auth := range map[string]bool{"open": false, "authenticated": true} {
		t.Run(name, func(t *testing.T) {
			k := serve(t, withConfig(func(c *convapi.Config) { c.AuthEnabled = auth }))
			r := k.do("GET", "/docs/openapi.json", "")
			require.Equal(t, "3.0.3", r.at(t, "openapi"))
			require.Equal(t, "/api/agents", r.at(t, "servers", 0, "url"))
			require.Equal(t, auth, r.at(t, "components", "securitySchemes") != nil)
			required, _ := r.body["security"].([]any)
			require.Equal(t, auth, len(required) > 0)

			schemas, ok := r.at(t, "components", "schemas").(map[string]any)
			require.True(t, ok)
			for _, match := range regexp.MustCompile(`"\$ref": "#/components/schemas/([^"]+)"`).FindAllSubmatch(r.raw, -1) {
				require.Contains(t, schemas, string(match[1]))
			}
			operations := map[string]bool{}
			paths, ok := r.at(t, "paths").(map[string]any)
			require.True(t, ok)
			for path, item := range paths {
				methods, ok := item.(map[string]any)
				require.True(t, ok)
				for method, raw := range methods {
					checkOperation(t, path, method, raw, operations)
				}
			}
			for _, id := range []string{
				"listAgents", "getAgent", "listConversations", "createConversation", "getConversation", "updateConversation",
				"deleteConversation", "listMessages", "sendMessage",
			} {
				require.True(t, operations[id], id)
			}
		})
	}
}

func checkOperation(t *testing.T, path, method string, raw any, seen map[string]bool) {
	t.Helper()
	text, err := json.Marshal(raw)
	require.NoError(t, err)
	var operation struct {
		OperationID string
		Parameters  []struct{ Name, In string }
		Responses   map[string]struct{ Description string }
	}
	require.NoError(t, json.Unmarshal(text, &operation))
	require.NotEmpty(t, operation.OperationID)
	require.False(t, seen[operation.OperationID], "%s twice", operation.OperationID)
	seen[operation.OperationID] = true
	named := 0
	for _, parameter := range operation.Parameters {
		if parameter.In == "path" {
			named++
			require.Contains(t, path, "{"+parameter.Name+"}", "%s %s", method, path)
		}
	}
	require.Equal(t, strings.Count(path, "{"), named, "%s %s names all parameters of its path", method, path)
	require.NotEmpty(t, operation.Responses)
	for status, response := range operation.Responses {
		require.NotEmpty(t, response.Description, "%s %s %s", method, path, status)
	}
}

func TestDocsPageWorksOffline(t *testing.T) {
	k := serve(t)
	page := k.do("GET", "/docs", "")
	require.Equal(t, 200, page.status)
	require.Equal(t, "text/html; charset=utf-8", page.header.Get("Content-Type"))
	require.Contains(t, page.header.Get("Content-Security-Policy"), "default-src 'none'")
	require.NotContains(t, string(page.raw), "//", "nothing from elsewhere")
	links := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(string(page.raw), -1)
	require.NotEmpty(t, links)
	for _, link := range links {
		asset := k.do("GET", "/"+link[1], "")
		require.Equal(t, 200, asset.status, link[1])
		require.NotEmpty(t, asset.header.Get("ETag"))
		require.Equal(t, "nosniff", asset.header.Get("X-Content-Type-Options"))
		again := k.do("GET", "/"+link[1], "", "If-None-Match", asset.header.Get("ETag"))
		require.Equal(t, 304, again.status)
		require.Empty(t, again.raw)
	}
	k.refused(404, "NOT_FOUND", "GET", "/docs/nothing.js", "")
	k.refused(404, "NOT_FOUND", "GET", "/docs/..%2fgo.mod", "")
	k.refused(404, "NOT_FOUND", "GET", "/docs/index.html", "")

	off := serve(t, withConfig(func(c *convapi.Config) { c.Docs = false }))
	off.refused(404, "NOT_FOUND", "GET", "/docs", "")
	off.refused(404, "NOT_FOUND", "GET", "/docs/openapi.json", "")
}

func TestConfigValidate(t *testing.T) {
	require.NoError(t, convapi.DefaultConfig().Validate())
	for name, change := range map[string]func(*convapi.Config){
		"base_path":    func(c *convapi.Config) { c.BasePath = "api" },
		"base_pattern": func(c *convapi.Config) { c.BasePath = "/{x}" },
		"list_page":    func(c *convapi.Config) { c.ListPage = 500 },
		"message_page": func(c *convapi.Config) { c.MessagePage = 0 },
		"bulk":         func(c *convapi.Config) { c.MaxBulkDelete = 0 },
		"workers":      func(c *convapi.Config) { c.BulkDeleteWorkers = 0 },
		"turn":         func(c *convapi.Config) { c.TurnTimeout = 0 },
		"cancel":       func(c *convapi.Config) { c.CancelWait = -1 },
		"resolve":      func(c *convapi.Config) { c.ResolveWait = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			config := convapi.DefaultConfig()
			change(&config)
			require.Error(t, config.Validate())
		})
	}
	require.Empty(t, surface(func(c *convapi.Config) { c.BasePath = "/" }).Prefix)
	require.Equal(t, "/x", surface(func(c *convapi.Config) { c.BasePath = "/x/" }).Prefix)
}

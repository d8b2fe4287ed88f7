package node

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"parley/actors/core/access"
	"parley/actors/core/identity"
	"parley/httpedge"
	"parley/httpedge/clientapi"
	"parley/httpedge/clientapi/auditlog"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/license"
	"parley/httpedge/clientapi/webhooks"
	"parley/httpedge/dashboard"
	"parley/httpedge/endpoint"
	"parley/httpedge/permission"
	"parley/proto/directorypb"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew") // a constant

// ofPeople says that a surface is for signed-in users.
func ofPeople(mounted httpedge.Mounted) bool {
	return mounted.Prefix == dashboardPath || mounted.Prefix == consolePath
}

// TestGoldenDashboardDocument: what is described of the surfaces below /api is every route of all of them, each under a name of its own.
func TestGoldenDashboardDocument(t *testing.T) {
	const path = "testdata/dashboard.golden.json"
	own := dashboard.New(dashboard.Config{}, dashboard.Parts{}).Surface()
	got := dashboard.Document(dashboardPath, own, describedOthers(
		clientapi.New(clientapi.DefaultConfig(), clientapi.Parts{}).Console(),
		dashboardWebhooks(webhooks.Parts{}), dashboardMembers(handler.Parts{}), dashboardAudit(auditlog.Parts{}), dashboardLicense(license.Parts{}),
		clientapi.New(clientapi.DefaultConfig(), clientapi.Parts{}).Dashboard(), clientapi.New(clientapi.DefaultConfig(), clientapi.Parts{}).Aegis(),
		clientapi.New(clientapi.DefaultConfig(), clientapi.Parts{}).Quotas(),
	)...)
	got = lessIndented(t, got)
	if *rewrite {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run with -rewrite when the change is meant")

	document, err := openapi3.NewLoader().LoadFromData(got)
	require.NoError(t, err)
	require.NoError(t, document.Validate(t.Context()))
	named := map[string]bool{}
	for _, mounted := range Surfaces() {
		if !ofPeople(mounted) {
			continue
		}
		for _, route := range mounted.Surface.Routes {
			if route.Hidden {
				continue
			}
			item := document.Paths.Find(strings.TrimPrefix(mounted.Prefix, dashboardPath) + route.Path)
			require.NotNil(t, item, "%s %s", route.Method, route.Path)
			operation := item.GetOperation(route.Method)
			require.NotNil(t, operation, "%s %s", route.Method, route.Path)
			require.False(t, named[operation.OperationID], "two operations are called %s", operation.OperationID)
			named[operation.OperationID] = true
			require.Equal(t, route.IsPublic(), operation.Security != nil, "%s %s asks for a session unless it is public", route.Method, route.Path)
		}
	}
	require.NotEmpty(t, named)
}

// TestEveryChangeIsAudited: a route that changes something on the dashboard's surfaces, the Client API or the gateway is in the audit
// trail, or says why it is not.
func TestEveryChangeIsAudited(t *testing.T) {
	exempt := map[string]string{}
	audited := 0
	for _, mounted := range Surfaces() {
		if mounted.Surface.Name == "conversation" {
			continue // without tenants and users: its sessions' logs are the record
		}
		for i := range mounted.Surface.Routes {
			route := &mounted.Surface.Routes[i]
			switch {
			case !route.Changes():
				require.Empty(t, route.Exempt(), "%s %s changes nothing", route.Method, route.Path)
			case route.Audited():
				audited++
			default:
				exempt[route.Handler] = route.Exempt()
			}
		}
	}
	const logged, used = "the log of its session is its record, written with what it changes", "it uses a model and changes no record; usage is booked"
	const reported = "what programs report of themselves changes nothing but their trace, which says when and by itself what"
	require.Equal(t, map[string]string{
		"checkText": "it checks a text and changes no record",
		"callAgent": logged, "createAgentResponse": logged, "createResponse": logged, "createSession": logged,
		"chatCompletions": used, "embeddings": used, "moderations": used,
		"speech": used, "transcribe": used, "translate": used,
		"reportSession": reported, "reportSpans": reported, "startTraceSession": reported, "reportEvent": reported, "endTraceSession": reported,
		"logout": "it clears cookies of the browser", "chooseProject": "it sets a cookie of the browser",
		"evaluateCall":   "the shield's own trail has it",
		"forgotPassword": "it only sends a mail, and nobody says who asks",
	}, exempt)
	require.Greater(t, audited, 30)
}

// TestEnterpriseAreas: whatever is registered below an area of the highest tiers is kept to them.
func TestEnterpriseAreas(t *testing.T) {
	for _, mounted := range Surfaces() {
		for i := range mounted.Surface.Routes {
			route := &mounted.Surface.Routes[i]
			if access.EnterpriseArea(route.Path) {
				require.True(t, route.IsEnterprise(), "%s %s", route.Method, route.Path)
			}
		}
	}
	d := openDoors(t, permission.Config{})
	d.user("owner", "owner", "")
	d.put(identity.Tenants, "own", &directorypb.Tenant{Id: "own", Tier: "PROFESSIONAL"})
	signed, bearer := d.cookie("owner"), d.token("owner", "own", "own", "-")
	d.rows(func(route *endpoint.Route, path string, cookies, _ bool, _ access.Definition, _ access.Level) {
		header, value := "Authorization", bearer
		if cookies {
			header, value = "Cookie", signed
		}
		status, _, text := d.send(route.Method, path, header, value)
		require.Equal(t, statusOf(!route.IsEnterprise()), status, "%s %s: %s", route.Method, path, text)
	})
	for _, path := range []string{"/api/client/v1/aegis/nothing", "/api/client/v1/realtime", "/api/aegis/nothing", "/api/client/v1/nothing"} {
		status, _, text := d.send(http.MethodGet, path, "Authorization", bearer)
		require.Equal(t, http.StatusNotFound, status, text)
	}
}

// lessIndented is a document without blanks before its lines: with them the file would be longer than it may be.
func lessIndented(t *testing.T, document []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, json.Indent(&out, document, "", ""))
	return out.Bytes()
}

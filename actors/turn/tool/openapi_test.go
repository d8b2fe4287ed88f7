package tool_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"parley/actors/turn/model"
	"parley/actors/turn/tool"
	"parley/proto/agentpb"
)

// TestOpenAPI runs scripts: `tools` prints what a document offers, `call` the request that a call becomes.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("testdata/pets.yaml")
	require.NoError(t, err)
	server, requests := listen(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	box, err := tool.New(local(t))
	require.NoError(t, err)
	t.Cleanup(box.Close)

	datadriven.RunTest(t, "testdata/openapi.txt", func(t *testing.T, d *datadriven.TestData) string {
		t.Helper()
		api := &agentpb.OpenAPI{Document: document, BaseUrl: server.URL + "/base?key=k", Headers: map[string]string{"X-Key": "k"}}
		d.MaybeScanArgs(t, "name", &api.Name)
		for _, arg := range d.CmdArgs {
			if arg.Key == "only" {
				api.Operations = arg.Vals
			}
		}
		set, err := box.Open(t.Context(), &agentpb.Agent{Id: "a", Apis: []*agentpb.OpenAPI{api}})
		if err != nil {
			return "error: " + err.Error() + "\n"
		}
		switch d.Cmd {
		case "tools":
			return printTools(t, set)
		case "call":
			return callOperation(t, d, server, set, requests)
		default:
			return "unknown command\n"
		}
	})
}

func printTools(t *testing.T, set tool.Set) string {
	t.Helper()
	var out strings.Builder
	for _, definition := range set.Definitions() {
		var schema bytes.Buffer
		require.NoError(t, json.Indent(&schema, definition.Schema, "", " "))
		fmt.Fprintf(&out, "%s %q\n%s\n", definition.Name, definition.Description, schema.String())
	}
	return out.String()
}

func callOperation(t *testing.T, d *datadriven.TestData, server *httptest.Server, set tool.Set, requests *[]heard) string {
	t.Helper()
	var name string
	d.ScanArgs(t, "tool", &name)
	*requests = nil
	one := find(t, set, name)
	judged, err := one.Judge(t.Context(), d.Input)
	if err == nil {
		_, err = one.Run(t.Context(), tool.Call{Args: judged.Args})
	}
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	got := (*requests)[0]
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n", strings.ReplaceAll(got.line, server.URL, ""))
	for _, header := range []string{"Trace", "X-Key", "Content-Type", "Authorization", "Cookie"} {
		if value := got.header.Get(header); value != "" {
			fmt.Fprintf(&out, "%s: %s\n", header, value)
		}
	}
	if got.body != "" {
		fmt.Fprintf(&out, "%s\n", got.body)
	}
	return out.String()
}

func TestOpenAPIErrors(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("testdata/pets.yaml")
	require.NoError(t, err)
	for want, api := range map[string]*agentpb.OpenAPI{
		"":                              {Document: document},
		"document: ":                    {Document: []byte("\x00")},
		"not of OpenAPI 3":              {Document: []byte(`{"swagger":"2.0"}`)},
		"no operation \"nothing\"":      {Document: document, Operations: []string{"nothing"}},
		"no operation \"other\"":        {Document: document, Policies: map[string]*agentpb.ToolPolicy{"other": {}}},
		"operation \"putPhoto\"":        {Document: document, Operations: []string{"putPhoto"}},
		"is not an http or https URL":   {Document: []byte(`{"openapi":"3.0.0","info":{"title":"a","version":"1"},"paths":{}}`)},
		"document is longer than 83886": {Document: make([]byte, 9<<20)},
		"document: encountered disallowed external reference": {Document: []byte(`{"openapi":"3.0.0","info":{"title":"a","version":"1"},
			"paths":{"/a":{"$ref":"file:///etc/passwd"}}}`), BaseUrl: "https://a.example"},
	} {
		err := tool.Check(&agentpb.Agent{Id: "a", Apis: []*agentpb.OpenAPI{api}})
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}

func TestOpenAPIPolicies(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("testdata/pets.yaml")
	require.NoError(t, err)
	set := open(t, tool.Config{}, &agentpb.Agent{Id: "a", Apis: []*agentpb.OpenAPI{{
		Name: "pets", Document: document, Policy: &agentpb.ToolPolicy{Idempotent: true},
		Policies: map[string]*agentpb.ToolPolicy{"createPet": {Approval: "always"}},
	}}})
	require.True(t, find(t, set, "pets_getPet").Policy.GetIdempotent())
	require.Equal(t, "always", find(t, set, "pets_createPet").Policy.GetApproval())
	require.False(t, slices.ContainsFunc(set.Definitions(), func(d model.Tool) bool { return d.Name == "pets_putPhoto" }))
}

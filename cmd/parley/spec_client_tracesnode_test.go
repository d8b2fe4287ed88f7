package main

import "testing"

// TestClientTracesNode runs OpenTelemetry's exporters for JavaScript; their cases are in testdata/openai/traces.mjs.
func TestClientTracesNode(t *testing.T) {
	t.Parallel()
	n := newTenant(t, house(t).p, "ON_PREMISE")
	runNode(t, "traces.mjs", n.apiCaller, nil, []string{"json", "json_gzip", "protobuf", "refused"})
}

package tool

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/schema"
	"parley/proto/agentpb"
)

// bomb has patterns that expand to megabytes each. A few of them are within what one schema may have.
func bomb(patterns int) []byte {
	parts := make([]string, patterns)
	for i := range parts {
		parts[i] = fmt.Sprintf(`"p%d":{"type":"string","pattern":"a{1000}b{1000}c{%d}"}`, i, i)
	}
	return []byte(`{"type":"object","properties":{` + strings.Join(parts, ",") + `}}`)
}

func allocated(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestPatternBombs: wherever the schema of a tool is from, its patterns are refused before they expand, and those of all tools of a
// request, an agent, a document or a server count together.
func TestPatternBombs(t *testing.T) {
	const most = 50 << 20
	bytes := allocated(func() {
		err := Checks{}.Tools([]*agentpb.Tool{{Name: "fine"}, {Name: "bomb", Schema: bomb(1500)}})
		require.ErrorContains(t, err, `the tool "bomb": schema: schema: too complex to check: at '/properties/p`)
	})
	require.Less(t, bytes, uint64(most), "a request")
	bytes = allocated(func() { require.ErrorContains(t, Checks{}.Format(bomb(1500)), "at '/properties/p") })
	require.Less(t, bytes, uint64(most), "a format")
	require.NoError(t, Checks{}.Format([]byte(`{"pattern":"(?=a)"}`)), "another dialect of patterns is the provider's")

	var many []*agentpb.Tool
	for i := range 128 {
		many = append(many, &agentpb.Tool{Name: fmt.Sprintf("t%d", i), Schema: bomb(1), Client: true})
	}
	for name, check := range map[string]func() error{
		"a request": func() error { return Checks{}.Tools(many) },
		"an agent":  func() error { return Check(&agentpb.Agent{Id: "a", Tools: many}) },
		"a document": func() error {
			return Check(&agentpb.Agent{Id: "a", Apis: []*agentpb.OpenAPI{{
				Document: document(many), Operations: []string{"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"},
			}}})
		},
	} {
		bytes = allocated(func() {
			err := check()
			require.ErrorContains(t, err, "the patterns of the document are too large together", name)
		})
		require.Less(t, bytes, uint64(most), name)
	}
}

// document describes operations, one for each tool, with the tool's schema as body.
func document(tools []*agentpb.Tool) []byte {
	var paths []string
	for _, tool := range tools {
		paths = append(paths, fmt.Sprintf(
			`"/%[1]s":{"post":{"operationId":%[1]q,"requestBody":{"content":{"application/json":{"schema":%[2]s}}},"responses":{"200":{"description":"ok"}}}}`,
			tool.GetName(), tool.GetSchema()))
	}
	return []byte(`{"openapi":"3.0.0","info":{"title":"x","version":"1"},"servers":[{"url":"https://a.example"}],"paths":{` +
		strings.Join(paths, ",") + `}}`)
}

// TestPatternBombsOfServers: the list of an MCP server is a stranger's. What it may have is offered, the rest is left out.
func TestPatternBombsOfServers(t *testing.T) {
	box, err := New(Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer box.Close()
	made := &offer{}
	for i := range maxListed {
		made.tools = append(made.tools, &listed{name: fmt.Sprintf("t%d", i), schema: bomb(1)})
	}
	made.tools = append(made.tools, &listed{name: "plain", schema: []byte(`{"type":"object"}`)})
	server := box.mcp.server(&agentpb.MCP{Name: "s"})
	var offered []*Tool
	bytes := allocated(func() { offered, _ = server.tools(made, &agentpb.MCP{Name: "s"}, box) })
	require.Less(t, bytes, uint64(50<<20))
	require.Less(t, len(offered), 10)
	require.Equal(t, "s_plain", offered[len(offered)-1].Name)
}

// TestJudgeIsBounded: slow patterns against long arguments are given up, and a check ends with its turn.
func TestJudgeIsBounded(t *testing.T) {
	box, err := New(Config{})
	require.NoError(t, err)
	defer box.Close()
	var patterns []string
	for i := range 300 {
		patterns = append(patterns, fmt.Sprintf(`{"pattern":"^(a?b?|ba|(x|a)*){%d}c$"}`, 4+i%2))
	}
	slow, err := box.plain(&agentpb.Tool{
		Name: "slow", Client: true,
		Schema: []byte(`{"type":"object","properties":{"x":{"allOf":[` + strings.Join(patterns, ",") + `]}}}`),
	}, new(schema.Checker))
	require.NoError(t, err)
	args := `{"x":"` + strings.Repeat("ab", 30_000) + `"}`
	_, err = slow.Judge(t.Context(), args)
	require.ErrorContains(t, err, "do not fit the tool's schema: too complex to check")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = slow.Judge(ctx, args)
	require.ErrorIs(t, err, context.Canceled)
}

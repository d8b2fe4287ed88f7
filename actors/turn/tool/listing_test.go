package tool_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/stranger"
	"parley/actors/turn/tool"
	"parley/proto/agentpb"
)

// pageOf is a page with one tool, and a cursor that no page before it had.
func pageOf(number int32, tool string) string {
	return fmt.Sprintf(`{"tools":[%s],"nextCursor":"c%d"}`, tool, number)
}

// TestMCPEndlessList: a list is given up in the middle of the page that is too much, before that is decoded.
func TestMCPEndlessList(t *testing.T) {
	t.Parallel()
	const kilobytes = 360
	for name, row := range map[string]struct {
		tool  string
		pages int32 // asked for
	}{
		"long":        {fmt.Sprintf(`{"name":"t","inputSchema":{"type":"object"},"_meta":{"x":%q}}`, strings.Repeat("x", kilobytes<<10)), 12},
		"many values": {fmt.Sprintf(`{"name":"t","inputSchema":{"type":"object","x":[%s0]}}`, strings.Repeat("0,", 30_000)), 4},
		"no tools":    {`null`, 500},
	} {
		for _, kind := range []string{"application/json", "text/event-stream"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				var pages atomic.Int32
				front := fronted(t, serveMCP(t), "tools/list", kind, func(json.RawMessage) string { return pageOf(pages.Add(1), row.tool) })
				set := open(t, local(t), mcpAgent(&agentpb.MCP{Name: "r", Url: front.URL, ConnectTimeoutMs: 60_000}))
				require.Empty(t, set.Definitions())
				require.Equal(t, row.pages, pages.Load())
			})
		}
	}
}

// TestMCPListOfPages: pages are joined, and read again from the start when the list has become old.
func TestMCPListOfPages(t *testing.T) {
	t.Parallel()
	var round atomic.Int32
	front := fronted(t, serveMCP(t), "tools/list", "application/json", func(params json.RawMessage) string {
		var asked struct{ Cursor string }
		if json.Unmarshal(params, &asked) != nil {
			return `{}`
		}
		named := func(name string) string { return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name) }
		if asked.Cursor == "" {
			return pageOf(round.Add(1), named("first"))
		}
		return fmt.Sprintf(`{"tools":[%s]}`, named("second_"+asked.Cursor))
	})
	config := local(t)
	config.RefreshAfter = time.Nanosecond
	box, err := tool.New(config)
	require.NoError(t, err)
	t.Cleanup(box.Close)
	agent := mcpAgent(&agentpb.MCP{Name: "r", Url: front.URL, ConnectTimeoutMs: 60_000})
	set, err := box.Open(t.Context(), agent)
	require.NoError(t, err)
	require.Equal(t, []string{"r_first", "r_second_c1"}, names(set))
	require.Eventually(t, func() bool {
		set, err = box.Open(t.Context(), agent)
		return err == nil && len(names(set)) == 2 && names(set)[1] >= "r_second_c2"
	}, 30*time.Second, time.Millisecond)
}

// TestMCPListsAreKeptSmall: of a list within its limits, what is kept is what is used: no maps, no other fields.
func TestMCPListsAreKeptSmall(t *testing.T) {
	listed := fmt.Sprintf(`{"name":"t","inputSchema":{"type":"object","x":[%s0]},"outputSchema":{"type":"object","x":[%s0]}}`,
		strings.Repeat("{},", 9_000), strings.Repeat("{},", 30_000))
	const servers = 4
	config := local(t)
	box, err := tool.New(config)
	require.NoError(t, err)
	t.Cleanup(box.Close)
	var specs []*agentpb.MCP
	for i := range servers {
		front := fronted(t, serveMCP(t), "tools/list", "application/json", func(json.RawMessage) string { return `{"tools":[` + listed + `]}` })
		specs = append(specs, &agentpb.MCP{Name: fmt.Sprintf("s%d", i), Url: front.URL, ConnectTimeoutMs: 60_000})
	}
	live := func() uint64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.GC() // the first one leaves what pools keep
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := live()
	set, err := box.Open(t.Context(), mcpAgent(specs...))
	require.NoError(t, err)
	require.Len(t, set.Definitions(), servers)
	require.Less(t, int64(live())-int64(before), int64(servers*(512<<10)), "of lists of %d KiB", len(listed)>>10)
	runtime.KeepAlive(box)
}

// TestMCPListsShareMemory: a tenant's lists that are kept leave room for those of others, and make room when their agents are gone.
func TestMCPListsShareMemory(t *testing.T) {
	t.Parallel()
	const agents, fit = 7, 5 // lists of 3 MiB in 16 of 32
	schema := fmt.Sprintf(`{"type":"object","x":%q}`, strings.Repeat("x", 30<<10))
	var tools []string
	for i := range 100 {
		tools = append(tools, fmt.Sprintf(`{"name":"t%d","inputSchema":%s}`, i, schema))
	}
	front := fronted(t, serveMCP(t), "tools/list", "application/json", func(json.RawMessage) string {
		return `{"tools":[` + strings.Join(tools, ",") + `]}`
	})
	config := local(t)
	config.MaxAgents = agents + 1
	box, err := tool.New(config)
	require.NoError(t, err)
	t.Cleanup(box.Close)
	listed := func(tenant string, agent int) bool {
		asked := mcpAgent(&agentpb.MCP{
			Name: "r", Url: front.URL, ConnectTimeoutMs: 60_000, Headers: map[string]string{"X-Agent": fmt.Sprint(tenant, agent)},
		})
		asked.Id = fmt.Sprint(tenant, agent)
		set, err := box.Open(stranger.Of(t.Context(), tenant), asked)
		require.NoError(t, err)
		return len(set.Definitions()) > 0
	}
	for agent := range agents {
		require.Equal(t, agent < fit, listed("a", agent), agent)
	}
	require.True(t, listed("b", 0))
	for agent := range fit { // push out those of the first
		listed("c", agent+10)
	}
	require.True(t, listed("a", 100))
}

package tool_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/turn/tool"
	"parley/proto/agentpb"
)

func httpTool(name string) *agentpb.Tool {
	return &agentpb.Tool{Name: name, Http: &agentpb.HTTP{Url: "https://a.example/" + name}}
}

func TestDefinitions(t *testing.T) {
	t.Parallel()
	set := open(t, tool.Config{}, &agentpb.Agent{
		Id: "a", AskUser: &agentpb.AskUser{Description: "Ask."},
		Tools: []*agentpb.Tool{httpTool("zoo"), {Name: "b", Client: true, Description: "B"}, httpTool("c"), {Name: "now", Builtin: "current_time"}},
	})
	var names []string
	for _, definition := range set.Definitions() {
		names = append(names, definition.Name)
		require.NotEmpty(t, definition.Schema)
	}
	require.Equal(t, []string{"ask_user", "b", "c", "now", "zoo"}, names)
	_, found := set.Find("nothing")
	require.False(t, found)
}

func TestNoTools(t *testing.T) {
	t.Parallel()
	require.Empty(t, open(t, tool.Config{}, &agentpb.Agent{Id: "a"}).Definitions())
}

func TestCache(t *testing.T) {
	t.Parallel()
	box, err := tool.New(tool.Config{MaxAgents: 2})
	require.NoError(t, err)
	t.Cleanup(box.Close)
	get := func(agent *agentpb.Agent) tool.Set {
		set, err := box.Open(t.Context(), agent)
		require.NoError(t, err)
		return set
	}
	one := &agentpb.Agent{Id: "1", Tools: []*agentpb.Tool{httpTool("x")}}
	first := get(one)
	require.Same(t, first, get(one))
	again, ok := proto.Clone(one).(*agentpb.Agent)
	require.True(t, ok)
	again.Instructions = "changed, but not the tools"
	require.Same(t, first, get(again))
	again.Tools = append(again.Tools, httpTool("y"))
	changed, ok := proto.Clone(again).(*agentpb.Agent)
	require.True(t, ok)
	require.Len(t, get(changed).Definitions(), 2)

	first = get(one)
	for id := range 3 {
		get(&agentpb.Agent{Id: fmt.Sprint("other", id), Tools: []*agentpb.Tool{httpTool("x")}})
	}
	require.NotSame(t, first, get(one))
}

func TestCheck(t *testing.T) {
	t.Parallel()
	with := func(change func(*agentpb.Tool)) *agentpb.Agent {
		one := httpTool("x")
		change(one)
		return &agentpb.Agent{Id: "a", Tools: []*agentpb.Tool{one}}
	}
	server := func(spec *agentpb.MCP) *agentpb.Agent { return &agentpb.Agent{Id: "a", Servers: []*agentpb.MCP{spec}} }
	for want, agent := range map[string]*agentpb.Agent{
		"":                         with(func(*agentpb.Tool) {}),
		"a name is 1 to 64":        with(func(x *agentpb.Tool) { x.Name = "a b" }),
		"exactly one of":           with(func(x *agentpb.Tool) { x.Client = true }),
		"exactly one of http":      with(func(x *agentpb.Tool) { x.Http = nil }),
		"no built-in tool":         with(func(x *agentpb.Tool) { x.Http, x.Builtin = nil, "rm" }),
		"not a JSON object":        with(func(x *agentpb.Tool) { x.Schema = []byte(`[]`) }),
		"not of an object":         with(func(x *agentpb.Tool) { x.Schema = []byte(`{"type":"array"}`) }),
		"schema: ":                 with(func(x *agentpb.Tool) { x.Schema = []byte(`{"type":"object","properties":3}`) }),
		"none of never":            with(func(x *agentpb.Tool) { x.Policy = &agentpb.ToolPolicy{Approval: "maybe"} }),
		"expression of approval":   with(func(x *agentpb.Tool) { x.Policy = when("args.") }),
		"unknown name exec":        with(func(x *agentpb.Tool) { x.Policy = when("exec('x')") }),
		"may be negative":          with(func(x *agentpb.Tool) { x.Policy = &agentpb.ToolPolicy{TimeoutMs: -1} }),
		"not an absolute one":      with(func(x *agentpb.Tool) { x.Http.Url = "/x" }),
		"host of the URL":          with(func(x *agentpb.Tool) { x.Http.Url = "https://{host}/x" }),
		"usable http or https URL": with(func(x *agentpb.Tool) { x.Http.Url = "ftp://a/x" }),
		"method \"BREW\"":          with(func(x *agentpb.Tool) { x.Http.Method = "BREW" }),
		"cannot be sent":           with(func(x *agentpb.Tool) { x.Http.Headers = map[string]string{"X": "a\nb"} }),
		"approval must be never": with(func(x *agentpb.Tool) {
			x.Http, x.Client, x.Policy = nil, true, &agentpb.ToolPolicy{Approval: "always"}
		}),
		"two tools are called": {Id: "a", Tools: []*agentpb.Tool{httpTool("x"), httpTool("x")}},
		"two tools are called \"ask_user\"": {
			Id: "a", AskUser: &agentpb.AskUser{}, Tools: []*agentpb.Tool{httpTool("ask_user")},
		},
		"either a URL or a command":    server(&agentpb.MCP{Name: "m"}),
		"either a URL or":              server(&agentpb.MCP{Name: "m", Url: "http://a", Command: "b"}),
		"is not an http or https URL":  server(&agentpb.MCP{Name: "m", Url: "ws://a"}),
		"no name of an environment":    server(&agentpb.MCP{Name: "m", Command: "b", Env: map[string]string{"A=B": "c"}}),
		"policy of \"t\"":              server(&agentpb.MCP{Name: "m", Command: "b", Policies: map[string]*agentpb.ToolPolicy{"t": when("(")}}),
		"MCP server \"\": a name is 1": server(&agentpb.MCP{Command: "b"}),
	} {
		err := tool.Check(agent)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}

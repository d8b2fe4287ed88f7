package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// withTools is an agent with every way to a tool there is; DOCUMENT stands for a file.
const withTools = `agents:
  - id: helper
    model: {provider: scripted}
    title_model: {provider: scripted, name: small}
    feedback_hook: {url: 'https://app.example/rated', secret: s1}
    capabilities: {ask_user: true}
    tools:
      - name: refund
        description: Pays money back.
        url: https://shop.example/refunds/{order}
        headers: [{name: Authorization, value: s3cret}, {name: X-From, value_env: FROM}]
        schema: {type: object, required: [order], properties: {order: {type: string}, amount: {type: number}}}
        approval: when
        when: args.amount > 100
        approval_prompt: Pay back?
        timeout: 5s
        action_timeout: 1h
        runtime_headers: {allow: true, allowed_names: [X-Tenant]}
      - {name: place, client: true}
      - {name: clock, builtin: current_time, idempotent: true}
    tool_sources:
      - name: pets
        openapi_file: DOCUMENT
        only: [listPets]
        runtime_headers: {allow: true}
        policies: [{tool: listPets, policy: {idempotent: true}}]
      - name: files
        mcp_command: /usr/bin/true
        mcp_args: [--root, /tmp]
        policy: {approval: always}
      - {name: far, mcp_url: 'https://far.example/mcp', runtime_headers: {allow: true}}
`

func TestToolRecords(t *testing.T) {
	document := filepath.Join(t.TempDir(), "pets.yaml")
	require.NoError(t, os.WriteFile(document, []byte("openapi: 3.0.3\n"), 0o600))
	request, err := load(t, strings.Replace(withTools, "DOCUMENT", document, 1), []string{"FROM=here"})
	require.NoError(t, err)
	records, err := request.Config.AgentRecords()
	require.NoError(t, err)
	require.Len(t, records, 2, "the demo stands back")
	helper := records[1]
	require.Len(t, helper.GetTools(), 3)
	refund := helper.GetTools()[0]
	require.Equal(t, "https://shop.example/refunds/{order}", refund.GetHttp().GetUrl())
	require.Equal(t, "POST", refund.GetHttp().GetMethod())
	require.Equal(t, map[string]string{"Authorization": "s3cret", "X-From": "here"}, refund.GetHttp().GetHeaders())
	require.Equal(t, "when", refund.GetPolicy().GetApproval())
	require.EqualValues(t, 5_000, refund.GetPolicy().GetTimeoutMs())
	require.EqualValues(t, 3_600_000, refund.GetPolicy().GetActionTimeoutMs())
	require.EqualValues(t, 64<<10, refund.GetPolicy().GetMaxResultBytes())
	require.JSONEq(t, `{"type":"object","required":["order"],"properties":{"order":{"type":"string"},"amount":{"type":"number"}}}`, string(refund.GetSchema()))
	require.Equal(t, []string{"X-Tenant"}, refund.GetHttp().GetRuntimeHeaders().GetAllowedNames())
	require.True(t, refund.GetHttp().GetRuntimeHeaders().GetAllow())
	require.True(t, helper.GetApis()[0].GetRuntimeHeaders().GetAllow())
	require.Nil(t, helper.GetServers()[0].GetRuntimeHeaders())
	require.True(t, helper.GetServers()[1].GetRuntimeHeaders().GetAllow())
	require.True(t, helper.GetTools()[1].GetClient())
	require.EqualValues(t, 86_400_000, helper.GetTools()[1].GetPolicy().GetActionTimeoutMs())
	require.Equal(t, "current_time", helper.GetTools()[2].GetBuiltin())
	require.Equal(t, []byte("openapi: 3.0.3\n"), helper.GetApis()[0].GetDocument())
	require.True(t, helper.GetApis()[0].GetPolicies()["listPets"].GetIdempotent())
	require.Equal(t, []string{"--root", "/tmp"}, helper.GetServers()[0].GetArgs())
	capabilities := helper.GetCapabilities()
	require.True(t, capabilities.GetToolApproval())
	require.True(t, capabilities.GetClientTools())
	require.True(t, capabilities.GetAskUser())
	require.NotNil(t, helper.GetAskUser())
	require.Equal(t, "small", helper.GetTitleModel().GetName())
	require.Equal(t, "s1", helper.GetFeedbackHook().GetSecret())
}

func TestBadTools(t *testing.T) {
	tool := func(text string) string {
		return "agents:\n  - id: a\n    model: {provider: scripted}\n    tools:\n      - " + text + "\n"
	}
	source := func(text string) string {
		return "agents:\n  - id: a\n    model: {provider: scripted}\n    tool_sources:\n      - " + text + "\n"
	}
	for name, test := range map[string]struct{ file, want string }{
		"no_name":         {tool("{client: true}"), "agents[0] (a).tools[0].name: "},
		"name_with_blank": {tool("{name: a b, client: true}"), "tools[0].name: "},
		"no_way":          {tool("{name: t}"), "tools[0]: needs exactly one of url, client and builtin"},
		"two_ways":        {tool("{name: t, client: true, builtin: current_time}"), "tools[0]: needs exactly one of"},
		"twice":           {tool("{name: t, client: true}\n      - {name: t, client: true}"), "is the name of another tool"},
		"method":          {tool("{name: t, url: 'https://a.example', method: FETCH}"), "tools[0].method: "},
		"userinfo":        {tool("{name: t, url: 'https://u:p@a.example'}"), "tools[0].url: must not hold"},
		"schema":          {tool("{name: t, client: true, schema: {type: nothing}}"), "tools[0].schema: "},
		"approval":        {tool("{name: t, client: true, approval: maybe}"), "tools[0].approval: "},
		"when_alone":      {tool("{name: t, client: true, when: 'true'}"), "tools[0].when: belongs to approval: when"},
		"when_missing":    {tool("{name: t, client: true, approval: when}"), "tools[0].when: belongs to"},
		"when_broken":     {tool("{name: t, client: true, approval: when, when: 'args.x >'}"), "tools[0].when: "},
		"when_no_bool":    {tool("{name: t, client: true, approval: when, when: '1 + 1'}"), "tools[0].when: "},
		"builtin":         {tool("{name: t, builtin: shell}"), "tools[0].builtin: "},
		"header":          {tool("{name: t, url: 'https://a.example', headers: [{name: 'a b', value: x}]}"), "headers[0].name: "},
		"header_env":      {tool("{name: t, url: 'https://a.example', headers: [{name: A, value_env: NO_SUCH}]}"), "environment variable NO_SUCH is not set"},
		"runtime_names":   {tool("{name: t, url: 'https://a.example', runtime_headers: {allow: true, allowed_names: ['a b']}}"), "runtime_headers.allowed_names[0]: "},
		"runtime_denied":  {tool("{name: t, url: 'https://a.example', runtime_headers: {allowed_names: [a]}}"), "runtime_headers.allowed_names: belongs to allow: true"},
		"runtime_client":  {tool("{name: t, client: true, runtime_headers: {allow: true}}"), "tools[0].runtime_headers: belongs to what is called over HTTP"},
		"runtime_process": {source("{name: s, mcp_command: /bin/x, runtime_headers: {allow: true}}"), "tool_sources[0].runtime_headers: belongs to"},
		"source_no_way":   {source("{name: s}"), "tool_sources[0]: needs exactly one of openapi_file, mcp_url and mcp_command"},
		"mcp_no_name":     {source("{mcp_url: 'https://a.example'}"), "tool_sources[0].name: is needed"},
		"no_document":     {source("{openapi_file: /does/not/exist}"), "tool_sources[0].openapi_file: "},
		"hook":            {"hooks: {rate_limit: {url: 'http://10.0.0.1/x'}}\n", "hooks.rate_limit.url: must be https"},
		"hook_on_error":   {"hooks: {rate_limit: {on_error: shrug}}\n", "hooks.rate_limit.on_error: "},
		"outbound":        {"outbound: {allow: [somewhere]}\n", "outbound.allow[0]: "},
		"outbound_host":   {"outbound: {allow_hosts: ['a/b']}\n", "outbound.allow_hosts[0]: "},
		"on_timeout":      {"hitl: {on_timeout: shrug}\n", "hitl.on_timeout: "},
		"policy":          {"hitl: {pending_action_policy: shrug}\n", "hitl.pending_action_policy: "},
		"format":          {"agents:\n  - {id: a, model: {provider: scripted}, experience: {export: {formats: [docx]}}}\n", "experience.export.formats[0]: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, test.file, nil)
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestOutboundPrefixes(t *testing.T) {
	request, err := load(t, "outbound: {allow: [10.1.2.3/16, '::1', 127.0.0.1]}\n", nil)
	require.NoError(t, err)
	prefixes, err := request.Config.Outbound.Prefixes()
	require.NoError(t, err)
	require.Len(t, prefixes, 3)
	require.Equal(t, "10.1.0.0/16", prefixes[0].String())
	require.Equal(t, "::1/128", prefixes[1].String())
	require.Equal(t, "127.0.0.1/32", prefixes[2].String())
}

package catalog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/catalog"
	"parley/actors/core/catalog/catalogtest"
	"parley/actors/core/definition"
	"parley/actors/turn/model"
	"parley/actors/turn/tool"
	"parley/proto/agentpb"
	"parley/proto/directorypb"
)

// shelf is a compiler of the records of a directory in memory.
type shelf struct {
	*catalogtest.Records
	t        *testing.T
	compiler *catalog.Compiler
	reported []string
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{Records: catalogtest.New(t), t: t}
	s.compiler = catalog.NewCompiler(catalog.CompilerEnv{
		Defaults: catalog.Defaults{
			Policy:           &agentpb.ToolPolicy{Approval: "never", TimeoutMs: 30_000, MaxResultBytes: 64 << 10, ActionTimeoutMs: 60_000},
			Model:            &agentpb.Model{ContextTokens: 128_000, FirstTokenTimeoutMs: 60_000, IdleTimeoutMs: 60_000, TotalTimeoutMs: 600_000},
			Experience:       &agentpb.Experience{Regenerate: true},
			Attachments:      &agentpb.Attachments{Enabled: true, MaxFiles: 5, MaxFileSize: 10 << 20},
			MaxToolTimeoutMs: 600_000, MaxToolResultBytes: 1 << 20,
		},
		Open: s.Sealer.Open, Report: func(key string, err error) { s.reported = append(s.reported, key+": "+err.Error()) },
		CheckTools: tool.Check, Home: model.Home, IsBuiltinTool: tool.IsBuiltin,
	})
	return s
}

func (s *shelf) found(key string, version int64) *agentpb.Agent {
	s.t.Helper()
	agent, ok := s.compiler.Agent(s.Read, "default", key, version)
	require.True(s.t, ok)
	return agent
}

func TestNativeAgentIsCompiled(t *testing.T) {
	s := newShelf(t)
	s.PutProvider("acme", "active", "")
	s.PutModel("big", "acme")
	s.PutAgent("helper", `{"modelKey":"big","systemPrompt":"Be brief.","temperature":0.1,"maxTokens":50,"maxTurns":4,"titles":true,"askUser":true,
		"tools":[{"name":"page","client":true},{"name":"pay","url":"https://b.test/pay","headers":{"X-Key":"h1"},"approval":"always","timeoutMs":1000,
			"runtimeHeaders":{"allow":true,"allowedNames":["X-T"]}}],
		"toolBindings":[{"source":"system","sourceKey":"current_time"},{"source":"system","sourceKey":"browser_use"},{"source":"tool","sourceKey":"x"}],
		"mcpServers":[{"name":"docs","url":"https://c.test/mcp","headers":{"X-M":"h2"},"toolNames":["find"]}]}`,
		func(a *directorypb.Agent) {
			a.Metadata = []byte(`{"welcome":"Hi","background":{"enabled":true},"session_budget":{"max_cost_usd":0.5,"on_reach":"stop"},"files":{"enabled":true,"maxFiles":2}}`)
		})
	agent := s.found("helper", 0)

	require.Equal(t, "helper", agent.GetId())
	require.Equal(t, "default", agent.GetProjectId())
	require.Zero(t, agent.GetRunningVersion())
	require.Equal(t, "Be brief.", agent.GetInstructions())
	require.Equal(t, []string{"stream_options"}, agent.GetModel().GetUnsupportedParams())
	require.EqualValues(t, 4, agent.GetMaxTurns())
	require.True(t, agent.GetBackground())
	require.True(t, agent.GetBudgetBinds())
	require.Equal(t, int64(500_000_000), agent.GetDefaultBudget().GetMaxCostNanoUsd())
	require.Equal(t, "stop", agent.GetDefaultBudget().GetOnReach())
	require.JSONEq(t, `{"welcome":"Hi"}`, string(agent.GetMetadata()))
	require.True(t, agent.GetExperience().GetTitles())
	require.True(t, agent.GetExperience().GetRegenerate(), "a switch that no config has is as in the defaults")

	can := agent.GetCapabilities()
	require.True(t, can.GetToolApproval() && can.GetClientTools() && can.GetAskUser() && can.GetAttachments().GetEnabled())
	require.EqualValues(t, 2, can.GetAttachments().GetMaxFiles())
	require.EqualValues(t, 10<<20, can.GetAttachments().GetMaxFileSize())

	model := agent.GetModel()
	require.True(t, model.GetGuarded(), "a tenant has chosen the URL")
	require.Equal(t, agentpb.Provider_OPENAI, model.GetProvider())
	require.Equal(t, []string{"big-1", "big", "https://a.test/v1", "sk-1"}, []string{model.GetName(), model.GetKey(), model.GetBaseUrl(), model.GetApiKey()})
	require.Equal(t, map[string]string{"X-A": "h"}, model.GetHeaders())
	require.True(t, model.GetGuarded())
	require.InDelta(t, 0.1, model.GetTemperature(), 0, "what the agent sets, not the model")
	require.EqualValues(t, 50, model.GetMaxOutputTokens())
	require.EqualValues(t, 9000, model.GetContextTokens())
	require.EqualValues(t, -1, model.GetMaxRetries(), "0 in the settings is none")
	require.EqualValues(t, 5000, model.GetTotalTimeoutMs())
	require.EqualValues(t, 60_000, model.GetIdleTimeoutMs())
	require.Equal(t, int64(2_000_000_000), model.GetPrice().GetCachedInputNanoUsdPerMtok())

	require.Len(t, agent.GetTools(), 3)
	pay := agent.GetTools()[1]
	require.Equal(t, map[string]string{"X-Key": "h1"}, pay.GetHttp().GetHeaders())
	require.EqualValues(t, 1000, pay.GetPolicy().GetTimeoutMs())
	require.Positive(t, pay.GetPolicy().GetActionTimeoutMs())
	require.True(t, pay.GetHttp().GetRuntimeHeaders().GetAllow())
	require.Equal(t, "current_time", agent.GetTools()[2].GetBuiltin())
	require.Equal(t, map[string]string{"X-M": "h2"}, agent.GetServers()[0].GetHeaders())
	require.Equal(t, []string{"find"}, agent.GetServers()[0].GetTools())
}

func TestConnectedAgentIsCompiled(t *testing.T) {
	s := newShelf(t)
	s.PutProvider("acme", "active", "")
	s.PutAgent("other", `{"kind":"external","connection":{"protocol":"openai-chat","url":"https://x.test","model":"m","apiKey":"inline",
		"headers":{"X-A":"h"},"responsePath":"a[0].b","runtimeHeaders":{"allow":true}}}`, nil)
	s.PutAgent("keyed", `{"kind":"external","connection":{"protocol":"a2a","url":"https://a.test/agents/7","apiKey":"inline","credentialProviderKey":"acme"}}`, nil)

	model := s.found("other", 0).GetModel()
	require.Equal(t, agentpb.Provider_CONNECTED, model.GetProvider())
	require.Nil(t, model.GetPrice())
	require.EqualValues(t, 120_000, model.GetTotalTimeoutMs())
	require.True(t, proto.Equal(&agentpb.Connection{
		Protocol: "openai-chat", Url: "https://x.test", Model: "m", ApiKey: "inline", Headers: map[string]string{"X-A": "h"},
		ResponsePath: "a[0].b", RuntimeHeaders: &agentpb.RuntimeHeaders{Allow: true},
	}, model.GetConnection()))
	require.Equal(t, "sk-1", s.found("keyed", 0).GetModel().GetConnection().GetApiKey(), "a provider's credential comes first")
}

// TestCredentialsStayWithTheirHost: a provider's credential goes to the provider's own host only, whichever of provider and agent changes its URL, and when.
func TestCredentialsStayWithTheirHost(t *testing.T) {
	s := newShelf(t)
	s.PutProvider("acme", "active", "")
	s.PutProvider("home", "active", `{}`) // of an OpenAI driver
	const text = `{"kind":"external","connection":{"protocol":"openai-chat","model":"m","url":"%s","credentialProviderKey":"%s"}}`
	for url, want := range map[string]bool{
		"https://a.test": true, "https://A.test:443/other": true, "http://a.test": false, "https://a.test:8443": false,
		"https://a.test.evil.test": false, "https://evil.test/a.test": false,
	} {
		config := fmt.Sprintf(text, url, "acme")
		s.PutAgent("keyed", config, nil)
		model := s.found("keyed", 0).GetModel()
		require.Equal(t, want, model.GetProvider() == agentpb.Provider_CONNECTED, url)
		require.Equal(t, want, model.GetConnection().GetApiKey() == "sk-1", url)
		draft, failure := definition.Read([]byte(config))
		require.Nil(t, failure)
		err := s.compiler.CheckAgent(s.Read, "default", draft.Parsed)
		require.Equal(t, want, err == nil, url)
		if !want {
			require.EqualError(t, err, `connection.url is not on the host of provider "acme", whose credential is sent nowhere else`)
		}
	}
	s.PutAgent("keyed", fmt.Sprintf(text, "https://api.openai.com/v1", "home"), nil)
	require.Equal(t, "sk-1", s.found("keyed", 0).GetModel().GetConnection().GetApiKey())
	s.PutAgent("keyed", fmt.Sprintf(text, "https://a.test", "home"), nil)
	require.Empty(t, s.found("keyed", 0).GetModel().GetConnection().GetApiKey())

	// A version never changes; the provider does. Neither an old URL with a new key, nor the other way round.
	s.PutVersion("keyed", 1, fmt.Sprintf(text, "https://a.test", "acme"))
	require.Equal(t, "sk-1", s.found("keyed", 1).GetModel().GetConnection().GetApiKey())
	s.PutProvider("acme", "active", `{"baseUrl":"https://b.test"}`)
	require.Nil(t, s.found("keyed", 1).GetModel().GetConnection())
}

// TestVersions: which config runs (document 3, 7.8).
func TestVersions(t *testing.T) {
	s := newShelf(t)
	s.PutAgent("a", `{"modelKey":"scripted","systemPrompt":"draft"}`, nil)
	require.Equal(t, "draft", s.found("a", 0).GetInstructions())

	for n, prompt := range []string{"one", "two"} {
		s.PutVersion("a", int64(n+1), `{"modelKey":"scripted","systemPrompt":"`+prompt+`"}`)
	}
	s.PutAgent("a", `{"modelKey":"scripted","systemPrompt":"draft 2"}`, func(a *directorypb.Agent) { a.PublishedVersion = 2 })
	require.Equal(t, "two", s.found("a", 0).GetInstructions())
	require.EqualValues(t, 2, s.found("a", 0).GetRunningVersion())
	require.Equal(t, "2", s.found("a", 0).GetVersion())
	require.Equal(t, "one", s.found("a", 1).GetInstructions())
	require.Equal(t, "draft 2", s.found("a", catalog.DraftVersion).GetInstructions())
	for _, version := range []int64{3, -2} {
		_, ok := s.compiler.Agent(s.Read, "default", "a", version)
		require.False(t, ok)
	}
	_, ok := s.compiler.Agent(s.Read, "other", "a", 0)
	require.False(t, ok, "another project's")
}

// TestSealedElsewhere: an agent whose secrets do not open is there, its turns end in an error, and the report has no secret.
func TestSealedElsewhere(t *testing.T) {
	s := newShelf(t)
	s.PutAgent("a", `{"modelKey":"scripted","tools":[{"name":"t","url":"https://a.test","headers":{"X-A":"the-secret"}}]}`, func(a *directorypb.Agent) {
		a.Draft = s.Define("default/b", `{"modelKey":"scripted","tools":[{"name":"t","url":"https://a.test","headers":{"X-A":"the-secret"}}]}`)
	})
	require.Equal(t, agentpb.Provider_PROVIDER_UNSPECIFIED, s.found("a", 0).GetModel().GetProvider())
	require.Len(t, s.reported, 1)
	require.True(t, strings.HasPrefix(s.reported[0], "default/a: "))
	require.NotContains(t, s.reported[0], "the-secret")
}

func TestBuiltinModel(t *testing.T) {
	s := newShelf(t)
	compiled, record := s.compiler.Model(s.Read, "default", "scripted")
	require.Equal(t, agentpb.Provider_SCRIPTED, compiled.GetProvider())
	require.Equal(t, "llm", record.GetCategory())
	require.NotNil(t, compiled.GetPrice())
	_, elsewhere := s.compiler.Model(s.Read, "elsewhere", "scripted")
	require.Nil(t, elsewhere)

	s.PutProvider("acme", "active", "")
	s.PutModel("scripted", "acme")
	compiled, _ = s.compiler.Model(s.Read, "default", "scripted")
	require.Equal(t, agentpb.Provider_OPENAI, compiled.GetProvider(), "a record of that key takes its place")
}

// TestBuiltinSound: speech and hearing are there as the scripted model is, with prices.
func TestBuiltinSound(t *testing.T) {
	s := newShelf(t)
	for key, category := range map[string]string{"scripted-tts": "tts", "scripted-stt": "stt"} {
		compiled, record := s.compiler.Model(s.Read, "default", key)
		require.Equal(t, agentpb.Provider_SCRIPTED, compiled.GetProvider())
		require.Equal(t, category, record.GetCategory())
		price, err := definition.PriceOfSound(record.GetPricing())
		require.NoError(t, err)
		require.NotNil(t, price)
		_, elsewhere := s.compiler.Model(s.Read, "elsewhere", key)
		require.Nil(t, elsewhere)
	}
}

// TestDrivers: openai-compatible is openai elsewhere; azure calls a deployment, with its key in a header of its own.
func TestDrivers(t *testing.T) {
	s := newShelf(t)
	compile := func(driver, settings string) *agentpb.Model {
		s.PutProvider("acme", "active", settings)
		provider := new(directorypb.Provider)
		require.NoError(t, proto.Unmarshal(s.Read(catalog.Providers, "default/acme"), provider))
		provider.Driver = driver
		s.Store(catalog.Providers, "default/acme", provider)
		s.PutModel("m", "acme")
		compiled, _ := s.compiler.Model(s.Read, "default", "m")
		return compiled
	}
	m := compile("openai-compatible", `{"baseUrl":"https://a.test/v1","organization":"org-1"}`)
	require.Equal(t, []any{agentpb.Provider_OPENAI, "https://a.test/v1", "sk-1"}, []any{m.GetProvider(), m.GetBaseUrl(), m.GetApiKey()})
	require.Equal(t, map[string]string{"OpenAI-Organization": "org-1"}, m.GetHeaders())
	m = compile("azure", `{"baseUrl":"https://a.test/","apiVersion":"2025-01-01"}`)
	require.Equal(t, []any{agentpb.Provider_OPENAI, "https://a.test/openai/deployments/" + m.GetName() + "?api-version=2025-01-01", ""},
		[]any{m.GetProvider(), m.GetBaseUrl(), m.GetApiKey()})
	require.Equal(t, map[string]string{"api-key": "sk-1"}, m.GetHeaders())
	m = compile("azure", `{"baseUrl":"https://a.test/openai/deployments/mine?api-version=7"}`)
	require.Equal(t, "https://a.test/openai/deployments/mine?api-version=7", m.GetBaseUrl())
	m = compile("azure", `{"baseUrl":"https://a.test"}`)
	require.Contains(t, m.GetBaseUrl(), "?api-version=2024-10-21")
}

func TestCheckAgent(t *testing.T) {
	s := newShelf(t)
	cases := map[string]string{
		`{"modelKey":"m","tools":[{"name":"t","url":"https://a.test/{id}","headers":{"X-A":"h"}}],"mcpServers":[{"name":"s","url":"https://b.test"}]}`: "",
		`{"kind":"external","connection":{"protocol":"a2a","url":"https://a.test"}}`:                                                                   "",
		`{"modelKey":"m","tools":[{"name":"t"}]}`:                                                           `tool "t": it must be exactly one of http, client and builtin`,
		`{"modelKey":"m","tools":[{"name":"t t","client":true}]}`:                                           `tool "t t": a name is 1 to 64 letters, digits, _ and -`,
		`{"modelKey":"m","tools":[{"name":"t","builtin":"rm"}]}`:                                            `tool "t": there is no built-in tool "rm"`,
		`{"modelKey":"m","tools":[{"name":"t","builtin":"current_time","approval":"when","when":"args."}]}`: "",
		`{"modelKey":"m","tools":[{"name":"t","client":true,"inputSchema":{"type":"string"}}]}`:             `tool "t": the schema is not of an object`,
	}
	for text, want := range cases {
		draft, failure := definition.Read([]byte(text))
		require.Nil(t, failure)
		err := s.compiler.CheckAgent(s.Read, "default", draft.Parsed)
		if strings.Contains(text, `"args."`) {
			require.ErrorContains(t, err, `tool "t"`)
			continue
		}
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.EqualError(t, err, want)
	}
}

// TestAgentsOfModelsThatSee: pictures reach a model that takes them, unless the agent says that it takes no files.
func TestAgentsOfModelsThatSee(t *testing.T) {
	s := newShelf(t)
	s.PutProvider("acme", "active", "")
	for key, sees := range map[string]bool{"blind": false, "seeing": true} {
		s.Store(catalog.Models, "default/"+key, &directorypb.Model{
			ProjectId: "default", Key: key, ProviderKey: "acme", ModelId: "m", Category: "llm", Multimodal: sees,
		})
	}
	for _, c := range []struct {
		model, metadata string
		takes, shows    bool
	}{
		{"blind", ``, false, false},
		{"blind", `{"files":{"enabled":true}}`, true, false},
		{"blind", `{"files":{"enabled":true,"acceptsImages":true}}`, true, true},
		{"seeing", ``, true, true},
		{"seeing", `{"other":1}`, true, true},
		{"seeing", `{"files":{"enabled":true,"allowedMimeTypes":["image/png"]}}`, true, true},
		{"seeing", `{"files":{"enabled":false}}`, false, false},
	} {
		s.PutAgent("looker", `{"modelKey":"`+c.model+`"}`, func(a *directorypb.Agent) { a.Metadata = []byte(c.metadata) })
		takes := s.found("looker", catalog.DraftVersion).GetCapabilities().GetAttachments()
		require.Equal(t, c.takes, takes.GetEnabled(), "%s %s", c.model, c.metadata)
		require.Equal(t, c.shows, takes.GetAcceptsImages(), "%s %s", c.model, c.metadata)
	}
}

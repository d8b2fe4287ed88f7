package node

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/catalog"
	"parley/actors/core/collection/collectiontest"
	"parley/actors/core/definition"
	"parley/actors/core/identity"
	"parley/actors/turn"
	"parley/cluster/shard"
	"parley/cmd/parley/config"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/agentpb"
	"parley/proto/directorypb"
)

// shelf is a registry over a directory in memory.
type shelf struct {
	*registry
	t       *testing.T
	records *collectiontest.Records
	sealer  *endpointtest.Sealer
	logged  *strings.Builder
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{t: t, records: &collectiontest.Records{}, sealer: &endpointtest.Sealer{}, logged: &strings.Builder{}}
	s.registry = newRegistry([]*agentpb.Agent{{Id: "assistant", Name: "Assistant"}})
	s.recorded = newRecordedAgents(s.records, newCompiler(config.Default(), s.sealer.Open), slog.New(slog.NewTextHandler(s.logged, nil)))
	return s
}

func (s *shelf) put(name, key string, message proto.Message) {
	s.t.Helper()
	value, err := proto.Marshal(message)
	require.NoError(s.t, err)
	stored, _ := s.records.Get(name, key)
	_, err = s.records.Put(s.t.Context(), name, key, stored.Version, value)
	require.NoError(s.t, err)
}

// agent records an agent as the Client API does.
func (s *shelf) agent(key, configText string, change func(*directorypb.Agent)) {
	s.t.Helper()
	agent := &directorypb.Agent{
		Id: "agt_" + key, TenantId: "default", ProjectId: "default", Key: key, Status: statusActive, Draft: s.define("default/"+key, configText),
	}
	if change != nil {
		change(agent)
	}
	s.put(catalog.Agents, "default/"+key, agent)
}

func (s *shelf) define(record, configText string) *directorypb.Definition {
	s.t.Helper()
	draft, failure := definition.Read([]byte(configText))
	require.Nil(s.t, failure)
	sealed, err := draft.Seal(record, definition.Stored{}, s.sealer.Seal)
	require.NoError(s.t, err)
	return &directorypb.Definition{Name: "Agent", Config: draft.Config, Sealed: sealed.Encode()}
}

func (s *shelf) model(key, provider string) {
	s.put(catalog.Models, "default/"+key, &directorypb.Model{
		ProjectId: "default", Key: key, ProviderKey: provider, ModelId: "big-1", Category: "llm",
		Settings: []byte(`{"contextTokens":9000,"maxRetries":0,"totalTimeoutMs":5000,"temperature":0.9}`),
		Pricing:  []byte(`{"inputTokenPer1M":2,"outputTokenPer1M":4}`),
	})
}

func (s *shelf) provider(key, status string) {
	s.t.Helper()
	s.providerAt(key, status, `{"baseUrl":"https://a.test/v1","headers":{"X-A":"h"}}`)
}

func (s *shelf) providerAt(key, status, settings string) {
	s.t.Helper()
	secret := "sk-1"
	draft, failure := definition.ReadProvider([]byte(settings), map[string]*string{"apiKey": &secret}, nil)
	require.Nil(s.t, failure)
	sealed, err := draft.Seal(definition.ProviderRecordKey("default", key), nil, s.sealer.Seal)
	require.NoError(s.t, err)
	s.put(catalog.Providers, "default/"+key, &directorypb.Provider{
		ProjectId: "default", Key: key, Driver: "openai", Status: status, Settings: draft.Settings, Sealed: sealed.Encode(),
	})
}

func (s *shelf) found(key string, version int64) *agentpb.Agent {
	s.t.Helper()
	agent, ok := versions{s.registry}.Agent("default", key, version)
	require.True(s.t, ok)
	return agent
}

func TestNativeAgentIsCompiled(t *testing.T) {
	s := newShelf(t)
	s.provider("acme", "active")
	s.model("big", "acme")
	s.agent("helper", `{"modelKey":"big","systemPrompt":"Be brief.","temperature":0.1,"maxTokens":50,"maxTurns":4,"titles":true,"askUser":true,
		"tools":[{"name":"page","client":true},{"name":"pay","url":"https://b.test/pay","headers":{"X-Key":"h1"},"approval":"always","timeoutMs":1000,
			"runtimeHeaders":{"allow":true,"allowedNames":["X-T"]}}],
		"toolBindings":[{"source":"system","sourceKey":"current_time"},{"source":"system","sourceKey":"browser_use"},{"source":"tool","sourceKey":"x"}],
		"mcpServers":[{"name":"docs","url":"https://c.test/mcp","headers":{"X-M":"h2"},"toolNames":["find"]}]}`,
		func(a *directorypb.Agent) {
			a.Metadata = []byte(`{"welcome":"Hi","background":{"enabled":true},"session_budget":{"max_cost_usd":0.5,"on_reach":"stop"},"files":{"enabled":true,"maxFiles":2}}`)
		})
	agent, ok := s.Agent("default", "helper")
	require.True(t, ok)

	require.Equal(t, "helper", agent.GetId())
	require.Equal(t, "default", agent.GetProjectId())
	require.Zero(t, agent.GetRunningVersion())
	require.Equal(t, "Be brief.", agent.GetInstructions())
	require.EqualValues(t, 4, agent.GetMaxTurns())
	require.True(t, agent.GetBackground())
	require.True(t, agent.GetBudgetBinds())
	require.Equal(t, int64(500_000_000), agent.GetDefaultBudget().GetMaxCostNanoUsd())
	require.Equal(t, "stop", agent.GetDefaultBudget().GetOnReach())
	require.JSONEq(t, `{"welcome":"Hi"}`, string(agent.GetMetadata()))
	require.True(t, agent.GetExperience().GetTitles())
	require.True(t, agent.GetExperience().GetRegenerate(), "the switches that no config of the API has are as those of the configuration")

	can := agent.GetCapabilities()
	require.True(t, can.GetToolApproval() && can.GetClientTools() && can.GetAskUser() && can.GetAttachments().GetEnabled())
	require.EqualValues(t, 2, can.GetAttachments().GetMaxFiles())
	require.EqualValues(t, 10<<20, can.GetAttachments().GetMaxFileSize())

	model := agent.GetModel()
	require.True(t, model.GetGuarded(), "a tenant has chosen it")
	require.Equal(t, agentpb.Provider_OPENAI, model.GetProvider())
	require.Equal(t, []string{"big-1", "big", "https://a.test/v1", "sk-1"}, []string{model.GetName(), model.GetKey(), model.GetBaseUrl(), model.GetApiKey()})
	require.Equal(t, map[string]string{"X-A": "h"}, model.GetHeaders())
	require.True(t, model.GetGuarded())
	require.InDelta(t, 0.1, model.GetTemperature(), 0, "the agent's word, not the model's")
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
	s.provider("acme", "active")
	s.agent("other", `{"kind":"external","connection":{"protocol":"openai-chat","url":"https://x.test","model":"m","apiKey":"inline",
		"headers":{"X-A":"h"},"responsePath":"a[0].b","runtimeHeaders":{"allow":true}}}`, nil)
	s.agent("keyed", `{"kind":"external","connection":{"protocol":"a2a","url":"https://a.test/agents/7","apiKey":"inline","credentialProviderKey":"acme"}}`, nil)

	model := s.found("other", 0).GetModel()
	require.Equal(t, agentpb.Provider_CONNECTED, model.GetProvider())
	require.Nil(t, model.GetPrice())
	require.EqualValues(t, connectedTimeoutMs, model.GetTotalTimeoutMs())
	require.True(t, proto.Equal(&agentpb.Connection{
		Protocol: "openai-chat", Url: "https://x.test", Model: "m", ApiKey: "inline", Headers: map[string]string{"X-A": "h"},
		ResponsePath: "a[0].b", RuntimeHeaders: &agentpb.RuntimeHeaders{Allow: true},
	}, model.GetConnection()))
	require.Equal(t, "sk-1", s.found("keyed", 0).GetModel().GetConnection().GetApiKey(), "a provider's credential comes first")
}

// TestCredentialsStayWithTheirHost: a provider's key goes to the provider's own host, at whatever time whichever of both moves.
func TestCredentialsStayWithTheirHost(t *testing.T) {
	s := newShelf(t)
	s.provider("acme", "active")
	s.providerAt("home", "active", `{}`) // of an OpenAI driver
	const text = `{"kind":"external","connection":{"protocol":"openai-chat","model":"m","url":"%s","credentialProviderKey":"%s"}}`
	for url, want := range map[string]bool{
		"https://a.test": true, "https://A.test:443/other": true, "http://a.test": false, "https://a.test:8443": false,
		"https://a.test.evil.test": false, "https://evil.test/a.test": false,
	} {
		said := fmt.Sprintf(text, url, "acme")
		s.agent("keyed", said, nil)
		model := s.found("keyed", 0).GetModel()
		require.Equal(t, want, model.GetProvider() == agentpb.Provider_CONNECTED, url)
		require.Equal(t, want, model.GetConnection().GetApiKey() == "sk-1", url)
		draft, failure := definition.Read([]byte(said))
		require.Nil(t, failure)
		err := s.recorded.CheckAgent("default", draft.Parsed)
		require.Equal(t, want, err == nil, url)
		if !want {
			require.EqualError(t, err, `connection.url is not on the host of provider "acme", whose credential is sent nowhere else`)
		}
	}
	s.agent("keyed", fmt.Sprintf(text, "https://api.openai.com/v1", "home"), nil)
	require.Equal(t, "sk-1", s.found("keyed", 0).GetModel().GetConnection().GetApiKey())
	s.agent("keyed", fmt.Sprintf(text, "https://a.test", "home"), nil)
	require.Empty(t, s.found("keyed", 0).GetModel().GetConnection().GetApiKey())

	// A version never changes; the provider does. Neither an old URL with a new key, nor the other way round.
	s.put(catalog.AgentVersions, catalog.VersionKey("default/keyed", 1), &directorypb.AgentVersion{
		Version: 1, Definition: s.define("default/keyed", fmt.Sprintf(text, "https://a.test", "acme")),
	})
	require.Equal(t, "sk-1", s.found("keyed", 1).GetModel().GetConnection().GetApiKey())
	s.providerAt("acme", "active", `{"baseUrl":"https://b.test"}`)
	require.Nil(t, s.found("keyed", 1).GetModel().GetConnection())
}

func mint(t *testing.T) ids {
	t.Helper()
	shards, ok := shard.New(16)
	require.True(t, ok)
	return ids{shards}
}

// TestUsersOfTheDirectoryAreTheirOwn: whatever id a user may get here, nobody from outside has it.
func TestUsersOfTheDirectoryAreTheirOwn(t *testing.T) {
	for _, id := range []string{identity.DefaultOwner, mint(t).NewID("usr")} {
		outside := endpoint.OutsideUser(id)
		require.Equal(t, "ext:"+id, outside)
		require.Equal(t, "ext:"+outside, endpoint.OutsideUser(outside), "no two become one")
	}
	for _, id := range []string{"", "alice", "usr_17", "user_0123456789abcdefghijk", "ext:alice", "xusr_default", "usr_DEFAULT"} {
		require.Equal(t, id, endpoint.OutsideUser(id))
	}
}

// TestVersions: which config runs (document 3, 7.8).
func TestVersions(t *testing.T) {
	s := newShelf(t)
	s.agent("a", `{"modelKey":"scripted","systemPrompt":"draft"}`, nil)
	require.Equal(t, "draft", s.found("a", 0).GetInstructions())

	for n, prompt := range []string{"one", "two"} {
		s.put(catalog.AgentVersions, catalog.VersionKey("default/a", int64(n+1)), &directorypb.AgentVersion{
			Version: int64(n + 1), Definition: s.define("default/a", `{"modelKey":"scripted","systemPrompt":"`+prompt+`"}`),
		})
	}
	s.agent("a", `{"modelKey":"scripted","systemPrompt":"draft 2"}`, func(a *directorypb.Agent) { a.PublishedVersion = 2 })
	require.Equal(t, "two", s.found("a", 0).GetInstructions())
	require.EqualValues(t, 2, s.found("a", 0).GetRunningVersion())
	require.Equal(t, "2", s.found("a", 0).GetVersion())
	require.Equal(t, "one", s.found("a", 1).GetInstructions())
	require.Equal(t, "draft 2", s.found("a", turn.DraftVersion).GetInstructions())
	for _, version := range []int64{3, -2} {
		_, ok := versions{s.registry}.Agent("default", "a", version)
		require.False(t, ok)
	}
	_, ok := versions{s.registry}.Agent("other", "a", 0)
	require.False(t, ok, "another project's")

	s.agent("a", `{"modelKey":"scripted"}`, func(a *directorypb.Agent) { a.Status = "inactive" })
	_, ok = s.Agent("default", "a")
	require.False(t, ok)
	require.NotNil(t, s.found("a", 0), "what has begun may end")
	require.Len(t, s.Agents("default"), 1)
}

// TestChangesAreSeen: whatever an agent was made of, a change of it makes another agent, and no change the same.
func TestChangesAreSeen(t *testing.T) {
	s := newShelf(t)
	s.agent("a", `{"modelKey":"big"}`, nil)
	changes := []struct {
		name   string
		change func()
		usable bool
	}{
		{"the model is missing", func() {}, false},
		{"its provider is missing", func() { s.model("big", "acme") }, false},
		{"all is there", func() { s.provider("acme", "active") }, true},
		{"the provider is disabled", func() { s.provider("acme", "disabled") }, false},
		{"and enabled again", func() { s.provider("acme", "active") }, true},
		{"the model is another", func() { s.model("big", "acme") }, true},
		{"the agent is another", func() { s.agent("a", `{"modelKey":"big","systemPrompt":"x"}`, nil) }, true},
	}
	var last *agentpb.Agent
	for _, step := range changes {
		step.change()
		now := s.found("a", 0)
		require.NotSame(t, last, now, step.name)
		require.Same(t, now, s.found("a", 0), step.name)
		require.Equal(t, step.usable, now.GetModel().GetProvider() == agentpb.Provider_OPENAI, step.name)
		require.Equal(t, "big", now.GetModel().GetKey(), step.name)
		_, record, ok := s.Model("default", "big")
		require.Equal(t, step.usable, ok, step.name)
		require.Equal(t, step.usable, ok && record.GetModelId() == "big-1", step.name)
		last = now
	}
}

// TestSealedElsewhere: an agent whose secrets do not open is there, its turns end in an error, and the log has no secret.
func TestSealedElsewhere(t *testing.T) {
	s := newShelf(t)
	s.agent("a", `{"modelKey":"scripted","tools":[{"name":"t","url":"https://a.test","headers":{"X-A":"the-secret"}}]}`, func(a *directorypb.Agent) {
		a.Draft = s.define("default/b", `{"modelKey":"scripted","tools":[{"name":"t","url":"https://a.test","headers":{"X-A":"the-secret"}}]}`)
	})
	require.Equal(t, agentpb.Provider_PROVIDER_UNSPECIFIED, s.found("a", 0).GetModel().GetProvider())
	require.Contains(t, s.logged.String(), "record cannot be used")
	require.NotContains(t, s.logged.String(), "the-secret")
}

func TestBuiltinModel(t *testing.T) {
	s := newShelf(t)
	model, record, ok := s.Model("default", "scripted")
	require.True(t, ok)
	require.Equal(t, agentpb.Provider_SCRIPTED, model.GetProvider())
	require.Equal(t, "llm", record.GetCategory())
	require.NotNil(t, model.GetPrice())
	_, _, ok = s.Model("elsewhere", "scripted")
	require.False(t, ok)

	s.provider("acme", "active")
	s.model("scripted", "acme")
	model, _, ok = s.Model("default", "scripted")
	require.True(t, ok)
	require.Equal(t, agentpb.Provider_OPENAI, model.GetProvider(), "a record of that key takes its place")
}

func TestConfiguredAgents(t *testing.T) {
	s := newShelf(t)
	s.agent("assistant", `{"modelKey":"scripted"}`, nil) // nobody makes such a key, and it changes nothing
	for _, project := range []string{"default", "other"} {
		agent, ok := s.Agent(project, "assistant")
		require.True(t, ok)
		require.Empty(t, agent.GetProjectId())
		require.Len(t, s.Agents(project), 1)
	}
	s.agent("b", `{"modelKey":"scripted"}`, nil)
	require.Len(t, s.Agents("default"), 2)
	require.Len(t, s.Agents("other"), 1)
}

// TestManyAsk has agents found while they change, from many goroutines.
func TestManyAsk(t *testing.T) {
	s := newShelf(t)
	s.recorded.agents.limit = 3
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		s.agent(key, `{"modelKey":"scripted"}`, nil)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				for _, key := range []string{"a", "b", "c", "d", "e"} {
					if agent, ok := s.Agent("default", key); !ok || agent.GetId() != key {
						t.Errorf("agent %s: %v %v", key, agent.GetId(), ok)
					}
				}
			}
		})
	}
	for range 50 {
		s.agent("a", `{"modelKey":"scripted"}`, nil)
	}
	wg.Wait()
	require.LessOrEqual(t, len(s.recorded.agents.entries), 3)
}

func TestCheckAgent(t *testing.T) {
	c := newCompiler(config.Default(), nil)
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
		err := c.CheckAgent(draft.Parsed)
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

func BenchmarkRegistry(b *testing.B) {
	records := &collectiontest.Records{}
	s := newRegistry(nil)
	s.recorded = newRecordedAgents(records, newCompiler(config.Default(), nil), slog.New(slog.DiscardHandler))
	value, err := proto.Marshal(&directorypb.Agent{
		ProjectId: "default", Key: "a", Status: statusActive, Draft: &directorypb.Definition{Config: []byte(`{"modelKey":"scripted"}`)},
	})
	require.NoError(b, err)
	_, err = records.Put(b.Context(), catalog.Agents, "default/a", 0, value)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := s.Agent("default", "a"); !ok {
			b.Fatal("not found")
		}
	}
}

// An agent of the configuration serves the projects it names, and is not there to others, which may have their own of its key.
func TestConfiguredForProjects(t *testing.T) {
	s := newShelf(t)
	s.registry = newRegistry([]*agentpb.Agent{{Id: "house", Projects: []string{"p2", "p3"}}, {Id: "all"}, {Id: "own", Projects: []string{"p2"}}})
	s.recorded = newRecordedAgents(s.records, newCompiler(config.Default(), s.sealer.Open), slog.New(slog.DiscardHandler))
	s.agent("own", `{"modelKey":"scripted"}`, nil)
	ids := func(project string) (ids []string) {
		for _, agent := range s.Agents(project) {
			ids = append(ids, agent.GetId())
			found, ok := s.Agent(project, agent.GetId())
			require.True(t, ok)
			require.Same(t, agent, found)
		}
		return ids
	}
	require.Equal(t, []string{"house", "all", "own"}, ids("p2"))
	require.Equal(t, []string{"house", "all"}, ids("p3"))
	require.Equal(t, []string{"all", "own"}, ids("default"))
	_, ok := s.Agent("default", "house")
	require.False(t, ok)
	_, ok = versions{s.registry}.Agent("default", "house", 0)
	require.False(t, ok)
	own, ok := s.Agent("default", "own")
	require.True(t, ok)
	require.Equal(t, "default", own.GetProjectId())
}

// TestAgentsOfModelsThatSee: pictures reach a model that takes them, unless the agent says that it takes no files.
func TestAgentsOfModelsThatSee(t *testing.T) {
	s := newShelf(t)
	s.provider("acme", "active")
	for key, sees := range map[string]bool{"blind": false, "seeing": true} {
		s.put(catalog.Models, "default/"+key, &directorypb.Model{
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
		s.agent("looker", `{"modelKey":"`+c.model+`"}`, func(a *directorypb.Agent) { a.Metadata = []byte(c.metadata) })
		takes := s.found("looker", turn.DraftVersion).GetCapabilities().GetAttachments()
		require.Equal(t, c.takes, takes.GetEnabled(), "%s %s", c.model, c.metadata)
		require.Equal(t, c.shows, takes.GetAcceptsImages(), "%s %s", c.model, c.metadata)
	}
}

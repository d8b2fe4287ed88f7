package registry

import (
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/catalog/catalogtest"
	"parley/actors/core/definition"
	"parley/actors/core/identity"
	"parley/cluster/shard"
	"parley/cmd/parley/config"
	"parley/cmd/parley/node/ids"
	"parley/httpedge/endpoint"
	"parley/proto/agentpb"
	"parley/proto/directorypb"
)

// shelf is a registry over a directory in memory.
type shelf struct {
	*Registry
	*catalogtest.Records
	t *testing.T
}

func newShelf(t *testing.T, configured ...*agentpb.Agent) *shelf {
	t.Helper()
	s := &shelf{Records: catalogtest.New(t), t: t, Registry: New(configured)}
	s.Record(NewRecorded(s.Records, NewCompiler(config.Default(), s.Sealer.Open, slog.New(slog.DiscardHandler))))
	return s
}

func (s *shelf) found(key string, version int64) *agentpb.Agent {
	s.t.Helper()
	agent, ok := s.Registry.Versions().Agent("default", key, version)
	require.True(s.t, ok)
	return agent
}

// TestRecordedAgent: what a record does not say is as the configuration has it, and the tools are those of this server.
func TestRecordedAgent(t *testing.T) {
	s := newShelf(t)
	s.PutProvider("acme", "active", "")
	s.PutModel("big", "acme")
	s.PutAgent("helper", `{"modelKey":"big","tools":[{"name":"page","client":true}],"toolBindings":[{"source":"system","sourceKey":"current_time"}]}`,
		func(a *directorypb.Agent) { a.Metadata = []byte(`{"files":{"enabled":true}}`) })
	agent, ok := s.Agent("default", "helper")
	require.True(t, ok)
	require.True(t, agent.GetExperience().GetRegenerate())
	require.EqualValues(t, 10<<20, agent.GetCapabilities().GetAttachments().GetMaxFileSize())
	require.EqualValues(t, 60_000, agent.GetModel().GetIdleTimeoutMs())
	require.Equal(t, "sk-1", agent.GetModel().GetApiKey())
	require.Len(t, agent.GetTools(), 2)
	require.Positive(t, agent.GetTools()[0].GetPolicy().GetActionTimeoutMs())
	require.NoError(t, s.CheckAgent("default", &definition.Config{Tools: []definition.Tool{{Name: "t", Builtin: "current_time"}}}))
	require.ErrorContains(t, s.CheckAgent("default", &definition.Config{Tools: []definition.Tool{{Name: "t", Builtin: "rm"}}}), "rm")
}

// TestInactiveAgent: an agent that is not active takes no new turns, and ends those that it has begun.
func TestInactiveAgent(t *testing.T) {
	assistant := &agentpb.Agent{Id: "assistant", Name: "Assistant"}
	s := newShelf(t, assistant)
	s.PutAgent("a", `{"modelKey":"scripted"}`, func(a *directorypb.Agent) { a.Status = "inactive" })
	_, ok := s.Agent("default", "a")
	require.False(t, ok)
	require.NotNil(t, s.found("a", 0))
	require.Equal(t, []*agentpb.Agent{assistant}, s.Agents("default"))
}

func mint(t *testing.T) ids.IDs {
	t.Helper()
	shards, ok := shard.New(16)
	require.True(t, ok)
	return ids.New(shards)
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

// TestChangesAreSeen: whatever an agent was made of, a change of it makes another agent, and no change the same.
func TestChangesAreSeen(t *testing.T) {
	s := newShelf(t)
	s.PutAgent("a", `{"modelKey":"big"}`, nil)
	changes := []struct {
		name   string
		change func()
		usable bool
	}{
		{"the model is missing", func() {}, false},
		{"its provider is missing", func() { s.PutModel("big", "acme") }, false},
		{"all is there", func() { s.PutProvider("acme", "active", "") }, true},
		{"the provider is disabled", func() { s.PutProvider("acme", "disabled", "") }, false},
		{"and enabled again", func() { s.PutProvider("acme", "active", "") }, true},
		{"the model is another", func() { s.PutModel("big", "acme") }, true},
		{"the agent is another", func() { s.PutAgent("a", `{"modelKey":"big","systemPrompt":"x"}`, nil) }, true},
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

func TestConfiguredAgents(t *testing.T) {
	s := newShelf(t, &agentpb.Agent{Id: "assistant", Name: "Assistant"})
	s.PutAgent("assistant", `{"modelKey":"scripted"}`, nil) // nobody makes such a key, and it changes nothing
	for _, project := range []string{"default", "other"} {
		agent, ok := s.Agent(project, "assistant")
		require.True(t, ok)
		require.Empty(t, agent.GetProjectId())
		require.Len(t, s.Agents(project), 1)
	}
	s.PutAgent("b", `{"modelKey":"scripted"}`, nil)
	require.Len(t, s.Agents("default"), 2)
	require.Len(t, s.Agents("other"), 1)
}

// TestManyAsk has agents found while they change, from many goroutines.
func TestManyAsk(t *testing.T) {
	s := newShelf(t)
	s.recorded.agents.limit = 3
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		s.PutAgent(key, `{"modelKey":"scripted"}`, nil)
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
		s.PutAgent("a", `{"modelKey":"scripted"}`, nil)
	}
	wg.Wait()
	require.LessOrEqual(t, len(s.recorded.agents.entries), 3)
}

func BenchmarkRegistry(b *testing.B) {
	records := catalogtest.New(b)
	records.PutAgent("a", `{"modelKey":"scripted"}`, nil)
	s := New(nil)
	s.Record(NewRecorded(records, NewCompiler(config.Default(), records.Sealer.Open, slog.New(slog.DiscardHandler))))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := s.Agent("default", "a"); !ok {
			b.Fatal("not found")
		}
	}
}

// An agent of the configuration serves the projects it names, and is not there to others, which may have their own of its key.
func TestConfiguredForProjects(t *testing.T) {
	s := newShelf(t, &agentpb.Agent{Id: "house", Projects: []string{"p2", "p3"}}, &agentpb.Agent{Id: "all"},
		&agentpb.Agent{Id: "own", Projects: []string{"p2"}})
	s.PutAgent("own", `{"modelKey":"scripted"}`, nil)
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
	_, ok = s.Registry.Versions().Agent("default", "house", 0)
	require.False(t, ok)
	own, ok := s.Agent("default", "own")
	require.True(t, ok)
	require.Equal(t, "default", own.GetProjectId())
}

// Package catalogtest stores agents, models and providers in a directory in memory, as the Client API does.
package catalogtest

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/catalog"
	"parley/actors/core/collection/collectiontest"
	"parley/actors/core/definition"
	"parley/proto/directorypb"
)

// Records is a directory with helpers that store records of the project "default". Use New.
type Records struct {
	collectiontest.Records
	Sealer collectiontest.Sealer
	tb     testing.TB
}

// New returns an empty directory.
func New(tb testing.TB) *Records {
	tb.Helper()
	return &Records{tb: tb}
}

func (r *Records) must(err error) {
	r.tb.Helper()
	if err != nil {
		r.tb.Fatal(err)
	}
}

// Store writes a message under a key, whatever is there.
func (r *Records) Store(name, key string, message proto.Message) {
	r.tb.Helper()
	value, err := proto.Marshal(message)
	r.must(err)
	stored, _ := r.Get(name, key)
	_, err = r.Put(r.tb.Context(), name, key, stored.Version, value)
	r.must(err)
}

// Read is a catalog.ReadRecord.
func (r *Records) Read(name, key string) []byte {
	record, _ := r.Get(name, key)
	return record.Value
}

// PutAgent stores an active agent with a config; change, which may be nil, edits the record before.
func (r *Records) PutAgent(key, config string, change func(*directorypb.Agent)) {
	r.tb.Helper()
	agent := &directorypb.Agent{
		Id: "agt_" + key, TenantId: "default", ProjectId: "default", Key: key, Status: catalog.AgentActive,
		Draft: r.Define("default/"+key, config),
	}
	if change != nil {
		change(agent)
	}
	r.Store(catalog.Agents, "default/"+key, agent)
}

// PutVersion stores a published version of an agent.
func (r *Records) PutVersion(key string, version int64, config string) {
	r.tb.Helper()
	r.Store(catalog.AgentVersions, catalog.VersionKey("default/"+key, version), &directorypb.AgentVersion{
		Version: version, Definition: r.Define("default/"+key, config),
	})
}

// Define reads a config and seals its secrets for the agent with a record key.
func (r *Records) Define(record, config string) *directorypb.Definition {
	r.tb.Helper()
	draft, failure := definition.Read([]byte(config))
	if failure != nil {
		r.tb.Fatal(failure)
	}
	sealed, err := draft.Seal(record, definition.Stored{}, r.Sealer.Seal)
	r.must(err)
	return &directorypb.Definition{Name: "Agent", Config: draft.Config, Sealed: sealed.Encode()}
}

// PutModel stores a model of a provider, with settings and prices.
func (r *Records) PutModel(key, provider string) {
	r.tb.Helper()
	r.Store(catalog.Models, "default/"+key, &directorypb.Model{
		ProjectId: "default", Key: key, ProviderKey: provider, ModelId: "big-1", Category: "llm",
		Settings: []byte(`{"contextTokens":9000,"maxRetries":0,"totalTimeoutMs":5000,"temperature":0.9,"unsupportedParams":["stream_options"]}`),
		Pricing:  []byte(`{"inputTokenPer1M":2,"outputTokenPer1M":4}`),
	})
}

// PutProvider stores a provider with the OpenAI driver, the API key sk-1 and settings, a JSON object. "" = at https://a.test/v1,
// with a header.
func (r *Records) PutProvider(key, status, settings string) {
	r.tb.Helper()
	if settings == "" {
		settings = `{"baseUrl":"https://a.test/v1","headers":{"X-A":"h"}}`
	}
	secret := "sk-1"
	draft, failure := definition.ReadProvider([]byte(settings), map[string]*string{"apiKey": &secret}, nil)
	if failure != nil {
		r.tb.Fatal(failure)
	}
	sealed, err := draft.Seal(definition.ProviderRecordKey("default", key), nil, r.Sealer.Seal)
	r.must(err)
	r.Store(catalog.Providers, "default/"+key, &directorypb.Provider{
		ProjectId: "default", Key: key, Driver: "openai", Status: status, Settings: draft.Settings, Sealed: sealed.Encode(),
	})
}

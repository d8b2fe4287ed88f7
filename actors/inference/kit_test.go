package inference_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"parley/actors/inference"
	"parley/actors/machine/rawjson"
	"parley/actors/stranger"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/directorypb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testKey is a key that nothing may repeat.
const testKey = "sk-test-0123456789abcdef-SECRET"

// catalog is the models of project p, by key.
type catalog map[string]entry

type entry struct {
	model  *agentpb.Model
	record *directorypb.Model
}

func (c catalog) Model(projectID, key string) (*agentpb.Model, *directorypb.Model, bool) {
	one, ok := c[key]
	if !ok || projectID != "p" {
		return nil, nil, false
	}
	if one.model == nil {
		return nil, one.record, false // it is not called at a provider
	}
	compiled := proto.CloneOf(one.model) // as the catalog compiles it of the record
	var settings struct{ UnsupportedParams []string }
	if json.Unmarshal(one.record.GetSettings(), &settings) == nil {
		compiled.UnsupportedParams = settings.UnsupportedParams
	}
	return compiled, one.record, true
}

// provider is an OpenAI-compatible provider that answers as a test says and keeps what it was asked.
type provider struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []asked
	answer http.HandlerFunc
}

type asked struct {
	path, key, header string
	body              map[string]any
	raw               string
}

func newProvider(tb testing.TB, answer http.HandlerFunc) *provider {
	tb.Helper()
	p := &provider{answer: answer}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		one := asked{path: r.URL.Path, key: r.Header.Get("Authorization"), header: r.Header.Get("X-Team"), raw: string(raw)}
		_ = json.Unmarshal(raw, &one.body)
		p.mu.Lock()
		p.asked = append(p.asked, one)
		p.mu.Unlock()
		p.answer(w, r)
	}))
	tb.Cleanup(p.Close)
	return p
}

func (p *provider) requests() []asked {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]asked(nil), p.asked...)
}

// says answers with a JSON document.
func says(status int, document string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, document)
	}
}

// streams answers with events.
func streams(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, event := range events {
			_, _ = io.WriteString(w, "data: "+event+"\n\n")
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// recorded answers with a recorded stream.
func recorded(tb testing.TB, name string) http.HandlerFunc {
	tb.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	require.NoError(tb, err)
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(raw)
	}
}

// kit is a Caller with one provider behind it.
type kit struct {
	t        testing.TB
	caller   *inference.Caller
	catalog  catalog
	provider *provider
	answers  *stranger.Budget
	till     till
	mu       sync.Mutex
	booked   []inference.Usage
}

func newKit(t *testing.T, answer http.HandlerFunc, change ...func(*inference.Config)) *kit {
	t.Helper()
	k := &kit{t: t, provider: newProvider(t, answer), answers: stranger.New(4 << 20)}
	priced := func(provider agentpb.Provider, name string) *agentpb.Model {
		return &agentpb.Model{
			Provider: provider, Name: name, BaseUrl: k.provider.URL + "/v1", ApiKey: testKey,
			Headers: map[string]string{"X-Team": "header-secret-value"},
			Price:   &agentpb.Price{InputNanoUsdPerMtok: 1e9, CachedInputNanoUsdPerMtok: 1e8, OutputNanoUsdPerMtok: 2e9},
		}
	}
	record := func(key, category, settings string) *directorypb.Model {
		return &directorypb.Model{Key: key, Category: category, ProviderKey: "main", Settings: []byte(settings), Name: key}
	}
	k.catalog = catalog{
		"chat":     {priced(agentpb.Provider_OPENAI, "up-model"), record("chat", "llm", "")},
		"open":     {priced(agentpb.Provider_OPENAI, "up-model"), record("open", "llm", openSettings)},
		"old":      {priced(agentpb.Provider_OPENAI, "up-model"), record("old", "llm", `{"unsupportedParams":["max_completion_tokens"]}`)},
		"home":     {priced(agentpb.Provider_OPENAI_RESPONSES, "up-response"), record("home", "llm", "")},
		"home+":    {priced(agentpb.Provider_OPENAI_RESPONSES, "up-response"), record("home+", "llm", `{"allowUnknownPassthrough":true}`)},
		"chat+":    {priced(agentpb.Provider_OPENAI, "up-model"), record("chat+", "llm", `{"allowUnknownPassthrough":true}`)},
		"whole":    {priced(agentpb.Provider_OPENAI, "up-model"), record("whole", "llm", `{"disableStreamingWithTools":true}`)},
		"embed":    {priced(agentpb.Provider_OPENAI, "up-embed"), record("embed", "embedding", "")},
		"moderate": {priced(agentpb.Provider_OPENAI, "up-moderate"), record("moderate", "moderation", "")},
		"claude":   {priced(agentpb.Provider_ANTHROPIC, "up-claude"), record("claude", "llm", "")},
		"scripted": {&agentpb.Model{Provider: agentpb.Provider_SCRIPTED, Script: &agentpb.Script{Text: "one two three"}}, record("scripted", "llm", "")},
		"words":    {&agentpb.Model{Provider: agentpb.Provider_SCRIPTED}, record("words", "embedding", "")},
	}
	k.catalog["claude"].model.BaseUrl = k.provider.URL
	k.catalog["claude"].model.MaxRetries = -1
	k.catalog["claude-"] = entry{k.catalog["claude"].model, record("claude-", "llm",
		`{"unsupportedParams":["temperature","seed"],"requestDefaults":{"stop":"END","top_p":0.5,"seed":3},"extraBody":{"top_k":7,"system":"stolen"}}`)}
	config := inference.DefaultConfig()
	config.RetryDelay, config.RetryMax = time.Millisecond, 2*time.Millisecond
	for _, set := range change {
		set(&config)
	}
	require.NoError(t, config.Validate())
	providers := model.New(model.Config{})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	k.caller = inference.New(config, inference.Parts{
		Catalog: k.catalog, Providers: providers, Client: client, Answers: k.answers, Door: &k.till, Registerer: prometheus.NewRegistry(),
		Book: func(u inference.Usage) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.booked = append(k.booked, u)
		},
	})
	t.Cleanup(client.CloseIdleConnections)
	t.Cleanup(providers.Close)
	return k
}

const openSettings = `{"allowUnknownPassthrough":true,"requestDefaults":{"temperature":0.5,"top_k":3},` +
	`"extraBody":{"safe":true,"model":"stolen"},"unsupportedParams":["seed"]}`

func (k *kit) call(body string) *inference.Call {
	k.t.Helper()
	fields, err := rawjson.Object([]byte(body))
	require.NoError(k.t, err)
	return &inference.Call{
		TenantID: "t", ProjectID: "p", UserID: "u", TokenID: "tok", RequestID: "req-1", Model: fields.Text("model"), Body: fields,
	}
}

// usage is the one call that was booked.
func (k *kit) usage() inference.Usage {
	k.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	require.Len(k.t, k.booked, 1)
	return k.booked[0]
}

// stream makes a streamed call and returns its chunks, one a line.
func (k *kit) stream(body string) (string, error) {
	k.t.Helper()
	var lines strings.Builder
	err := k.caller.ChatStream(context.Background(), k.call(body), func(chunk []byte, _ bool) error {
		require.True(k.t, json.Valid(chunk), "%s", chunk)
		lines.Write(chunk)
		lines.WriteByte('\n')
		return nil
	})
	return lines.String(), err
}

// asError is what an OpenAI client is told.
func asError(tb testing.TB, err error) *inference.Error {
	tb.Helper()
	var failed *inference.Error
	require.ErrorAs(tb, err, &failed)
	require.NotEmpty(tb, failed.Message)
	require.NotContains(tb, failed.Error()+" "+failed.Message, testKey)
	require.NotContains(tb, failed.Error()+" "+failed.Message, "header-secret-value")
	if failed.Err != nil {
		require.NotContains(tb, failed.Err.Error(), testKey)
	}
	return failed
}

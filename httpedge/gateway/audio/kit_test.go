package audio_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"parley/actors/core/quota"
	"parley/actors/inference"
	"parley/actors/turn/model"
	"parley/httpedge"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/httpedge/gateway"
	"parley/httpedge/gateway/audio"
	"parley/httpedge/openapi"
	"parley/proto/agentpb"
	"parley/proto/directorypb"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// fasthttp's pool looks at its end only every ten seconds, and its clock for the Date header has none.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
	)
}

const secret = "sk-upstream-0123456789-SECRET"

// models joins the routes with real calls, as the node does.
type models struct{ caller *inference.Caller }

func (m models) Speak(ctx context.Context, call *gateway.Call) (*audio.Sound, error) {
	made, err := m.caller.Speak(ctx, translated(call))
	if err != nil {
		return nil, problem(err)
	}
	return &audio.Sound{ContentType: made.ContentType, Audio: made.Audio}, nil
}

func (m models) Transcribe(ctx context.Context, call *gateway.Call, recording *audio.Recording) ([]byte, error) {
	given := inference.Recording(*recording)
	answer, err := m.caller.Transcribe(ctx, translated(call), &given)
	return answer, problem(err)
}

func translated(call *gateway.Call) *inference.Call {
	return &inference.Call{
		TenantID: call.Caller.TenantID, ProjectID: call.Caller.ProjectID, UserID: call.Caller.UserID,
		RequestID: call.RequestID, Model: call.Model, Body: call.Body,
	}
}

func problem(err error) error {
	failed, ok := errors.AsType[*inference.Error](err)
	if !ok {
		return err
	}
	return &endpoint.Problem{
		Status: failed.Status, Code: failed.Code, Message: failed.Message, RetryAfter: failed.RetryAfter,
		Details: map[string]any{"type": failed.Type, "param": failed.Param},
	}
}

// till is the door of budgets. It guards nothing until a test says how much there is.
type till struct {
	left    *int64
	entered []*quota.Call
	settled []int64
}

// Guards implements quota.Door.
func (d *till) Guards(string) bool { return d.left != nil }

// Enter implements quota.Door.
func (d *till) Enter(_ context.Context, call *quota.Call) (quota.Pass, error) {
	d.entered = append(d.entered, call)
	if *d.left <= 0 || call.Need > *d.left {
		return nil, &quota.Refusal{Message: "Budget exceeded for perDay (1/1 cents)", Spent: true}
	}
	return d, nil
}

// Held implements quota.Pass.
func (d *till) Held() (int64, bool) { return *d.left, true }

// Settle implements quota.Pass.
func (d *till) Settle(cost, _ int64) { d.settled = append(d.settled, cost) }

// memory is a spool for tests, which counts what it holds.
type memory struct {
	mu   sync.Mutex
	held int
	made int
	why  error // refuses further ones
}

type held struct {
	of     *memory
	buffer bytes.Buffer
}

func (m *memory) Create() (audio.Spooled, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.why != nil {
		return nil, m.why
	}
	m.held++
	m.made++
	return &held{of: m}, nil
}

func (h *held) Write(p []byte) (int, error) { return h.buffer.Write(p) }

func (h *held) ReadAt(p []byte, offset int64) (int, error) {
	return bytes.NewReader(h.buffer.Bytes()).ReadAt(p, offset)
}

func (h *held) Close() error {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	h.of.held--
	return nil
}

// asked is a request as the provider got it.
type asked struct {
	path, query, key, contentType string
	length                        int64
	fields                        map[string][]string
	file                          []byte
	fileName, fileType            string
	raw                           []byte
}

func readAsked(r *http.Request) asked {
	raw, _ := io.ReadAll(r.Body)
	one := asked{
		path: r.URL.Path, query: r.URL.RawQuery, key: r.Header.Get("Authorization") + r.Header.Get("Api-Key"), raw: raw,
		contentType: r.Header.Get("Content-Type"), length: r.ContentLength, fields: map[string][]string{},
	}
	media, params, _ := mime.ParseMediaType(one.contentType)
	if media != "multipart/form-data" {
		return one
	}
	form := multipart.NewReader(bytes.NewReader(raw), params["boundary"])
	for {
		part, err := form.NextPart()
		if err != nil {
			return one
		}
		value, _ := io.ReadAll(part)
		if part.FormName() == "file" {
			one.file, one.fileName, one.fileType = value, part.FileName(), part.Header.Get("Content-Type")
			continue
		}
		one.fields[part.FormName()] = append(one.fields[part.FormName()], string(value))
	}
}

// kit is the routes of sound on a real socket before a provider on another.
type kit struct {
	t        *testing.T
	url      string
	provider string
	client   *http.Client
	spool    memory
	schemas  *openapi3.T
	till     till

	mu     sync.Mutex
	answer http.HandlerFunc // of the provider
	asked  []asked
	booked []inference.Usage
}

func (k *kit) Model(_, key string) (*agentpb.Model, *directorypb.Model, bool) {
	relayed := &agentpb.Model{Provider: agentpb.Provider_OPENAI, Name: "up", BaseUrl: k.provider + "/v1", ApiKey: secret, MaxRetries: 2}
	scripted := &agentpb.Model{Provider: agentpb.Provider_SCRIPTED, Name: key}
	record := func(category, pricing string) *directorypb.Model {
		return &directorypb.Model{Key: key, Category: category, Pricing: []byte(pricing)}
	}
	switch key {
	case "tts":
		return relayed, record("tts", `{"inputCharacterPer1M":15}`), true
	case "stt":
		return relayed, record("stt", `{"inputSecondPer1K":0.1}`), true
	case "tokens":
		relayed.Price = &agentpb.Price{InputNanoUsdPerMtok: 1e9, OutputNanoUsdPerMtok: 2e9}
		return relayed, record("stt", `{}`), true
	case "scripted-tts":
		return scripted, record("tts", `{"inputCharacterPer1M":15,"outputSecondPer1K":1}`), true
	case "scripted-stt":
		return scripted, record("stt", `{"inputSecondPer1K":0.1}`), true
	case "llm":
		return relayed, record("llm", `{}`), true
	case "mute":
		return &agentpb.Model{Provider: agentpb.Provider_ANTHROPIC}, record("tts", ``), true
	}
	return nil, nil, false
}

func serve(t *testing.T, answer http.HandlerFunc, change ...func(*audio.Config)) *kit {
	t.Helper()
	k := &kit{t: t, answer: answer, client: &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}}
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one := readAsked(r)
		k.mu.Lock()
		k.asked = append(k.asked, one)
		answer := k.answer
		k.mu.Unlock()
		answer(w, r)
	}))
	k.provider = provider.URL
	upstream := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	settings := inference.DefaultConfig()
	settings.BreakerThreshold, settings.RetryDelay = 0, time.Millisecond
	providers := model.New(model.Config{})
	caller := inference.New(settings, inference.Parts{
		Catalog: k, Providers: providers, Client: upstream, Door: &k.till,
		Book: func(u inference.Usage) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.booked = append(k.booked, u)
		},
	})
	config := audio.DefaultConfig()
	for _, set := range change {
		set(&config)
	}
	require.NoError(t, config.Validate())
	log := slog.New(slog.DiscardHandler)
	api := gateway.New(gateway.DefaultConfig(), nil, log)
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, err := httpedge.New(httpedge.DefaultConfig(), httpedge.Parts{
		Listener: listener, Node: "n1", Authenticator: endpointtest.Authenticate(endpointtest.ByToken), Logger: log,
	})
	require.NoError(t, err)
	surface := api.Surface()
	surface.Routes = audio.New(config, models{caller}, &k.spool).Routes()
	require.NoError(t, server.Mount("/v1", surface))
	require.NoError(t, server.Start())
	k.url = "http://" + listener.Addr().String() + "/v1"
	document := openapi.Document(openapi.Info{Title: "t", Version: "1", Refusals: surface.Refusals, Error: gateway.ErrorBody{}}, surface.Routes)
	k.schemas, err = openapi3.NewLoader().LoadFromData(document)
	require.NoError(t, err)
	require.NoError(t, k.schemas.Validate(context.Background()))
	t.Cleanup(func() {
		k.client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(t, api.Stop(ctx))
		require.NoError(t, server.Stop(ctx))
		upstream.CloseIdleConnections()
		providers.Close()
		provider.Close()
		require.Zero(t, k.spool.held, "a recording was kept")
	})
	return k
}

type got struct {
	t      *testing.T
	status int
	header http.Header
	raw    []byte
}

// send sends a body and checks an answer of JSON against the document.
func (k *kit) send(path, contentType string, body io.Reader) got {
	k.t.Helper()
	request, err := http.NewRequestWithContext(k.t.Context(), http.MethodPost, k.url+path, body)
	require.NoError(k.t, err)
	request.Header.Set("Authorization", "Bearer me")
	request.Header.Set("X-Request-Id", "mine")
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := k.client.Do(request)
	require.NoError(k.t, err)
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	require.NoError(k.t, err)
	require.Equal(k.t, "mine", response.Header.Get("X-Request-Id"))
	g := got{k.t, response.StatusCode, response.Header, raw}
	if response.Header.Get("Content-Type") == "application/json" {
		schema := k.schemas.Components.Schemas["Error"]
		if response.StatusCode < 300 {
			schema = k.schemas.Paths.Find(path).Post.Responses.Status(200).Value.Content.Get("application/json").Schema
		}
		var value any
		require.NoError(k.t, json.Unmarshal(raw, &value), string(raw))
		require.NoError(k.t, schema.Value.VisitJSON(value), "%s %s", path, raw)
		require.NotContains(k.t, string(raw), secret)
	}
	return g
}

func (k *kit) json(path string, body any) got {
	k.t.Helper()
	text, ok := body.(string)
	if !ok {
		encoded, err := json.Marshal(body)
		require.NoError(k.t, err)
		text = string(encoded)
	}
	return k.send(path, "application/json", bytes.NewBufferString(text))
}

// part is a part of a form.
type part struct{ name, fileName, contentType, value string }

func (k *kit) form(path string, parts ...part) got {
	k.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, one := range parts {
		head := map[string][]string{}
		disposition := map[string]string{"name": one.name}
		if one.fileName != "" {
			disposition["filename"] = one.fileName
		}
		head["Content-Disposition"] = []string{mime.FormatMediaType("form-data", disposition)}
		if one.contentType != "" {
			head["Content-Type"] = []string{one.contentType}
		}
		w, err := form.CreatePart(head)
		require.NoError(k.t, err)
		_, _ = io.WriteString(w, one.value)
	}
	require.NoError(k.t, form.Close())
	return k.send(path, form.FormDataContentType(), &body)
}

// done is the body of an answer that went well.
func (g got) done() map[string]any {
	g.t.Helper()
	require.Equal(g.t, 200, g.status, string(g.raw))
	var body map[string]any
	require.NoError(g.t, json.Unmarshal(g.raw, &body))
	return body
}

// refused checks an error.
func (g got) refused(status int, kind, message string) {
	g.t.Helper()
	require.Equal(g.t, status, g.status, string(g.raw))
	var body struct {
		Error struct{ Message, Type string }
	}
	require.NoError(g.t, json.Unmarshal(g.raw, &body))
	require.Equal(g.t, []string{kind, message}, []string{body.Error.Type, body.Error.Message})
}

func (k *kit) now(answer http.HandlerFunc) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answer, k.asked, k.booked = answer, nil, nil
}

func (k *kit) requests() []asked {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]asked(nil), k.asked...)
}

// usage is what the only call since now consumed.
func (k *kit) usage() inference.Usage {
	k.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	require.Len(k.t, k.booked, 1)
	return k.booked[0]
}

// says answers with a document.
func says(status int, contentType, document string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if contentType != "" {
			w.Header().Set("Content-Type", contentType)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, document)
	}
}

const asJSON = "application/json"

package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// soundForm is a form with a recording behind its fields.
func soundForm(t *testing.T, recording []byte, fields ...string) (contentType, body string) {
	t.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	file, err := form.CreateFormFile("file", "speech.wav")
	require.NoError(t, err)
	_, err = file.Write(recording)
	require.NoError(t, err)
	for i := 0; i < len(fields); i += 2 {
		require.NoError(t, form.WriteField(fields[i], fields[i+1]))
	}
	require.NoError(t, form.Close())
	return form.FormDataContentType(), b.String()
}

// soundModels makes the scripted models of sound in a tenant, and returns their keys.
func soundModels(t *testing.T, b apiCaller) (speech, hearing string) {
	t.Helper()
	for _, one := range []struct {
		key, category string
		pricing       object1
	}{
		{"scripted-tts", "tts", object1{"inputCharacterPer1M": 15}}, {"scripted-stt", "stt", object1{"inputSecondPer1K": 0.1}},
	} {
		b.done(t, "POST", "/models", object1{
			"key": one.key, "name": "Scripted " + one.category, "providerKey": "scripted", "category": one.category, "modelId": one.key,
			"pricing": one.pricing, "settings": object1{},
		})
	}
	return "scripted-tts", "scripted-stt"
}

// TestClientAudio is document 3, section 11, against a real server: speech and what is heard of it, providers of each driver, who may,
// and what is booked.
func TestClientAudio(t *testing.T) {
	t.Parallel()
	n := newTenant(t, house(t).p, "ON_PREMISE")
	n.scripted(t)
	speech, hearing := soundModels(t, n.apiCaller)
	const text = "Hello from Parley. How are you?"
	spoken := n.ask(t, "POST", "/audio/speech", object1{"model": speech, "input": text, "response_format": "wav"}, "X-Request-Id", "req-7")
	require.Equal(t, 200, spoken.status, spoken.text)
	require.Equal(t, []string{"audio/wav", fmt.Sprint(len(spoken.text)), "req-7"},
		[]string{spoken.header.Get("Content-Type"), spoken.header.Get("Content-Length"), spoken.header.Get("X-Request-Id")})
	require.Equal(t, "RIFF", spoken.text[:4])
	post := func(path string, fields ...string) answer {
		contentType, body := soundForm(t, []byte(spoken.text), append(fields, "model", hearing)...)
		return n.ask(t, "POST", path, body, "Content-Type", contentType)
	}

	t.Run("forms_and_formats", func(t *testing.T) {
		got := decode(t, post("/audio/transcriptions").text)
		require.Equal(t, text, got.text("text"))
		require.NotEmpty(t, got.text("request_id"))
		got = decode(t, post("/audio/transcriptions", "response_format", "verbose_json", "timestamp_granularities[]", "word").text)
		require.Len(t, got.at("words").list(), 6)
		got = decode(t, post("/audio/translations", "response_format", "srt").text)
		require.Contains(t, got.text("text"), "1\n00:00:00,060 --> ")
	})
	t.Run("base64", func(t *testing.T) {
		got := n.done(t, "POST", "/audio/transcriptions", object1{
			"model": hearing, "audio": object1{"data": base64.StdEncoding.EncodeToString([]byte(spoken.text)), "fileName": "a.wav"},
		}, "Content-Type", "application/json")
		require.Equal(t, text, got.text("text"))
	})
	t.Run("errors", func(t *testing.T) {
		n.ask(t, "POST", "/audio/speech", object1{"model": "none", "input": "Hi"}).failed(400, "invalid_request_error", "model_not_found", "model")
		message := n.ask(t, "POST", "/audio/speech", object1{"model": hearing, "input": "Hi"}).failed(400, "invalid_request_error", "invalid_request", "model")
		require.Equal(t, "Model is not configured for text-to-speech", message)
		message = n.ask(t, "POST", "/audio/transcriptions", "RIFF", "Content-Type", "audio/wav").failed(400, "invalid_request_error", "invalid_request", nil)
		require.Equal(t, "Content-Type must be multipart/form-data or application/json.", message)
	})
	t.Run("permissions", func(t *testing.T) {
		id := n.done(t, "POST", "/users", object1{"name": "Narrow", "role": "user"}).text("user", "id")
		token := n.done(t, "POST", "/users/"+id+"/tokens", object1{"label": "narrow", "servicePermissions": object1{"models": "read", "agents": "write"}}).text("token")
		for _, path := range []string{"/audio/speech", "/audio/transcriptions", "/audio/translations"} {
			require.Equal(t, 401, n.with("").ask(t, "POST", path, object1{}).status)
			require.Contains(t, n.with(token).ask(t, "POST", path, object1{}).failed(403, "permission_error", "permission_denied", nil), "models requires write")
		}
	})
	t.Run("a_key_gives_the_same_speech", func(t *testing.T) {
		ask := func() answer {
			return n.ask(t, "POST", "/audio/speech", object1{"model": speech, "input": "once"}, "Idempotency-Key", "speech-1")
		}
		first, again := ask(), ask()
		require.Equal(t, []any{200, first.text, "true"}, []any{again.status, again.text, again.header.Get("Idempotency-Replayed")})
		require.Equal(t, "audio/wav", again.header.Get("Content-Type"))
	})
	t.Run("usage", func(t *testing.T) {
		var rows map[string]tree
		require.Eventually(t, func() bool {
			rows = map[string]tree{}
			for _, row := range n.done(t, "GET", "/analytics/usage?group_by=service", nil).at("breakdown").list() {
				rows[row.text("service")] = row
			}
			return len(rows) == 3 && rows["audio.speech"].number("requests") == 2 && rows["audio.transcriptions"].number("requests") == 3
		}, 30*time.Second, 50*time.Millisecond)
		require.InDelta(t, len(text)+len("once"), rows["audio.speech"].number("characters"), 1e-9)
		require.InDelta(t, float64(len(text)+len("once"))*15e-6, rows["audio.speech"].number("cost"), 1e-9)
		seconds := rows["audio.transcriptions"].number("audio_seconds")
		require.InDelta(t, 3*float64(len(text)+6)/100, seconds, 1e-9)
		require.InDelta(t, seconds/1000*0.1, rows["audio.transcriptions"].number("cost"), 1e-9)
		require.Zero(t, rows["audio.transcriptions"].number("unpriced"))
	})
}

// TestClientAudioProviders: what providers of each driver are asked.
func TestClientAudioProviders(t *testing.T) {
	t.Parallel()
	n := newTenant(t, house(t).p, "ON_PREMISE")
	asked := make(chan *http.Request, 10)
	server := newSoundProvider(t, asked)
	for _, c := range []struct{ driver, path, header, value string }{
		{"openai", "/v1/audio/", "Authorization", "Bearer sk-sound-secret"},
		{"openai-compatible", "/v1/audio/", "Authorization", "Bearer sk-sound-secret"},
		{"azure", "/v1/openai/deployments/whisper/audio/", "Api-Key", "sk-sound-secret"},
	} {
		t.Run(c.driver, func(t *testing.T) {
			n.done(t, "POST", "/models/providers", object1{
				"key": "p-" + c.driver, "driver": c.driver, "settings": object1{"baseUrl": server + "/v1"}, "credentials": object1{"apiKey": "sk-sound-secret"},
			})
			for _, category := range []string{"stt", "tts"} {
				n.done(t, "POST", "/models", object1{
					"key": category + "-" + c.driver, "name": category, "providerKey": "p-" + c.driver, "category": category, "modelId": "whisper",
					"pricing": object1{}, "settings": object1{},
				})
			}
			contentType, body := soundForm(t, []byte("RIFF sound"), "model", "stt-"+c.driver)
			got := n.ask(t, "POST", "/audio/transcriptions", body, "Content-Type", contentType)
			require.Equal(t, 200, got.status, got.text)
			require.Equal(t, "10 bytes", decode(t, got.text).text("text"))
			request := <-asked
			require.Equal(t, []string{c.path + "transcriptions", c.value}, []string{request.URL.Path, request.Header.Get(c.header)})
			require.Equal(t, c.driver == "azure", request.URL.Query().Has("api-version"))
			made := n.ask(t, "POST", "/audio/speech", object1{"model": "tts-" + c.driver, "input": "Hi"})
			require.Equal(t, []any{200, "audio/mpeg", "ID3 sound"}, []any{made.status, made.header.Get("Content-Type"), made.text})
			require.Equal(t, c.path+"speech", (<-asked).URL.Path)
		})
	}
	message := n.ask(t, "POST", "/models/providers", object1{"key": "nowhere", "driver": "azure", "credentials": object1{"apiKey": "sk-sound-secret"}})
	require.Equal(t, 400, message.status, message.text)
}

// newSoundProvider is a provider that says how long a recording is, and speaks.
func newSoundProvider(t *testing.T, asked chan<- *http.Request) string {
	t.Helper()
	return serveSound(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r
		if strings.HasSuffix(r.URL.Path, "/speech") {
			w.Header().Set("Content-Type", "audio/mpeg")
			_, _ = io.WriteString(w, "ID3 sound")
			return
		}
		file, _, err := r.FormFile("file")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		size, _ := io.Copy(io.Discard, file)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(object1{"text": fmt.Sprint(size, " bytes")}) // who has left does not read it
	})
}

// serveSound serves a handler for as long as the test lasts.
func serveSound(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// audioAtAnyNode: what one node has spoken, each understands, and all of it is booked together.
func audioAtAnyNode(t *testing.T, n *tenant, members []*process) {
	t.Helper()
	speech, hearing := soundModels(t, n.apiCaller)
	for i, p := range members {
		var spoken answer
		require.Eventually(t, func() bool { // a node may still have to hear of the models
			spoken = n.at(p).ask(t, "POST", "/audio/speech", object1{"model": speech, "input": "from node " + strconv.Itoa(i)})
			return spoken.status == 200
		}, 30*time.Second, 10*time.Millisecond)
		for _, listener := range members {
			contentType, body := soundForm(t, []byte(spoken.text), "model", hearing)
			var heard answer
			require.Eventually(t, func() bool {
				heard = n.at(listener).ask(t, "POST", "/audio/transcriptions", body, "Content-Type", contentType)
				return heard.status == 200
			}, 30*time.Second, 10*time.Millisecond)
			require.Equal(t, "from node "+strconv.Itoa(i), decode(t, heard.text).text("text"))
		}
	}
	require.Eventually(t, func() bool {
		for _, row := range n.done(t, "GET", "/analytics/usage?group_by=service", nil).at("breakdown").list() {
			if row.text("service") == "audio.transcriptions" {
				return row.number("requests") == float64(len(members)*len(members))
			}
		}
		return false
	}, 30*time.Second, 50*time.Millisecond)
}

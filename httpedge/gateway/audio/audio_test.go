package audio_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/failure"
	"parley/actors/core/quota"
	"parley/actors/inference"
	"parley/actors/inference/wave"
	"parley/httpedge/gateway/audio"
	"parley/proto/failurepb"
)

const invalid = "invalid_request_error"

// wav is a recording of so many seconds.
func wav(seconds int) string {
	return string(wave.Head(8000, seconds*16_000)) + strings.Repeat("\x00", seconds*16_000)
}

// TestSpeech: what the provider is asked, what comes back, and what it costs.
func TestSpeech(t *testing.T) {
	k := serve(t, says(200, "audio/mpeg", "ID3 sound"))
	g := k.json("/audio/speech", map[string]any{"model": "tts", "input": "Merhaba dünya"})
	require.Equal(t, []any{200, "audio/mpeg", "9", "ID3 sound"}, []any{g.status, g.header.Get("Content-Type"), g.header.Get("Content-Length"), string(g.raw)})
	one := k.requests()[0]
	require.Equal(t, "/v1/audio/speech", one.path)
	require.Equal(t, "Bearer "+secret, one.key)
	require.JSONEq(t, `{"model":"up","input":"Merhaba dünya","voice":"alloy","response_format":"mp3"}`, string(one.raw))
	usage := k.usage()
	require.Equal(t, []any{"audio.speech", "tts", int64(13), int64(195_000), true, false},
		[]any{usage.Service, usage.Model, usage.Characters, usage.CostNanoUSD, usage.Priced, usage.Failed})

	k.now(says(200, "", "sound\xff"))
	g = k.json("/audio/speech", `{"model":"tts","input":"Hi","voice":"echo","response_format":"opus","speed":1.5,"instructions":"softly"}`)
	require.Equal(t, []any{200, "audio/ogg"}, []any{g.status, g.header.Get("Content-Type")}, "of the format, where the provider says nothing")
	require.JSONEq(t, `{"model":"up","input":"Hi","voice":"echo","response_format":"opus","speed":1.5,"instructions":"softly"}`, string(k.requests()[0].raw))

	for format, kind := range map[string]string{
		"mp3": "audio/mpeg", "opus": "audio/ogg", "aac": "audio/aac", "flac": "audio/flac", "wav": "audio/wav", "pcm": "audio/L16", "midi": "audio/mpeg",
	} {
		k.now(says(200, "application/octet-stream", "sound\xff"))
		g = k.json("/audio/speech", map[string]any{"model": "tts", "input": "Hi", "response_format": format})
		require.Equal(t, kind, g.header.Get("Content-Type"), format)
	}
	k.now(says(200, "text/html", "ID3\xff"))
	require.Equal(t, "audio/mpeg", k.json("/audio/speech", `{"model":"tts","input":"Hi"}`).header.Get("Content-Type"), "sound is no page, whatever a provider says")
	for _, page := range [][2]string{{"text/html", "<script>"}, {"text/plain; charset=utf-8", "busy"}, {"application/xml", "<Error/>"}, {asJSON, `"busy"`}, {"", `{"ok":true}`}} {
		k.now(says(200, page[0], page[1]))
		require.Equal(t, 502, k.json("/audio/speech", `{"model":"tts","input":"Hi"}`).status, page)
		require.True(t, k.usage().Failed, page)
	}

	k.now(says(200, asJSON, `{"error":{"message":"no voice `+secret+`","type":"invalid_request_error"}}`))
	require.NotEqual(t, 200, k.json("/audio/speech", `{"model":"tts","input":"Hi"}`).status, "an error in place of sound")
	k.now(says(200, "audio/mpeg", ""))
	require.Equal(t, 502, k.json("/audio/speech", `{"model":"tts","input":"Hi"}`).status)
}

// TestSpeechIsRefused with the words of document 3, 11.1 and 11.3.
func TestSpeechIsRefused(t *testing.T) {
	k := serve(t, says(200, "audio/mpeg", "sound"))
	for _, c := range []struct{ body, message string }{
		{``, "Invalid JSON body"},
		{`nothing`, "Invalid JSON body"},
		{`[]`, "Invalid JSON body"},
		{`{"input":"Hi"}`, "`model` is required"},
		{`{"model":7,"input":"Hi"}`, "`model` is required"},
		{`{"model":"tts"}`, "`input` text is required"},
		{`{"model":"tts","input":"  "}`, "`input` text is required"},
		{`{"model":"tts","input":["Hi"]}`, "`input` text is required"},
		{`{"model":"tts","input":"Hi","voice":7}`, "`voice` must be a string"},
		{`{"model":"tts","input":"Hi","speed":"fast"}`, "`speed` must be a number"},
		{`{"model":"tts","input":"Hi","stream_format":"sse"}`, "answers of this route must not be streamed: leave `stream_format` out"},
		{`{"model":"none","input":"Hi"}`, "Model `none` not found"},
		{`{"model":"stt","input":"Hi"}`, "Model is not configured for text-to-speech"},
		{`{"model":"llm","input":"Hi"}`, "Model is not configured for text-to-speech"},
		{`{"model":"mute","input":"Hi"}`, "the provider of this model does not speak"},
		{`{"model":"scripted-tts","input":"` + strings.Repeat("a", 4097) + `"}`, "`input` must have at most 4096 characters for the scripted provider"},
	} {
		k.json("/audio/speech", c.body).refused(400, invalid, c.message)
	}
	require.Empty(t, k.requests())
}

// TestProvidersErrors: the statuses of document 3, 10.4 but for 404, the words of 11.4, attempts, and what is booked.
func TestProvidersErrors(t *testing.T) {
	k := serve(t, nil)
	for _, c := range []struct {
		status, wanted, attempts int
		kind, message            string
	}{
		{400, 400, 1, invalid, "OpenAI transcription failed (400): bad [redacted]"},
		{401, 401, 1, "authentication_error", "The model provider refused the credentials that this server has for it"},
		{404, 400, 1, invalid, "OpenAI transcription failed (404): bad [redacted]"},
		{422, 422, 1, "unprocessable_entity_error", "OpenAI transcription failed (422): bad [redacted]"},
		{429, 429, 3, "rate_limit_error", "OpenAI transcription failed (429): bad [redacted]"},
		{500, 500, 3, "server_error", "OpenAI transcription failed (500): bad [redacted]"},
	} {
		k.now(says(c.status, asJSON, `{"error":{"message":"bad `+secret+`"}}`))
		k.form("/audio/transcriptions", part{"model", "", "", "stt"}, part{"file", "a.wav", "audio/wav", wav(2)}).refused(c.wanted, c.kind, c.message)
		all := k.requests()
		require.Len(t, all, c.attempts, c.message)
		for _, one := range all {
			require.Equal(t, wav(2), string(one.file), "each attempt has all of it")
			require.Equal(t, int64(len(one.raw)), one.length)
		}
		require.Zero(t, k.usage().CostNanoUSD, "refused")
		require.True(t, k.usage().Failed)
	}
	k.now(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	require.Equal(t, 503, k.form("/audio/transcriptions", part{"model", "", "", "stt"}, part{"file", "a.wav", "audio/wav", wav(2)}).status)
	require.Equal(t, []any{int64(2000), int64(200_000)}, []any{k.usage().AudioMillis, k.usage().CostNanoUSD}, "it may have been heard")

	k.now(says(500, asJSON, `{"error":{"message":"oops"}}`))
	k.json("/audio/speech", `{"model":"tts","input":"Hi"}`).refused(500, "server_error", "OpenAI speech failed (500): oops")
	k.now(says(500, asJSON, `{"error":{"message":"oops"}}`))
	k.form("/audio/translations", part{"model", "", "", "stt"}, part{"file", "a.wav", "audio/wav", wav(1)}).
		refused(500, "server_error", "OpenAI translation failed (500): oops")
}

// TestForms: fields in any order, and what the provider gets of them.
func TestForms(t *testing.T) {
	k := serve(t, says(200, asJSON, `{"text":"Hello"}`))
	file := part{"file", "a speech.mp3", "audio/mpeg", "ID3 sound"}
	got := k.form("/audio/transcriptions", file, part{"language", "", "", "tr"}, part{"unknown", "", "", "x"},
		part{"timestamp_granularities[]", "", "", "word"}, part{"timestamp_granularities[]", "", "", "segment"}, part{"timestamp_granularities[]", "", "", "line"},
		part{"prompt", "", "", "Names: Ada"}, part{"temperature", "", "", "0.2"}, part{"response_format", "", "", "verbose_json"},
		part{"model", "", "", "stt"}, part{"model", "", "", "other"}).done()
	require.Equal(t, "Hello", got["text"])
	require.Regexp(t, `^[0-9a-f-]{36}$`, got["request_id"])
	one := k.requests()[0]
	require.Equal(t, "/v1/audio/transcriptions", one.path)
	require.Equal(t, map[string][]string{
		"model": {"up"}, "language": {"tr"}, "prompt": {"Names: Ada"}, "temperature": {"0.2"}, "response_format": {"verbose_json"},
		"timestamp_granularities[]": {"word", "segment"},
	}, one.fields)
	require.Equal(t, []string{"ID3 sound", "a speech.mp3", "audio/mpeg"}, []string{string(one.file), one.fileName, one.fileType})

	k.now(says(200, asJSON, `{"text":"Hello"}`))
	k.form("/audio/translations", part{"model", "", "", "stt"}, part{"language", "", "", "tr"}, part{"timestamp_granularities[]", "", "", "word"},
		part{"file", "", "audio/webm", "sound"}, part{"request_id", "", "", "req 7"}).done()
	one = k.requests()[0]
	require.Equal(t, "/v1/audio/translations", one.path)
	require.Equal(t, map[string][]string{"model": {"up"}}, one.fields)
	require.Equal(t, []string{"audio.webm", "audio/webm"}, []string{one.fileName, one.fileType}, "named by its type")

	for _, c := range []struct {
		message string
		parts   []part
	}{
		{"`model` field is required.", []part{file}},
		{"`model` field is required.", nil},
		{"`file` field is required.", []part{{"model", "", "", "stt"}}},
		{"the form has more than one file: send each by itself", []part{file, file, {"model", "", "", "stt"}}},
		{"the recording must not be empty", []part{{"file", "a.wav", "", ""}, {"model", "", "", "stt"}}},
		{"Model `none` not found", []part{file, {"model", "", "", "none"}}},
		{"Model is not configured for speech-to-text", []part{file, {"model", "", "", "tts"}}},
		{"`response_format` must be one of: json, text, srt, verbose_json, vtt", []part{file, {"model", "", "", "stt"}, {"response_format", "", "", "xml"}}},
		{"`temperature` must be a number", []part{file, {"model", "", "", "stt"}, {"temperature", "", "", "hot"}}},
		{"answers of this route must not be streamed: leave `stream` out", []part{file, {"model", "", "", "stt"}, {"stream", "", "", "true"}}},
		{"prompt is larger than 65536 bytes", []part{file, {"model", "", "", "stt"}, {"prompt", "", "", strings.Repeat("p", 65537)}}},
	} {
		k.form("/audio/transcriptions", c.parts...).refused(400, invalid, c.message)
	}
	var many []part
	for i := range 65 {
		many = append(many, part{fmt.Sprint("f", i), "", "", "x"})
	}
	k.form("/audio/transcriptions", many...).refused(400, invalid, "the form is malformed")
	huge := strings.Repeat("h", 60_000)
	many = nil
	for range 20 {
		many = append(many, part{"other", "x.bin", "", huge})
	}
	require.Equal(t, 413, k.form("/audio/transcriptions", many...).status, "what is beside the recording is bounded in all")
}

// TestBrokenForms: bodies that are no form, or end in the middle of one.
func TestBrokenForms(t *testing.T) {
	k := serve(t, says(200, asJSON, `{"text":"Hello"}`))
	const head = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n"
	for _, c := range []struct{ contentType, body, message string }{
		{"multipart/form-data", head, "the form has no boundary"},
		{"multipart/form-data; boundary=b", "", "the form is malformed"},
		{"multipart/form-data; boundary=b", "no form at all", "the form is malformed"},
		{"multipart/form-data; boundary=b", head + "cut", "the form is malformed"},
		{"multipart/form-data; boundary=b", head + "cut\r\n--b", "the form is malformed"},
		{"multipart/form-data; boundary=other", head + "sound\r\n--b--\r\n", "the form is malformed"},
		{"audio/wav", "RIFF", "Content-Type must be multipart/form-data or application/json."},
		{"", "RIFF", "Invalid JSON body"},
		{"what is this?", "RIFF", "Content-Type must be multipart/form-data or application/json."},
	} {
		k.send("/audio/transcriptions", c.contentType, strings.NewReader(c.body)).refused(400, invalid, c.message)
	}
	whole := head + "sound\r\n--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nstt\r\n--b--\r\n"
	k.send("/audio/transcriptions", "multipart/form-data; boundary=b", iotestOneByte{strings.NewReader(whole)}).done() // in chunks, byte by byte
	k.send("/audio/transcriptions", `Multipart/Form-Data; boundary="b"`, strings.NewReader("preamble\r\n"+whole+"epilogue")).done()
}

// TestSenderLeaves: what came of a recording is forgotten when its sender goes away, at whatever place.
func TestSenderLeaves(t *testing.T) {
	k := serve(t, says(200, asJSON, `{"text":"Hello"}`))
	address := strings.TrimSuffix(strings.TrimPrefix(k.url, "http://"), "/v1")
	for _, body := range []string{
		"", "--b\r\n", "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n" + strings.Repeat("s", 200_000),
	} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		require.NoError(t, err)
		_, err = io.WriteString(conn, "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer me\r\n"+
			"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000000\r\n\r\n"+body)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
	require.Eventually(t, func() bool {
		k.spool.mu.Lock()
		defer k.spool.mu.Unlock()
		return k.spool.made == 1 && k.spool.held == 0
	}, 30*time.Second, time.Millisecond)
	require.Empty(t, k.requests())
}

// iotestOneByte gives a byte at a time.
type iotestOneByte struct{ from io.Reader }

func (o iotestOneByte) Read(p []byte) (int, error) { return o.from.Read(p[:min(1, len(p))]) }

// TestBase64: forms of it that are meant, and what is none.
func TestBase64(t *testing.T) {
	k := serve(t, says(200, asJSON, `{"text":"Hello"}`))
	sound := strings.Repeat("\xff\xfb sound? >>> ", 5000) + "."
	plain := base64.StdEncoding.EncodeToString([]byte(sound))
	var lines strings.Builder
	for i := 0; i < len(plain); i += 76 {
		lines.WriteString(plain[i:min(i+76, len(plain))] + `\r\n`)
	}
	for name, data := range map[string]string{
		"plain": plain, "without_padding": strings.TrimRight(plain, "="), "in_lines": lines.String(),
		"for_urls": base64.URLEncoding.EncodeToString([]byte(sound)), "escaped": strings.ReplaceAll(plain, "/", `\/`),
		"all_escaped": strings.ReplaceAll(plain, "+", `\u002b`),
	} {
		k.now(says(200, asJSON, `{"text":"Hello"}`))
		k.json("/audio/transcriptions", `{"audio":{"data":"`+data+`","fileName":"x.mp3","contentType":"audio/mpeg","more":[1,{"a":"}"}]},"temperature":0.5,
			"response_format":"json","timestamp_granularities":["word",""],"language":"en","other":{"a":[1,2,"]"]},"model" : "stt","none":null}`).done()
		one := k.requests()[0]
		require.Equal(t, sound, string(one.file), name)
		require.Equal(t, []string{"x.mp3", "audio/mpeg"}, []string{one.fileName, one.fileType})
		require.Equal(t, map[string][]string{
			"model": {"up"}, "language": {"en"}, "temperature": {"0.5"}, "response_format": {"json"}, "timestamp_granularities[]": {"word"},
		}, one.fields)
	}
	const notBase64, notJSON = "`audio.data` must be a base64-encoded string.", "Invalid JSON body"
	for _, c := range []struct{ body, message string }{
		{`{"model":"stt"}`, notBase64},
		{`{"model":"stt","audio":null}`, notBase64},
		{`{"model":"stt","audio":"UklGRg=="}`, notBase64},
		{`{"model":"stt","audio":{}}`, notBase64},
		{`{"model":"stt","audio":{"data":null}}`, notBase64},
		{`{"model":"stt","audio":{"data":7}}`, notBase64},
		{`{"model":"stt","audio":{"data":""}}`, notBase64},
		{`{"model":"stt","audio":{"data":"===="}}`, notBase64},
		{`{"model":"stt","audio":{"data":"UklGRg==UklG"}}`, notBase64},
		{`{"model":"stt","audio":{"data":"rubbish!"}}`, notBase64},
		{`{"model":"stt","audio":{"data":"A"}}`, notBase64},
		{`{"model":"stt","audio":{"data":"data:audio/wav;base64,UklGRg=="}}`, notBase64},
		{`{"model":"stt","audio":{"data":"UklG\u00e9"}}`, notBase64},
		{`{"audio":{"data":"UklG"}}`, "`model` field is required."},
		{`{"model":7,"audio":{"data":"UklG"}}`, "`model` must be a string"},
		{`{"model":"stt","language":["en"],"audio":{"data":"UklG"}}`, "`language` must be a string"},
		{`{"model":"stt","timestamp_granularities":"word","audio":{"data":"UklG"}}`, "`timestamp_granularities` must be an array of strings"},
		{`{"model":"stt","audio":{"data":"UklG","fileName":7}}`, "`audio.fileName` must be a string"},
		{`{"model":"stt","stream":true,"audio":{"data":"UklG"}}`, "answers of this route must not be streamed: leave `stream` out"},
		{`{"model":"stt","audio":{"data":"UklG","data":"UklG"}}`, "the form has more than one file: send each by itself"},
		{``, notJSON},
		{`[]`, notJSON},
		{`{`, notJSON},
		{`{"model":"stt","audio":{"data":"UklG`, notJSON},
		{`{"model":"stt","audio":{"data":"UklG"}`, notJSON},
		{`{"model":"stt","audio":{"data":"UklG"}} more`, notJSON},
		{`{"model":"stt" "audio":{}}`, notJSON},
		{`{"model":stt}`, notJSON},
		{"{\"model\":\"stt\",\"audio\":{\"data\":\"Uk\nlG\"}}", notJSON},
		{`{"deep":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, notJSON},
	} {
		k.json("/audio/transcriptions", c.body).refused(400, invalid, c.message)
	}
	k.now(says(200, asJSON, `{"text":"Hello"}`)) // a translation does not use them, and so does not look at them
	k.json("/audio/translations", `{"model":"stt","language":["en"],"timestamp_granularities":"word","audio":{"data":"UklG"}}`).done()
	require.NotContains(t, k.requests()[0].fields, "language")
}

// TestSizes: the largest recording, the room for all of them, and what a body may have beside.
func TestSizes(t *testing.T) {
	k := serve(t, says(200, asJSON, `{"text":"Hello"}`), func(c *audio.Config) { c.MaxUpload = 100_000 })
	of := func(size int) part { return part{"file", "a.mp3", "audio/mpeg", strings.Repeat("s", size)} }
	model := part{"model", "", "", "stt"}
	k.form("/audio/transcriptions", of(100_000), model).done()
	k.form("/audio/transcriptions", of(100_001), model).refused(413, invalid, "the body is larger than 100000 bytes")
	k.form("/audio/transcriptions", of(3_000_000), model).refused(413, invalid, "the body is larger than 100000 bytes")
	inJSON := func(size int) string {
		return `{"model":"stt","audio":{"data":"` + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("s"), size)) + `"}}`
	}
	k.json("/audio/transcriptions", inJSON(100_000)).done()
	k.json("/audio/transcriptions", inJSON(100_001)).refused(413, invalid, "the body is larger than 100000 bytes")
	chunked := struct{ io.Reader }{strings.NewReader(inJSON(5_000_000))}
	k.send("/audio/transcriptions", asJSON, chunked).refused(413, invalid, "the body is larger than 100000 bytes")
	k.json("/audio/transcriptions", `{"model":"`+strings.Repeat("m", 70_000)+`"}`).refused(400, invalid, "the body is larger than 65536 bytes")

	k.spool.why = failure.New(failurepb.Code_UNAVAILABLE, failure.UploadsFull)
	k.form("/audio/transcriptions", of(10), model).refused(503, "server_error", "too many uploads are on their way, try again")
	k.json("/audio/transcriptions", inJSON(10)).refused(503, "server_error", "too many uploads are on their way, try again")
	k.spool.why = failure.New(failurepb.Code_STORAGE_FULL, failure.DiskFull)
	require.Equal(t, 507, k.form("/audio/transcriptions", of(10), model).status)
}

// TestAnswers: the formats of document 3, 11.2, what providers say in their place, and how long a recording is believed to be.
func TestAnswers(t *testing.T) {
	k := serve(t, nil)
	ask := func(format, model, file string, answer http.HandlerFunc) (map[string]any, inference.Usage) {
		k.now(answer)
		body := k.form("/audio/transcriptions", part{"file", "a.wav", "audio/wav", file}, part{"model", "", "", model},
			part{"response_format", "", "", format}).done()
		delete(body, "request_id")
		return body, k.usage()
	}
	body, usage := ask("verbose_json", "stt", wav(10), says(200, asJSON, `{"task":"transcribe","language":"english","duration":9.5,"text":"Hi there",
		"segments":[{"id":0,"seek":0,"start":0.0,"end":9.5,"text":"Hi there","tokens":[1],"temperature":0,"avg_logprob":-0.25,"compression_ratio":1.5,"no_speech_prob":0.01}],
		"words":[{"word":"Hi","start":0,"end":1.5},{"word":"there","start":1.5,"end":9.5}]}`))
	require.Equal(t, map[string]any{
		"text": "Hi there", "language": "english", "duration": 9.5,
		"segments": []any{map[string]any{"id": 0.0, "start": 0.0, "end": 9.5, "text": "Hi there", "avgLogprob": -0.25, "compressionRatio": 1.5, "noSpeechProb": 0.01}},
		"words":    []any{map[string]any{"word": "Hi", "start": 0.0, "end": 1.5}, map[string]any{"word": "there", "start": 1.5, "end": 9.5}},
		"usage":    map[string]any{"inputSeconds": 9.5},
	}, body)
	require.Equal(t, []any{int64(9500), int64(950_000), true}, []any{usage.AudioMillis, usage.CostNanoUSD, usage.Priced})

	body, usage = ask("json", "tokens", wav(10), says(200, asJSON, `{"text":"Hi","usage":{"type":"tokens","input_tokens":100,"output_tokens":20,"total_tokens":120}}`))
	require.Equal(t, map[string]any{"text": "Hi", "usage": map[string]any{"inputSeconds": 10.0, "inputTokens": 100.0, "outputTokens": 20.0, "totalTokens": 120.0}}, body)
	require.Equal(t, []any{int64(100), int64(20), int64(140_000), true}, []any{usage.InputTokens, usage.OutputTokens, usage.CostNanoUSD, usage.Priced})

	for format, text := range map[string]string{"text": "Hi \"there\"\n", "srt": "1\n00:00:00,000 --> 00:00:01,000\nHi\n", "vtt": "WEBVTT\n\nHi"} {
		body, _ = ask(format, "stt", wav(1), says(200, "text/plain", text))
		require.Equal(t, text, body["text"])
		body, _ = ask(format, "stt", wav(1), says(200, asJSON, `{"text":"all the same"}`))
		require.Equal(t, "all the same", body["text"], "JSON whatever was asked for")
	}
	for _, c := range []struct {
		name, file, said string
		millis           int64
		priced           bool
	}{
		{"duration", wav(10), `,"usage":{"type":"duration","seconds":9}`, 9000, true},
		{"as_a_text", wav(10), `,"duration":"8.25"`, 8250, true},
		{"nothing_said", wav(10), ``, 10_000, true},
		{"too_long_to_be_true", wav(10), `,"duration":1e9`, 10_000, true},
		{"negative", wav(10), `,"duration":-5`, 10_000, true},
		{"no_number", wav(10), `,"duration":"NaN"`, 10_000, true},
		{"of_no_known_kind", strings.Repeat("s", 160_000), ``, 10_001, false},
		{"of_no_known_kind_but_said", strings.Repeat("s", 160_000), `,"duration":12`, 12_000, true},
	} {
		_, usage = ask("json", "stt", c.file, says(200, asJSON, `{"text":"Hi"`+c.said+`}`))
		require.Equal(t, []any{c.millis, c.priced}, []any{usage.AudioMillis, usage.Priced}, c.name)
	}
	for _, answer := range []http.HandlerFunc{
		says(200, asJSON, `{"txt":"Hi"}`), says(200, asJSON, `{"text":7}`), says(200, "text/plain", "Hi"), says(200, asJSON, ``),
		says(200, asJSON, `{"text":"Hi","words":{}}`), says(200, asJSON, `{"text":"Hi","segments":[1]}`),
	} {
		k.now(answer)
		g := k.form("/audio/transcriptions", part{"file", "a.wav", "", wav(1)}, part{"model", "", "", "stt"})
		require.Equal(t, 502, g.status, string(g.raw))
	}
	k.now(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.CopyN(w, zeros{}, 40<<20) // it is cut off before its end
	})
	g := k.form("/audio/transcriptions", part{"file", "a.wav", "", wav(1)}, part{"model", "", "", "stt"})
	g.refused(502, "server_error", "the answer is too large")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestScripted: what the scripted provider says it understands, with the times of its words.
func TestScripted(t *testing.T) {
	k := serve(t, nil)
	const text = "Hello there. Wie geht's? Gut!"
	spoken := k.json("/audio/speech", map[string]any{"model": "scripted-tts", "input": text, "response_format": "mp3"})
	require.Equal(t, []any{200, "audio/wav", fmt.Sprint(44 + wave.Size(text))}, []any{spoken.status, spoken.header.Get("Content-Type"), spoken.header.Get("Content-Length")},
		"it says what it has made")
	length := wave.At(len(text))
	require.Equal(t, []any{int64(len(text)), length.Milliseconds(), int64(len(text))*15_000 + length.Milliseconds()*1000, true},
		[]any{k.usage().Characters, k.usage().AudioMillis, k.usage().CostNanoUSD, k.usage().Priced})
	raw := k.json("/audio/speech", map[string]any{"model": "scripted-tts", "input": text, "response_format": "pcm"})
	require.Equal(t, "audio/L16;rate=8000;channels=1", raw.header.Get("Content-Type"))
	require.Equal(t, spoken.raw[44:], raw.raw)

	file := part{"file", "a.wav", "audio/wav", string(spoken.raw)}
	ask := func(path string, more ...part) map[string]any {
		k.now(nil)
		return k.form(path, append(more, file, part{"model", "", "", "scripted-stt"})...).done()
	}
	body := ask("/audio/transcriptions")
	require.Equal(t, text, body["text"])
	require.NotContains(t, body, "segments")
	require.Equal(t, length.Milliseconds(), k.usage().AudioMillis)
	require.Equal(t, text, ask("/audio/translations")["text"])
	encoded, err := json.Marshal(map[string]any{"model": "scripted-stt", "audio": map[string]any{"data": raw.raw}})
	require.NoError(t, err)
	require.Equal(t, text, k.json("/audio/transcriptions", string(encoded)).done()["text"], "samples alone, as base64")

	verbose := part{"response_format", "", "", "verbose_json"}
	body = ask("/audio/transcriptions", verbose, part{"timestamp_granularities[]", "", "", "word"}, part{"timestamp_granularities[]", "", "", "segment"}, part{"language", "", "", "de"})
	require.Equal(t, []any{"de", length.Seconds()}, []any{body["language"], body["duration"]})
	words, _ := body["words"].([]any)
	require.Len(t, words, 5)
	require.Equal(t, map[string]any{"word": "there.", "start": wave.At(6).Seconds(), "end": wave.At(12).Seconds()}, words[1])
	segments, _ := body["segments"].([]any)
	require.Len(t, segments, 3)
	second, _ := segments[1].(map[string]any)
	require.Equal(t, []any{1.0, "Wie geht's?", wave.At(13).Seconds(), wave.At(24).Seconds()}, []any{second["id"], second["text"], second["start"], second["end"]})
	body = ask("/audio/transcriptions", verbose)
	require.Contains(t, body, "segments")
	require.NotContains(t, body, "words")

	require.Equal(t, "1\n00:00:00,060 --> 00:00:00,180\nHello there.\n\n2\n00:00:00,190 --> 00:00:00,300\nWie geht's?\n\n3\n00:00:00,310 --> 00:00:00,350\nGut!\n\n",
		ask("/audio/transcriptions", part{"response_format", "", "", "srt"})["text"])
	require.Contains(t, ask("/audio/transcriptions", part{"response_format", "", "", "vtt"})["text"], "WEBVTT\n\n00:00:00.060 --> 00:00:00.180\nHello there.\n")
	require.Equal(t, text+"\n", ask("/audio/transcriptions", part{"response_format", "", "", "text"})["text"])
	k.form("/audio/transcriptions", part{"file", "a.wav", "", wav(1)}, part{"model", "", "", "scripted-stt"}).
		refused(400, invalid, "the scripted provider understands only the speech that it has made itself, as wav or pcm")
	require.Empty(t, k.requests())
}

// TestBudgetsCountSound: speech and recordings are let in by what they may cost, and settled with what is booked.
func TestBudgetsCountSound(t *testing.T) {
	k := serve(t, says(200, "application/json", `{"text":"Hi","duration":8}`))
	left := int64(900_000)
	k.till.left = &left
	recording := func() got {
		return k.form("/audio/transcriptions", part{"file", "a.wav", "audio/wav", wav(9)}, part{"model", "", "", "stt"})
	}
	recording().done()
	require.Equal(t, []any{quota.Listening, "stt", int64(900_000), int64(900_000)}, []any{k.till.entered[0].Domain, k.till.entered[0].Model, k.till.entered[0].Need, k.till.entered[0].Want})
	require.Equal(t, []int64{800_000}, k.till.settled, "what the provider heard")
	require.Equal(t, int64(800_000), k.usage().CostNanoUSD)
	left = 899_999
	recording().refused(429, "rate_limit_error", "Budget exceeded for perDay (1/1 cents)")
	require.Len(t, k.requests(), 1, "the provider is not asked")
	require.Len(t, k.till.settled, 1)

	k.now(nil)
	spoken := k.json("/audio/speech", map[string]any{"model": "scripted-tts", "input": "Hello there."})
	require.Equal(t, 200, spoken.status)
	entered := k.till.entered[2]
	require.Equal(t, []any{quota.Speech, int64(12 * 15_000), int64(12*15_000 + 2_000*1000)}, []any{entered.Domain, entered.Need, entered.Want}, "said slowly, it takes 2 s")
	require.Equal(t, k.usage().CostNanoUSD, k.till.settled[1])
	left = 0
	k.json("/audio/speech", map[string]any{"model": "tts", "input": "Hello"}).refused(429, "rate_limit_error", "Budget exceeded for perDay (1/1 cents)")
}

// FuzzUpload: whatever comes as a body is answered, and no recording is kept.
func FuzzUpload(f *testing.F) {
	f.Add("application/json", []byte(`{"model":"stt","audio":{"data":"UklGRg==","fileName":"a"},"x":[{"a":"\u0041"}]}`))
	f.Add("multipart/form-data; boundary=b", []byte("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx\r\n--b--\r\n"))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		read, held := audio.Received(contentType, body)
		if held != 0 || read > int64(len(body)) {
			t.Fatal(read, held)
		}
	})
}

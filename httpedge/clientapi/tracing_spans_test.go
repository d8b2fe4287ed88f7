package clientapi_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

// export sends spans as an exporter does; header is pairs of names and values.
func (k *traceKit) export(token string, body []byte, header ...string) (int, string, []byte) {
	k.t.Helper()
	request, err := http.NewRequestWithContext(k.t.Context(), http.MethodPost, k.url+"/traces", bytes.NewReader(body))
	require.NoError(k.t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := k.client.Do(request)
	require.NoError(k.t, err)
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	require.NoError(k.t, err)
	return response.StatusCode, response.Header.Get("Content-Type"), raw
}

func packed(t *testing.T, body []byte) []byte {
	t.Helper()
	var into bytes.Buffer
	writer := gzip.NewWriter(&into)
	_, err := writer.Write(body)
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	return into.Bytes()
}

// spansOf is a request of spans of a conversation: an agent, its model call and a tool that fails.
func spansOf(conversation string) []byte {
	attribute := func(key, kind, value string) string {
		return fmt.Sprintf(`{"key":"gen_ai.%s","value":{"%s":"%s"}}`, key, kind, value)
	}
	span := func(n int, attributes ...string) string {
		attributes = append(attributes, attribute("conversation.id", "stringValue", conversation))
		return fmt.Sprintf(`{"traceId":"%032x","spanId":"%016x","startTimeUnixNano":"1767225600000000000","endTimeUnixNano":"1767225601500000000","status":{"code":%d},"attributes":[%s]}`,
			n, n, n%3, strings.Join(attributes, ","))
	}
	return []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[` + strings.Join([]string{
		span(1, attribute("operation.name", "stringValue", "chat"), attribute("request.model", "stringValue", "large"), attribute("response.model", "stringValue", "large-2"),
			attribute("usage.input_tokens", "intValue", "120"), attribute("usage.output_tokens", "intValue", "30")),
		span(2, attribute("operation.name", "stringValue", "execute_tool"), attribute("tool.name", "stringValue", "find_trains")),
		span(3, attribute("operation.name", "stringValue", "invoke_agent"), attribute("agent.name", "stringValue", "Planner")),
	}, ",") + `]}]}]}`)
}

// TestSpans: spans of OpenTelemetry become sessions, in both forms, packed or not; sent again they change nothing.
func TestSpans(t *testing.T) {
	k := serveTraces(t)
	token := k.mint("owner of default", "default", nil)
	for range 2 {
		for _, header := range [][]string{{"Content-Type", "application/json"}, {"Content-Type", "application/json", "Content-Encoding", "gzip"}} {
			body := spansOf("talk")
			if len(header) > 2 {
				body = packed(t, body)
			}
			status, kind, raw := k.export(token, body, header...)
			require.Equal(t, []any{200, "application/json"}, []any{status, kind}, "%s", raw)
			require.JSONEq(t, `{"success":true,"sessionsIngested":1,"eventsStored":3,"spansProcessed":3}`, string(raw))
		}
	}
	_, got := k.ask(token, "GET", "/tracing/threads/talk", "")
	for name, want := range map[string]any{
		"threadId": "talk", "sessionsCount": 1.0, "totalEvents": 3.0, "totalInputTokens": 120.0, "totalOutputTokens": 30.0, "totalDurationMs": 1500.0,
		"modelsUsed": []any{"large-2"}, "toolsUsed": []any{"find_trains"}, "agents": []any{"Planner"}, "startedAt": "2026-01-01T00:00:00.000Z", "endedAt": "2026-01-01T00:00:01.500Z",
	} {
		require.Equal(t, want, got[name], name)
	}

	message := func(field protowire.Number, held []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), held)
	}
	span := message(2, append(message(1, bytes.Repeat([]byte{0xab}, 16)), message(2, bytes.Repeat([]byte{0xcd}, 8))...))
	status, kind, raw := k.export(token, packed(t, message(1, message(2, span))), "Content-Type", "application/x-protobuf", "Content-Encoding", "gzip")
	require.Equal(t, []any{200, "application/x-protobuf", 0}, []any{status, kind, len(raw)})
	_, got = k.ask(token, "GET", "/tracing/threads/"+strings.Repeat("ab", 16), "")
	require.InDelta(t, 1, got["totalEvents"], 0)
	_, _, raw = k.export(token, message(1, message(2, append(span, message(2, nil)...))), "Content-Type", "application/x-protobuf")
	require.Contains(t, string(raw), "Spans were left out", "one of no trace")

	status, _, raw = k.export(token, []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{}]}]}]}`), "Content-Type", "application/json")
	require.Equal(t, 200, status)
	var partial struct {
		PartialSuccess struct {
			RejectedSpans int `json:"rejectedSpans"`
		} `json:"partialSuccess"`
	}
	require.NoError(t, json.Unmarshal(raw, &partial))
	require.Equal(t, 1, partial.PartialSuccess.RejectedSpans)
}

// TestSpansRefusals: what is no request, and what becomes too large, in the words of document 3, section 12.
func TestSpansRefusals(t *testing.T) {
	k := serveTraces(t)
	token := k.mint("owner of default", "default", nil)
	const kind, plain = "Content-Type", "application/json"
	bomb := packed(t, append([]byte(`{"a":"`), bytes.Repeat([]byte("a"), 64<<20)...))
	require.Less(t, len(bomb), 1<<20)
	for name, c := range map[string]struct {
		body   []byte
		header []string
		status int
		words  string
	}{
		"no spans":                {[]byte(`{"resourceSpans":[]}`), []string{kind, plain}, 400, "No spans found in payload"},
		"no spans in protobuf":    {nil, []string{kind, "application/x-protobuf"}, 400, "No spans found in payload"},
		"no JSON":                 {[]byte(`{"resourceSpans":`), []string{kind, plain}, 400, "The body is not an OTLP request"},
		"no protobuf":             {[]byte{0xff}, []string{kind, "application/x-protobuf"}, 400, "The body is not an OTLP request"},
		"not packed":              {spansOf("x"), []string{kind, plain, "Content-Encoding", "gzip"}, 400, "The body is not an OTLP request"},
		"packed, cut off":         {packed(t, spansOf("x"))[:40], []string{kind, plain, "Content-Encoding", "gzip"}, 400, "The body is not an OTLP request"},
		"packed in another way":   {spansOf("x"), []string{kind, plain, "Content-Encoding", "br"}, 400, "Content-Encoding must be gzip, or absent"},
		"too large":               {bytes.Repeat([]byte(" "), 10<<20+1), []string{kind, plain}, 413, ""},
		"too large in protobuf":   {bytes.Repeat([]byte(" "), 10<<20+1), []string{kind, "application/x-protobuf"}, 413, ""},
		"too large when unpacked": {bomb, []string{kind, plain, "Content-Encoding", "gzip"}, 413, "once it is unpacked"},
	} {
		status, _, raw := k.export(token, c.body, c.header...)
		require.Equal(t, c.status, status, "%s: %s", name, raw)
		require.Contains(t, string(raw), c.words, name)
	}
	require.Empty(t, k.world.heads)
}

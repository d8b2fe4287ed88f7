package provider

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// testKey is a key that nothing may repeat.
const testKey = "sk-test-0123456789abcdef-SECRET"

func TestRedactor(t *testing.T) {
	secrets := NewRedactor(testKey, "https://userpart:passpart@host/v1?api-key=querypart")
	tests := map[string]string{
		"plain words":                             "plain words",
		"key " + testKey + "!":                    "key [redacted]!",
		"got userpart, passpart and querypart":    "got [redacted], [redacted] and [redacted]",
		"GET https://a:b@host:1/x?y=z failed":     "GET https://host:1/x failed",
		"Authorization: Bearer abc.def-123, and":  "Authorization: [redacted], and",
		"Incorrect API key: sk-proj-abcd****wxyz": "Incorrect API key: [redacted]",
		"two\nlines\x00and\ttabs":                 "two lines and tabs",
		"bad \xff byte":                           "bad \uFFFD byte",
		"":                                        "",
	}
	for text, want := range tests {
		require.Equal(t, want, secrets.Clean(text, 400))
	}
	long := Redactor{}.Clean(strings.Repeat("ä", 1000), 400)
	require.LessOrEqual(t, len(long), 400+3)
	require.True(t, utf8.ValidString(long))
}

func TestReadComplaint(t *testing.T) {
	tests := []struct{ document, kind, message string }{
		{`{"error":{"message":"m","type":"t_error","code":"c_code"}}`, "c_code", "m"},
		{`{"error":{"message":"m","type":"t_error","code":404}}`, "t_error", "m"},
		{`{"type":"error","error":{"type":"overloaded_error","message":"m"},"request_id":"r"}`, "overloaded_error", "m"},
		{`{"error":"words"}`, "", "words"},
		{`{"detail":"words"}`, "", "words"},
		{`{"detail":[{"msg":"x"}]}`, "", "x"},
		{`{"detail":[{"loc":["body","messages",0,"role"],"msg":"field required","type":"missing"},{"loc":["body"],"msg":"wrong"}]}`, "missing", "messages.0.role: field required; wrong"},
		{`{"detail":{"error":{"message":"m"}}}`, "", "m"},
		{`[{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}]`, "RESOURCE_EXHAUSTED", "m"},
		{`{"errors":[{"code":"c_code","message":"m"},{"message":"n"}]}`, "c_code", "m; n"},
		{`{"errors":["m","n"]}`, "", "m; n"},
		{`{"errors":{"model":["is missing"]}}`, "", "model: is missing"},
		{`{"error":{"message":{"text":"x","error":"m"}}}`, "", "m"},
		{`{"error":{"code":"c_code","msg":"m"}}`, "c_code", "m"},
		{`{"error":true,"message":"m","code":"c_code"}`, "c_code", "m"},
		{`{"code":1210,"msg":"m"}`, "", "m"},
		{`{"type":"about:blank","title":"t","detail":"m"}`, "", "m"},
		{"event: error\ndata: {\"error\":{\"message\":\"m\",\ndata: \"code\":\"c_code\"}}\n\n", "c_code", "m"},
		{"upstream connect error", "", "upstream connect error"},
		{"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad&nbsp;Gateway</h1></center>\r\n<hr><center>nginx</center>\r\n</body></html>", "", "502 Bad Gateway nginx"},
		{"<!DOCTYPE html><html><head><title>Just a moment...</title><script>x()</script></head><body></body></html>", "", "Just a moment..."},
		{"\x1f\x8b\x08\x00", "", ""},
		{`{"type":"error","code":"server_error","message":"m"}`, "server_error", "m"},
		{`{"code":"rate_limit_exceeded","message":"m"}`, "rate_limit_exceeded", "m"},
		{`{"error":{"message":"m","type":"` + testKey + `"}}`, "", "m"},
		{`[]`, "", ""},
		{`<html>`, "", ""},
		{``, "", ""},
	}
	for _, test := range tests {
		said := Complaint(0, []byte(test.document), Redactor{})
		kind := said.Code
		if !IsName(kind) {
			kind = said.Kind
		}
		if !IsName(kind) {
			kind = ""
		}
		require.Equal(t, test.kind, kind, test.document)
		require.Equal(t, test.message, said.Message, test.document)
		require.NotContains(t, said.Error(), testKey)
	}
}

func TestRetryAfter(t *testing.T) {
	header := func(name, value string) http.Header { return http.Header{name: {value}} }
	require.Equal(t, 3*time.Second, retryAfter(header("Retry-After", "3")))
	require.Equal(t, 1500*time.Millisecond, retryAfter(header("Retry-After", "1.5")))
	require.Equal(t, 250*time.Millisecond, retryAfter(header("Retry-After-Ms", "250")))
	require.InDelta(t, time.Hour, retryAfter(header("Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))), float64(2*time.Second))
	for _, nothing := range []string{"", "soon", "-3", "NaN", "-Inf", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)} {
		require.Zero(t, retryAfter(header("Retry-After", nothing)), nothing)
	}
	require.Equal(t, 24*time.Hour, retryAfter(header("Retry-After", "1e300")))
	require.Equal(t, 24*time.Hour, seconds(math.Inf(1)))
}

func FuzzRedactor(f *testing.F) {
	f.Add("https://a:b@c?d", "key")
	f.Add("Bearer \xff", "sk-1")
	f.Fuzz(func(t *testing.T, text, key string) {
		secrets := NewRedactor(key, "")
		shown := secrets.Clean(text, 400)
		require.True(t, utf8.ValidString(shown))
		require.LessOrEqual(t, len(shown), 400+len("..."))
		require.NotContains(t, shown, "\n")
		if key = strings.TrimSpace(key); len(key) > len(Hidden) && utf8.ValidString(key) {
			require.NotContains(t, shown, key)
		}
	})
}

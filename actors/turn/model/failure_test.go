package model

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestRedactor(t *testing.T) {
	secrets := newRedactor(testKey, "https://userpart:passpart@host/v1?api-key=querypart")
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
		require.Equal(t, want, secrets.clean(text))
	}
	long := redactor{}.clean(strings.Repeat("ä", 1000))
	require.LessOrEqual(t, len(long), maxShownText+3)
	require.True(t, utf8.ValidString(long))
}

func TestReadComplaint(t *testing.T) {
	tests := []struct{ document, kind, message string }{
		{`{"error":{"message":"m","type":"t_error","code":"c_code"}}`, "c_code", "m"},
		{`{"error":{"message":"m","type":"t_error","code":404}}`, "t_error", "m"},
		{`{"type":"error","error":{"type":"overloaded_error","message":"m"},"request_id":"r"}`, "overloaded_error", "m"},
		{`{"error":"words"}`, "", "words"},
		{`{"detail":"words"}`, "", "words"},
		{`{"detail":[{"msg":"x"}]}`, "", ""},
		{`{"type":"error","code":"server_error","message":"m"}`, "server_error", "m"},
		{`{"code":"rate_limit_exceeded","message":"m"}`, "rate_limit_exceeded", "m"},
		{`{"error":{"message":"m","type":"` + testKey + `"}}`, "", "m"},
		{`[]`, "", ""},
		{`<html>`, "", ""},
		{``, "", ""},
	}
	for _, test := range tests {
		require.Equal(t, complaint{kind: test.kind, message: test.message}, readComplaint([]byte(test.document), redactor{}), test.document)
	}
}

func TestKindsInMidStream(t *testing.T) {
	for kind, code := range map[string]string{
		"overloaded_error": CodeOverloaded, "rate_limit_error": CodeRateLimited, "rate_limit_exceeded": CodeRateLimited,
		"insufficient_quota": CodeRateLimited, "authentication_error": CodeAuthentication, "permission_error": CodeAuthentication,
		"invalid_api_key": CodeAuthentication, "timeout_error": CodeProviderTimeout, "invalid_request_error": CodeInvalidRequest,
		"invalid_prompt": CodeInvalidRequest, "not_found_error": CodeInvalidRequest, "context_length_exceeded": CodeInvalidRequest,
		"server_error": CodeProviderError, "api_error": CodeProviderError, "": CodeProviderError,
	} {
		require.Equal(t, code, complaint{kind: kind}.fault().failure.Code, kind)
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
		secrets := newRedactor(key, "")
		shown := secrets.clean(text)
		require.True(t, utf8.ValidString(shown))
		require.LessOrEqual(t, len(shown), maxShownText+len("..."))
		require.NotContains(t, shown, "\n")
		if key = strings.TrimSpace(key); len(key) > len(hidden) && utf8.ValidString(key) {
			require.NotContains(t, shown, key)
		}
	})
}

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jws"
	"github.com/stretchr/testify/require"
)

// as makes a request with a token ("" = none) and returns status and body.
func (p *process) as(token, method, path, body string) (int, string) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, p.url(path), strings.NewReader(body))
	require.NoError(p.t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.Client{Timeout: 30 * time.Second}
	response, err := client.Do(request)
	require.NoError(p.t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(p.t, err)
	return response.StatusCode, string(text)
}

// requireError checks status, code and text of a refusal, in the form that document 2 gives.
func requireError(t *testing.T, status int, body string, wantStatus int, wantCode, wantText string) {
	t.Helper()
	require.Equal(t, wantStatus, status, body)
	var wire struct{ Error, Code string }
	require.NoError(t, json.Unmarshal([]byte(body), &wire), body)
	require.Equal(t, wantCode, wire.Code)
	require.Equal(t, wantText, wire.Error)
}

func TestStaticTokens(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the binary and runs a process")
	}
	p := newProcess(t, testAgents+`
log: {level: debug}
auth:
  enabled: true
  provider: static
  tokens: [{token: tok-a, user_id: alice}, {token: tok-b, user_id: bob}]
`)
	p.start()
	status, body := p.as("", "GET", "/agents", "")
	requireError(t, status, body, 401, "AUTH_REQUIRED", "Authentication required")
	status, body = p.as("tok-c", "GET", "/agents", "")
	requireError(t, status, body, 401, "AUTH_REQUIRED", "Invalid token")
	for _, path := range []string{"/docs", "/docs/openapi.json", "/docs/swagger-ui-bundle.js"} {
		status, body = p.as("", "GET", path, "")
		require.Equal(t, 200, status, "a browser sends no token: %s", body)
	}

	// The identity wins over userId in the body and in the query.
	status, body = p.as("tok-a", "POST", "/conversations", `{"agentId":"quick","userId":"bob"}`)
	require.Equal(t, 201, status, body)
	var answer created
	require.NoError(t, json.Unmarshal([]byte(body), &answer))
	path := "/conversations/" + answer.Conversation.ID
	status, body = p.as("tok-a", "GET", "/conversations?userId=bob", "")
	require.Equal(t, 200, status, body)
	require.Contains(t, body, answer.Conversation.ID)
	status, body = p.as("tok-b", "GET", "/conversations?userId=alice", "")
	require.Equal(t, 200, status, body)
	require.NotContains(t, body, answer.Conversation.ID)

	// Another user reaches nothing of it.
	for _, try := range [][3]string{
		{"GET", "", ""},
		{"PATCH", "", `{"title":"mine"}`},
		{"DELETE", "", ""},
		{"GET", "/messages", ""},
		{"POST", "/messages", `{"message":"hi"}`},
		{"POST", "/cancel", ""},
		{"GET", "/events", ""},
		{"GET", "/events/stream", ""},
	} {
		status, body = p.as("tok-b", try[0], path+try[1], try[2])
		require.Equal(t, 403, status, "%s %s: %s", try[0], try[1], body)
		require.Contains(t, body, `"FORBIDDEN"`)
	}
	status, body = p.as("tok-a", "POST", path+"/messages", `{"message":"hi"}`)
	require.Equal(t, 200, status, body)
	require.Contains(t, p.log.String(), "msg=request", "what the log says of requests")
	require.NotContains(t, p.log.String(), "tok-")
}

func TestKeySetTokens(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the binary and runs a process")
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	public, err := jwk.Import(private.Public())
	require.NoError(t, err)
	require.NoError(t, public.Set(jwk.KeyIDKey, "k1"))
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{public}})
	}))
	defer keys.Close()
	p := newProcess(t, testAgents+fmt.Sprintf(`
auth:
  enabled: true
  provider: jwt
  jwt: {jwks_uri: %q, algorithm: ES256, issuer: "https://id.example", audience: [parley]}
`, keys.URL+"/keys"))
	p.start()
	token := func(change func(map[string]any)) string {
		claims := map[string]any{"sub": "alice", "iss": "https://id.example", "aud": []string{"parley"}, "exp": time.Now().Add(time.Hour).Unix()}
		change(claims)
		payload, err := json.Marshal(claims)
		require.NoError(t, err)
		headers := jws.NewHeaders()
		require.NoError(t, headers.Set(jws.KeyIDKey, "k1"))
		signed, err := jws.Sign(payload, jws.WithKey(jwa.ES256(), private, jws.WithProtectedHeaders(headers)))
		require.NoError(t, err)
		return string(signed)
	}
	status, body := p.as(token(func(map[string]any) {}), "POST", "/conversations", `{"agentId":"quick"}`)
	require.Equal(t, 201, status, body)
	require.Contains(t, body, `"userId":"alice"`)
	for text, change := range map[string]func(map[string]any){
		"Token expired":    func(c map[string]any) { c["exp"] = time.Now().Add(-time.Hour).Unix() },
		"Invalid issuer":   func(c map[string]any) { c["iss"] = "https://evil.example" },
		"Invalid audience": func(c map[string]any) { c["aud"] = "other" },
	} {
		status, body = p.as(token(change), "GET", "/agents", "")
		requireError(t, status, body, 401, "AUTH_REQUIRED", text)
	}
	good := token(func(map[string]any) {})
	status, body = p.as(good[:len(good)-6]+"AAAAAA", "GET", "/agents", "")
	requireError(t, status, body, 401, "AUTH_REQUIRED", "Invalid token")
	status, body = p.as("x", "GET", "/agents", "")
	requireError(t, status, body, 401, "AUTH_REQUIRED", "Invalid JWT format")
}

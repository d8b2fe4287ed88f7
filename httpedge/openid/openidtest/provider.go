// Package openidtest is an OpenID provider for tests: a real one, over HTTP, at which everybody is signed in already.
package openidtest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jws"
	"github.com/stretchr/testify/require"
)

// Client is who may ask, and what with.
const (
	Client = "parley"
	Secret = "a client's secret"
)

// Person is who signs in.
type Person struct {
	Subject, Email, Name string
	Verified             any
}

// Provider is an OpenID provider.
type Provider struct {
	Issuer string

	key *rsa.PrivateKey

	mu     sync.Mutex
	person Person
	tamper func(claims map[string]any, key **rsa.PrivateKey) // of the next id tokens
	codes  map[string]url.Values                             // what they were asked for with; each is taken once
	asked  int                                               // tokens
}

// New starts a provider.
func New(t *testing.T) *Provider {
	t.Helper()
	const bits = 2048
	key, err := rsa.GenerateKey(rand.Reader, bits)
	require.NoError(t, err)
	p := &Provider{key: key, codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, map[string]any{
			"issuer": p.Issuer, "authorization_endpoint": p.Issuer + "/authorize", "token_endpoint": p.Issuer + "/token", "jwks_uri": p.Issuer + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256"}, "token_endpoint_auth_methods_supported": []string{"client_secret_basic"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		public, err := jwk.Import(key.Public())
		if err != nil || public.Set("kid", "k1") != nil || public.Set("alg", "RS256") != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		write(w, http.StatusOK, map[string]any{"keys": []any{public}})
	})
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p.Issuer = server.URL
	return p
}

// Is says who signs in from now on, and what becomes of their id tokens; tamper may be nil.
func (p *Provider) Is(person Person, tamper func(claims map[string]any, key **rsa.PrivateKey)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.person, p.tamper = person, tamper
}

// Asked is how many tokens were asked for.
func (p *Provider) Asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// Visit is what a browser does that is sent to the provider: it returns the query with which it is sent back.
func (p *Provider) Visit(t *testing.T, address string) url.Values {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	require.NoError(t, err)
	response, err := client.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusFound, response.StatusCode)
	back, err := url.Parse(response.Header.Get("Location"))
	require.NoError(t, err)
	return back.Query()
}

func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Query()
	back, err := url.Parse(asked.Get("redirect_uri"))
	if err != nil || asked.Get("client_id") != Client || asked.Get("response_type") != "code" || asked.Get("code_challenge_method") != "S256" ||
		asked.Get("state") == "" || asked.Get("nonce") == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = asked
	p.mu.Unlock()
	back.RawQuery = url.Values{"code": {code}, "state": {asked.Get("state")}}.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	asked, known := p.codes[r.PostFormValue("code")]
	delete(p.codes, r.PostFormValue("code"))
	id, secret, _ := r.BasicAuth()
	secret, _ = url.QueryUnescape(secret)
	if id != Client || secret != Secret {
		write(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !known || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || r.PostFormValue("redirect_uri") != asked.Get("redirect_uri") {
		write(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	claims := map[string]any{
		"iss": p.Issuer, "aud": Client, "sub": p.person.Subject, "nonce": asked.Get("nonce"), "email": p.person.Email, "email_verified": p.person.Verified,
		"name": p.person.Name, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(),
	}
	key := p.key
	if p.tamper != nil {
		p.tamper(claims, &key)
	}
	signed, err := sign(claims, key)
	if err != nil {
		write(w, http.StatusInternalServerError, map[string]any{"error": fmt.Sprint(err)})
		return
	}
	write(w, http.StatusOK, map[string]any{"access_token": "access", "token_type": "Bearer", "id_token": signed})
}

func sign(claims map[string]any, key *rsa.PrivateKey) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	headers := jws.NewHeaders()
	if err = headers.Set("kid", "k1"); err != nil {
		return "", err
	}
	signed, err := jws.Sign(payload, jws.WithKey(jwa.RS256(), key, jws.WithProtectedHeaders(headers)))
	return string(signed), err
}

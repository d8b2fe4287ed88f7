package auth

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/stretchr/testify/require"

	"parley/actors/core/failure"
)

// published is one key of a set, as an identity provider shows it.
func published(tb testing.TB, key any, id string, extra claims) json.RawMessage {
	tb.Helper()
	imported, err := jwk.Import(key)
	require.NoError(tb, err)
	if id != "" {
		require.NoError(tb, imported.Set(jwk.KeyIDKey, id))
	}
	for name, value := range extra {
		require.NoError(tb, imported.Set(name, value))
	}
	text, err := json.Marshal(imported)
	require.NoError(tb, err)
	return text
}

func document(keys ...json.RawMessage) string {
	text, _ := json.Marshal(map[string]any{"keys": keys})
	return string(text)
}

// issuer is an identity provider that can change its keys and fall silent.
type issuer struct {
	answer  atomic.Pointer[func(http.ResponseWriter, *http.Request)]
	fetches atomic.Int64
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.fetches.Add(1)
	(*i.answer.Load())(w, r)
}

func (i *issuer) says(status int, body string) {
	answer := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
	i.answer.Store(&answer)
}

// RoundTrip lets the issuer answer without a socket, for tests in fake time.
func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	i.ServeHTTP(recorder, r)
	return recorder.Result(), nil
}

func startKeySet(t *testing.T, url string, transport http.RoundTripper, change func(*JWTConfig)) *JWT {
	t.Helper()
	config := DefaultJWTConfig()
	config.JWKSURL, config.CacheEntries = url, 0
	if change != nil {
		change(&config)
	}
	j, err := NewJWT(config, slog.New(slog.DiscardHandler), transport)
	require.NoError(t, err)
	j.Start()
	t.Cleanup(j.Stop)
	return j
}

func check(t *testing.T, j *JWT, token, text string) {
	t.Helper()
	user, err := j.Validate(t.Context(), token)
	if text == "" {
		require.NoError(t, err)
		require.Equal(t, "alice", user)
		return
	}
	if refused, is := errors.AsType[*failure.Failure](err); is {
		require.Equal(t, text, refused.DefaultText())
		return
	}
	require.EqualError(t, err, text)
}

func TestKeySetOverSockets(t *testing.T) {
	id := &issuer{}
	id.says(200, document(published(t, rsaKey().Public(), "k1", nil)))
	server := httptest.NewServer(id)
	defer server.Close()
	j := startKeySet(t, server.URL+"/keys", nil, func(c *JWTConfig) { c.MinRefresh = time.Nanosecond })
	body := claims{"sub": "alice"}
	check(t, j, sign(t, "RS256", rsaKey(), claims{"kid": "k1"}, body), "")
	check(t, j, sign(t, "RS256", rsaKey(), nil, body), "")
	check(t, j, sign(t, "RS256", otherRSA(), claims{"kid": "k1"}, body), "Invalid token")
	check(t, j, sign(t, "RS256", otherRSA(), claims{"kid": "k2"}, body), "Invalid token")

	id.says(200, document(published(t, otherRSA().Public(), "k2", nil)))
	check(t, j, sign(t, "RS256", otherRSA(), claims{"kid": "k2"}, body), "")
	check(t, j, sign(t, "RS256", rsaKey(), claims{"kid": "k1"}, body), "Invalid token")

	id.says(500, "")
	check(t, j, sign(t, "RS256", otherRSA(), claims{"kid": "k2"}, body), "")
}

func TestKeySetLife(t *testing.T) {
	one, two := rsaKey(), otherRSA() // made outside the bubble: they are shared
	synctest.Test(t, func(t *testing.T) {
		id := &issuer{}
		id.says(503, "")
		j := startKeySet(t, "https://id.example/keys", id, nil)
		body := claims{"sub": "alice"}
		first := sign(t, "RS256", one, claims{"kid": "k1"}, body)
		second := sign(t, "RS256", two, claims{"kid": "k2"}, body)
		check(t, j, first, errNoKeys.Error())

		// Comes up late: found by the retry, not only after a whole Refresh.
		id.says(200, document(published(t, one.Public(), "k1", nil)))
		time.Sleep(10 * time.Second)
		check(t, j, first, "")

		// Rotation: an unknown key id fetches at once, and a flood of them does not.
		time.Sleep(time.Minute)
		id.says(200, document(published(t, one.Public(), "k1", nil), published(t, two.Public(), "k2", nil)))
		before := id.fetches.Load()
		check(t, j, second, "")
		require.Equal(t, before+1, id.fetches.Load())
		for range 100 {
			check(t, j, sign(t, "RS256", two, claims{"kid": "made-up"}, body), "Invalid token")
		}
		require.Equal(t, before+1, id.fetches.Load())

		// A key that was withdrawn ends with the next regular fetch.
		id.says(200, document(published(t, two.Public(), "k2", nil)))
		time.Sleep(11 * time.Minute)
		check(t, j, first, "Invalid token")
		check(t, j, second, "")

		// Outage: the last good set serves, for a while.
		id.says(200, "<html>maintenance</html>")
		time.Sleep(23 * time.Hour)
		check(t, j, second, "")
		time.Sleep(2 * time.Hour)
		check(t, j, second, errNoKeys.Error())
		id.says(200, document(published(t, two.Public(), "k2", nil)))
		time.Sleep(11 * time.Minute)
		check(t, j, second, "")
		j.Stop()
	})
}

func TestKeySetWaitersShareOneFetch(t *testing.T) {
	one := rsaKey()
	synctest.Test(t, func(t *testing.T) {
		id := &issuer{}
		set := document(published(t, one.Public(), "k1", nil))
		slow := func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Second)
			_, _ = io.WriteString(w, set)
		}
		id.answer.Store(&slow)
		j := startKeySet(t, "https://id.example/keys", id, nil)
		token := sign(t, "RS256", one, claims{"kid": "k1"}, claims{"sub": "alice"})
		results := make(chan error, 50)
		for range cap(results) {
			go func() {
				_, err := j.Validate(t.Context(), token)
				results <- err
			}()
		}
		for range cap(results) {
			require.NoError(t, <-results)
		}
		require.EqualValues(t, 1, id.fetches.Load())

		impatient, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		time.Sleep(time.Minute)
		_, err := j.Validate(impatient, sign(t, "RS256", one, claims{"kid": "other"}, claims{"sub": "alice"}))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(2 * time.Second)
		j.Stop()
	})
}

func TestStopBeforeStartAndTwice(t *testing.T) {
	j, err := NewJWT(JWTConfig{JWKSURL: "https://id.example/keys"}, slog.New(slog.DiscardHandler), &issuer{})
	require.NoError(t, err)
	a := newAuthenticator(t, j, nil)
	a.Stop()
	a.Stop()
	a.Start() // after Stop: nothing begins
	_, err = j.Validate(t.Context(), sign(t, "RS256", rsaKey(), nil, claims{"sub": "a"}))
	require.ErrorIs(t, err, errNoKeys)
}

func TestFirstTokenStarts(t *testing.T) {
	id := &issuer{}
	id.says(200, document(published(t, rsaKey().Public(), "k1", nil)))
	config := DefaultJWTConfig()
	config.JWKSURL = "https://id.example/keys"
	j, err := NewJWT(config, slog.New(slog.DiscardHandler), id)
	require.NoError(t, err)
	defer j.Stop()
	check(t, j, sign(t, "RS256", rsaKey(), claims{"kid": "k1"}, claims{"sub": "alice"}), "")
	j.Start()
	require.EqualValues(t, 1, id.fetches.Load())
}

func TestKeySetDocuments(t *testing.T) {
	good := published(t, rsaKey().Public(), "k1", nil)
	many := make([]json.RawMessage, maxKeys+1)
	for i := range many {
		many[i] = good
	}
	for name, test := range map[string]struct {
		body string
		keys int // 0 = refused
	}{
		"one":             {document(good), 1},
		"bare_key":        {string(good), 0},
		"unknown_kind":    {document(json.RawMessage(`{"kty":"XYZ","kid":"x"}`), good), 1},
		"broken_key":      {document(json.RawMessage(`{"kty":"RSA","kid":"x","n":"!","e":"AQAB"}`), good), 1},
		"for_encryption":  {document(published(t, otherRSA().Public(), "e", claims{"use": "enc"}), good), 1},
		"other_algorithm": {document(published(t, otherRSA().Public(), "e", claims{"alg": "RS512"}), good), 1},
		"other_family":    {document(published(t, ecKey().Public(), "e", nil), good), 1},
		"secret":          {document(published(t, hmacSecret, "s", nil)), 0},
		"private":         {document(published(t, otherRSA(), "p", nil)), 0},
		"empty":           {document(), 0},
		"no_keys":         {`{}`, 0},
		"html":            {`<html>`, 0},
		"nothing":         {``, 0},
		"null":            {`null`, 0},
		"too_many":        {document(many...), 0},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := parseKeys([]byte(test.body), "RS256")
			if test.keys == 0 {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Len(t, set.all, test.keys)
			require.Contains(t, set.byID, "k1")
		})
	}
}

func TestKeySetFetchIsBounded(t *testing.T) {
	id := &issuer{}
	server := httptest.NewServer(id)
	defer server.Close()
	config := DefaultJWTConfig()
	config.JWKSURL, config.MaxKeySetBytes = server.URL, 4096
	s, err := newKeySet(config, slog.New(slog.DiscardHandler), nil)
	require.NoError(t, err)
	defer s.Stop()
	id.says(200, document(published(t, rsaKey().Public(), "k", nil))+strings.Repeat(" ", 5000))
	require.ErrorContains(t, s.fetch(), "larger than 4096 bytes")
	for _, target := range []string{"http://10.0.0.1/keys", "file:///etc/passwd"} {
		redirect := func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, http.StatusFound) }
		id.answer.Store(&redirect)
		require.ErrorContains(t, s.fetch(), "service URL")
	}
	loop := func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/again", http.StatusFound) }
	id.answer.Store(&loop)
	require.ErrorContains(t, s.fetch(), "too many redirects")
}

func FuzzParseKeys(f *testing.F) {
	f.Add([]byte(document(published(f, rsaKey().Public(), "k1", nil), published(f, ecKey().Public(), "k2", nil))))
	f.Add([]byte(`{"keys":[{"kty":"oct","k":"AAAA"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, algorithm := range []string{"RS256", "ES256", "EdDSA"} {
			set, err := parseKeys(body, algorithm)
			if err != nil {
				continue
			}
			for _, key := range set.all {
				require.NoError(t, Fits(algorithm, key))
			}
		}
	})
}

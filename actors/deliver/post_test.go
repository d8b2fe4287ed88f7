package deliver_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/deliver"
)

func TestSign(t *testing.T) {
	t.Parallel()
	mac := hmac.New(sha256.New, []byte("whsec_test"))
	mac.Write([]byte(`1700000000.{"a":1}`))
	require.Equal(t, "t=1700000000,v1="+hex.EncodeToString(mac.Sum(nil)),
		deliver.Sign("whsec_test", []byte(`{"a":1}`), time.UnixMilli(1_700_000_000_999)))
	// Made with another implementation: printf '1700000000.{}' | openssl dgst -sha256 -hmac whsec_test
	require.Equal(t, "t=1700000000,v1=35495024f4ef3f94e5a93e22221544c4b75e9a42300cd965ab81cb85cd994e91", deliver.Sign("whsec_test", []byte("{}"), time.Unix(1_700_000_000, 0)))
}

func poster(t *testing.T, config deliver.PosterConfig, servers ...*httptest.Server) *deliver.Poster {
	t.Helper()
	var hosts []string
	for _, server := range servers {
		hosts = append(hosts, hostOf(t, server))
	}
	config.Guard = deliver.NewGuard(deliver.GuardConfig{AllowHosts: hosts})
	t.Cleanup(config.Guard.Close)
	config.Now = func() time.Time { return time.Unix(1_700_000_000, 0) }
	made, err := deliver.NewPoster(config)
	require.NoError(t, err)
	return made
}

func TestPost(t *testing.T) {
	t.Parallel()
	var header http.Header
	var body []byte
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte(`{"ok":true}`))
	})
	answer, err := poster(t, deliver.PosterConfig{}, server).Post(t.Context(), deliver.Post{
		URL: server.URL, Body: []byte(`{"x":1}`), Secret: "s", Header: map[string]string{"X-Event": "e"},
	})
	require.NoError(t, err)
	require.True(t, answer.OK())
	require.Equal(t, &deliver.Answer{Status: 202, Body: []byte(`{"ok":true}`)}, answer)
	require.Equal(t, deliver.Sign("s", body, time.Unix(1_700_000_000, 0)), header.Get(deliver.SignatureHeader))
	require.Equal(t, "application/json", header.Get("Content-Type"))
	require.Equal(t, "e", header.Get("X-Event"))
	require.JSONEq(t, `{"x":1}`, string(body))
}

func TestPostUnsigned(t *testing.T) {
	t.Parallel()
	var signed bool
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		signed = r.Header.Get(deliver.SignatureHeader) != ""
		w.WriteHeader(http.StatusInternalServerError)
	})
	answer, err := poster(t, deliver.PosterConfig{}, server).Post(t.Context(), deliver.Post{URL: server.URL, Body: []byte("{}")})
	require.NoError(t, err)
	require.False(t, signed)
	require.False(t, answer.OK())
}

func TestPostBounds(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			select {
			case <-r.Context().Done():
			case <-release:
			}
			return
		}
		_, _ = w.Write([]byte(strings.Repeat("x", 100_000)))
	})
	post := poster(t, deliver.PosterConfig{MaxAnswer: 1000}, server)
	answer, err := post.Post(t.Context(), deliver.Post{URL: server.URL})
	require.NoError(t, err)
	require.True(t, answer.Cut)
	require.Len(t, answer.Body, 1000)

	impatient := poster(t, deliver.PosterConfig{Timeout: 50 * time.Millisecond}, server)
	_, err = impatient.Post(t.Context(), deliver.Post{URL: server.URL + "/slow?token=secret"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotContains(t, err.Error(), "secret")

	_, err = poster(t, deliver.PosterConfig{}).Post(t.Context(), deliver.Post{URL: server.URL + "/?token=secret"})
	require.ErrorIs(t, err, deliver.ErrForbiddenAddress)
	require.NotContains(t, err.Error(), "secret")
}

func TestPostRedirects(t *testing.T) {
	t.Parallel()
	var got []string
	end := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+string(body)+" "+r.Header.Get(deliver.SignatureHeader))
	})
	for _, status := range []int{301, 302, 303} {
		start := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, end.URL, status) })
		_, err := poster(t, deliver.PosterConfig{}, start, end).Post(t.Context(), deliver.Post{URL: start.URL, Body: []byte("{}"), Secret: "s"})
		require.ErrorIs(t, err, deliver.ErrRedirect, status)
	}
	require.Empty(t, got)
	start := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, end.URL, http.StatusPermanentRedirect)
	})
	_, err := poster(t, deliver.PosterConfig{}, start, end).Post(t.Context(), deliver.Post{URL: start.URL, Body: []byte("{}"), Secret: "s"})
	require.NoError(t, err)
	require.Equal(t, []string{"POST {} "}, got) // the signature is for the host that was named
}

func FuzzCheckURL(f *testing.F) {
	for _, seed := range []string{"http://a", "https://a:1/x?y", "", "//a", "http:///x", "http://u:p@a", "javascript:x", "http://[::1", "HTTP://a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if deliver.CheckURL(text) != nil {
			return
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, text, nil)
		if err == nil {
			require.NotEmpty(t, request.URL.Hostname())
			require.Contains(t, []string{"http", "https"}, request.URL.Scheme)
			require.Nil(t, request.URL.User)
		}
	})
}

func TestCheckURL(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		"http://a": true, "https://a:1/x?y": true, "HTTP://a": true, "": false, "//a": false, "http:///x": false, "http://u:p@a": false,
		"http://u@a": false, "javascript:x": false, "http://[::1": false, "a/b": false, "ftp://a": false, "http://:80": false,
	} {
		require.Equal(t, good, deliver.CheckURL(text) == nil, text)
	}
}

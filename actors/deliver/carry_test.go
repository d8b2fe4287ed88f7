package deliver_test

import (
	"io"
	"net/http"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/deliver"
)

// What signs and names a post goes along with a redirect to another host only where that is wanted; nothing else does.
func TestCarry(t *testing.T) {
	t.Parallel()
	for _, carry := range []bool{false, true} {
		var last http.Header
		end := serve(t, func(_ http.ResponseWriter, r *http.Request) { last = r.Header.Clone() })
		start := serve(t, http.RedirectHandler(end.URL, http.StatusPermanentRedirect).ServeHTTP)
		guard := deliver.NewGuard(deliver.GuardConfig{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
		t.Cleanup(guard.Close)
		poster, err := deliver.NewPoster(deliver.PosterConfig{Guard: guard, Carry: carry})
		require.NoError(t, err)
		answer, err := poster.Post(t.Context(), deliver.Post{
			URL: start.URL, Body: []byte("{}"), Secret: "s", Header: map[string]string{"X-Service-Event": "e", "X-Key": "k"},
		})
		require.NoError(t, err)
		require.True(t, answer.OK())
		require.Equal(t, carry, last.Get(deliver.SignatureHeader) != "")
		require.Equal(t, carry, last.Get("X-Service-Event") == "e")
		require.Empty(t, last.Get("X-Key"))
	}
}

// A post that may move is the same post wherever it ends, unless the other side wants something else to be fetched.
func TestPostThatMoves(t *testing.T) {
	t.Parallel()
	for status, moves := range map[int]bool{301: true, 302: true, 303: false, 307: true, 308: true} {
		var got []string
		end := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body) // one that is cut is another
			got = append(got, r.Method, r.Header.Get("Content-Type"), string(body))
		})
		middle := serve(t, http.RedirectHandler(end.URL, status).ServeHTTP)
		start := serve(t, http.RedirectHandler(middle.URL, status).ServeHTTP)
		guard := deliver.NewGuard(deliver.GuardConfig{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
		t.Cleanup(guard.Close)
		poster, err := deliver.NewPoster(deliver.PosterConfig{Guard: guard, Carry: true})
		require.NoError(t, err)
		answer, err := poster.Post(t.Context(), deliver.Post{URL: start.URL, Body: []byte(`{"a":1}`)})
		if !moves {
			require.ErrorIs(t, err, deliver.ErrRedirect)
			require.Empty(t, got)
			continue
		}
		require.NoError(t, err)
		require.True(t, answer.OK())
		require.Equal(t, []string{"POST", "application/json", `{"a":1}`}, got, status)
	}
}

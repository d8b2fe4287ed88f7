package deliver

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// https to http is refused; the other way is not, and is the same host.
func TestDowngrade(t *testing.T) {
	t.Parallel()
	guard := NewGuard(GuardConfig{})
	hop := func(target string) *http.Request {
		return httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	}
	require.ErrorIs(t, guard.redirect(hop("http://a.example/"), []*http.Request{hop("https://a.example/")}), ErrRedirect)
	up := hop("https://a.example/")
	up.Header.Set("X-Key", "1")
	require.NoError(t, guard.redirect(up, []*http.Request{hop("http://a.example/")}))
	require.Equal(t, "1", up.Header.Get("X-Key"))
	other := hop("https://a.example:444/")
	other.Header.Set("X-Key", "1")
	require.NoError(t, guard.redirect(other, []*http.Request{hop("https://a.example/")}))
	require.Empty(t, other.Header.Get("X-Key"))
}

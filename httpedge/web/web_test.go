package web

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFiles(t *testing.T) {
	site, err := Files(`/api/"agents"`)
	require.NoError(t, err)
	index, err := fs.ReadFile(site, "index.html")
	require.NoError(t, err)
	require.Contains(t, string(index), `content="/api/&#34;agents&#34;"`)
	require.NotContains(t, string(index), basePathMark)
	for _, name := range []string{"app.js", "stream.js", "style.css", "icon.svg"} {
		text, unread := fs.ReadFile(site, name)
		require.NoError(t, unread)
		require.NotEmpty(t, text)
		// The page must work with no network, and under a policy that allows no inline script.
		require.NotContains(t, strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", ""), "://", name)
	}
	require.NotContains(t, string(index), "<script>")
	require.NotContains(t, string(index), "style=")
	_, err = fs.ReadFile(site, "absent")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

package deliver

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestHeadOf(t *testing.T) {
	head := func(header http.Header) string {
		return headOf(&http.Response{Proto: "HTTP/1.1", Status: "410 Gone", Header: header})
	}
	require.Equal(t, "HTTP/1.1 410 Gone", head(nil))
	require.Equal(t, "HTTP/1.1 410 Gone\nServer: a\nSet-Cookie: [hidden]\nX-Api-Key: [hidden]",
		head(http.Header{"Set-Cookie": {"sid=1"}, "Server": {"a"}, "X-Api-Key": {"k"}}))
	require.Equal(t, "HTTP/1.1 410 Gone\nX: ab", head(http.Header{"X": {"a\x00\xff\x7fb"}}))
	long := head(http.Header{"X": {strings.Repeat("ü", 40_000)}})
	require.LessOrEqual(t, len(long), maxHead+len("…"))
	require.True(t, utf8.ValidString(long))
}

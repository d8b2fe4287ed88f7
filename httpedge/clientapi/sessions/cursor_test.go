package sessions

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
)

func TestCursor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		caller := endpoint.Caller{TenantID: "t", ProjectID: "p"}
		cursor := &conversationpb.SessionCursor{
			CreatedAt: rapid.Int64().Draw(t, "time"), Id: rapid.StringMatching(`conv_[0-9a-zA-Z_-]{21}`).Draw(t, "id"),
		}
		text := cursorText(caller, cursor)
		got, failure := parseCursor(caller, text)
		require.Nil(t, failure)
		require.Equal(t, cursor, got)
		_, failure = parseCursor(endpoint.Caller{TenantID: "t", ProjectID: "q"}, text)
		require.NotNil(t, failure, "of another project")
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		bent := text[:at] + string(rapid.SampledFrom([]byte("ABCxyz019-_~ ")).Draw(t, "with")) + text[at+1:]
		if got, failure = parseCursor(caller, bent); failure == nil {
			require.Equal(t, cursor, got, "only bits that base64 does not use may differ")
		}
	})
	got, failure := parseCursor(endpoint.Caller{}, "")
	require.Nil(t, got)
	require.Nil(t, failure)
	_, failure = parseCursor(endpoint.Caller{}, strings.Repeat("A", 300))
	require.NotNil(t, failure)
}

package provider

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLearnedIsBounded(t *testing.T) {
	var n Learned
	for i := range 2 * maxLearned {
		url := strconv.Itoa(i)
		n.Note(url, true)
		require.True(t, n.Has(url))
	}
	require.Len(t, n.known, maxLearned)
	n.Note("none of them", false)
	require.Len(t, n.known, maxLearned)
}

// TestRefuses: only what is refused whatever its value is left out.
func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		document, name string
		refused        bool
	}{
		{`{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens","code":"unsupported_parameter"}}`, "max_tokens", true},
		{`{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens","code":"unsupported_parameter"}}`, "max_completion_tokens", false},
		{`{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}`, "stream_options", true},
		{`{"error":{"message":"Unrecognized request argument supplied: max_completion_tokens"}}`, "max_completion_tokens", true},
		{`{"object":"error","message":"[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), 'msg': 'Extra inputs are not permitted'}]","code":400}`, "stream_options", true},
		{`unknown field "stream_options"`, "stream_options", true},
		{`{"error":{"message":"max_tokens is too large: 200000. This model supports at most 16384 completion tokens","param":"max_tokens","code":"invalid_value"}}`, "max_tokens", false},
		{`{"error":{"message":"temperature is not supported"}}`, "max_tokens", false},
	} {
		require.Equal(t, c.refused, Refuses(Complaint(400, []byte(c.document), Redactor{}), c.name), c.document)
		require.False(t, Refuses(fmt.Errorf("x: %w", Complaint(500, []byte(c.document), Redactor{})), c.name))
	}
}

package model

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/provider"
)

func TestKindsInMidStream(t *testing.T) {
	calls := newCaller(DefaultConfig())
	for kind, code := range map[string]string{
		"overloaded_error": CodeOverloaded, "rate_limit_error": CodeRateLimited, "rate_limit_exceeded": CodeRateLimited,
		"insufficient_quota": CodeRateLimited, "authentication_error": CodeAuthentication, "permission_error": CodeAuthentication,
		"invalid_api_key": CodeAuthentication, "timeout_error": CodeProviderTimeout, "invalid_request_error": CodeInvalidRequest,
		"invalid_prompt": CodeInvalidRequest, "not_found_error": CodeInvalidRequest, "context_length_exceeded": CodeInvalidRequest,
		"server_error": CodeProviderError, "api_error": CodeProviderError, "": CodeProviderError,
	} {
		document, err := json.Marshal(map[string]any{"error": map[string]string{"type": kind, "message": "words"}})
		require.NoError(t, err)
		worded := calls.worded(provider.Complaint(0, document, provider.Redactor{}), &call{})
		require.Equal(t, code, worded.Code, kind)
		require.Contains(t, worded.Message, "reported an error in mid-stream")
	}
}

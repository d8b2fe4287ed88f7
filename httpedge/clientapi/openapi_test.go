package clientapi_test

import (
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"parley/httpedge/clientapi"
	"parley/httpedge/gateway"
)

// TestOneDocument: the document holds every route of the surface and the gateway's, each operation under a name of its own.
func TestOneDocument(t *testing.T) {
	models := gateway.New(gateway.DefaultConfig(), nil, nil).Surface()
	routes := clientapi.New(clientapi.DefaultConfig(), clientapi.Parts{}).Surface().Routes
	document, err := openapi3.NewLoader().LoadFromData(clientapi.Document(clientapi.DefaultConfig(), routes, models))
	require.NoError(t, err)
	require.NoError(t, document.Validate(t.Context()))
	named := map[string]bool{}
	for _, route := range append(routes, models.Routes...) {
		if route.Hidden {
			continue
		}
		operation := document.Paths.Find(route.Path).GetOperation(route.Method)
		require.NotNil(t, operation, "%s %s", route.Method, route.Path)
		require.False(t, named[operation.OperationID], "two operations are called %s", operation.OperationID)
		named[operation.OperationID] = true
	}
	chat := document.Paths.Find("/chat/completions").Post.Responses
	refused := chat.Value("401").Value.Content.Get("application/json").Schema
	require.Equal(t, "#/components/schemas/GatewayError", refused.Ref, "its errors look otherwise")
	require.NoError(t, refused.Value.VisitJSON(map[string]any{
		"error": map[string]any{"message": "Invalid API token", "type": "invalid_request_error", "code": "invalid_api_key", "param": nil},
	}))
	require.Equal(t, "invalid_api_key", *chat.Value("401").Value.Description, "and have codes of their own")
	require.Equal(t, "idempotency_conflict", *document.Paths.Find("/agents/sessions").Post.Responses.Value("409").Value.Description)

	told := document.Paths.Find("/tracing/sessions/stream/{sessionId}/events").Post.Responses.Value("200").Value.Content.Get("application/json").Schema
	require.NoError(t, told.Value.VisitJSON(map[string]any{"success": true, "sessionId": "s", "eventId": "e", "totalEvents": 1.0}), "not an event of a session's log, which has the name")
	require.Equal(t, "conflict, idempotency_conflict", *chat.Value("409").Value.Description)
	for _, path := range []string{"/chat/completions", "/embeddings"} {
		for _, status := range []string{"408", "409", "422", "502", "504"} { // as document 3, 10.4 has it of providers
			require.NotNil(t, document.Paths.Find(path).Post.Responses.Value(status), "%s %s", path, status)
		}
	}
}

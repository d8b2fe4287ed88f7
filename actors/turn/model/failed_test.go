package model

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnthropicFailedTool(t *testing.T) {
	raw, err := json.Marshal(anthropicResult(&Message{Role: ToolRole, ToolID: "c1", Content: "error: no", Failed: true}))
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"tool_result","tool_use_id":"c1","is_error":true,"content":[{"type":"text","text":"error: no"}]}`, string(raw))
}

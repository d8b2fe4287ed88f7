package turn

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/turn/model"
	"parley/proto/agentpb"
)

// painter is an MCP server with one tool, whose results are pictures.
func painter(t *testing.T, pictures int) *agentpb.MCP {
	t.Helper()
	pixel := "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	var content []any
	for range pictures {
		content = append(content, map[string]string{"type": "image", "mimeType": "image/png", "data": pixel})
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		_ = json.NewDecoder(r.Body).Decode(&asked)
		result, known := map[string]any{
			"initialize": map[string]any{
				"protocolVersion": "2025-11-25", "capabilities": map[string]any{"tools": map[string]any{}},
				"serverInfo": map[string]string{"name": "p", "version": "1"},
			},
			"tools/list": map[string]any{"tools": []any{map[string]any{"name": "paint", "inputSchema": map[string]string{"type": "object"}}}},
			"tools/call": map[string]any{"content": content},
		}[asked.Method]
		if asked.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		answer := map[string]any{"jsonrpc": "2.0", "id": asked.ID}
		if answer["result"] = result; !known {
			delete(answer, "result")
			answer["error"] = map[string]any{"code": -32601, "message": "unknown"}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	_, err := base64.StdEncoding.DecodeString(pixel)
	require.NoError(t, err)
	return &agentpb.MCP{Name: "p", Url: server.URL, ConnectTimeoutMs: 60_000}
}

// TestImagesOfTools: a model that takes images is shown those of results, as many as it may have; another one is told of them.
func TestImagesOfTools(t *testing.T) {
	for _, row := range []struct {
		accepts       bool
		calls, images int
		last          string
	}{
		{true, 1, 3, "(an image, image/png, 70 bytes)\n(an image, image/png, 70 bytes)\n(an image, image/png, 70 bytes)"},
		{true, 3, maxImages, "(an image, image/png, 70 bytes)\n(an image, image/png, 70 bytes)\n(an image, image/png, 70 bytes)" +
			"\n[not all images are shown: there are too many in this turn]"},
		{false, 1, 0, "(an image, image/png, 70 bytes)\n(an image, image/png, 70 bytes)\n(an image, image/png, 70 bytes)" +
			"\n[images are not shown to this model]"},
	} {
		t.Run(fmt.Sprint(row.accepts, row.calls), func(t *testing.T) {
			var rounds []func(model.Stream) (*model.Answer, error)
			for number := range row.calls {
				rounds = append(rounds, asks("", fmt.Sprintf(`c%d p_paint {}`, number)))
			}
			b := newBench(t, append(rounds, says("Nice."))...)
			b.agent.Servers = []*agentpb.MCP{painter(t, 3)}
			b.agent.Capabilities = &agentpb.Capabilities{Attachments: &agentpb.Attachments{AcceptsImages: row.accepts}}
			b.whole(t)
			var images int
			var last string
			for _, message := range b.talks.last().Messages {
				images += len(message.Images)
				if message.Role == model.ToolRole {
					last = message.Content
				}
				if len(message.Images) > 0 {
					require.Equal(t, []any{model.User, imagesOfResults}, []any{message.Role, message.Content})
				}
			}
			require.Equal(t, row.images, images)
			require.Equal(t, row.last, last)
			b.Drain(t.Context())
			require.Zero(t, b.images.Load())
		})
	}
}

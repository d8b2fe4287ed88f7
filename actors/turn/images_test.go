package turn

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
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

// album keeps images, as a cabinet with a lock.
type album struct {
	mu     sync.Mutex
	kept   cabinet
	number int
	broken bool
}

func (a *album) Keep(_ context.Context, job *Job, mimeType string, data []byte) (*conversationpb.FileRef, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.broken {
		return nil, errDisk
	}
	a.number++
	id := fmt.Sprint(job.ConversationID, "/", a.number)
	a.kept[id] = string(data)
	return &conversationpb.FileRef{Id: id, MimeType: mimeType, Size: int64(len(data))}, nil
}

func (a *album) Drop(_ context.Context, id string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.kept, id)
	return nil
}

func (a *album) Open(ctx context.Context, id string) (io.ReadCloser, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.kept.Open(ctx, id)
}

// TestImagesOfToolsSurviveAPause: a turn that waits for a person goes on elsewhere with the images, and keeps none of them in the end.
// Without a place for them it goes on with what is said of them.
func TestImagesOfToolsSurviveAPause(t *testing.T) {
	for _, broken := range []bool{false, true} {
		store := &album{kept: cabinet{}, broken: broken}
		change := func(c *Config) { c.Files, c.Images = store, store }
		b := newBench(t, asks("", `c1 p_paint {}`), asks("", `c2 pay {}`), says("Nice."))
		b.agent.Servers = []*agentpb.MCP{painter(t, 2)}
		b.agent.Capabilities = &agentpb.Capabilities{Attachments: &agentpb.Attachments{AcceptsImages: true}}
		b.renew(t, change)
		b.untilPause(t)
		want := map[bool]int{false: 2, true: 0}[broken]
		require.Len(t, store.kept, want)
		require.Zero(t, b.images.Load(), "a turn that waits holds no memory")
		b.book.decide("c2", nil, "")
		b.renew(t, change)
		b.whole(t)
		var shown []model.Image
		for _, message := range b.talks.last().Messages {
			shown = append(shown, message.Images...)
		}
		require.Len(t, shown, want)
		for _, image := range shown {
			require.Equal(t, "image/png", image.MIME)
			require.Len(t, image.Data, 70)
		}
		b.Drain(t.Context())
		require.Empty(t, store.kept)
		require.Zero(t, b.images.Load())
	}
}

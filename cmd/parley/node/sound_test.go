package node

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/cmd/parley/config"
)

// heap is the most that was seen in use.
type heap struct {
	mu   sync.Mutex
	idle uint64
	most uint64
}

func newHeap() *heap {
	goruntime.GC() // what was before is not looked at
	var stats goruntime.MemStats
	goruntime.ReadMemStats(&stats)
	return &heap{idle: stats.HeapAlloc, most: stats.HeapAlloc}
}

func (h *heap) look() {
	var stats goruntime.MemStats
	goruntime.ReadMemStats(&stats)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.most = max(h.most, stats.HeapAlloc)
}

// watched is a reader during which the heap is looked at every megabyte.
type watched struct {
	from io.Reader
	heap *heap
	read int
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.from.Read(p)
	if before := w.read >> 20; (w.read+n)>>20 > before {
		w.heap.look()
	}
	w.read += n
	return n, err
}

// zeros is a recording without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// base64Zeros is the same in base64.
type base64Zeros struct{}

func (base64Zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'A'
	}
	return len(p), nil
}

// TestLargeRecordingsAreNotInMemory: 100 MB as a form and as base64, to a provider that fails at first: client, server and provider
// together hold less than 20 MB at any megabyte that is sent or received, and nothing is left on disk.
func TestLargeRecordingsAreNotInMemory(t *testing.T) {
	const size, most = 100_000_000, 20 << 20
	var look *heap
	attempts := 0
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		attempts++
		read, _ := io.Copy(io.Discard, &watched{from: r.Body, heap: look})
		w.Header().Set("Content-Type", "application/json")
		if attempts%2 == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if read < size {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, `{"text":"nothing"}`)
	}))
	t.Cleanup(provider.Close)
	c := aloneConfig(t)
	c.Outbound.Allow = []string{"127.0.0.0/8"}
	c.BootstrapToken = config.Secret("tok_" + strings.Repeat("e", 40))
	n, err := startAlone(t, c)
	require.NoError(t, err)
	root := "http://" + n.Addr().String() + "/api/client/v1"
	client := &http.Client{Transport: &http.Transport{}, Timeout: 5 * time.Minute}
	t.Cleanup(client.CloseIdleConnections)
	post := func(path, contentType string, body io.Reader) (int, string) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, root+path, body)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+c.BootstrapToken.Reveal())
		request.Header.Set("Content-Type", contentType)
		response, err := client.Do(request)
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		raw, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(raw)
	}
	for path, body := range map[string]any{
		"/models/providers": map[string]any{"key": "p", "driver": "openai", "settings": map[string]any{"baseUrl": provider.URL + "/v1"}},
	} {
		raw, _ := json.Marshal(body)
		status, text := post(path, "application/json", bytes.NewReader(raw))
		require.Equal(t, 201, status, text)
	}
	status, text := post("/models", "application/json", strings.NewReader(
		`{"key":"stt","name":"STT","providerKey":"p","category":"stt","modelId":"m","pricing":{},"settings":{}}`))
	require.Equal(t, 201, status, text)

	const head = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.mp3\"\r\n\r\n"
	const tail = "\r\n--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nstt\r\n--b--\r\n"
	for _, c := range []struct {
		name, contentType string
		body              func() io.Reader
	}{
		{"form", "multipart/form-data; boundary=b", func() io.Reader {
			return io.MultiReader(strings.NewReader(head), io.LimitReader(zeros{}, size), strings.NewReader(tail))
		}},
		{"base64", "application/json", func() io.Reader {
			return io.MultiReader(strings.NewReader(`{"audio":{"data":"`),
				io.LimitReader(base64Zeros{}, int64(base64.RawStdEncoding.EncodedLen(size))), strings.NewReader(`"},"model":"stt"}`))
		}},
	} {
		look = newHeap()
		status, text = post("/audio/transcriptions", c.contentType, &watched{from: c.body(), heap: look})
		require.Equal(t, 200, status, text)
		require.Contains(t, text, `"text":"nothing"`)
		t.Logf("%s: %d bytes of heap above idle at most", c.name, look.most-look.idle)
		require.Less(t, look.most-look.idle, uint64(most), c.name)
		left, err := os.ReadDir(filepath.Join(n.config.DataDir, uploadsFolder))
		require.NoError(t, err)
		require.Empty(t, left)
	}
	require.Equal(t, 4, attempts)
	status, text = post("/audio/transcriptions", "multipart/form-data; boundary=b",
		io.MultiReader(strings.NewReader(head), io.LimitReader(zeros{}, 105_000_000), strings.NewReader(tail)))
	require.Equal(t, 413, status, text)
}

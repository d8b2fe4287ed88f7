package main

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// deathAgents is an agent whose model is a server of the test.
const deathAgents = `
shutdown_grace: 1s
outbound: {allow: [127.0.0.0/8]}
agents:
  - id: odd
    model: {provider: openai, name: standin, base_url: "%s", api_key: none}
    capabilities: {attachments: {enabled: true}}
`

// oddModel answers "fine". While it hangs it answers nothing, and tells of each call.
type oddModel struct {
	*httptest.Server
	asked chan string // bodies of the calls that hang
	hangs atomic.Bool
	last  atomic.Pointer[string] // body of the newest call that was answered
}

func newOddModel(t *testing.T) *oddModel {
	t.Helper()
	m := &oddModel{asked: make(chan string, 16)}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body) // a body that breaks off is a process that died
		body := string(raw)
		if m.hangs.Load() {
			m.asked <- body
			<-r.Context().Done()
			return
		}
		m.last.Store(&body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"fine"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(m.CloseClientConnections)
	t.Cleanup(m.Close)
	return m
}

// call waits for a call that hangs.
func (m *oddModel) call(t *testing.T) string {
	t.Helper()
	t.Helper()
	select {
	case body := <-m.asked:
		return body
	case <-time.After(time.Minute):
		require.Fail(t, "the model is not asked")
		return ""
	}
}

// lastIdle waits until a conversation is idle, and returns the newest event that says so.
func lastIdle(t *testing.T, p *process, id string) (stopReason, code string) {
	t.Helper()
	t.Helper()
	var events []wireEvent
	require.Eventually(t, func() bool {
		events = p.events(id)
		return events[len(events)-1].Type == "session.status_idle"
	}, time.Minute, 10*time.Millisecond)
	var data struct {
		StopReason string `json:"stop_reason"`
		Error      struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	require.NoError(t, json.Unmarshal(events[len(events)-1].Data, &data))
	return data.StopReason, data.Error.Code
}

// TestTurnThatKillsItsProcess: a process that dies whenever a turn has begun is started again twice; the third one ends the
// turn as an error without trying it, and the conversation goes on.
func TestTurnThatKillsItsProcess(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the binary and runs processes")
	}
	m := newOddModel(t)
	p := newProcess(t, fmt.Sprintf(deathAgents, m.URL))
	p.start()
	id := p.create("odd")
	m.hangs.Store(true)
	p.open("POST", "/conversations/"+id+"/messages", map[string]any{"message": "poison", "stream": true}, "")
	for range 2 {
		require.Contains(t, m.call(t), "poison")
		p.kill()
		p.start()
	}
	stopReason, code := lastIdle(t, p, id)
	require.Equal(t, "error", stopReason)
	require.Equal(t, "interrupted", code)
	require.Empty(t, m.asked, "no third attempt")
	m.hangs.Store(false)
	require.Equal(t, "end_turn", p.send(id, "and now?").StopReason)
	require.NoError(t, p.terminate())
	p.start()
	stopReason, _ = lastIdle(t, p, id)
	require.Equal(t, "end_turn", stopReason)
}

// TestTurnOutlivesRestarts: a stop that a turn outlives is none of the deaths for which it is given up.
func TestTurnOutlivesRestarts(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the binary and runs processes")
	}
	m := newOddModel(t)
	p := newProcess(t, fmt.Sprintf(deathAgents, m.URL))
	p.start()
	id := p.create("odd")
	m.hangs.Store(true)
	p.open("POST", "/conversations/"+id+"/messages", map[string]any{"message": "patience", "stream": true}, "")
	for range 3 {
		require.Contains(t, m.call(t), "patience")
		require.NoError(t, p.terminate())
		p.start()
	}
	require.Contains(t, m.call(t), "patience")
	m.hangs.Store(false)
	p.kill()
	p.start()
	stopReason, _ := lastIdle(t, p, id)
	require.Equal(t, "end_turn", stopReason, "one death is not too many")
}

// wordBomb is a document of 33 KB with an element of 32 MiB, of which a parser makes attributes of gigabytes.
func wordBomb(t *testing.T) []byte {
	t.Helper()
	var packed bytes.Buffer
	writer := zip.NewWriter(&packed)
	for name, content := range map[string]string{
		"[Content_Types].xml": `<Types><Override ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>`,
		"word/document.xml":   "<a" + strings.Repeat(" a", 16<<20-100) + ">",
	} {
		part, err := writer.Create(name)
		require.NoError(t, err)
		_, err = io.WriteString(part, content)
		require.NoError(t, err)
	}
	require.NoError(t, writer.Close())
	require.Less(t, packed.Len(), 34<<10)
	return packed.Bytes()
}

// highWater is the most memory that a process has had, in bytes.
func highWater(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		if size, found := strings.CutPrefix(line, "VmHWM:"); found {
			kilobytes, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(size), " kB"))
			require.NoError(t, err)
			return kilobytes << 10
		}
	}
	require.Fail(t, "no high-water mark")
	return 0
}

// TestDocumentBombs: several hostile documents at once cost the node next to nothing, and their models are told that they
// could not be read.
func TestDocumentBombs(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the binary and runs processes")
	}
	m := newOddModel(t)
	p := newProcess(t, fmt.Sprintf(deathAgents, m.URL))
	p.start()
	bomb := base64.StdEncoding.EncodeToString(wordBomb(t))
	var senders sync.WaitGroup
	for range 4 {
		id := p.create("odd")
		senders.Go(func() {
			status, text := p.try("POST", p.url("/conversations/"+id+"/messages"), map[string]any{
				"message": "read this",
				"files": []any{map[string]string{
					"name": "bomb.docx", "content": bomb, "mimeType": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
				}},
			})
			if status != http.StatusOK || !strings.Contains(string(text), `"end_turn"`) {
				t.Errorf("%d: %s", status, text)
			}
		})
	}
	senders.Wait()
	asked := m.last.Load()
	require.NotNil(t, asked)
	require.Contains(t, *asked, "it could not be read: it is damaged, protected or too large")
	require.Contains(t, p.log.String(), "a document cannot be read")
	require.Less(t, highWater(t, p.command.Process.Pid), 400<<20)
	require.NoError(t, p.terminate())
}

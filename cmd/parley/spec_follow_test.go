package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stream is an open event stream, read byte by byte.
type stream struct {
	t      *testing.T
	header http.Header
	lines  *bufio.Reader
	cancel context.CancelFunc
	held   []string // read ahead by peek
	pings  bool     // they are wanted; they come at any time
}

// frame is one frame with data.
type frame struct {
	raw, id, event string
	data           tree
}

// follow sends a request that must answer with a stream. headers as in ask.
func (p *process) follow(t *testing.T, method, path string, body any, headers ...string) *stream {
	t.Helper()
	request := p.newRequest(t, method, path, body, headers)
	ctx, cancel := context.WithCancel(request.Context())
	t.Cleanup(cancel)
	connections := &http.Transport{} // of its own: a stream may end its connection
	t.Cleanup(connections.CloseIdleConnections)
	response, err := (&http.Client{Transport: connections}).Do(request.WithContext(ctx))
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() }) // the end of the test is the end of the stream
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body) // it fails anyway
		require.Failf(t, "no stream", "%s %s: %d %s", method, path, response.StatusCode, text)
	}
	for name, value := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff",
	} {
		require.Equal(t, value, response.Header.Get(name), name)
	}
	require.NotEmpty(t, response.Header.Get("X-Request-Id"))
	require.NotEmpty(t, response.Header.Get("X-Served-By"))
	return &stream{t: t, header: response.Header, lines: bufio.NewReader(response.Body), cancel: cancel}
}

// block returns the next frame or comment, but for pings, as it came, without the empty line that ends it; "" at the end of the stream.
func (s *stream) block() string {
	s.t.Helper()
	if len(s.held) > 0 {
		first := s.held[0]
		s.held = s.held[1:]
		return first
	}
	timer := time.AfterFunc(time.Minute, s.cancel)
	defer timer.Stop()
	var block strings.Builder
	for {
		line, err := s.lines.ReadString('\n')
		if err == io.EOF && line == "" && block.Len() == 0 { // io.EOF itself is a clean end
			return ""
		}
		require.NoErrorf(s.t, err, "stream broke off after %q", block.String()+line)
		if line == "\n" && block.String() == ": ping\n" && !s.pings {
			block.Reset()
			continue
		}
		if line == "\n" {
			return strings.TrimSuffix(block.String(), "\n")
		}
		block.WriteString(line)
	}
}

// peek waits for the next blocks; they will be read again.
func (s *stream) peek(t *testing.T, count int) []string {
	t.Helper()
	var held []string
	for range count {
		held = append(held, s.block())
	}
	s.held = held
	return held
}

// frame returns the next frame with data, which must have exactly the lines it may have.
func (s *stream) frame() frame {
	s.t.Helper()
	block := s.block()
	require.NotEmpty(s.t, block, "the stream ended")
	parts := regexp.MustCompile(`^(?:id: (\d+)\n)?event: ([a-z_.]+)\ndata: (\{.*\})$`).FindStringSubmatch(block)
	require.NotNilf(s.t, parts, "not a frame: %q", block)
	f := frame{raw: block, id: parts[1], event: parts[2], data: decode(s.t, parts[3])}
	require.Equal(s.t, f.event, f.data.text("type"), "the type stands in the data, too")
	return f
}

// until reads up to a frame of an event type, and returns it.
func (s *stream) until(event string) frame {
	s.t.Helper()
	for {
		if f := s.frame(); f.event == event {
			return f
		}
	}
}

// ends checks that the stream ends now, cleanly.
func (s *stream) ends() {
	s.t.Helper()
	require.Empty(s.t, s.block())
}

// drain reads to the end.
func (s *stream) drain() {
	s.t.Helper()
	for s.block() != "" {
	}
}

// seq is the number in the id line.
func (f frame) seq(t *testing.T) int {
	t.Helper()
	seq, err := strconv.Atoi(f.id)
	require.NoErrorf(t, err, "no id: %q", f.raw)
	return seq
}

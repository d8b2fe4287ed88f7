package model

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/proto/agentpb"
)

// streamOf is a provider without a network.
type streamOf string

func (s streamOf) RoundTrip(request *http.Request) (*http.Response, error) {
	_, err := io.Copy(io.Discard, request.Body)
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request, ContentLength: int64(len(s)),
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(string(s))),
	}, err
}

// BenchmarkChatStream is a turn's call with a stream of 100 chunks.
func BenchmarkChatStream(b *testing.B) {
	var body strings.Builder
	for i := range 100 {
		body.WriteString(chatChunk(`{"content":"word `+strconv.Itoa(i)+` "}`, "null"))
	}
	body.WriteString(chatChunk(`{}`, `"stop"`) + chatUsage + chatDone)
	providers := New(Config{})
	b.Cleanup(providers.Close)
	adapter, ok := providers[agentpb.Provider_OPENAI].(*network)
	require.True(b, ok)
	adapter.client = &http.Client{Transport: streamOf(body.String())}
	request := &Request{
		Agent:    &agentpb.Agent{Model: &agentpb.Model{Name: "m", BaseUrl: "http://provider/v1", ApiKey: testKey}},
		RunID:    "r",
		Messages: []Message{{Role: User, Content: "hi"}},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := adapter.Generate(b.Context(), request, &heard{}); err != nil {
			b.Fatal(err)
		}
	}
}

package inference_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/inference"
	"parley/actors/machine/rawjson"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/directorypb"
)

// at is a provider without a network: what is measured is the path of a call through this package.
type at struct {
	kind, body string
}

func (a at) RoundTrip(request *http.Request) (*http.Response, error) {
	_, err := io.Copy(io.Discard, request.Body)
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request, ContentLength: int64(len(a.body)),
		Header: http.Header{"Content-Type": {a.kind}}, Body: io.NopCloser(strings.NewReader(a.body)),
	}, err
}

func benchCaller(b *testing.B, answers at) *inference.Caller {
	b.Helper()
	providers := model.New(model.Config{})
	b.Cleanup(providers.Close)
	one := &agentpb.Model{
		Provider: agentpb.Provider_OPENAI, Name: "up-model", BaseUrl: "http://provider/v1", ApiKey: testKey,
		Price: &agentpb.Price{InputNanoUsdPerMtok: 1e9, OutputNanoUsdPerMtok: 2e9},
	}
	return inference.New(inference.DefaultConfig(), inference.Parts{
		Catalog:   catalog{"chat": {one, &directorypb.Model{Key: "chat", Category: "llm", ProviderKey: "main", Name: "chat"}}},
		Providers: providers, Client: &http.Client{Transport: answers},
	})
}

// BenchmarkChat is a relayed call with its answer in one piece.
func BenchmarkChat(b *testing.B) {
	for _, size := range []int{20, 10_000} {
		b.Run("body="+strconv.Itoa(size), func(b *testing.B) {
			caller := benchCaller(b, at{"application/json", answer})
			fields, err := rawjson.Object([]byte(`{"model":"chat","messages":[{"role":"user","content":"` + strings.Repeat("hi ", size/3) + `"}]}`))
			require.NoError(b, err)
			call := &inference.Call{TenantID: "t", ProjectID: "p", UserID: "u", TokenID: "tok", RequestID: "req-1", Model: "chat", Body: fields}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := caller.Chat(context.Background(), call); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRead is what a token of a relayed stream costs that comes in an event of its own.
func BenchmarkRead(b *testing.B) {
	const tokens = 2000
	var events bytes.Buffer
	for i := range tokens {
		events.WriteString(`data: {"id":"c","created":5,"choices":[{"index":0,"delta":{"content":"word ` + strconv.Itoa(i) + ` "},"finish_reason":null}]}` + "\n\n")
	}
	events.WriteString("data: [DONE]\n\n")
	caller := benchCaller(b, at{"text/event-stream", events.String()})
	fields, err := rawjson.Object([]byte(streamed))
	require.NoError(b, err)
	call := &inference.Call{TenantID: "t", ProjectID: "p", UserID: "u", TokenID: "tok", RequestID: "req-1", Model: "chat", Body: fields}
	b.ReportAllocs()
	for b.Loop() {
		if err := caller.ChatStream(context.Background(), call, func([]byte, bool) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tokens, "ns/token")
}

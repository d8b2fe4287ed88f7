package gateway_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
	"github.com/stretchr/testify/require"

	"parley/httpedge/gateway"
)

// official is the official client, unchanged but for address and token.
func (k *kit) official() openai.Client {
	return openai.NewClient(
		option.WithBaseURL(k.url), option.WithAPIKey("me"), option.WithMaxRetries(0), option.WithHTTPClient(k.client),
	)
}

func user(text string) []openai.ChatCompletionMessageParamUnion {
	return []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}
}

func TestOfficialChat(t *testing.T) {
	k := serve(t, says(200, answer))
	client := k.official()
	got, err := client.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{Model: "relayed", Messages: user("hi")})
	require.NoError(t, err)
	require.Equal(t, "Hello", got.Choices[0].Message.Content)
	require.Equal(t, "relayed", got.Model)
	require.Equal(t, int64(15), got.Usage.TotalTokens)
	usage := k.usages()
	require.Len(t, usage, 1)
	require.Equal(t, "me", usage[0].UserID)
	require.Equal(t, "p", usage[0].ProjectID)
}

func TestOfficialStream(t *testing.T) {
	k := serve(t, streams(
		`{"id":"c1","created":5,"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`,
		`{"id":"c1","created":5,"choices":[{"index":0,"delta":{"content":"Hel"}}]}`,
		`{"id":"c1","created":5,"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}`,
		`{"id":"c1","created":5,"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`, `[DONE]`))
	client := k.official()
	for range 3 { // on one connection
		stream := client.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{
			Model: "relayed", Messages: user("hi"), StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
		})
		var whole openai.ChatCompletionAccumulator
		for stream.Next() {
			require.True(t, whole.AddChunk(stream.Current()))
		}
		require.NoError(t, stream.Err())
		require.NoError(t, stream.Close())
		require.Equal(t, "Hello", whole.Choices[0].Message.Content)
		require.Equal(t, "stop", whole.Choices[0].FinishReason)
		require.Equal(t, int64(15), whole.Usage.TotalTokens)
		require.Regexp(t, `^chatcmpl-[0-9a-f]{32}$`, whole.ID)
	}
}

// listener hears what comes over the wire of a response.
type listener struct {
	*http.Transport
	hear func(piece []byte)
}

// RoundTrip implements http.RoundTripper.
func (l listener) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.Transport.RoundTrip(request)
	if err == nil {
		response.Body = heard{response.Body, l.hear}
	}
	return response, err
}

type heard struct {
	io.ReadCloser
	hear func(piece []byte)
}

// Read implements io.Reader.
func (h heard) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	h.hear(p[:n])
	return n, err
}

// TestOfficialPings: a model that thinks for long is not taken for dead, and the client does not see how.
func TestOfficialPings(t *testing.T) {
	enough := make(chan struct{})
	k := serve(t, func(w http.ResponseWriter, r *http.Request) {
		streams(`{"id":"c1","created":5,"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`)(w, r)
		select {
		case <-enough:
		case <-r.Context().Done():
		}
		streams(`{"id":"c1","created":5,"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"stop"}]}`, `[DONE]`)(w, r)
	}, func(c *gateway.Config) { c.PingEvery = 10 * time.Millisecond })
	var wire bytes.Buffer
	k.client.Transport = listener{new(http.Transport), func(piece []byte) {
		_, _ = wire.Write(piece)
		select {
		case <-enough:
		default:
			if bytes.Count(wire.Bytes(), []byte("\n\n: ping\n\n")) >= 2 {
				close(enough)
			}
		}
	}}
	client := k.official()
	for range 2 { // on one connection
		stream := client.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{Model: "relayed", Messages: user("hi")})
		var whole openai.ChatCompletionAccumulator
		for stream.Next() {
			require.NotEmpty(t, stream.Current().Choices)
			require.True(t, whole.AddChunk(stream.Current()))
		}
		require.NoError(t, stream.Err())
		require.NoError(t, stream.Close())
		require.Equal(t, "Hello", whole.Choices[0].Message.Content)
		require.Equal(t, "stop", whole.Choices[0].FinishReason)
	}
	require.True(t, bytes.HasSuffix(wire.Bytes(), []byte("data: [DONE]\n\n")), "nothing comes behind the end")
}

// TestOfficialTools: a call and its result, over the scripted model, whole and streamed.
func TestOfficialTools(t *testing.T) {
	k := serve(t, says(500, "{}"))
	client := k.official()
	params := openai.ChatCompletionNewParams{
		Model: "scripted", Messages: user("weather?"),
		Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: "weather", Parameters: shared.FunctionParameters{"type": "object"},
		})},
	}
	got, err := client.Chat.Completions.New(t.Context(), params)
	require.NoError(t, err)
	require.Equal(t, "tool_calls", got.Choices[0].FinishReason)
	call := got.Choices[0].Message.ToolCalls[0]
	require.Equal(t, "weather", call.Function.Name)
	require.JSONEq(t, `{"city":"Rome"}`, call.Function.Arguments)

	stream := client.Chat.Completions.NewStreaming(t.Context(), params)
	defer func() { _ = stream.Close() }()
	var whole openai.ChatCompletionAccumulator
	for stream.Next() {
		require.True(t, whole.AddChunk(stream.Current()))
	}
	require.NoError(t, stream.Err())
	require.Equal(t, "weather", whole.Choices[0].Message.ToolCalls[0].Function.Name)
	require.Equal(t, "tool_calls", whole.Choices[0].FinishReason)

	params.Messages = append(params.Messages, got.Choices[0].Message.ToParam(), openai.ToolMessage("sunny", call.ID))
	got, err = client.Chat.Completions.New(t.Context(), params)
	require.NoError(t, err)
	require.Equal(t, "It is sunny in Rome", got.Choices[0].Message.Content)
	require.Equal(t, "stop", got.Choices[0].FinishReason)
	require.Positive(t, got.Usage.TotalTokens)
}

func TestOfficialEmbeddings(t *testing.T) {
	k := serve(t, says(200, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,-1]}],"model":"up","usage":{"prompt_tokens":3,"total_tokens":3}}`))
	client := k.official()
	got, err := client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: "embed", Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("hi")},
	})
	require.NoError(t, err)
	require.Equal(t, []float64{0.5, -1}, got.Data[0].Embedding)
	require.Equal(t, int64(3), got.Usage.TotalTokens)
	got, err = client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: "words", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a b", "c"}}, Dimensions: openai.Int(8),
	})
	require.NoError(t, err)
	require.Len(t, got.Data, 2)
	require.Len(t, got.Data[0].Embedding, 8)
}

func TestOfficialModerations(t *testing.T) {
	k := serve(t, says(500, "{}"))
	client := k.official()
	got, err := client.Moderations.New(t.Context(), openai.ModerationNewParams{
		Input: openai.ModerationNewParamsInputUnion{OfStringArray: []string{"nice weather", "I will kill you"}},
	})
	require.NoError(t, err)
	require.Len(t, got.Results, 2)
	require.False(t, got.Results[0].Flagged)
	require.True(t, got.Results[1].Flagged)
	require.True(t, got.Results[1].Categories.HarassmentThreatening)
	require.InDelta(t, 0.9, got.Results[1].CategoryScores.HarassmentThreatening, 1e-9)
	require.Equal(t, "default", got.Model)
}

// TestOfficialErrors: the client finds type, code and param where it looks for them, also of streams.
func TestOfficialErrors(t *testing.T) {
	k := serve(t, says(429, `{"error":{"message":"slow down","type":"x","code":"tokens_per_minute"}}`))
	client := k.official()
	params := openai.ChatCompletionNewParams{Model: "relayed", Messages: user("hi")}
	_, err := client.Chat.Completions.New(t.Context(), params)
	var failed *openai.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, 429, failed.StatusCode)
	require.Equal(t, "rate_limit_error", failed.Type)
	require.Equal(t, "tokens_per_minute", failed.Code)
	require.Equal(t, "slow down", failed.Message)

	stream := client.Chat.Completions.NewStreaming(t.Context(), params)
	defer func() { _ = stream.Close() }()
	require.False(t, stream.Next())
	require.ErrorAs(t, stream.Err(), &failed)
	require.Equal(t, 429, failed.StatusCode)

	params.Model = "none"
	_, err = client.Chat.Completions.New(t.Context(), params)
	require.ErrorAs(t, err, &failed)
	require.Equal(t, 404, failed.StatusCode)
	require.Equal(t, "model_not_found", failed.Code)
	require.Equal(t, "model", failed.Param)

	anonymous := openai.NewClient(option.WithBaseURL(k.url), option.WithAPIKey(""), option.WithMaxRetries(0))
	_, err = anonymous.Chat.Completions.New(t.Context(), params)
	require.ErrorAs(t, err, &failed)
	require.Equal(t, 401, failed.StatusCode)
	require.Equal(t, "invalid_request_error", failed.Type)
}

// TestOfficialMidStream: an error after the first chunk reaches the client as one.
func TestOfficialMidStream(t *testing.T) {
	k := serve(t, streams(`{"choices":[{"index":0,"delta":{"content":"Hel"}}]}`, `{"error":{"message":"the model fell over","type":"server_error"}}`))
	client := k.official()
	stream := client.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{Model: "relayed", Messages: user("hi")})
	defer func() { _ = stream.Close() }()
	text := ""
	for stream.Next() {
		if choices := stream.Current().Choices; len(choices) > 0 {
			text += choices[0].Delta.Content
		}
	}
	require.Equal(t, "Hel", text)
	require.ErrorContains(t, stream.Err(), "the model fell over")
}

// TestOfficialLeaves: when the client leaves a stream, the provider's call ends and what was said is booked.
func TestOfficialLeaves(t *testing.T) {
	ended := make(chan struct{})
	k := serve(t, func(w http.ResponseWriter, r *http.Request) {
		streams(`{"choices":[{"index":0,"delta":{"content":"Hello"}}]}`)(w, r)
		<-r.Context().Done()
		close(ended)
	})
	client := k.official()
	ctx, cancel := context.WithCancel(t.Context())
	stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{Model: "relayed", Messages: user("hi")})
	defer func() { _ = stream.Close() }()
	for stream.Next() {
		if strings.Contains(stream.Current().RawJSON(), "Hello") {
			break
		}
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("the provider was not told")
	}
	require.Eventually(t, func() bool { return len(k.usages()) == 1 }, 30*time.Second, 5*time.Millisecond)
	require.Positive(t, k.usages()[0].OutputTokens)
	require.False(t, k.usages()[0].Failed)
}

// TestOfficialLeavesEarly: when the client leaves before anything was answered, the provider's call ends and what was asked is
// booked.
func TestOfficialLeavesEarly(t *testing.T) {
	ended := make(chan struct{}, 1)
	k := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		ended <- struct{}{}
	})
	client := k.official()
	params := openai.ChatCompletionNewParams{Model: "relayed", Messages: user("hi")}
	for name, call := range map[string]func(context.Context){
		"whole": func(ctx context.Context) { _, _ = client.Chat.Completions.New(ctx, params) },
		"streamed": func(ctx context.Context) {
			stream := client.Chat.Completions.NewStreaming(ctx, params)
			stream.Next()
			_ = stream.Close()
		},
		"embeddings": func(ctx context.Context) {
			_, _ = client.Embeddings.New(ctx, openai.EmbeddingNewParams{
				Model: "embed", Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("hi")},
			})
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan struct{})
		go func() {
			defer close(left)
			call(ctx)
		}()
		select {
		case <-k.asked:
		case <-time.After(30 * time.Second):
			require.Fail(t, "the provider was not asked", name)
		}
		cancel()
		<-left
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			require.Fail(t, "the provider was not told that the client left", name)
		}
	}
	require.Eventually(t, func() bool { return len(k.usages()) == 3 }, 30*time.Second, 5*time.Millisecond)
	for _, booked := range k.usages() {
		require.Positive(t, booked.InputTokens)
		require.Zero(t, booked.OutputTokens)
	}
}

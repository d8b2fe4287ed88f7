package main

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"
)

// officialModels are models of every behaviour that the official clients are to meet, by what they are called there.
func officialModels(t *testing.T, h apiCaller) (models map[string]string, left <-chan struct{}) {
	t.Helper()
	gone := make(chan struct{}, 100)
	models = map[string]string{
		"agent": "fixed",
		"chat":  newModel(t, h, "llm", hello).key,
		"endless": newModel(t, h, "llm", func(w http.ResponseWriter, r *http.Request) {
			streams(helloFirst, helloText)(w, r)
			<-r.Context().Done()
			gone <- struct{}{}
		}).key,
		"breaking":  newModel(t, h, "llm", streams(helloFirst, helloText, `{"error":{"message":"the model fell over","type":"server_error"}}`)).key,
		"limited":   newModel(t, h, "llm", says(429, `{"error":{"message":"slow down","code":"tokens_per_minute"}}`)).key,
		"broken":    newModel(t, h, "llm", says(500, `{"error":{"message":"oops"}}`)).key,
		"embedding": newModel(t, h, "embedding", embed).key,
	}
	weather := object1{"steps": []any{
		object1{"toolCalls": []any{object1{"name": "weather", "arguments": `{"city":"Rome"}`}}}, object1{"text": "It is sunny in Rome"},
	}}
	models["tools"] = h.done(t, "POST", "/models", object1{
		"name": "Weather", "providerKey": "scripted", "category": "llm", "modelId": "m", "pricing": object1{}, "settings": object1{"script": weather},
	}).text("model", "key")
	id := h.done(t, "POST", "/users", object1{"name": "Narrow", "role": "user"}).text("user", "id")
	models["narrow"] = h.done(t, "POST", "/users/"+id+"/tokens", object1{"label": "narrow", "servicePermissions": object1{"models": "read"}}).text("token")
	return models, gone
}

// embed makes a vector of each text.
func embed(w http.ResponseWriter, r *http.Request) {
	vectors := []object1{{"index": 0, "embedding": []float64{0.5, -1}}, {"index": 1, "embedding": []float64{0.25, 2}}}
	body, _ := r.Context().Value(bodyKey{}).(tree)
	if inputs, ok := body.at("input").v.([]any); !ok || len(inputs) == 1 {
		vectors = vectors[:1]
	}
	text, _ := json.Marshal(object1{"data": vectors, "usage": object1{"prompt_tokens": 3, "total_tokens": 3}}) // it has a JSON form
	says(200, string(text))(w, r)
}

// TestClientOpenAINode runs the official client for Node.js; its cases are in testdata/openai/gateway.mjs.
func TestClientOpenAINode(t *testing.T) {
	t.Parallel()
	h := house(t)
	models, left := officialModels(t, h)
	models["speech"], models["hearing"] = soundModels(t, h)
	runNode(t, "gateway.mjs", h, models, []string{
		"chat", "tools", "tools_in_a_stream", "stream_with_usage", "stream_without_usage", "stream_is_left", "stream_fails_in_its_middle",
		"embeddings", "moderations", "audio", "responses", "models_list", "models_retrieve", "error_401", "error_403", "error_404", "error_400", "error_429",
		"error_500_is_retried_by_the_client",
	})
	select {
	case <-left:
	case <-time.After(30 * time.Second):
		require.Fail(t, "the provider was not told that the client left")
	}
}

// TestClientOpenAIGo is the official client for Go.
func TestClientOpenAIGo(t *testing.T) {
	t.Parallel()
	h := house(t)
	models, _ := officialModels(t, h)
	c := openai.NewClient(option.WithBaseURL(h.url("")), option.WithAPIKey(h.token), option.WithMaxRetries(0))
	chat := openai.ChatCompletionNewParams{Model: models["chat"], Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}}
	t.Run("whole_answer", func(t *testing.T) {
		got, err := c.Chat.Completions.New(t.Context(), chat)
		require.NoError(t, err)
		require.Equal(t, "Hello", got.Choices[0].Message.Content)
		require.Equal(t, int64(15), got.Usage.TotalTokens)
	})
	t.Run("streamed_answer", func(t *testing.T) {
		asked := chat
		asked.StreamOptions.IncludeUsage = openai.Bool(true)
		stream := c.Chat.Completions.NewStreaming(t.Context(), asked)
		var whole openai.ChatCompletionAccumulator
		for stream.Next() {
			require.True(t, whole.AddChunk(stream.Current()))
		}
		require.NoError(t, stream.Err())
		require.NoError(t, stream.Close())
		require.Equal(t, "Hello", whole.Choices[0].Message.Content)
		require.Equal(t, int64(15), whole.Usage.TotalTokens)
	})
	t.Run("one_model", func(t *testing.T) {
		got, err := c.Models.Get(t.Context(), models["chat"])
		require.NoError(t, err)
		require.Equal(t, models["chat"], got.ID)
		require.EqualValues(t, "model", got.Object)
		require.Equal(t, "openai", got.OwnedBy)
		require.Positive(t, got.Created)
	})
	t.Run("vectors", func(t *testing.T) {
		got, err := c.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
			Model: models["embedding"], Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a", "b"}},
		})
		require.NoError(t, err)
		require.Equal(t, []float64{0.25, 2}, got.Data[1].Embedding)
	})
	t.Run("agent", func(t *testing.T) {
		got, err := c.Responses.New(t.Context(), responses.ResponseNewParams{
			Model: "fixed", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hi")},
		})
		require.NoError(t, err)
		require.NotEmpty(t, got.OutputText())
		require.Positive(t, got.Usage.OutputTokens)
	})
	t.Run("errors_are_typed", func(t *testing.T) {
		asked := chat
		asked.Model = "none"
		_, err := c.Chat.Completions.New(t.Context(), asked)
		var failed *openai.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, []any{404, "model_not_found", "model"}, []any{failed.StatusCode, failed.Code, failed.Param})
		stranger := openai.NewClient(option.WithBaseURL(h.url("")), option.WithAPIKey("service_x"), option.WithMaxRetries(0))
		_, err = stranger.Chat.Completions.New(t.Context(), chat)
		require.ErrorAs(t, err, &failed)
		require.Equal(t, 401, failed.StatusCode)
	})
}

package inference_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/quota"
	"parley/actors/inference"
	"parley/proto/directorypb"
)

// fleet is a kit with the models a, b and c, each dearer than the one before, and dynamic models over them. answers says what the
// provider's model of each of them does; without it they say their names.
func fleet(t *testing.T, answers map[string]http.HandlerFunc, change ...func(*inference.Config)) *kit {
	t.Helper()
	change = append(change, func(c *inference.Config) { c.MaxAttempts = 1 })
	k := newKit(t, func(w http.ResponseWriter, r *http.Request) {}, change...)
	k.provider.answer = func(w http.ResponseWriter, r *http.Request) {
		one := k.provider.requests()
		var asked struct {
			Model  string
			Stream bool
		}
		_ = json.Unmarshal([]byte(one[len(one)-1].raw), &asked)
		if answer := answers[asked.Model]; answer != nil {
			answer(w, r)
			return
		}
		if asked.Stream {
			streams(`{"choices":[{"index":0,"delta":{"content":"I am `+asked.Model+`"}}]}`,
				`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, `[DONE]`)(w, r)
			return
		}
		says(200, `{"choices":[{"index":0,"message":{"role":"assistant","content":"I am `+asked.Model+`"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`)(w, r)
	}
	for i, key := range []string{"a", "b", "c"} {
		one := proto.CloneOf(k.catalog["chat"].model)
		one.Name, one.Price.OutputNanoUsdPerMtok = key, int64(1+i)*1e9
		one.ApiKey = testKey + key // a circuit of its own
		k.catalog[key] = entry{one, &directorypb.Model{Key: key, Category: "llm", ProviderKey: "main"}}
	}
	return k
}

func (k *kit) dynamic(settings string) {
	k.catalog["any"] = entry{nil, &directorypb.Model{Key: "any", Category: "llm", ProviderKey: "dynamic", Settings: []byte(`{"dynamic":` + settings + `}`)}}
}

const listed = `{"strategy":"priority","targets":[{"modelKey":"a"},{"modelKey":"b"},{"modelKey":"c"}]}`

const asksAny = `{"model":"any","messages":[{"role":"user","content":"hello"}],"max_tokens":100}`

func (k *kit) asksModel() string {
	k.t.Helper()
	call, before := k.call(asksAny), len(k.booked)
	var told []inference.Usage
	call.Booked = func(usage inference.Usage) { told = append(told, usage) }
	answer, err := k.caller.Chat(context.Background(), call)
	require.NoError(k.t, err)
	require.Equal(k.t, k.booked[before:], told)
	var said struct{ Model string }
	require.NoError(k.t, json.Unmarshal(answer, &said))
	return said.Model
}

// TestFallsBack: the next model is tried when one fails; the most that any of them may cost is held, each is booked for itself, and one
// that was left alone comes last.
func TestFallsBack(t *testing.T) {
	k := fleet(t, map[string]http.HandlerFunc{"a": says(500, `{"error":{"message":"broken"}}`)}, func(c *inference.Config) { c.BreakerThreshold = 1 })
	k.till.holds = func(call *quota.Call) (int64, bool, error) { return call.Want, true, nil }
	k.dynamic(listed)
	require.Equal(t, "b", k.asksModel())
	require.Len(t, k.booked, 2)
	require.Equal(t, []any{"a", "any", true, "b", "any", false},
		[]any{k.booked[0].Model, k.booked[0].Routing, k.booked[0].Failed, k.booked[1].Model, k.booked[1].Routing, k.booked[1].Failed})
	require.Equal(t, []string{"a", "b"}, []string{k.till.entered[0].Model, k.till.entered[1].Model})
	require.Equal(t, k.till.entered[0].Want, k.till.entered[1].Want, "what c may cost")
	require.Greater(t, k.till.entered[1].Want, k.till.entered[1].Need)
	require.Equal(t, [][2]int64{{0, 0}, {3000 + 4000, 5}}, k.till.settled, "by what ran")

	require.Equal(t, "b", k.asksModel())
	require.Len(t, k.provider.requests(), 3, "a has failed and is not asked again")
	chunks, err := k.stream(`{"model":"any","stream":true,"messages":[{"role":"user","content":"hello"}]}`)
	require.NoError(t, err)
	require.Contains(t, chunks, "I am b")
	require.Contains(t, chunks, `"model":"b"`)
}

// TestFallsBackNoFurther: after the first chunk, for what a provider refuses by its policy, and when nothing is left.
func TestFallsBackNoFurther(t *testing.T) {
	k := fleet(t, map[string]http.HandlerFunc{
		"a": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"well"}}]}`+"\n\n"+`data: {"error":{"message":"broken","code":500}}`+"\n\n")
		},
		"b": says(400, `{"error":{"message":"no","code":"content_policy_violation"}}`),
		"c": says(503, `{"error":{"message":"down"}}`),
	})
	k.dynamic(listed)
	chunks, err := k.stream(`{"model":"any","stream":true,"messages":[{"role":"user","content":"hello"}]}`)
	require.Error(t, err)
	require.Contains(t, chunks, "well")
	require.Len(t, k.provider.requests(), 1)

	k.dynamic(`{"strategy":"priority","targets":[{"modelKey":"b"},{"modelKey":"a"}]}`)
	_, err = k.caller.Chat(t.Context(), k.call(asksAny))
	require.ErrorContains(t, err, "content_policy_violation")
	require.Len(t, k.provider.requests(), 2)

	k.dynamic(`{"strategy":"priority","targets":[{"modelKey":"c"}],"fallbackModelKey":"gone"}`)
	_, err = k.caller.Chat(t.Context(), k.call(asksAny))
	require.ErrorContains(t, err, "503 provider_error: down")
	k.dynamic(`{"strategy":"priority","targets":[{"modelKey":"gone"},{"modelKey":"embed"}]}`)
	_, err = k.caller.Chat(t.Context(), k.call(asksAny))
	require.ErrorContains(t, err, "None of the models that `any` chooses among can be called")
	_, err = k.caller.Embed(t.Context(), k.call(`{"model":"any","input":"x"}`))
	require.ErrorContains(t, err, "is of category llm, which embeddings cannot use")
}

// TestSlowModelsAreLeft: one that does not answer leaves time for the next.
func TestSlowModelsAreLeft(t *testing.T) {
	held := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	k := fleet(t, map[string]http.HandlerFunc{"a": held}, func(c *inference.Config) { c.RequestTimeout = 2 * time.Second })
	k.dynamic(listed)
	require.Equal(t, "b", k.asksModel())
	chunks, err := k.stream(`{"model":"any","stream":true,"messages":[{"role":"user","content":"hello"}]}`)
	require.NoError(t, err)
	require.Contains(t, chunks, "I am b")
}

// TestChoosesByRequest: rules look at the request, deciders are asked, prices and latencies are known.
func TestChoosesByRequest(t *testing.T) {
	k := fleet(t, map[string]http.HandlerFunc{"c": says(200, `{"choices":[{"index":0,"message":{"role":"assistant","content":" Hard"},"finish_reason":"stop"}]}`)})
	k.dynamic(`{"strategy":"rule-based","defaultModelKey":"a","rules":[{"targetModelKey":"b","conditions":[{"signal":"hasImages","operator":"eq","value":true},
		{"signal":"keyword","operator":"contains","value":"PICTURE"},{"signal":"lastUserLength","operator":"eq","value":7},{"signal":"messageCount","operator":"eq","value":2}]}]}`)
	require.Equal(t, "a", k.asksModel())
	answer, err := k.caller.Chat(t.Context(), k.call(`{"model":"any","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:x"}},{"type":"text","text":"picture"}]},{"role":"assistant","content":"?"}]}`))
	require.NoError(t, err)
	require.Contains(t, string(answer), "I am b")

	k.dynamic(`{"strategy":"model-based","defaultModelKey":"a","decider":{"modelKey":"c","labels":[{"label":"hard","description":"maths","targetModelKey":"b"}]}}`)
	before := len(k.provider.requests())
	require.Equal(t, "b", k.asksModel())
	asked := k.provider.requests()[before:]
	require.Len(t, asked, 2)
	require.Contains(t, asked[0].raw, `- hard: maths`)
	require.Contains(t, asked[0].raw, `{"role":"user","content":"hello"}`)
	require.Equal(t, []any{"c", "any"}, []any{k.booked[len(k.booked)-2].Model, k.booked[len(k.booked)-2].Routing}, "a decider is paid for")

	k.dynamic(`{"strategy":"cheapest","targets":[{"modelKey":"c"},{"modelKey":"b"},{"modelKey":"a"}]}`)
	require.Equal(t, "a", k.asksModel())
	k.dynamic(`{"strategy":"fastest","targets":[{"modelKey":"a"},{"modelKey":"chat"}]}`)
	require.Equal(t, "chat", k.asksModel(), "its pace is not known")
}

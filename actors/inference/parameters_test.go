package inference_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"

	"parley/actors/inference"
)

// everybody answers as the provider whose path is asked.
func everybody(t *testing.T) http.HandlerFunc {
	t.Helper()
	claude := recorded(t, "claude.sse")
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/messages"):
			claude(w, r)
		case strings.HasSuffix(r.URL.Path, "/responses"):
			streams(`{"type":"response.completed","response":{"id":"r","status":"completed","output":[{"type":"message","role":"assistant",`+
				`"content":[{"type":"output_text","text":"Hi"}]}],"usage":{"input_tokens":3,"output_tokens":1,"total_tokens":4}}}`)(w, r)
		default:
			says(200, answer)(w, r)
		}
	}
}

const (
	sampleTools    = `[{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object","properties":{"a":{"type":"string"}}}}}]`
	sampleMessages = `[{"role":"user","content":"hi"}]`
	sampleFormat   = `{"type":"json_schema","json_schema":{"name":"n","description":"d","strict":true,"schema":{"type":"object"}}}`
)

// samples are values that ask for something, one for each parameter.
func samples() map[string]string {
	return map[string]string{
		"audio": `{"voice":"x","format":"wav"}`, "extra_body": `{"top_k":5}`, "frequency_penalty": `0.5`, "function_call": `{"name":"f"}`,
		"functions": `[{"name":"f"}]`, "logit_bias": `{"5":1}`, "logprobs": `true`, "max_completion_tokens": `77`, "max_tokens": `66`,
		"messages": sampleMessages, "metadata": `{"a":"b"}`, "modalities": `["text","audio"]`, "model": `""`, "moderation": `{"model":"m"}`, "n": `2`,
		"parallel_tool_calls": `false`, "prediction": `{"type":"content","content":"x"}`, "presence_penalty": `-1`, "prompt_cache_key": `"k"`,
		"prompt_cache_options": `{"mode":"explicit"}`, "prompt_cache_retention": `"24h"`, "reasoning": `{"effort":"low"}`,
		"reasoning_effort": `"high"`, "request_id": `"r"`, "response_format": sampleFormat, "safety_identifier": `"s"`, "seed": `7`,
		"service_tier": `"default"`, "stop": `["END","."]`, "store": `true`, "stream": `false`, "stream_options": `{"include_usage":true}`,
		"temperature": `0.25`, "tool_choice": `{"type":"function","function":{"name":"f"}}`, "tools": sampleTools, "top_logprobs": `3`,
		"top_p": `0.75`, "user": `"u"`, "verbosity": `"low"`, "web_search_options": `{}`,
	}
}

// said is how a sample goes out where the provider has words of its own: fields of what is sent.
func said() map[string]string {
	return map[string]string{
		"home extra_body": `{"top_k":5}`, "home max_completion_tokens": `{"max_output_tokens":77}`, "home max_tokens": `{"max_output_tokens":66}`,
		"home messages": `{"input":[{"role":"user","content":"hi"}]}`, "home model": `{"model":"up-response"}`,
		"home reasoning": `{"reasoning":{"effort":"low"}}`, "home reasoning_effort": `{"reasoning":{"effort":"high"}}`,
		"home response_format": `{"text":{"format":{"type":"json_schema","name":"n","description":"d","strict":true,"schema":{"type":"object"}}}}`,
		"home temperature":     `{"temperature":0.25}`, "home top_p": `{"top_p":0.75}`, "home tool_choice": `{"tool_choice":{"type":"function","name":"f"}}`,
		"home tools":     `{"tools":[{"type":"function","name":"f","strict":true,"parameters":{"type":"object","properties":{"a":{"type":"string"}}}}]}`,
		"home verbosity": `{"text":{"verbosity":"low"}}`, "home request_id": `{}`, "home stream": `{"stream":true}`, "home stream_options": `{}`,

		"claude extra_body": `{"top_k":5}`, "claude max_completion_tokens": `{"max_tokens":77}`, "claude max_tokens": `{"max_tokens":66}`,
		"claude messages": `{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`, "claude model": `{"model":"up-claude"}`,
		"claude reasoning": `{"output_config":{"effort":"low"}}`, "claude reasoning_effort": `{"output_config":{"effort":"high"}}`,
		"claude response_format": `{"output_config":{"format":{"type":"json_schema","schema":{"type":"object","description":"d"}}}}`,
		"claude temperature":     `{"temperature":0.25}`, "claude top_p": `{"top_p":0.75}`, "claude stop": `{"stop_sequences":["END","."]}`,
		"claude tool_choice": `{"tool_choice":{"type":"tool","name":"f"}}`, "claude parallel_tool_calls": `{"tool_choice":{"type":"auto","disable_parallel_tool_use":true}}`,
		"claude tools":             `{"tools":[{"name":"f","strict":true,"input_schema":{"type":"object","properties":{"a":{"type":"string"}}}}]}`,
		"claude safety_identifier": `{"metadata":{"user_id":"s"}}`, "claude user": `{"metadata":{"user_id":"u"}}`, "claude service_tier": `{"service_tier":"standard_only"}`,
		"claude request_id": `{}`, "claude stream": `{"stream":true}`, "claude stream_options": `{}`,

		"chat extra_body": `{"top_k":5}`, "chat max_completion_tokens": `{"max_completion_tokens":77}`, "chat max_tokens": `{"max_tokens":66}`,
		"chat model": `{"model":"up-model"}`, "chat request_id": `{}`, "chat stream": `{}`, "chat stream_options": `{}`,
	}
}

// request is a request with tools to one model, and with the parameter.
func requestWith(model, name, value string) string {
	fields := map[string]json.RawMessage{
		"messages": json.RawMessage(sampleMessages), "tools": json.RawMessage(sampleTools),
	}
	if name != "" {
		fields[name] = json.RawMessage(value)
	}
	fields["model"] = json.RawMessage(`"` + model + `"`)
	encoded, _ := json.Marshal(fields) // raw JSON encodes
	return string(encoded)
}

// TestParameters: every parameter does with every kind of provider what the table says: it goes out, under the provider's name, or
// it is refused by name. None is dropped that asks for something.
func TestParameters(t *testing.T) {
	k := newKit(t, everybody(t))
	sent := func(body string) (map[string]any, error) {
		before := len(k.provider.requests())
		_, err := k.caller.Chat(t.Context(), k.call(body))
		asked := k.provider.requests()[before:]
		if err != nil || len(asked) == 0 {
			require.Empty(t, asked, "what is refused is not asked: %s", body)
			return nil, err
		}
		require.Len(t, asked, 1)
		return asked[0].body, nil
	}
	table := inference.Treatments()
	require.ElementsMatch(t, slices.Collect(maps.Keys(table)), slices.Collect(maps.Keys(samples())))
	for name, kinds := range table {
		for model, how := range kinds {
			t.Run(name+"/"+model, func(t *testing.T) {
				plain, err := sent(requestWith(model, "", ""))
				require.NoError(t, err)
				got, err := sent(requestWith(model, name, samples()[name]))
				if how == "refused" || how == "allowed" {
					failed := asError(t, err)
					require.Equal(t, http.StatusBadRequest, failed.Status)
					require.Equal(t, name, failed.Param)
					require.Contains(t, failed.Message, name)
				} else {
					require.NoError(t, err)
				}
				if model == "scripted" {
					return // nothing goes out
				}
				switch how {
				case "pass":
					require.JSONEq(t, samples()[name], encoded(t, got[name]))
				case "allowed":
					got, err = sent(requestWith(model+"+", name, samples()[name]))
					require.NoError(t, err)
					require.JSONEq(t, samples()[name], encoded(t, got[name]))
				case "ignored":
					require.Equal(t, plain, got)
				case "own", "mapped":
					var want map[string]any
					require.NoError(t, json.Unmarshal([]byte(said()[model+" "+name]), &want), "%s %s: what goes out is not known here", model, name)
					for field, value := range want {
						require.JSONEq(t, encoded(t, value), encoded(t, got[field]))
					}
				}
				neutrals(t, name, model, plain, sent)
			})
		}
	}
}

// neutrals: null, and values that say what holds anyway, are not refused, and change nothing where they would be.
func neutrals(t *testing.T, name, model string, plain map[string]any, sent func(string) (map[string]any, error)) {
	t.Helper()
	if slices.Contains([]string{"messages", "model", "tools"}, name) {
		return
	}
	for _, value := range append(inference.Neutral(name), "null") {
		got, err := sent(requestWith(model, name, value))
		require.NoError(t, err)
		if value == "null" || inference.Treatments()[name][model] == "refused" {
			require.Equal(t, plain, got, value)
		}
	}
}

func encoded(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return string(text)
}

// TestParametersOfTheClient: the table has every parameter that the official client can send.
func TestParametersOfTheClient(t *testing.T) {
	table := inference.Treatments()
	of := reflect.TypeFor[openai.ChatCompletionNewParams]()
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			require.Contains(t, table, name)
		}
	}
}

// TestToolChoice: each choice in each provider's words.
func TestToolChoice(t *testing.T) {
	for _, c := range []struct{ asked, claude, home string }{
		{`"tool_choice":"none"`, `{"type":"none"}`, `"none"`},
		{`"tool_choice":"auto"`, `{"type":"auto"}`, `"auto"`},
		{`"tool_choice":"required"`, `{"type":"any"}`, `"required"`},
		{`"parallel_tool_calls":false,"tool_choice":"required"`, `{"type":"any","disable_parallel_tool_use":true}`, `"required"`},
		{`"parallel_tool_calls":false,"tool_choice":"none"`, `{"type":"none"}`, `"none"`},
		{`"parallel_tool_calls":true`, `null`, `null`},
	} {
		for model, want := range map[string]string{"claude": c.claude, "home": c.home} {
			k := newKit(t, everybody(t))
			_, err := k.caller.Chat(t.Context(), k.call(`{"model":"`+model+`","messages":`+sampleMessages+`,"tools":`+sampleTools+`,`+c.asked+`}`))
			require.NoError(t, err)
			require.JSONEq(t, want, encoded(t, k.provider.requests()[0].body["tool_choice"]), c.asked)
		}
	}
}

// TestPicturesByURL: the provider is told where they are; nobody here fetches them.
func TestPicturesByURL(t *testing.T) {
	const body = `,"messages":[{"role":"user","content":[{"type":"text","text":"what?"},` +
		`{"type":"image_url","image_url":{"url":"https://pictures.example/a.png","detail":"low"}}]}]}`
	k := newKit(t, everybody(t))
	for _, model := range []string{"claude", "home", "chat"} {
		_, err := k.caller.Chat(t.Context(), k.call(`{"model":"`+model+`"`+body))
		require.NoError(t, err)
	}
	asked := k.provider.requests()
	require.Contains(t, asked[0].raw, `{"source":{"type":"url","url":"https://pictures.example/a.png"},"type":"image"}`)
	require.Contains(t, asked[1].raw, `{"detail":"low","image_url":"https://pictures.example/a.png","type":"input_image"}`)
	require.Contains(t, asked[2].raw, `"url":"https://pictures.example/a.png"`)
}

// TestOtherProviderSettings: what a record says of requests holds for those providers, too.
func TestOtherProviderSettings(t *testing.T) {
	k := newKit(t, everybody(t))
	_, err := k.caller.Chat(t.Context(), k.call(`{"model":"claude-","temperature":0.3,"extra_body":{"top_k":9,"messages":[],"tools":[]},"messages":`+sampleMessages+`}`))
	require.NoError(t, err)
	asked := k.provider.requests()[0].body
	require.JSONEq(t, `{"model":"up-claude","max_tokens":4096,"stream":true,"stop_sequences":["END"],"top_p":0.5,"top_k":9,
		"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`, encoded(t, asked))
}

// TestOfficialTypes: what goes out is what the providers' own clients would send: it reads back as their types.
func TestOfficialTypes(t *testing.T) {
	const rest = `,"messages":` + sampleMessages + `,"tools":` + sampleTools + `,"parallel_tool_calls":false,"tool_choice":"required",` +
		`"response_format":` + sampleFormat + `,"reasoning_effort":"high","user":"u"}`
	k := newKit(t, everybody(t))
	_, err := k.caller.Chat(t.Context(), k.call(`{"model":"claude","stop":"END"`+rest))
	require.NoError(t, err)
	_, err = k.caller.Chat(t.Context(), k.call(`{"model":"home","verbosity":"low"`+rest))
	require.NoError(t, err)
	asked := k.provider.requests()
	var message anthropic.MessageNewParams
	require.NoError(t, json.Unmarshal([]byte(asked[0].raw), &message))
	require.Equal(t, anthropic.OutputConfigEffortHigh, message.OutputConfig.Effort)
	require.Equal(t, map[string]any{"type": "object", "description": "d"}, message.OutputConfig.Format.Schema)
	require.True(t, message.ToolChoice.OfAny.DisableParallelToolUse.Value)
	require.Equal(t, []string{"END"}, message.StopSequences)
	require.Equal(t, "u", message.Metadata.UserID.Value)
	require.True(t, message.Tools[0].OfTool.Strict.Value)
	var response responses.ResponseNewParams
	require.NoError(t, json.Unmarshal([]byte(asked[1].raw), &response))
	require.EqualValues(t, "high", response.Reasoning.Effort)
	require.EqualValues(t, "low", response.Text.Verbosity)
	require.Equal(t, "n", response.Text.Format.OfJSONSchema.Name)
	require.False(t, response.ParallelToolCalls.Value)
	require.EqualValues(t, "required", response.ToolChoice.OfToolChoiceMode.Value)
	require.Equal(t, "u", response.User.Value)
	require.True(t, response.Tools[0].OfFunction.Strict.Value)
}

package model

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestImagesAreSent holds what each service documents for an image beside text, and for one without.
func TestImagesAreSent(t *testing.T) {
	want := map[string]string{
		"openai": `{"messages": [
			{"role": "system", "content": "Be brief."},
			{"role": "user", "content": "plain text stays plain"},
			{"role": "assistant", "content": "ok"},
			{"role": "user", "content": [
				{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
				{"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9j/"}},
				{"type": "text", "text": "What is this?"}]},
			{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}]}]}`,
		"openai_responses": `{"input": [
			{"role": "user", "content": "plain text stays plain"},
			{"role": "assistant", "content": "ok"},
			{"role": "user", "content": [
				{"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBORw=="},
				{"type": "input_image", "detail": "auto", "image_url": "data:image/jpeg;base64,/9j/"},
				{"type": "input_text", "text": "What is this?"}]},
			{"role": "user", "content": [{"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBORw=="}]}]}`,
		"anthropic": `{"messages": [
			{"role": "user", "content": [{"type": "text", "text": "plain text stays plain"}]},
			{"role": "assistant", "content": [{"type": "text", "text": "ok"}]},
			{"role": "user", "content": [
				{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}},
				{"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "/9j/"}},
				{"type": "text", "text": "What is this?"}]},
			{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}}]}]}`,
	}
	png, jpeg := Image{MIME: "image/png", Data: []byte("\x89PNG")}, Image{MIME: "image/jpeg", Data: []byte("\xff\xd8\xff")}
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			server, seen := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) { stream(response, w.answer("ok")) })
			request := w.request(server)
			request.Messages = []Message{
				{Role: User, Content: "plain text stays plain"},
				{Role: Assistant, Content: "ok"},
				{Role: User, Content: "What is this?", Images: []Image{png, jpeg}},
				{Role: User, Images: []Image{png}},
			}
			_, _, err := w.ask(t, Config{}, request)
			require.NoError(t, err)
			field := "messages"
			if w.name == "openai_responses" {
				field = "input"
			}
			require.JSONEq(t, want[w.name], only(t, seen.body, field))
		})
	}
}

func TestImagesTakeRoom(t *testing.T) {
	plain := Message{Role: User, Content: "What is this?"}
	shown := plain
	shown.Images = []Image{{}, {}}
	require.Equal(t, EstimateMessage(plain)+2*imageTokens, EstimateMessage(shown))
}

func TestUnsaidIsOverheard(t *testing.T) {
	events := map[string][]string{
		"openai": {
			chatChunk(`{"reasoning_content":"Hmm."}`, "null"),
			chatChunk(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"weather","arguments":""}}]}`, "null"),
			chatChunk(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":"}}]}`, "null"),
			chatChunk(`{"tool_calls":[{"index":0,"function":{"arguments":"\"Bern\"}"}}]}`, `"tool_calls"`), chatDone,
		},
		"openai_responses": {
			responsesEvent("response.reasoning_text.delta", `,"item_id":"rs_1","output_index":0,"content_index":0,"delta":"Hmm."`),
			responsesEvent("response.output_item.added", `,"output_index":1,"item":{"id":"fc_1","type":"function_call","call_id":"c1","name":"weather","arguments":""}`),
			responsesEvent("response.function_call_arguments.delta", `,"item_id":"fc_1","output_index":1,"delta":"{\"city\":"`),
			responsesEvent("response.function_call_arguments.delta", `,"item_id":"fc_1","output_index":1,"delta":"\"Bern\"}"`),
			responsesEvent("response.completed", ","+responsesObject("completed", `,"error":null,"output":[],`+responsesUsage)),
		},
		"anthropic": append(append([]string{anthropicEvent("message_start", anthropicStart)},
			append(anthropicBlock(0, `{"type":"thinking","thinking":"","signature":""}`, `{"type":"thinking_delta","thinking":"Hmm."}`),
				anthropicBlock(1, `{"type":"tool_use","id":"c1","name":"weather","input":{}}`,
					`{"type":"input_json_delta","partial_json":"{\"city\":"}`, `{"type":"input_json_delta","partial_json":"\"Bern\"}"}`)...)...),
			anthropicEnd("tool_use")),
	}
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			server, _ := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) { stream(response, events[w.name]...) })
			listener := &overheard{}
			answer, err := adapterOf(t, w.kind, Config{}).Generate(t.Context(), w.request(server), listener)
			require.NoError(t, err)
			require.Len(t, answer.ToolCalls, 1)
			require.Equal(t, `Hmm.weather{"city":"Bern"}`, listener.unsaid.String())
			require.Empty(t, listener.pieces)
		})
	}
}

// overheard hears what is not said, too.
type overheard struct {
	heard
	unsaid strings.Builder
}

func (o *overheard) Unsaid(piece string) { o.unsaid.WriteString(piece) }

// only is one field of a JSON object.
func only(t *testing.T, body, field string) string {
	t.Helper()
	var whole map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(body), &whole))
	one, err := json.Marshal(map[string]json.RawMessage{field: whole[field]})
	require.NoError(t, err)
	return string(one)
}

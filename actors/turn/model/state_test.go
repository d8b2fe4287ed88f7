package model

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// stateful is a step of a turn with a provider that insists on what it has said beside its text and calls.
type stateful struct {
	name   string
	wire   wire
	step   string // the answer that asks for tools
	typ    string // "" = events
	wanted string // it, as the next request must have it
	text   string
	calls  int
	none   bool // there is no state
}

// stepOf is what stands between the question and the results of a request.
func (s *stateful) stepOf(t *testing.T, body string) any {
	t.Helper()
	var sent struct{ Messages, Input []any }
	require.NoError(t, json.Unmarshal([]byte(body), &sent))
	list := append(sent.Messages, sent.Input...)
	first, last := 1, len(list)-s.calls
	switch s.wire.name {
	case "openai":
		first = 2 // behind the instructions
	case "anthropic":
		last = len(list) - 1
	}
	return list[first:last]
}

// serve answers the first request with the step, and refuses one that does not have it as it was.
func (s *stateful) serve(t *testing.T) (*httptest.Server, *exchangeLog) {
	t.Helper()
	var wanted any
	require.NoError(t, json.Unmarshal([]byte(s.wanted), &wanted))
	var log *exchangeLog
	server, log := s.wire.serve(t, func(n int, response http.ResponseWriter, _ *http.Request) {
		switch {
		case n == 0 && s.typ != "":
			response.Header().Set("Content-Type", s.typ)
			_, _ = io.WriteString(response, s.step)
		case n == 0:
			stream(response, s.step)
		case !reflect.DeepEqual(s.stepOf(t, log.body), wanted):
			t.Logf("it has %s", log.body)
			http.Error(response, `{"error":{"message":"thoughts are missing"}}`, http.StatusBadRequest)
		default:
			stream(response, s.wire.answer("done"))
		}
	})
	return server, log
}

func (s *stateful) next(request *Request, answer *Answer) *Request {
	next := *request
	next.Step = 1
	next.Messages = append(append([]Message(nil), request.Messages...),
		Message{Role: Assistant, Content: answer.Text, ToolCalls: answer.ToolCalls, State: answer.State})
	for _, call := range answer.ToolCalls {
		next.Messages = append(next.Messages, Message{Role: ToolRole, ToolID: call.ID, Content: "rain"})
	}
	return &next
}

func testStates(t *testing.T, steps []stateful) {
	t.Helper()
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			server, log := s.serve(t)
			request := s.wire.request(server)
			request.Tools = []Tool{weatherTool()}
			answer, listener, err := s.wire.ask(t, Config{}, request)
			require.NoError(t, err)
			require.Equal(t, s.text, answer.Text)
			require.Len(t, answer.ToolCalls, s.calls)
			require.Equal(t, s.none, answer.State == nil)
			require.NotContains(t, listener.text(), "SECRET")
			last, _, err := s.wire.ask(t, Config{}, s.next(request, answer))
			require.NoError(t, err)
			require.Equal(t, "done", last.Text)
			require.Nil(t, last.State, "there is no next request")

			foreign := s.next(request, answer)
			foreign.Agent.Model.Name = "model-2"
			_, _, _ = s.wire.ask(t, Config{}, foreign) // refused or not
			require.NotContains(t, log.body, "SECRET", "another model is not sent it")
			require.Contains(t, log.body, "weather")
			for _, other := range wires() {
				if other.name == s.wire.name {
					continue
				}
				server, log := other.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) { stream(response, other.answer("ok")) })
				elsewhere := other.request(server)
				elsewhere.Messages = s.next(request, answer).Messages
				_, _, err := other.ask(t, Config{}, elsewhere)
				require.NoError(t, err)
				require.NotContains(t, log.body, "SECRET", "another provider is not sent it")
				require.Contains(t, log.body, "weather")
			}
		})
	}
}

const (
	thinkBegin = `{"type":"thinking","thinking":"","signature":""}`
	toolBegin  = `{"type":"tool_use","id":"c1","name":"weather","input":{}}`
	toolInput  = `{"type":"input_json_delta","partial_json":"{\"city\":\"Bern\"}"}`
	toolSent   = `{"type":"tool_use","id":"c1","name":"weather","input":{"city":"Bern"}}`
)

func TestMessagesState(t *testing.T) {
	w := anthropicWire()
	step := func(blocks ...[]string) string {
		return anthropicEvent("message_start", anthropicStart) + joinedBlocks(blocks...) + anthropicEnd("tool_use")
	}
	think := func(at int, thought, signature string) []string {
		return anthropicBlock(at, thinkBegin, `{"type":"thinking_delta","thinking":"`+thought+`"}`, `{"type":"signature_delta","signature":"`+signature+`"}`)
	}
	text := func(at int, text string) []string {
		return anthropicBlock(at, `{"type":"text","text":""}`, `{"type":"text_delta","text":"`+text+`"}`)
	}
	sent := func(blocks ...string) string {
		return `[{"role":"assistant","content":[` + strings.Join(blocks, ",") + `]}]`
	}
	testStates(t, []stateful{
		{
			name: "signed", wire: w, calls: 1, text: "Let me look.",
			step:   step(think(0, "Hm <SECRET>", "SECRET+/="), text(1, "Let me look."), anthropicBlock(2, toolBegin, toolInput)),
			wanted: sent(`{"type":"thinking","thinking":"Hm <SECRET>","signature":"SECRET+/="}`, `{"type":"text","text":"Let me look."}`, toolSent),
		},
		{
			name: "empty_and_redacted", wire: w, calls: 1,
			step:   step(anthropicBlock(0, thinkBegin, `{"type":"signature_delta","signature":"SECRET"}`), anthropicBlock(1, `{"type":"redacted_thinking","data":"SECRET"}`), anthropicBlock(2, toolBegin, toolInput)),
			wanted: sent(`{"type":"thinking","thinking":"","signature":"SECRET"}`, `{"type":"redacted_thinking","data":"SECRET"}`, toolSent),
		},
		{
			name: "in_between", wire: w, calls: 2, text: "One. Two.",
			step: step(text(0, "One."), think(1, "a", "SECRET1"), text(2, " Two."), anthropicBlock(3, toolBegin, toolInput), think(4, "b", "SECRET2"),
				anthropicBlock(5, `{"type":"tool_use","id":"c2","name":"weather","input":{"city":"Rome"}}`)),
			wanted: sent(`{"type":"text","text":"One."}`, `{"type":"thinking","thinking":"a","signature":"SECRET1"}`, `{"type":"text","text":" Two."}`, toolSent,
				`{"type":"thinking","thinking":"b","signature":"SECRET2"}`, `{"type":"tool_use","id":"c2","name":"weather","input":{"city":"Rome"}}`),
		},
		{
			name: "tools_of_the_provider", wire: w, calls: 1,
			step: step(anthropicBlock(0, `{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}`, `{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}`),
				anthropicBlock(1, `{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result","encrypted_content":"SECRET","page_age":null}]}`), anthropicBlock(2, toolBegin, toolInput)),
			wanted: sent(`{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"x"}}`,
				`{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result","encrypted_content":"SECRET","page_age":null}]}`, toolSent),
		},
		{
			name: "in_a_document", wire: w, calls: 1, typ: "application/json",
			step:   `{"id":"m","type":"message","role":"assistant","content":[{"type":"thinking","thinking":"Hm","signature":"SECRET"},` + toolSent + `],"stop_reason":"tool_use","usage":{"input_tokens":4,"output_tokens":7}}`,
			wanted: sent(`{"type":"thinking","thinking":"Hm","signature":"SECRET"}`, toolSent),
		},
		{
			name: "none", wire: w, calls: 1, text: "Hm.", none: true,
			step:   step(text(0, "Hm."), anthropicBlock(1, toolBegin, toolInput)),
			wanted: sent(`{"type":"text","text":"Hm."}`, toolSent),
		},
		{
			name: "too_long", wire: w, calls: 1, none: true,
			step:   step(think(0, strings.Repeat("x", maxState), "s"), anthropicBlock(1, toolBegin, toolInput)),
			wanted: sent(toolSent),
		},
	})
}

// TestMessagesStateOfAPause: what came before a pause is part of the step.
func TestMessagesStateOfAPause(t *testing.T) {
	w := anthropicWire()
	begin := anthropicEvent("message_start", anthropicStart)
	server, log := w.serve(t, func(n int, response http.ResponseWriter, _ *http.Request) {
		switch n {
		case 0:
			stream(response, begin+joinedBlocks(anthropicBlock(0, `{"type":"redacted_thinking","data":"d1"}`), anthropicBlock(1, `{"type":"text","text":"One."}`))+anthropicEnd("pause_turn"))
		case 1:
			stream(response, begin+joinedBlocks(anthropicBlock(0, `{"type":"redacted_thinking","data":"d2"}`), anthropicBlock(1, `{"type":"text","text":" Two."}`), anthropicBlock(2, toolBegin, toolInput))+anthropicEnd("tool_use"))
		default:
			stream(response, w.answer("done"))
		}
	})
	request := w.request(server)
	answer, _, err := w.ask(t, Config{}, request)
	require.NoError(t, err)
	s := stateful{wire: w, calls: 1}
	_, _, err = w.ask(t, Config{}, s.next(request, answer))
	require.NoError(t, err)
	encoded, err := json.Marshal(s.stepOf(t, log.body))
	require.NoError(t, err)
	require.JSONEq(t, `[{"role":"assistant","content":[{"type":"redacted_thinking","data":"d1"},{"type":"text","text":"One."},
		{"type":"redacted_thinking","data":"d2"},{"type":"text","text":" Two."},`+toolSent+`]}]`, string(encoded))
}

// TestStateOfAChangedMessage: text and calls are the message's, whatever the state says of their places.
func TestStateOfAChangedMessage(t *testing.T) {
	kept := []byte(`{"of":"me","parts":[{"raw":{"a":1}},{"text":3},{"call":2},{"raw":{"b":2}},{"call":1},{"call":1},{"call":9}]}`)
	calls := []ToolCall{{ID: "c1"}, {ID: "c2"}, {ID: "c3"}}
	raw := func(raw string) piece { return piece{raw: json.RawMessage(raw)} }
	whole := Message{Role: Assistant, Content: "abc", ToolCalls: calls, State: kept}
	require.Equal(t, []piece{raw(`{"a":1}`), {text: "abc"}, {call: &calls[1]}, raw(`{"b":2}`), {call: &calls[0]}, {call: &calls[2]}}, whole.pieces("me"))
	require.Equal(t, []piece{{text: "abc"}, {call: &calls[0]}, {call: &calls[1]}, {call: &calls[2]}}, whole.pieces("you"))
	changed := Message{Role: Assistant, Content: "longer", State: kept}
	require.Equal(t, []piece{raw(`{"a":1}`), {text: "longer"}, raw(`{"b":2}`)}, changed.pieces("me"))
	broken := Message{Role: Assistant, Content: "x", State: []byte(`{`)}
	require.Equal(t, []piece{{text: "x"}}, broken.pieces("me"))
}

func TestChatState(t *testing.T) {
	w := chatWire()
	step := func(deltas ...string) string {
		var whole strings.Builder
		for _, delta := range deltas {
			whole.WriteString(chatChunk(delta, "null"))
		}
		return whole.String() + chatChunk(`{}`, `"tool_calls"`) + chatUsage + chatDone
	}
	call := func(number int, id, more string) string {
		return fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":"weather","arguments":"{}"}%s}]}`, number, id, more)
	}
	sent := func(fields string, calls ...string) string {
		return `[{"role":"assistant"` + fields + `,"tool_calls":[` + strings.Join(calls, ",") + `]}]`
	}
	back := func(id, more string) string {
		return fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"weather","arguments":"{}"}%s}`, id, more)
	}
	testStates(t, []stateful{
		{
			name: "reasoning_content", wire: w, calls: 1, text: "Let me look.",
			step:   step(`{"reasoning_content":"Hm, \ud83c"}`, `{"reasoning_content":"\udf0d SECRET"}`, `{"content":"Let me look.","reasoning_content":null}`, call(0, "c1", "")),
			wanted: sent(`,"content":"Let me look.","reasoning_content":"Hm, 🌍 SECRET"`, back("c1", "")),
		},
		{
			name: "reasoning", wire: w, calls: 1,
			step:   step(`{"reasoning":"Hm, "}`, `{"reasoning":"SECRET"}`, call(0, "c1", `,"more":1`)),
			wanted: sent(`,"reasoning":"Hm, SECRET"`, back("c1", "")),
		},
		{
			name: "reasoning_details", wire: w, calls: 1,
			step: step(`{"reasoning":"SECRET","reasoning_details":[{"type":"reasoning.text","text":"SEC","format":"f","index":0}]}`,
				`{"reasoning_details":[{"type":"reasoning.text","text":"RET","format":"f","index":0}]}`,
				`{"reasoning_details":[{"type":"reasoning.text","signature":"SECRET","format":"f","index":0}]}`,
				`{"reasoning_details":[{"type":"reasoning.encrypted","data":"a","index":1},{"type":"reasoning.encrypted","data":"b","index":1}]}`,
				`{"reasoning_details":[{"type":"reasoning.encrypted","data":"c","index":1}]}`, call(0, "c1", "")),
			wanted: sent(`,"reasoning":"SECRET","reasoning_details":[{"type":"reasoning.text","text":"SECRET","format":"f","index":0,"signature":"SECRET"},
				{"type":"reasoning.encrypted","data":"a","index":1},{"type":"reasoning.encrypted","data":"b","index":1},{"type":"reasoning.encrypted","data":"c","index":1}]`, back("c1", "")),
		},
		{
			name: "thinking_blocks", wire: w, calls: 1,
			step: step(`{"thinking_blocks":[{"type":"thinking","thinking":"a","signature":""}]}`, `{"thinking_blocks":[{"type":"thinking","thinking":"b","signature":""}]}`,
				`{"thinking_blocks":[{"type":"thinking","thinking":"","signature":"SECRET"}]}`, `{"thinking_blocks":[{"type":"thinking","thinking":"c","signature":"SECRET"}]}`, call(0, "c1", "")),
			wanted: sent(`,"thinking_blocks":[{"type":"thinking","thinking":"ab","signature":"SECRET"},{"type":"thinking","thinking":"c","signature":"SECRET"}]`, back("c1", "")),
		},
		{
			name: "of_calls", wire: w, calls: 2,
			step: step(call(0, "c1", `,"extra_content":{"google":{"thought_signature":"SECRET 1"}}`), call(1, "c2", ""),
				`{"extra_content":{"google":{"thought_signature":"SECRET 2"}}}`),
			wanted: sent(`,"extra_content":{"google":{"thought_signature":"SECRET 2"}}`,
				back("c1", `,"extra_content":{"google":{"thought_signature":"SECRET 1"}}`), back("c2", "")),
		},
		{
			name: "of_calls_before_and_after_their_names", wire: w, calls: 2,
			step: step(`{"tool_calls":[{"index":0,"id":"c1","extra_content":{"s":"SECRET"}}]}`, call(0, "c1", ""), call(1, "c2", ""),
				`{"tool_calls":[{"index":1,"id":"c2","extra_content":{"s":"SECRET"}}]}`),
			wanted: sent("", back("c1", `,"extra_content":{"s":"SECRET"}`), back("c2", `,"extra_content":{"s":"SECRET"}`)),
		},
		{
			name: "of_a_repeated_call", wire: w, calls: 1,
			step:   step(call(0, "c1", ""), call(0, "c1", `,"extra_content":{"s":"SECRET"}`)),
			wanted: sent("", back("c1", `,"extra_content":{"s":"SECRET"}`)),
		},
		{
			name: "in_a_document", wire: w, calls: 1, typ: "application/json",
			step: `{"object":"chat.completion","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"annotations":[],"reasoning_content":"SECRET",
				"reasoning_details":[{"type":"reasoning.text","text":"a"},{"type":"reasoning.text","text":"b"}],"tool_calls":[` + back("c1", `,"extra_content":{"x":1}`) + `]}}]}`,
			wanted: sent(`,"reasoning_content":"SECRET","reasoning_details":[{"type":"reasoning.text","text":"a"},{"type":"reasoning.text","text":"b"}]`, back("c1", `,"extra_content":{"x":1}`)),
		},
		{
			name: "none", wire: w, calls: 1, none: true,
			step:   step(`{"content":[{"type":"thinking","thinking":"Hm"}]}`, call(0, "c1", `,"more":1`)),
			wanted: sent("", back("c1", "")),
		},
		{
			name: "too_long", wire: w, calls: 1, none: true,
			step:   step(`{"reasoning_content":"`+strings.Repeat("x", maxState)+`"}`, call(0, "c1", "")),
			wanted: sent("", back("c1", "")),
		},
	})
}

func TestResponsesState(t *testing.T) {
	w := responsesWire()
	added := func(at int, item string) string {
		return responsesEvent("response.output_item.added", fmt.Sprintf(`,"output_index":%d,"item":%s`, at, item))
	}
	done := func(at int, item string) string {
		return responsesEvent("response.output_item.done", fmt.Sprintf(`,"output_index":%d,"item":%s`, at, item))
	}
	completed := func(output ...string) string {
		return responsesEvent("response.completed", ","+responsesObject("completed", `,"error":null,"output":[`+strings.Join(output, ",")+`],`+responsesUsage))
	}
	thought := func(id, more string) string {
		return fmt.Sprintf(`{"id":%q,"type":"reasoning","summary":[]%s}`, id, more)
	}
	call := func(id string) string {
		return fmt.Sprintf(`{"id":"fc_%[1]s","type":"function_call","status":"completed","call_id":%[1]q,"name":"weather","arguments":"{}"}`, id)
	}
	back := func(id string) string {
		return fmt.Sprintf(`{"type":"function_call","call_id":%q,"name":"weather","arguments":"{}"}`, id)
	}
	said := `{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Let me look.","annotations":[]}]}`
	secret := thought("rs_1", `,"encrypted_content":"SECRET"`)
	testStates(t, []stateful{
		{
			name: "in_place", wire: w, calls: 2, text: "Let me look.",
			step: added(0, thought("rs_1", `,"encrypted_content":"begun"`)) + done(0, secret) + done(1, said) + done(2, call("c1")) +
				done(3, thought("rs_2", `,"encrypted_content":"SECRET","status":"completed"`)) + done(4, call("c2")) + completed(),
			wanted: `[` + secret + `,{"role":"assistant","content":"Let me look."},` + back("c1") + `,` + thought("rs_2", `,"encrypted_content":"SECRET","status":"completed"`) + `,` + back("c2") + `]`,
		},
		{
			name: "at_the_end", wire: w, calls: 1, text: "Let me look.",
			step: completed(secret, said, call("c1")), wanted: `[` + secret + `,{"role":"assistant","content":"Let me look."},` + back("c1") + `]`,
		},
		{
			name: "at_the_end_without_its_content", wire: w, calls: 1,
			step: done(0, secret) + completed(thought("rs_1", ""), call("c1")), wanted: `[` + secret + `,` + back("c1") + `]`,
		},
		{
			name: "open_thoughts", wire: w, calls: 1,
			step:   completed(thought("rs_1", `,"content":[{"type":"reasoning_text","text":"SECRET"}]`), call("c1")),
			wanted: `[` + thought("rs_1", `,"content":[{"type":"reasoning_text","text":"SECRET"}]`) + `,` + back("c1") + `]`,
		},
		{
			name: "known_to_the_provider_only", wire: w, calls: 1, none: true,
			step: completed(thought("rs_1", `,"encrypted_content":null`), call("c1")), wanted: `[` + back("c1") + `]`,
		},
		{
			name: "too_long", wire: w, calls: 1, none: true,
			step: completed(thought("rs_1", `,"encrypted_content":"`+strings.Repeat("x", maxState)+`"`), call("c1")), wanted: `[` + back("c1") + `]`,
		},
	})
}

// TestThoughtsAreNotAskedForTwice: a model that has none, or a server that does not know how to be asked, is asked without once it has
// refused, and that is remembered.
func TestThoughtsAreNotAskedForTwice(t *testing.T) {
	w := responsesWire()
	for _, refusal := range []string{
		`{"error":{"message":"Encrypted content is not supported with this model.","type":"invalid_request_error","param":"include","code":null}}`,
		`{"error":{"message":"Unknown parameter: 'include'."}}`,
	} {
		var log *exchangeLog
		server, log := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) {
			if strings.Contains(log.body, `"include"`) {
				http.Error(response, refusal, http.StatusBadRequest)
				return
			}
			stream(response, w.answer("ok"))
		})
		request := w.request(server)
		request.Tools = []Tool{weatherTool()}
		adapter := adapterOf(t, w.kind, Config{})
		for call := range 2 {
			answer, err := adapter.Generate(t.Context(), request, &heard{})
			require.NoError(t, err)
			require.Equal(t, "ok", answer.Text)
			require.EqualValues(t, 2+call, log.count.Load())
		}
	}
	server, log := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) {
		http.Error(response, `{"error":{"message":"please include a question"}}`, http.StatusBadRequest)
	})
	request := w.request(server)
	request.Tools = []Tool{weatherTool()}
	_, _, err := w.ask(t, Config{}, request)
	require.Contains(t, requireError(t, err, CodeInvalidRequest).Message, "include a question")
	require.EqualValues(t, 2, log.count.Load())
}

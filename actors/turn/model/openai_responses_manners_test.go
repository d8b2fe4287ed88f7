package model

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// manner is a way in which a service answers, and what is to come of it.
type manner struct {
	name   string
	events []string
	typ    string // of the content; "" = a stream of events
	text   string
	calls  []ToolCall
	stop   Stop   // "" = an error
	code   string // of the error
	says   string
	usage  Usage
	asked  int // requests, with two retries; 0 = 1
}

func (m *manner) check(t *testing.T, w wire) {
	t.Helper()
	server, seen := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) {
		if m.typ != "" {
			response.Header().Set("Content-Type", m.typ)
			_, _ = response.Write([]byte(strings.Join(m.events, "")))
			return
		}
		stream(response, m.events...)
	})
	answer, _, err := w.ask(t, Config{}, w.request(server))
	if m.stop == "" {
		require.Contains(t, requireError(t, err, m.code).Message, m.says)
	} else {
		require.NoError(t, err)
		require.Equal(t, m.stop, answer.Stop)
	}
	require.Equal(t, m.text, answer.Text)
	require.Equal(t, m.calls, answer.ToolCalls)
	require.Equal(t, m.usage, answer.Usage)
	require.EqualValues(t, max(m.asked, 1), seen.count.Load())
}

var fullUsage = Usage{InputTokens: 11, OutputTokens: 7, CachedInputTokens: 5, Known: true}

func responsesCompleted(output ...string) string {
	return responsesEvent("response.completed", ","+responsesObject("completed", `,"error":null,"incomplete_details":null,"output":[`+strings.Join(output, ",")+`],`+responsesUsage))
}

// responsesCall is an item; arguments is JSON of any kind.
func responsesCall(id, callID, name, arguments string) string {
	return fmt.Sprintf(`{"id":%q,"type":"function_call","status":"completed","call_id":%q,"name":%q,"arguments":%s}`, id, callID, name, arguments)
}

func responsesMessage(id, text string) string {
	return fmt.Sprintf(`{"id":%q,"type":"message","role":"assistant","content":[{"type":"output_text","text":%q,"annotations":[]}]}`, id, text)
}

func responsesAt(id string, index int, more string) string {
	return fmt.Sprintf(`,"item_id":%q,"output_index":%d%s`, id, index, more)
}

func TestResponsesManners(t *testing.T) {
	const seven = `"{\"x\":7}"`
	called := []ToolCall{{ID: "c1", Name: "f", Arguments: `{"x":7}`}}
	two := []ToolCall{{ID: "c1", Name: "f", Arguments: `{"x":7}`}, {ID: "c2", Name: "g", Arguments: `{"y":8}`}}
	itemAt := func(wanted string, index int, item string) string {
		return responsesEvent("response.output_item."+wanted, fmt.Sprintf(`,"output_index":%d,"item":%s`, index, item))
	}
	item := func(wanted, item string) string {
		return responsesEvent("response.output_item."+wanted, `,"item":`+item)
	}
	delta := func(kind, at, piece string) string {
		return responsesEvent("response."+kind+".delta", at+fmt.Sprintf(`,"content_index":0,"delta":%q`, piece))
	}
	end := func(event, status, more string) string {
		return responsesEvent("response."+event, ","+responsesObject(status, more+","+responsesUsage))
	}
	part := func(wanted, part string) string {
		return responsesEvent("response.content_part."+wanted, responsesAt("m1", 0, `,"content_index":0,"part":`+part))
	}
	const at0, args = `,"output_index":0`, "function_call_arguments"
	said := delta("output_text", responsesAt("m1", 0, ""), "Hel")
	bare := responsesCompleted()
	head := itemAt("added", 0, responsesCall("i1", "c1", "f", `""`))
	for _, m := range append([]manner{
		// A call in any of its places.
		{name: "call_in_added", events: []string{itemAt("added", 0, responsesCall("i1", "c1", "f", seven)), bare}, calls: called, stop: StopTools},
		{name: "call_in_item_done", events: []string{itemAt("done", 0, responsesCall("i1", "c1", "f", seven)), bare}, calls: called, stop: StopTools},
		{name: "call_in_output", events: []string{responsesCompleted(responsesCall("i1", "c1", "f", seven))}, calls: called, stop: StopTools},
		{name: "call_in_output_behind_text", events: []string{said, responsesCompleted(responsesMessage("m1", "Hello"), responsesCall("i1", "c1", "f", seven))}, text: "Hello", calls: called, stop: StopTools},
		{name: "arguments_in_deltas", events: []string{head, delta(args, responsesAt("i1", 0, ""), `{"x"`), delta(args, responsesAt("i1", 0, ""), `:7}`), bare}, calls: called, stop: StopTools},
		{name: "arguments_in_done", events: []string{head, responsesEvent("response.function_call_arguments.done", responsesAt("i1", 0, `,"arguments":`+seven)), bare}, calls: called, stop: StopTools},
		{name: "arguments_in_done_with_the_name", events: []string{responsesEvent("response.function_call_arguments.done", responsesAt("i1", 0, `,"name":"f","call_id":"c1","arguments":`+seven)), bare}, calls: called, stop: StopTools},
		{name: "arguments_in_item_done", events: []string{head, itemAt("done", 0, responsesCall("i1", "c1", "f", seven)), bare}, calls: called, stop: StopTools},
		{name: "arguments_in_output", events: []string{head, responsesCompleted(responsesCall("i1", "c1", "f", seven))}, calls: called, stop: StopTools},
		{name: "placeholder_then_deltas", events: []string{itemAt("added", 0, responsesCall("i1", "c1", "f", `"{}"`)), delta(args, responsesAt("i1", 0, ""), `{"x":7}`), bare}, calls: called, stop: StopTools},
		{name: "half_in_added", events: []string{itemAt("added", 0, responsesCall("i1", "c1", "f", `"{\"x\""`)), delta(args, responsesAt("i1", 0, ""), `:7}`), bare}, calls: called, stop: StopTools},
		{name: "the_final_one_counts", events: []string{head, delta(args, responsesAt("i1", 0, ""), `{"x":1}`), responsesCompleted(responsesCall("i1", "c1", "f", seven))}, calls: called, stop: StopTools},
		{name: "the_final_one_says_nothing", events: []string{head, delta(args, responsesAt("i1", 0, ""), `{"x":7}`), responsesCompleted(responsesCall("i1", "c1", "f", `""`))}, calls: called, stop: StopTools},
		{name: "arguments_are_an_object", events: []string{responsesCompleted(responsesCall("i1", "c1", "f", `{"x":7}`))}, calls: called, stop: StopTools},
		{name: "arguments_are_null", events: []string{head, responsesCompleted(responsesCall("i1", "c1", "f", `null`))}, calls: []ToolCall{{ID: "c1", Name: "f", Arguments: "{}"}}, stop: StopTools},
		{name: "everywhere", events: []string{
			itemAt("added", 0, responsesCall("i1", "c1", "f", seven)), delta(args, responsesAt("i1", 0, ""), `{"x":7}`),
			responsesEvent("response.function_call_arguments.done", responsesAt("i1", 0, `,"arguments":`+seven)),
			itemAt("done", 0, responsesCall("i1", "c1", "f", seven)), responsesCompleted(responsesCall("i1", "c1", "f", seven)),
		}, calls: called, stop: StopTools},
		{name: "item_without_a_type", events: []string{responsesCompleted(`{"id":"i1","call_id":"c1","name":"f","arguments":` + seven + `}`)}, calls: called, stop: StopTools},
		{name: "partial_call_at_the_length", events: []string{end("incomplete", "incomplete", `,"incomplete_details":{"reason":"max_output_tokens"},"output":[`+
			strings.Replace(responsesCall("i1", "c1", "f", `"{}"`), `"completed"`, `"incomplete"`, 1)+`]`)}, stop: StopLength},

		// Two of them, told apart by what there is.
		{name: "by_item_id", events: []string{
			item("added", responsesCall("i1", "c1", "f", `""`)), item("added", responsesCall("i2", "c2", "g", `""`)),
			delta(args, `,"item_id":"i2"`, `{"y":8}`), delta(args, `,"item_id":"i1"`, `{"x":7}`), bare,
		}, calls: two, stop: StopTools},
		{name: "by_item_id_under_one_index", events: []string{
			head, itemAt("added", 0, responsesCall("i2", "c2", "g", `""`)),
			delta(args, responsesAt("i1", 0, ""), `{"x":7}`), delta(args, responsesAt("i2", 0, ""), `{"y":8}`), bare,
		}, calls: two, stop: StopTools},
		{name: "by_index_without_ids", events: []string{
			itemAt("added", 0, responsesCall("", "c1", "f", `""`)), itemAt("added", 1, responsesCall("", "c2", "g", `""`)),
			delta(args, `,"output_index":1`, `{"y":8}`), delta(args, at0, `{"x":7}`), bare,
		}, calls: two, stop: StopTools},
		{name: "by_index_with_one_id", events: []string{
			head, itemAt("added", 1, responsesCall("i1", "c2", "g", `""`)),
			delta(args, responsesAt("i1", 1, ""), `{"y":8}`), delta(args, responsesAt("i1", 0, ""), `{"x":7}`), bare,
		}, calls: two, stop: StopTools},
		{name: "a_fresh_id_in_every_event", events: []string{
			head, itemAt("added", 1, responsesCall("i2", "c2", "g", `""`)),
			delta(args, responsesAt("r3", 0, ""), `{"x"`), delta(args, responsesAt("r4", 1, ""), `{"y":8}`), delta(args, responsesAt("r5", 0, ""), `:7}`),
			itemAt("done", 0, responsesCall("r6", "c1", "f", seven)), itemAt("done", 1, responsesCall("r7", "c2", "g", `"{\"y\":8}"`)),
			responsesCompleted(responsesCall("r8", "c1", "f", seven), responsesCall("r9", "c2", "g", `"{\"y\":8}"`)),
		}, calls: two, stop: StopTools},
		{name: "neither_id_nor_index", events: []string{
			item("added", responsesCall("", "c1", "f", `""`)), delta(args, "", `{"x":7}`), item("done", responsesCall("", "c1", "f", `""`)),
			item("added", responsesCall("", "c2", "g", `""`)), delta(args, "", `{"y":8}`), item("done", responsesCall("", "c2", "g", `""`)), bare,
		}, calls: two, stop: StopTools},
		{name: "arguments_under_another_index", events: []string{head, delta(args, `,"output_index":3`, `{"x"`), delta(args, `,"output_index":3`, `:7}`), bare}, calls: called, stop: StopTools},
		{name: "only_done_under_one_index", events: []string{
			itemAt("done", 0, responsesCall("i1", "c1", "f", seven)), itemAt("done", 0, responsesCall("i2", "c2", "g", `"{\"y\":8}"`)), bare,
		}, calls: two, stop: StopTools},
		{name: "one_in_the_stream_and_one_in_the_output", events: []string{
			itemAt("done", 0, responsesCall("i1", "c1", "f", seven)), responsesCompleted(responsesCall("i1", "c1", "f", seven), responsesCall("i2", "c2", "g", `"{\"y\":8}"`)),
		}, calls: two, stop: StopTools},
		{name: "one_id_for_two_calls", events: []string{responsesCompleted(responsesCall("i1", "c", "f", seven), responsesCall("i2", "c", "f", `"{}"`))}, calls: []ToolCall{
			{ID: "c", Name: "f", Arguments: `{"x":7}`}, {ID: "call_run1_0_1", Name: "f", Arguments: "{}"},
		}, stop: StopTools},
		{name: "no_ids", events: []string{responsesCompleted(responsesCall("", "", "f", seven), responsesCall("", "", "f", `"{}"`))}, calls: []ToolCall{
			{ID: "call_run1_0_0", Name: "f", Arguments: `{"x":7}`}, {ID: "call_run1_0_1", Name: "f", Arguments: "{}"},
		}, stop: StopTools},
		{name: "in_the_order_of_the_output", events: []string{
			itemAt("added", 1, responsesCall("i2", "c2", "g", `"{\"y\":8}"`)), itemAt("added", 0, responsesCall("i1", "c1", "f", seven)), bare,
		}, calls: two, stop: StopTools},

		// Text in any of its places.
		{name: "text_in_added", events: []string{itemAt("added", 0, responsesMessage("m1", "Hello")), bare}, text: "Hello", stop: StopEnd},
		{name: "text_in_part_added", events: []string{part("added", `{"type":"output_text","text":"Hello"}`), bare}, text: "Hello", stop: StopEnd},
		{name: "text_in_text_done", events: []string{said, responsesEvent("response.output_text.done", responsesAt("m1", 0, `,"content_index":0,"text":"Hello"`)), bare}, text: "Hello", stop: StopEnd},
		{name: "text_in_part_done", events: []string{said, part("done", `{"type":"output_text","text":"Hello"}`), bare}, text: "Hello", stop: StopEnd},
		{name: "text_in_item_done", events: []string{said, itemAt("done", 0, responsesMessage("m1", "Hello")), bare}, text: "Hello", stop: StopEnd},
		{name: "text_in_item_done_under_nothing", events: []string{delta("output_text", "", "Hel"), item("done", responsesMessage("", "Hello")), bare}, text: "Hello", stop: StopEnd},
		{name: "text_in_output", events: []string{said, responsesCompleted(responsesMessage("m1", "Hello"))}, text: "Hello", stop: StopEnd},
		{name: "text_in_output_under_another_id", events: []string{said, responsesCompleted(responsesMessage("m9", "Hello"))}, text: "Hello", stop: StopEnd},
		{name: "text_in_output_behind_a_thought", events: []string{said, responsesCompleted(`{"id":"r1","type":"reasoning","summary":[{"type":"summary_text","text":"Hm"}]}`, responsesMessage("m9", "Hello"))}, text: "Hello", stop: StopEnd},
		{name: "two_messages", events: []string{said, responsesCompleted(responsesMessage("m1", "Hello"), responsesMessage("m2", " you"))}, text: "Hello you", stop: StopEnd},
		{name: "what_was_said_stays", events: []string{said, responsesCompleted(responsesMessage("m1", "Other"))}, text: "Hel", stop: StopEnd},
		{name: "text_as_parts", events: []string{said, responsesEvent("response.output_text.delta", responsesAt("m1", 0, `,"delta":[{"type":"text","text":"lo"}]`)), bare}, text: "Hello", stop: StopEnd},
		{name: "content_is_a_text", events: []string{responsesCompleted(`{"type":"message","content":"Hello"}`)}, text: "Hello", stop: StopEnd},
		{name: "thoughts_are_no_text", events: []string{itemAt("done", 0, `{"id":"r1","type":"reasoning","summary":[{"type":"summary_text","text":"Hm"}],"content":[{"type":"reasoning_text","text":"Hmm"}]}`), responsesCompleted(responsesMessage("m1", "Hello"))}, text: "Hello", stop: StopEnd},
		{name: "refusal_in_done", events: []string{responsesEvent("response.refusal.done", responsesAt("m1", 0, `,"content_index":0,"refusal":"No."`)), bare}, text: "No.", stop: StopFilter},
		{name: "refusal_in_part", events: []string{part("done", `{"type":"refusal","refusal":"No."}`), bare}, text: "No.", stop: StopFilter},
		{name: "refusal_in_item_done", events: []string{itemAt("done", 0, `{"type":"message","content":[{"type":"refusal","refusal":"No."}]}`), bare}, text: "No.", stop: StopFilter},
		{name: "refusal_behind_its_deltas", events: []string{delta("refusal", responsesAt("m1", 0, ""), "N"), responsesCompleted(`{"id":"m1","type":"message","content":[{"type":"refusal","refusal":"No."}]}`)}, text: "No.", stop: StopFilter},

		// Ends.
		{name: "incomplete_without_details", events: []string{said, end("incomplete", "incomplete", `,"incomplete_details":null`)}, text: "Hel", code: CodeProviderError, says: "its response is incomplete"},
		{name: "incomplete_for_another_reason", events: []string{said, end("incomplete", "incomplete", `,"incomplete_details":{"reason":"meteor"}`)}, text: "Hel", code: CodeProviderError, says: "incomplete meteor"},
		{name: "incomplete_in_completed", events: []string{said, end("completed", "incomplete", `,"incomplete_details":{"reason":"max_output_tokens"}`)}, text: "Hel", stop: StopLength},
		{name: "completed_in_incomplete", events: []string{said, end("incomplete", "completed", ``)}, text: "Hel", code: CodeProviderError, says: "its response is incomplete"},
		{name: "failed_in_completed", events: []string{said, end("completed", "failed", `,"error":{"code":"server_error","message":"it broke"}`)}, text: "Hel", code: CodeProviderError, says: "it broke"},
		{name: "failed_without_words", events: []string{said, end("failed", "failed", `,"error":null`)}, text: "Hel", code: CodeProviderError, says: "its response is failed"},
		{name: "failed_in_a_text", events: []string{said, end("failed", "failed", `,"error":"it broke"`)}, text: "Hel", code: CodeProviderError, says: "it broke"},
		{name: "an_error_in_completed", events: []string{said, end("completed", "completed", `,"error":{"code":"server_error","message":"it broke"}`)}, text: "Hel", code: CodeProviderError, says: "it broke"},
		{name: "cancelled_in_completed", events: []string{said, end("completed", "cancelled", ``)}, text: "Hel", code: CodeProviderError, says: "cancelled"},
		{name: "cancelled", events: []string{said, end("cancelled", "cancelled", ``)}, text: "Hel", code: CodeProviderError, says: "cancelled"},
		{name: "another_status", events: []string{said, end("completed", "melted", ``)}, text: "Hel", code: CodeProviderError, says: "melted"},
		{name: "a_status_left_standing", events: []string{said, end("completed", "in_progress", ``)}, text: "Hel", stop: StopEnd},
		{name: "failed_before_anything", events: []string{end("failed", "failed", `,"error":{"code":"server_error","message":"it broke"}`)}, code: CodeProviderError, says: "it broke", asked: 3, usage: Usage{InputTokens: 33, OutputTokens: 21, CachedInputTokens: 15, Known: true}},
		{name: "no_end", events: []string{said}, text: "Hel", code: CodeCut, usage: Usage{}},
		{name: "only_an_end_mark", events: []string{"data: [DONE]\n\n"}, code: CodeCut, asked: 3},
		{name: "nothing", events: []string{""}, code: CodeCut, asked: 3},
		{name: "only_an_error", events: []string{`data: {"error":{"message":"it broke","type":"invalid_request_error"}}` + "\n\n", "data: [DONE]\n\n"}, code: CodeInvalidRequest, says: "it broke"},
		{name: "an_error_in_a_text", events: []string{said, `data: {"error":"it broke"}` + "\n\n"}, text: "Hel", code: CodeProviderError, says: "it broke"},
		{name: "an_error_object", events: []string{said, `data: {"object":"error","message":"it broke"}` + "\n\n"}, text: "Hel", code: CodeProviderError, says: "it broke"},
		{name: "an_error_message", events: []string{said, `data: {"choices":null,"error_message":"it broke"}` + "\n\n"}, text: "Hel", code: CodeProviderError, says: "it broke"},

		// The form.
		{name: "without_event_lines", events: []string{"data: {\"type\":\"response.output_text.delta\",\"delta\":\"Hello\"}\n\n", strings.SplitN(bare, "\n", 2)[1]}, text: "Hello", stop: StopEnd},
		{name: "data_with_nothing", events: []string{"data:\n\n", "data: \n\n", said, "data:\n\n", bare}, text: "Hel", stop: StopEnd},
		{name: "a_document", typ: "application/json", events: []string{responsesDocument("completed", responsesMessage("m1", "Hello"))}, text: "Hello", stop: StopEnd},
		{name: "a_document_over_lines", typ: "application/json", events: []string{"\r\n" + strings.ReplaceAll(responsesDocument("completed", responsesCall("i1", "c1", "f", seven)), ",\"", ",\n  \"")}, calls: called, stop: StopTools},
		{name: "a_document_called_a_stream", events: []string{responsesDocument("completed", responsesMessage("m1", "Hello"))}, text: "Hello", stop: StopEnd},
		{name: "a_document_in_an_event", events: []string{"data: " + responsesDocument("completed", responsesMessage("m1", "Hello")) + "\n\n"}, text: "Hello", stop: StopEnd},
		{name: "a_stream_called_a_document", typ: "application/json", events: []string{said, bare}, text: "Hel", stop: StopEnd},
		{name: "a_document_that_is_not_whole", typ: "application/json", events: []string{responsesDocument("in_progress", responsesMessage("m1", "Hel"))}, text: "Hel", code: CodeProviderError, says: "in_progress"},
		{name: "a_document_with_an_error", typ: "application/json", events: []string{"{\n \"error\": {\n  \"message\": \"it broke\"\n }\n}"}, code: CodeProviderError, says: "it broke"},
		{name: "half_a_document", typ: "application/json", events: []string{`{"object":"response","output":[`}, code: CodeCut, asked: 3},
		{name: "a_field_of_another_type", events: []string{said, responsesEvent("response.output_text.delta", responsesAt("m1", 0, `,"delta":7`))}, text: "Hel", code: CodeProviderError, says: "`delta`"},
		{name: "an_index_in_a_text", events: []string{head, delta(args, `,"output_index":"0"`, `{"x":7}`), bare}, calls: called, stop: StopTools},

		// Usage.
		{name: "usage_without_details", events: []string{said, strings.Replace(bare, responsesUsage, `"usage":{"input_tokens":11,"output_tokens":7,"input_tokens_details":null}`, 1)}, text: "Hel", stop: StopEnd, usage: Usage{InputTokens: 11, OutputTokens: 7, Known: true}},
		{name: "thoughts_in_usage", events: []string{said, strings.Replace(bare, `"reasoning_tokens":0`, `"reasoning_tokens":3`, 1)}, text: "Hel", stop: StopEnd, usage: Usage{InputTokens: 11, OutputTokens: 7, CachedInputTokens: 5, ReasoningTokens: 3, Known: true}},
		{name: "usage_before_the_end", events: []string{said, end("in_progress", "in_progress", ""), strings.Replace(bare, responsesUsage, `"usage":null`, 1)}, text: "Hel", stop: StopEnd},
		{name: "usage_in_part", events: []string{said, strings.Replace(bare, responsesUsage, `"usage":{"input_tokens":11}`, 1)}, text: "Hel", stop: StopEnd, usage: Usage{InputTokens: 11}},
	}, complaints()...) {
		t.Run(m.name, func(t *testing.T) {
			if m.usage == (Usage{}) && (m.stop != "" || strings.Contains(strings.Join(m.events, ""), responsesUsage)) {
				m.usage = fullUsage
			}
			m.check(t, responsesWire())
		})
	}
}

func responsesDocument(status string, output ...string) string {
	whole := responsesObject(status, `,"error":null,"output":[`+strings.Join(output, ",")+`],`+responsesUsage)
	return strings.TrimPrefix(whole, `"response":`)
}

// complaints are answers of every dialect that say only what went wrong.
func complaints() []manner {
	return []manner{
		{name: "a_list_of_errors", typ: "application/json", events: []string{`[{"error":{"code":400,"message":"it broke","status":"INVALID_ARGUMENT"}}]`}, code: CodeInvalidRequest, says: "it broke"},
		{name: "a_list_of_details", typ: "application/json", events: []string{`{"detail":[{"loc":["body","model"],"msg":"it broke","type":"missing"}]}`}, code: CodeProviderError, says: "model: it broke"},
		{name: "a_list_of_causes", typ: "application/json", events: []string{`{"errors":[{"message":"it broke"}]}`}, code: CodeProviderError, says: "it broke"},
		{name: "a_msg", typ: "application/json", events: []string{`{"code":1210,"msg":"it broke"}`}, code: CodeProviderError, says: "it broke"},
		{name: "plain_text", typ: "text/plain", events: []string{"it broke"}, code: CodeProviderError, says: "it broke"},
		{name: "a_page", typ: "text/html", events: []string{"<html><body><h1>it</h1>broke</body></html>"}, code: CodeProviderError, says: "it broke"},
	}
}

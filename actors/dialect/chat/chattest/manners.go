// Package chattest is how servers of Chat Completions are seen to answer, with what they mean: one table for all who read it.
package chattest

import "strings"

// Manner is an answer of a server.
type Manner struct {
	Name     string
	Body     string
	Document bool // Body is a JSON document, no stream

	Text, Thought string
	Calls         []Call
	Legacy        bool   // the call is the answer's `function_call`, which has no id
	Finish        string // "" = the answer is not complete
	Failure       string // a part of the words of its failure
	Input, Output int64  // usage; 0 = not told
	Details       string // of usage, as the provider says them
}

// Call is a tool call. An ID of "" is any that no other call of the answer has.
type Call struct{ ID, Name, Arguments string }

// Manners is the table.
func Manners() []Manner {
	return concat(texts(), ends(), calls(), legacy(), documents(), usages())
}

func concat(all ...[]Manner) (joined []Manner) {
	for _, some := range all {
		joined = append(joined, some...)
	}
	return joined
}

const (
	stop = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	done = "[DONE]"
)

// events is a stream.
func events(all ...string) string {
	return "data: " + strings.Join(all, "\n\ndata: ") + "\n\n"
}

// delta is an event with a delta of the first choice.
func delta(raw string) string { return `{"choices":[{"index":0,"delta":` + raw + `}]}` }

func text(piece string) string { return delta(`{"content":"` + piece + `"}`) }

func texts() []Manner {
	return []Manner{
		{Name: "plain", Body: events(text("Hel"), text("lo"), stop, done), Text: "Hello", Finish: "stop"},
		{Name: "content in parts", Text: "Hello", Thought: "hm yes", Finish: "stop", Body: events(
			delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm "}]}]}`),
			delta(`{"content":[{"type":"reasoning","text":"yes"},{"type":"text","text":"Hel"}]}`), delta(`{"content":[{"type":"text","text":"l"},"o"]}`), stop, done)},
		{Name: "one part", Body: events(delta(`{"content":{"type":"text","text":"Hello"}}`), stop, done), Text: "Hello", Finish: "stop"},
		{Name: "a part without words", Body: events(delta(`{"content":[{"type":"reference","reference_ids":[1]},{"text":"Hello"}]}`), stop, done), Text: "Hello", Finish: "stop"},
		{Name: "thoughts", Body: events(delta(`{"reasoning":"hm ","reasoning_content":null}`), delta(`{"reasoning_content":"yes","reasoning":"yes"}`), text("Hello"), stop, done), Text: "Hello", Thought: "hm yes", Finish: "stop"},
		{Name: "halves of a character", Body: events(text(`a\ud83d`), text(`\ude00b`), stop, done), Text: "a😀b", Finish: "stop"},
		{Name: "no half of a character", Body: events(text(`a\\ud83d`), text("b"), stop, done), Text: `a\ud83db`, Finish: "stop"},
		{Name: "half a character at the end", Body: events(text("a"), text(`\ud83d`), stop, done), Text: "a", Finish: "stop"},
		{Name: "lone CR", Body: strings.ReplaceAll(events(text("Hel"), text("lo"), stop, done), "\n", "\r"), Text: "Hello", Finish: "stop"},
		{Name: "CRLF", Body: strings.ReplaceAll(events(text("Hel"), text("lo"), stop, done), "\n", "\r\n"), Text: "Hello", Finish: "stop"},
		{Name: "data with nothing behind", Body: "data:\n\ndata: \n\n" + events(text("Hello")) + "data:\n\n" + events(stop, done), Text: "Hello", Finish: "stop"},
		{Name: "comments and other events", Body: ": ping\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n" + events(text("Hello"), stop, done), Text: "Hello", Finish: "stop"},
		{Name: "an event over several lines", Body: events(`{"choices": [`+"\ndata: "+`{"index":0,"delta":{"content":"Hello"}}]}`, stop, done), Text: "Hello", Finish: "stop"},
		{Name: "no index", Body: events(`{"choices":[{"delta":{"content":"Hello"}}]}`, stop, done), Text: "Hello", Finish: "stop"},
		{Name: "index as a text", Body: events(`{"choices":[{"index":"0","delta":{"content":"Hello"}}]}`, stop, done), Text: "Hello", Finish: "stop"},
		{Name: "delta null", Body: events(text("Hello"), `{"choices":[{"index":0,"delta":null}]}`, `{"choices":null}`, stop, done), Text: "Hello", Finish: "stop"},
		{Name: "a message at last", Body: events(text("Hello"), `{"choices":[{"index":0,"delta":{},"message":{"content":"Hello"},"finish_reason":"stop"}]}`, done), Text: "Hello", Finish: "stop"},
		{Name: "content is a number", Body: events(text("Hello"), delta(`{"content":7}`), stop, done), Text: "Hello", Failure: "content is a number"},
		{Name: "choices is an object", Body: events(text("Hello"), `{"choices":{"a":1}}`, stop, done), Text: "Hello", Failure: "choices is an object"},
	}
}

func ends() []Manner {
	ended := func(reason string) string {
		return `{"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"` + reason + `"}]}`
	}
	return []Manner{
		{Name: "without the end mark", Body: events(text("Hello"), stop), Text: "Hello", Finish: "stop"},
		{Name: "cut behind the end", Body: events(text("Hello"), stop) + `data: {"usage":`, Text: "Hello", Finish: "stop"},
		{Name: "cut within an event", Body: events(text("Hello")) + `data: {"choices":[`, Text: "Hello", Failure: " "},
		{Name: "without a finish_reason", Body: events(text("Hello"), done), Text: "Hello", Finish: "stop"},
		{Name: "empty finish_reason", Body: events(`{"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":""}]}`, stop, done), Text: "Hello", Finish: "stop"},
		{Name: "finish_reason twice", Body: events(text("Hello"), stop, stop, done), Text: "Hello", Finish: "stop"},
		{Name: "an empty answer", Body: events(stop, done), Finish: "stop"},
		{Name: "length", Body: events(text("Hel"), ended("length"), done), Text: "Hello", Finish: "length"},
		{Name: "MAX_TOKENS", Body: events(text("Hel"), ended("MAX_TOKENS"), done), Text: "Hello", Finish: "length"},
		{Name: "eos", Body: events(text("Hel"), ended("eos"), done), Text: "Hello", Finish: "stop"},
		{Name: "content_filter", Body: events(text("Hel"), ended("content_filter"), done), Text: "Hello", Finish: "content_filter"},
		{Name: "neither finish_reason nor end mark", Body: events(text("Hello")), Text: "Hello", Failure: " "},
		{Name: "an unknown finish_reason", Body: events(text("Hel"), ended("insufficient_system_resource"), done), Text: "Hello", Failure: "insufficient_system_resource"},
		{
			Name: "an unknown finish_reason with an error", Text: "Hel", Failure: "the upstream broke",
			Body: events(text("Hel"), `{"choices":[{"index":0,"delta":{},"finish_reason":"error","error":{"code":502,"message":"the upstream broke"}}]}`, done),
		},
		{
			Name: "an error beside the end", Text: "Hello", Failure: "the upstream broke",
			Body: events(text("Hel"), `{"error":{"code":502,"message":"the upstream broke"},"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"error"}]}`),
		},
		{Name: "an error in mid-stream", Body: events(text("Hello"), `{"error":{"message":"the upstream broke"}}`, done), Text: "Hello", Failure: "the upstream broke"},
		{Name: "an error that is no event", Body: events(text("Hello")) + "{\"error\":{\n\"message\":\"the upstream broke\"}}\n", Text: "Hello", Failure: "the upstream broke"},
		{Name: "only an error object", Body: events(`{"object":"error","message":"the upstream broke","code":400}`), Failure: "the upstream broke"},
		{Name: "only an error", Body: events(`{"error":{"message":"the upstream broke","type":"invalid_request_error"}}`), Failure: "the upstream broke"},
		{Name: "only a text of an error", Body: events(`{"error":"the upstream broke"}`, done), Failure: "the upstream broke"},
		{Name: "only an error_message", Body: events(`{"choices":null,"error_message":"the upstream broke","error_code":"invalid_request"}`, done), Failure: "the upstream broke"},
		{Name: "an error over several lines", Body: "data: {\ndata:   \"error\": {\ndata:     \"message\": \"the upstream broke\"\ndata:   }\ndata: }\n\n", Failure: "the upstream broke"},
		{Name: "an error over unmarked lines", Body: "data: {\n  \"error\": {\n    \"message\": \"the upstream broke\"\n  }\n}\n\n", Failure: "the upstream broke"},
		{Name: "a list of errors", Body: events(`[{"error":{"message":"the upstream broke"}}]`), Failure: "the upstream broke"},
		{Name: "only the end mark", Body: events(done), Failure: " "},
		{Name: "only a role", Body: events(delta(`{"role":"assistant","content":""}`), done), Failure: " "},
		{Name: "nothing", Body: "", Failure: " "},
		{Name: "only comments", Body: ": ping\n\n: ping\n\n", Failure: " "},
	}
}

// call is an event with one piece of a call.
func call(raw string) string { return delta(`{"tool_calls":[` + raw + `]}`) }

const toolsEnd = `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`

// calls are in pairs: what is sent, and two calls, alpha of {"x":1} and beta of {"y":2}, or as said.
func calls() []Manner {
	two := []Call{{"", "alpha", `{"x":1}`}, {"", "beta", `{"y":2}`}}
	named := []Call{{"c1", "alpha", `{"x":1}`}, {"c2", "beta", `{"y":2}`}}
	one := []Call{{"c1", "alpha", `{"x":1}`}}
	tools := func(name string, want []Call, pieces ...string) Manner {
		var all []string
		for _, piece := range pieces {
			all = append(all, call(piece))
		}
		return Manner{Name: name, Calls: want, Finish: "tool_calls", Body: events(append(all, toolsEnd, done)...)}
	}
	return []Manner{
		tools("calls", named,
			`{"index":0,"id":"c1","type":"function","function":{"name":"alpha","arguments":""}}`, `{"index":0,"function":{"arguments":"{\"x\""}}`,
			`{"index":1,"id":"c2","type":"function","function":{"name":"beta","arguments":""}}`, `{"index":0,"function":{"arguments":":1}"}}`,
			`{"index":1,"function":{"arguments":"{\"y\":2}"}}`),
		tools("arguments as an object", one, `{"index":0,"id":"c1","function":{"name":"alpha","arguments":{"x":1}}}`),
		tools("arguments null", one, `{"index":0,"id":"c1","function":{"name":"alpha","arguments":null}}`, `{"index":0,"id":null,"function":{"name":null,"arguments":"{\"x\":1}"}}`),
		tools("halves of a character in arguments", []Call{{"c1", "alpha", `{"x":"😀"}`}},
			`{"index":0,"id":"c1","function":{"name":"alpha","arguments":"{\"x\":\"\ud83d"}}`, `{"index":0,"function":{"arguments":"\ude00\"}"}}`),
		tools("name repeated in every piece", one,
			`{"index":0,"id":"c1","function":{"name":"alpha","arguments":""}}`, `{"index":0,"id":"c1","function":{"name":"alpha","arguments":"{\"x\""}}`,
			`{"index":0,"id":"c1","function":{"name":"alpha","arguments":":1}"}}`, `{"index":0,"id":"c1","function":{"name":"alpha","arguments":""}}`),
		tools("two under one index", named,
			`{"index":0,"id":"c1","function":{"name":"alpha","arguments":"{\"x\":1}"}}`, `{"index":0,"id":"c2","function":{"name":"beta","arguments":"{\"y\":2}"}}`),
		tools("two of one tool under one index", []Call{{"c1", "alpha", `{"x":1}`}, {"c2", "alpha", `{"x":1}`}},
			`{"index":0,"id":"c1","function":{"name":"alpha","arguments":"{\"x\":1}"}}`, `{"index":0,"id":"c2","function":{"name":"alpha","arguments":"{\"x\":1}"}}`),
		tools("two without arguments under one index", []Call{{"c1", "alpha", ""}, {"c2", "beta", ""}},
			`{"index":0,"id":"c1","function":{"name":"alpha","arguments":""}}`, `{"index":0,"id":"c2","function":{"name":"beta","arguments":""}}`),
		tools("arguments under the next index", named,
			`{"index":0,"id":"c1","function":{"name":"alpha"}}`, `{"index":1,"function":{"arguments":"{\"x\""}}`, `{"index":1,"function":{"arguments":":1}"}}`,
			`{"index":1,"id":"c2","function":{"name":"beta"}}`, `{"index":2,"function":{"arguments":"{\"y\":2}"}}`),
		tools("arguments under index 0", named,
			`{"index":0,"id":"c1","function":{"name":"alpha"}}`, `{"index":0,"function":{"arguments":"{\"x\":1}"}}`,
			`{"index":1,"id":"c2","function":{"name":"beta"}}`, `{"index":0,"function":{"arguments":"{\"y\""}}`, `{"index":0,"function":{"arguments":":2}"}}`),
		tools("arguments by id under index 0", named,
			`{"index":0,"id":"c1","function":{"name":"alpha"}}`, `{"index":1,"id":"c2","function":{"name":"beta"}}`,
			`{"index":0,"id":"c2","function":{"arguments":"{\"y\":2}"}}`, `{"index":0,"id":"c1","function":{"arguments":"{\"x\":1}"}}`),
		tools("a new id in every piece", one,
			`{"index":0,"id":"c1","function":{"name":"alpha","arguments":""}}`, `{"index":0,"id":"c9","function":{"arguments":"{\"x\""}}`,
			`{"index":0,"id":"c8","function":{"arguments":":1}"}}`, `{"index":0,"id":"c7","function":{"arguments":""}}`),
		tools("a new id and the name in every piece", one,
			`{"index":0,"id":"c1","function":{"name":"alpha","arguments":""}}`, `{"index":0,"id":"c9","function":{"name":"alpha","arguments":"{\"x\""}}`,
			`{"index":0,"id":"c8","function":{"name":"alpha","arguments":":1}"}}`),
		tools("neither index nor id", two,
			`{"function":{"name":"alpha","arguments":""}}`, `{"function":{"arguments":"{\"x\":1}"}}`, `{"function":{"name":"beta","arguments":"{\"y\":2}"}}`),
		tools("neither index nor id in one list", two,
			`{"function":{"name":"alpha","arguments":"{\"x\":1}"}},{"function":{"name":"beta","arguments":"{\"y\":2}"}}`),
		tools("one tool twice in one list", []Call{{"", "alpha", ""}, {"", "alpha", ""}},
			`{"function":{"name":"alpha","arguments":""}},{"function":{"name":"alpha","arguments":""}}`),
		tools("one id for two", two,
			`{"index":0,"id":"call","function":{"name":"alpha","arguments":""}}`, `{"index":0,"function":{"arguments":"{\"x\":1}"}}`,
			`{"index":1,"id":"call","function":{"name":"beta","arguments":""}}`, `{"index":1,"function":{"arguments":"{\"y\":2}"}}`),
		tools("one id for two under one index", two,
			`{"index":0,"id":"call","function":{"name":"alpha","arguments":"{\"x\":1}"}}`, `{"index":0,"id":"call","function":{"name":"beta","arguments":"{\"y\":2}"}}`),
		tools("one id for two of one tool", []Call{{"", "alpha", `{"x":1}`}, {"", "alpha", `{"x":2}`}},
			`{"index":0,"id":"call","function":{"name":"alpha","arguments":"{\"x\":1}"}}`, `{"index":1,"id":"call","function":{"name":"alpha","arguments":"{\"x\":2}"}}`),
		tools("indexes with gaps", named,
			`{"index":3,"id":"c1","function":{"name":"alpha","arguments":"{\"x\":1}"}}`, `{"index":7,"id":"c2","function":{"name":"beta","arguments":"{\"y\":2}"}}`),
		tools("the name after the id", one, `{"index":0,"id":"c1","type":"function"}`, `{"index":0,"function":{"name":"alpha"}}`, `{"index":0,"function":{"arguments":"{\"x\":1}"}}`),
		tools("the name after the arguments", one, `{"index":0,"id":"c1","function":{"arguments":"{\"x\":"}}`, `{"index":0,"function":{"name":"alpha","arguments":"1}"}}`),
		tools("the name in pieces", one, `{"index":0,"id":"c1","function":{"name":"al"}}`, `{"index":0,"function":{"name":"pha"}}`, `{"index":0,"function":{"arguments":"{\"x\":1}"}}`),
		tools("all arguments once more", one, `{"index":0,"id":"c1","function":{"name":"alpha","arguments":"{\"x\":"}}`, `{"index":0,"function":{"arguments":"1}"}}`,
			`{"index":0,"id":"c1","function":{"name":"alpha","arguments":"{\"x\":1}"}}`),
		tools("no function around", one, `{"index":0,"id":"c1","name":"alpha","arguments":"{\"x\":1}"}`),
		{Name: "calls without a finish_reason", Calls: one, Finish: "tool_calls", Body: events(call(`{"id":"c1","function":{"name":"alpha","arguments":"{\"x\":1}"}}`), done)},
		{Name: "one call, no list", Calls: one, Finish: "tool_calls", Body: events(delta(`{"tool_calls":{"id":"c1","function":{"name":"alpha","arguments":"{\"x\":1}"}}}`), toolsEnd, done)},
		{Name: "a call without a name", Failure: "name", Text: "Hello", Body: events(text("Hello"), call(`{"index":0,"id":"c1","function":{"arguments":"{\"x\":1}"}}`), toolsEnd, done)},
	}
}

// legacy is how servers call a function that know no lists of calls, or say both.
func legacy() []Manner {
	const end = `{"choices":[{"index":0,"delta":{},"finish_reason":"function_call"}]}`
	alpha := []Call{{"", "alpha", `{"x":1}`}}
	function := func(raw string) string { return delta(`{"function_call":` + raw + `}`) }
	made := func(name, finish string, all ...string) Manner {
		return Manner{Name: name, Calls: alpha, Legacy: true, Finish: finish, Body: events(append(all, done)...)}
	}
	message := func(name, message, finish string) Manner {
		return Manner{Name: name, Document: true, Calls: alpha, Legacy: true, Finish: finish, Body: `{"object":"chat.completion","choices":[{"index":0,` + message + `}]}`}
	}
	pieces := made("function_call", "function_call", delta(`{"role":"assistant","content":null,"function_call":{"name":"alpha","arguments":""}}`),
		function(`{"arguments":"{\"x\""}`), function(`{"arguments":":1}"}`), end)
	both := Manner{Name: "function_call beside tool_calls", Calls: []Call{{"c1", "alpha", `{"x":1}`}}, Finish: "tool_calls", Body: events(
		delta(`{"function_call":{"name":"alpha","arguments":"{\"x\":1}"},"tool_calls":[{"index":0,"id":"c1","function":{"name":"alpha","arguments":"{\"x\":1}"}}]}`),
		delta(`{"function_call":{"arguments":""}}`), toolsEnd, done)}
	return []Manner{
		pieces, both,
		made("function_call with its name in every piece", "function_call", function(`{"name":"alpha","arguments":"{\"x\""}`), function(`{"name":"alpha","arguments":":1}"}`), end),
		made("function_call once more at last", "function_call", function(`{"name":"alpha"}`), function(`{"arguments":{"x":1}}`), function(`{"name":"alpha","arguments":"{\"x\":1}"}`), end),
		made("function_call that ends with stop", "stop", function(`{"name":"alpha","arguments":"{\"x\":1}"}`), function(`{"name":null,"arguments":null}`), stop),
		made("function_call without a finish_reason", "function_call", function(`{"name":"alpha","arguments":"{\"x\":1}"}`)),
		message("a document with function_call", `"message":{"content":null,"function_call":{"name":"alpha","arguments":"{\"x\":1}"}},"finish_reason":"function_call"`, "function_call"),
		message("a document with function_call and an empty list", `"message":{"content":"","function_call":{"name":"alpha","arguments":{"x":1}},"tool_calls":[]}`, "function_call"),
		{Name: "an empty function_call", Text: "Hello", Finish: "stop", Body: events(delta(`{"content":"Hello","function_call":{}}`), function(`{"name":"","arguments":""}`), stop, done)},
		{Name: "a function_call that is a text", Text: "Hello", Failure: "function_call is a text", Body: events(text("Hello"), function(`"alpha"`), stop, done)},
		{Name: "a second function_call", Calls: []Call{{"", "alpha", "{}"}}, Failure: "second function_call", Body: events(function(`{"name":"alpha","arguments":"{}"}`), function(`{"name":"beta","arguments":"{}"}`), end, done)},
	}
}

// documents are answers in one piece. In a stream's place each is that, too.
func documents() []Manner {
	message := func(raw, finish string) string {
		return `{"id":"x","object":"chat.completion","created":5,"choices":[{"index":0,"message":` + raw + `,"finish_reason":` + finish + `}],` +
			`"usage":{"prompt_tokens":3,"completion_tokens":2}}`
	}
	whole := func(m Manner) Manner {
		m.Document = true
		if strings.Contains(m.Body, "prompt_tokens") {
			m.Input, m.Output = 3, 2
		}
		return m
	}
	return []Manner{
		whole(Manner{Name: "a document", Body: message(`{"role":"assistant","content":"Hello","refusal":null}`, `"stop"`), Text: "Hello", Finish: "stop"}),
		whole(Manner{Name: "a document over several lines", Body: strings.ReplaceAll(message(`{"role":"assistant","content":"Hello"}`, `"stop"`), ",", ",\r\n  "), Text: "Hello", Finish: "stop"}),
		whole(Manner{Name: "a document without a finish_reason", Body: message(`{"content":"Hello"}`, `null`), Text: "Hello", Finish: "stop"}),
		whole(Manner{Name: "a document in parts", Body: message(`{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"Hello"}]}`, `"stop"`), Text: "Hello", Thought: "hm", Finish: "stop"}),
		whole(Manner{Name: "a document with thoughts", Body: message(`{"reasoning":"hm","content":"Hello"}`, `"stop"`), Text: "Hello", Thought: "hm", Finish: "stop"}),
		whole(Manner{
			Name: "a document with calls", Finish: "tool_calls", Calls: []Call{{"c1", "alpha", `{"x":1}`}, {"", "beta", `{"y":2}`}, {"", "alpha", `{"x":1}`}},
			Body: message(`{"content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"alpha","arguments":"{\"x\":1}"}},`+
				`{"id":"c1","function":{"name":"beta","arguments":{"y":2}}},{"index":0,"function":{"name":"alpha","arguments":"{\"x\":1}"}}]}`, `"tool_calls"`),
		}),
		whole(Manner{Name: "a document with an unknown end", Body: message(`{"content":"Hello"}`, `"banana"`), Text: "Hello", Failure: "banana"}),
		whole(Manner{Name: "an error for a document", Body: `{"object":"error","message":"the upstream broke"}`, Failure: "the upstream broke"}),
		whole(Manner{Name: "an error_message for a document", Body: `{"choices":null,"error_message":"the upstream broke"}`, Failure: "the upstream broke"}),
		whole(Manner{Name: "an error for a document over several lines", Body: "{\n  \"error\": {\n    \"message\": \"the upstream broke\"\n  }\n}\n", Failure: "the upstream broke"}),
		whole(Manner{Name: "a list of errors for a document", Body: `[{"error":{"code":400,"message":"the upstream broke","status":"INVALID_ARGUMENT"}}]`, Failure: "the upstream broke"}),
		whole(Manner{Name: "a detail for a document", Body: `{"detail":"the upstream broke"}`, Failure: "the upstream broke"}),
		whole(Manner{Name: "a list of details for a document", Body: `{"detail":[{"loc":["body","model"],"msg":"the upstream broke","type":"missing"}]}`, Failure: "model: the upstream broke"}),
		whole(Manner{Name: "a list of causes for a document", Body: `{"errors":[{"message":"the upstream broke"},"twice"]}`, Failure: "the upstream broke; twice"}),
		whole(Manner{Name: "a msg for a document", Body: `{"code":1210,"msg":"the upstream broke"}`, Failure: "the upstream broke"}),
		{Name: "plain text", Body: "the upstream broke", Failure: "the upstream broke"},
		{Name: "a page", Body: "<!DOCTYPE html>\n<html><head><title>x</title></head>\n<body><h1>the upstream</h1>\n<p>broke</p></body></html>", Failure: "the upstream broke"},
		whole(Manner{Name: "a document without choices", Body: `{"id":"x","choices":[]}`, Failure: "choices"}),
	}
}

func usages() []Manner {
	usage := func(raw string) string { return `{"choices":[],"usage":` + raw + `}` }
	const details = `"prompt_tokens_details":{"cached_tokens":4,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":6}`
	return []Manner{
		{
			Name: "cumulative usage", Text: "Hello", Finish: "stop", Input: 9, Output: 8, Details: details,
			Body: events(`{"choices":[{"index":0,"delta":{"content":"Hello"}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}`,
				`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":5,`+details+`}}`,
				usage(`{"prompt_tokens":null,"completion_tokens":8}`), usage(`{}`), usage(`null`), done),
		},
		{Name: "usage of a choice", Body: events(text("Hello"), `{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":9,"completion_tokens":8}}]}`, done), Text: "Hello", Finish: "stop", Input: 9, Output: 8},
		{Name: "usage with an unknown end", Body: events(text("Hello"), `{"choices":[{"index":0,"delta":{},"finish_reason":"banana"}],"usage":{"prompt_tokens":9,"completion_tokens":8}}`), Text: "Hello", Failure: "banana", Input: 9, Output: 8},
		{Name: "usage with an error", Body: events(text("Hello"), `{"error":{"message":"the upstream broke"},"usage":{"prompt_tokens":5000,"completion_tokens":8}}`), Text: "Hello", Failure: "the upstream broke", Input: 5000, Output: 8},
	}
}

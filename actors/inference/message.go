package inference

import (
	"strconv"

	"parley/actors/dialect/chat"
	"parley/actors/machine/rawjson"
)

// appendDelta renders what a delta says, without braces.
func appendDelta(dst []byte, delta *chat.Delta) []byte {
	begin := len(dst)
	for _, text := range [...]struct {
		name  string
		value rawjson.Text
	}{{"reasoning_content", delta.Thought}, {"content", delta.Text}, {"refusal", delta.Refusal}} {
		if text.value != nil {
			dst = append(appendName(dst, begin, text.name), text.value...)
		}
	}
	return appendFields(appendCalls(dst, begin, delta.Calls, true), begin, delta.Rest)
}

// appendCalls renders what there is of the calls. A legacy one is alone.
func appendCalls(dst []byte, begin int, calls []chat.Call, numbered bool) []byte {
	if len(calls) == 0 {
		return dst
	}
	if calls[0].Kind == chat.Legacy {
		return appendFunction(appendName(dst, begin, "function_call"), &calls[0], "arguments")
	}
	dst = append(appendName(dst, begin, "tool_calls"), '[')
	for i := range calls {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendCall(dst, &calls[i], numbered)
	}
	return append(dst, ']')
}

// appendName begins a field of an object whose first field began at a place.
func appendName(dst []byte, begin int, name string) []byte {
	if len(dst) > begin {
		dst = append(dst, ',')
	}
	return append(rawjson.AppendString(dst, name), ':')
}

func appendFields(dst []byte, begin int, fields rawjson.Fields) []byte {
	for _, field := range fields {
		dst = append(appendName(dst, begin, field.Name), field.Value...)
	}
	return dst
}

// appendCall renders what there is of a tool call.
func appendCall(dst []byte, call *chat.Call, numbered bool) []byte {
	dst = append(dst, '{')
	begin := len(dst)
	if numbered {
		dst = strconv.AppendInt(append(dst, `"index":`...), int64(call.Number), 10)
	}
	kind, arguments := "function", "arguments"
	if call.Kind == chat.Custom {
		kind, arguments = "custom", "input"
	}
	if call.First {
		id := call.ID
		if id == "" { // none, or that of another call
			id = "call_" + randomHex()
		}
		dst = rawjson.AppendString(appendName(dst, begin, "id"), id)
		dst = rawjson.AppendString(appendName(dst, begin, "type"), kind)
	}
	if call.First || call.Name != "" || call.Arguments != nil {
		dst = appendFunction(appendName(dst, begin, kind), call, arguments)
	}
	return append(appendFields(dst, begin, call.Rest), '}')
}

// appendFunction renders what is called, and with what.
func appendFunction(dst []byte, call *chat.Call, arguments string) []byte {
	dst = append(dst, '{')
	inner := len(dst)
	if call.First || call.Name != "" {
		dst = rawjson.AppendString(append(dst, `"name":`...), call.Name)
	}
	if call.First || call.Arguments != nil {
		dst = appendText(appendName(dst, inner, arguments), call.Arguments)
	}
	return append(dst, '}')
}

func appendText(dst []byte, text rawjson.Text) []byte {
	if text == nil {
		return append(dst, '"', '"')
	}
	return append(dst, text...)
}

func appendFinish(dst []byte, finish chat.Finish) []byte {
	if finish == "" {
		return append(dst, "null"...)
	}
	return rawjson.AppendString(dst, string(finish))
}

// appendChoice renders a choice of an answer in one piece.
func appendChoice(dst []byte, delta *chat.Delta) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(delta.Choice), 10)
	dst = append(dst, `,"message":{"role":"assistant","content":`...)
	if delta.Text == nil && (delta.Calls != nil || delta.Refusal != nil) {
		dst = append(dst, "null"...)
	} else {
		dst = appendText(dst, delta.Text)
	}
	dst = append(dst, `,"refusal":`...)
	dst = appendOrNull(dst, delta.Refusal)
	if delta.Thought != nil {
		dst = append(append(dst, `,"reasoning_content":`...), delta.Thought...)
	}
	dst = appendCalls(dst, 0, delta.Calls, false)
	dst = appendFields(dst, 0, delta.Rest)
	dst = append(dst, `},"logprobs":`...)
	dst = appendOrNull(dst, delta.Logprobs)
	dst = append(dst, `,"finish_reason":`...)
	dst = appendFinish(dst, delta.Finish)
	return append(appendFields(dst, 0, delta.Beside), '}')
}

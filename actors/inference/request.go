package inference

import (
	"encoding/json"
	"slices"
	"strconv"

	"parley/actors/machine/rawjson"
)

// chatFields are passed on as they are; model, stream and the output cap are set here.
//
//nolint:gochecknoglobals // a constant table
var chatFields = []string{
	"messages", "temperature", "top_p", "stop", "presence_penalty", "frequency_penalty", "seed", "user", "tools", "tool_choice",
	"parallel_tool_calls", "response_format", "reasoning", "reasoning_effort", "n", "logprobs", "top_logprobs",
}

//nolint:gochecknoglobals // a constant table
var embedFields = []string{"input", "encoding_format", "dimensions", "user"}

//nolint:gochecknoglobals // a constant table
var moderateFields = []string{"input"}

// ownFields are ours: nothing overrides them, and they are never passed on as they came.
//
//nolint:gochecknoglobals // a constant table
var ownFields = []string{
	"model", "messages", "input", "stream", "stream_options", "max_tokens", "max_completion_tokens", "extra_body", "request_id",
	"provider", "providerKey", "route", "routing", "fallback", "models", "api_key", "api_base", "base_url", "headers",
}

// outgoing builds the body for a provider.
type outgoing struct {
	target *target
	body   []byte
	names  []string
}

func newOutgoing(t *target, call *Call, known []string) *outgoing {
	size := 256
	for i := range call.Body {
		size += len(call.Body[i].Value) + 32
	}
	o := &outgoing{target: t, body: append(make([]byte, 0, size), '{')}
	o.set("model", rawjson.AppendString(nil, t.model.GetName()))
	for _, field := range call.Body {
		listed := slices.Contains(known, field.Name)
		unknown := t.settings.passUnknown && !slices.Contains(ownFields, field.Name)
		if (listed || unknown) && !rawjson.IsNull(field.Value) {
			o.add(field)
		}
	}
	return o
}

// add adds a field unless the model does not take it, or it is there.
func (o *outgoing) add(field rawjson.Field) {
	if slices.Contains(o.target.settings.unsupported, field.Name) {
		return
	}
	o.set(field.Name, field.Value)
}

func (o *outgoing) set(name string, value []byte) {
	if slices.Contains(o.names, name) {
		return
	}
	if len(o.names) > 0 {
		o.body = append(o.body, ',')
	}
	o.names = append(o.names, name)
	o.body = rawjson.AppendString(o.body, name)
	o.body = append(o.body, ':')
	o.body = append(o.body, value...)
}

// finish adds what the request's extra_body and the record say, and ends the body.
func (o *outgoing) finish(call *Call) []byte {
	extra, _ := rawjson.Object(call.Body.Get("extra_body")) // what is no object adds nothing
	for _, fields := range []rawjson.Fields{extra, o.target.settings.extra, o.target.settings.defaults} {
		for _, field := range fields {
			if !slices.Contains(ownFields, field.Name) {
				o.add(field)
			}
		}
	}
	return append(o.body, '}')
}

// chatBody is a request for an OpenAI-compatible provider. Its usage is always asked for. The provider whose own the wire form
// is has replaced max_tokens by max_completion_tokens; those who imitate it know the old name.
func chatBody(t *target, call *Call, streamed bool) []byte {
	o := newOutgoing(t, call, chatFields)
	if limit := outputCap(t, call); limit > 0 {
		name := "max_tokens"
		if t.model.GetBaseUrl() == "" {
			name = "max_completion_tokens"
		}
		o.add(rawjson.Field{Name: name, Value: strconv.AppendInt(nil, limit, 10)})
	}
	if streamed {
		o.set("stream", []byte("true"))
		o.add(rawjson.Field{Name: "stream_options", Value: []byte(`{"include_usage":true}`)})
	}
	return o.finish(call)
}

// outputCap is what the request asks for (max_completion_tokens wins), at most the model's own cap; 0 = neither says.
func outputCap(t *target, call *Call) int64 {
	asked := number(call.Body.Get("max_completion_tokens"))
	if asked <= 0 {
		asked = number(call.Body.Get("max_tokens"))
	}
	own := int64(t.model.GetMaxOutputTokens())
	if own > 0 && asked > own {
		return own
	}
	return max(asked, 0)
}

// number reads a whole number; 0 = it is none.
func number(raw []byte) int64 {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err == nil {
		return n
	}
	var f float64
	if len(raw) == 0 || json.Unmarshal(raw, &f) != nil || f < 0 || f > 1e9 {
		return 0
	}
	return int64(f)
}

package inference

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"parley/actors/machine/rawjson"
	"parley/actors/provider"
)

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

func newOutgoing(t *target, call *Call) *outgoing {
	size := 256
	for i := range call.Body {
		size += len(call.Body[i].Value) + 32
	}
	o := &outgoing{target: t, body: append(make([]byte, 0, size), '{')}
	o.set("model", rawjson.AppendString(nil, t.model.GetName()))
	return o
}

// listed is a body with the fields of a list, and others where the record lets them pass.
func listed(t *target, call *Call, known []string) *outgoing {
	o := newOutgoing(t, call)
	for _, field := range call.Body {
		unknown := t.settings.passUnknown && !slices.Contains(ownFields, field.Name)
		if (slices.Contains(known, field.Name) || unknown) && !rawjson.IsNull(field.Value) {
			o.add(field)
		}
	}
	return o
}

// add adds a field unless the model does not take it, or it is there.
func (o *outgoing) add(field rawjson.Field) {
	if slices.Contains(o.target.model.GetUnsupportedParams(), field.Name) {
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

// chatBody is a request for an OpenAI-compatible provider. Its usage is asked for, unless the provider does not know how.
func chatBody(t *target, call *Call, streamed bool) ([]byte, *Error) {
	o := newOutgoing(t, call)
	for _, field := range call.Body {
		if rawjson.IsNull(field.Value) || slices.Contains(t.model.GetUnsupportedParams(), field.Name) {
			continue
		}
		how, refused := t.judge(field)
		if refused != nil {
			return nil, refused
		}
		if how == pass {
			o.set(field.Name, field.Value)
		}
	}
	limit, refused := outputCap(t, call)
	if refused != nil {
		return nil, refused
	}
	if name := t.capName(call); limit > 0 && name != "" {
		o.set(name, strconv.AppendInt(nil, limit, 10))
	}
	if streamed {
		o.set("stream", []byte("true"))
	}
	if streamed && t.takes(provider.StreamOptions) {
		o.set(provider.StreamOptions, []byte(`{"include_usage":true}`))
	}
	return o.finish(call), nil
}

// capName is under which name the output cap goes out: as it came. The provider whose own the wire form is has replaced
// max_tokens by max_completion_tokens; those who imitate it know one of them, or both: the model's record says which, or their refusal.
func (t *target) capName(call *Call) string {
	return provider.CapName(t.model.GetBaseUrl() == "" || !rawjson.IsNull(call.Body.Get(provider.MaxCompletionTokens)), t.takes)
}

// takes says whether the provider takes a parameter, as far as the record says, or its refusals.
func (t *target) takes(name string) bool {
	return !slices.Contains(t.model.GetUnsupportedParams(), name) && !slices.Contains(t.without, name) && !t.refused.Has(t.refusing(name))
}

// refusing is what is remembered of a refused parameter.
func (t *target) refusing(name string) string {
	return t.model.GetBaseUrl() + "\n" + t.model.GetName() + "\n" + name
}

// relay makes the attempts of a chat completion. What its provider does not know is left out, or goes out under its other name; that is
// remembered.
func (c *Caller) relay(ctx context.Context, call *Call, t *target, streamed bool, try func(ctx context.Context, body []byte) error) error {
	body, refused := chatBody(t, call, streamed)
	if refused != nil {
		return refused
	}
	kind, sent := provider.Whole, []string{t.capName(call)}
	if streamed {
		kind, sent = provider.Streamed, append(sent, provider.StreamOptions)
	}
	err := c.attempts(ctx, t, kind, func(ctx context.Context) error {
		for {
			err := try(ctx, body)
			name := provider.Refused(err, t.takes, sent...)
			if name == "" {
				return err
			}
			t.without = append(t.without, name)
			body, _ = chatBody(t, call, streamed) // it was not refused before
		}
	})
	if err == nil {
		for _, name := range t.without {
			c.refused.Note(t.refusing(name), true)
		}
	}
	return err
}

// outputCap is what the request asks for (max_completion_tokens wins), at most the model's own cap; 0 = neither says.
func outputCap(t *target, call *Call) (int64, *Error) {
	var asked int64
	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		value := call.Body.Get(name)
		if rawjson.IsNull(value) {
			continue
		}
		if asked = number(value); asked <= 0 {
			return 0, invalid(name, "`"+name+"` must be a whole number above 0")
		}
	}
	own := int64(t.model.GetMaxOutputTokens())
	if own > 0 && asked > own {
		return t.affords(own), nil
	}
	return t.affords(asked), nil
}

// number reads a whole number; 0 = it is not one.
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

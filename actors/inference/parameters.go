package inference

import (
	"bytes"
	"encoding/json"
	"slices"

	"parley/actors/machine/rawjson"
	"parley/proto/agentpb"
)

// treatment is what becomes of a parameter at one kind of provider.
type treatment int

const (
	// own: read and set by this package, wherever the provider has it.
	own treatment = iota
	// pass: goes out as it came, under its own name.
	pass
	// allowed: as pass, if the model's settings let unlisted fields pass, else refused: it costs more than the model's price
	// says, or leaves something with the provider.
	allowed
	// mapped: said in the provider's own words; a value that it has no words for is refused.
	mapped
	// ignored: has no effect on the answer.
	ignored
	// refused: the provider has nothing like it.
	refused
)

// parameter is one row: what becomes of a parameter of POST /chat/completions.
type parameter struct {
	name      string
	relayed   treatment // an OpenAI-compatible provider
	responses treatment // the Responses API
	messages  treatment // the Messages API
	scripted  treatment // the stand-in
	neutral   []string  // values, compact, that say what holds anyway: nowhere refused
}

// parameters is every parameter that the official clients know, by name. null is nothing in each of them. What is not here is
// passed on where the model's settings say so (document 3, 10.1), and is else no parameter of this surface. Beyond the
// document's list are those that the official clients send.
//
//nolint:gochecknoglobals // a constant table
var parameters = []parameter{
	{"audio", allowed, refused, refused, ignored, nil},
	{"extra_body", own, own, own, ignored, nil},
	{"frequency_penalty", pass, refused, refused, ignored, []string{"0", "0.0"}},
	{"function_call", pass, refused, refused, refused, []string{`"auto"`, `"none"`}},
	{"functions", pass, refused, refused, refused, []string{"[]"}},
	{"logit_bias", pass, refused, refused, ignored, []string{"{}"}},
	{"logprobs", pass, refused, refused, refused, []string{"false"}},
	{"max_completion_tokens", own, own, own, own, nil},
	{"max_tokens", own, own, own, own, nil},
	{"messages", pass, own, own, own, nil},
	{"metadata", pass, pass, ignored, ignored, nil},
	{"modalities", allowed, refused, refused, refused, []string{`["text"]`}},
	{"model", own, own, own, own, nil},
	{"moderation", allowed, allowed, refused, ignored, nil},
	{"n", pass, refused, refused, refused, []string{"1"}},
	{"parallel_tool_calls", pass, pass, mapped, ignored, nil},
	{"prediction", pass, ignored, ignored, ignored, nil},
	{"presence_penalty", pass, refused, refused, ignored, []string{"0", "0.0"}},
	{"prompt_cache_key", pass, pass, ignored, ignored, nil},
	{"prompt_cache_options", pass, pass, ignored, ignored, nil},
	{"prompt_cache_retention", pass, pass, ignored, ignored, nil},
	{"reasoning", pass, mapped, mapped, ignored, nil},
	{"reasoning_effort", pass, mapped, mapped, ignored, nil},
	{"request_id", own, own, own, own, nil},
	{"response_format", pass, mapped, mapped, ignored, []string{`{"type":"text"}`}},
	{"safety_identifier", pass, pass, mapped, ignored, nil},
	{"seed", pass, refused, refused, ignored, nil},
	{"service_tier", allowed, allowed, mapped, ignored, []string{`"auto"`}},
	{"stop", pass, refused, mapped, ignored, []string{"[]"}},
	{"store", allowed, refused, refused, ignored, []string{"false"}},
	{"stream", own, own, own, own, nil},
	{"stream_options", own, own, own, own, nil},
	{"temperature", pass, own, own, own, nil},
	{"tool_choice", pass, mapped, mapped, mapped, []string{`"auto"`}},
	{"tools", pass, own, own, own, nil},
	{"top_logprobs", pass, refused, refused, refused, []string{"0"}},
	{"top_p", pass, own, own, own, nil},
	{"user", pass, pass, mapped, ignored, nil},
	{"verbosity", pass, mapped, refused, ignored, []string{`"medium"`}},
	{"web_search_options", allowed, refused, refused, refused, nil},
}

func parameterOf(name string) (parameter, bool) {
	at, known := slices.BinarySearchFunc(parameters, name, func(p parameter, name string) int {
		return bytes.Compare([]byte(p.name), []byte(name))
	})
	if !known {
		return parameter{}, false
	}
	return parameters[at], true
}

// at is what becomes of the parameter with a kind of provider.
func (p parameter) at(provider agentpb.Provider) treatment {
	switch provider {
	case agentpb.Provider_OPENAI:
		return p.relayed
	case agentpb.Provider_OPENAI_RESPONSES:
		return p.responses
	case agentpb.Provider_ANTHROPIC:
		return p.messages
	default:
		return p.scripted
	}
}

// isNeutral says whether a value only asks for the default.
func (p parameter) isNeutral(value []byte) bool {
	var compact bytes.Buffer
	if json.Compact(&compact, value) != nil {
		return false
	}
	return slices.Contains(p.neutral, compact.String())
}

// judge decides the treatment of a request's field, or refuses it. A neutral value needs none.
func (t *target) judge(field rawjson.Field) (treatment, *Error) {
	row, listed := parameterOf(field.Name)
	switch {
	case !listed && t.settings.passUnknown && !slices.Contains(ownFields, field.Name):
		return pass, nil
	case !listed:
		return ignored, nil
	}
	how := row.at(t.model.GetProvider())
	switch {
	case how != allowed && how != refused:
		return how, nil
	case how == allowed && t.settings.passUnknown:
		return pass, nil
	case row.isNeutral(field.Value):
		return ignored, nil
	case how == allowed:
		return refused, invalid(field.Name, "`"+field.Name+"` is not passed on to this model: its settings would have to allow it (allowUnknownPassthrough)")
	}
	return refused, unsupported(field.Name)
}

func unsupported(name string) *Error {
	text := "`" + name + "` is not supported by this model"
	if name == "functions" || name == "function_call" {
		text += ": use `tools` and `tool_choice`"
	}
	return invalid(name, text)
}

// asked is a request combined with the model's record: unsupported parameters are left out, the record's defaults added.
func (t *target) asked(call *Call) rawjson.Fields {
	fields := make(rawjson.Fields, 0, len(call.Body)+len(t.settings.defaults))
	take := func(field rawjson.Field) {
		if !rawjson.IsNull(field.Value) && !slices.Contains(t.model.GetUnsupportedParams(), field.Name) {
			fields = append(fields, field)
		}
	}
	for _, field := range call.Body {
		take(field)
	}
	for _, field := range t.settings.defaults {
		if rawjson.IsNull(call.Body.Get(field.Name)) && !slices.Contains(ownFields, field.Name) {
			take(field)
		}
	}
	return fields
}

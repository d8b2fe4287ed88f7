package chat

import (
	"encoding/json"
	"strings"

	"parley/actors/machine/rawjson"
	"parley/actors/provider"
)

// Finish is why a choice ended.
type Finish string

// Reasons of Finish, as the protocol has them.
const (
	Stop         Finish = "stop"
	Length       Finish = "length"
	ToolCalls    Finish = "tool_calls"
	FunctionCall Finish = "function_call"
	Filter       Finish = "content_filter"
)

// finishOf is what the words of a known server mean; false = nobody knows.
func finishOf(reason string) (Finish, bool) {
	switch strings.ToLower(reason) {
	case "stop", "end_turn", "eos", "eos_token", "stop_sequence", "stop_token":
		return Stop, true
	case "length", "max_tokens", "model_length", "max_output_tokens", "max_completion_tokens":
		return Length, true
	case "tool_calls", "tool_call", "tool_use":
		return ToolCalls, true
	case "function_call":
		return FunctionCall, true
	case "content_filter", "content_filtered", "safety", "sensitive", "refusal":
		return Filter, true
	}
	return "", false
}

// unknownEnd is the failure of a choice that ended for a reason that nobody knows.
func (r *Reader) unknownEnd(reason string, choice []byte) error {
	fields, _ := rawjson.Object(choice) // it was split before
	if provider.Complains(fields, true) {
		return provider.Complaint(0, choice, r.secrets)
	}
	document, _ := json.Marshal(map[string]any{"error": map[string]string{ // texts always encode
		"message": "the answer ended with finish_reason " + reason, "code": reason,
	}})
	return provider.Complaint(0, document, r.secrets)
}

// complaint is the failure that an event tells, nil = it tells none.
func (r *Reader) complaint(event []byte, chunk rawjson.Fields) error {
	if !provider.Complains(chunk, chunk.Get("choices") != nil) {
		return nil
	}
	return provider.Complaint(0, event, r.secrets)
}

func misshapen(what string) error {
	return &provider.Failure{Class: provider.Unreadable, Message: what, Reason: provider.ErrUnreadable}
}

func isEmpty(raw []byte) bool {
	return rawjson.IsNull(raw) || string(raw) == `""` || string(raw) == "[]"
}

package inference

import (
	"encoding/json"
	"slices"
	"strings"

	"parley/actors/machine/rawjson"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
)

// wire collects the fields of a provider's own form that package model does not set by itself.
type wire struct {
	target   *target
	tools    []model.Tool
	settings model.Settings
	plain    map[string]json.RawMessage
	nested   map[string]map[string]json.RawMessage
}

// translate says what a request asks for in the provider's own words, or which parameter it has no words for.
func translate(t *target, asked rawjson.Fields, tools []model.Tool) (model.Settings, *Error) {
	w := &wire{target: t, tools: tools, plain: map[string]json.RawMessage{}, nested: map[string]map[string]json.RawMessage{}}
	for _, field := range sorted(asked) {
		how, failed := t.judge(field)
		if failed != nil {
			return model.Settings{}, failed
		}
		switch how {
		case pass:
			w.plain[field.Name] = field.Value
		case mapped:
			failed = w.translate(field)
		case own, allowed, ignored, refused:
		}
		if failed != nil {
			return model.Settings{}, failed
		}
	}
	if t.model.GetProvider() == agentpb.Provider_SCRIPTED {
		return model.Settings{}, nil // it has no form of its own
	}
	for name, parts := range w.nested {
		encoded, err := json.Marshal(parts)
		if err != nil {
			return model.Settings{}, invalid(name, "the request is not valid JSON")
		}
		w.plain[name] = encoded
	}
	w.addExtra(asked)
	w.settings.Extra = w.plain
	return w.settings, nil
}

// ownOf are the fields of the providers' forms that package model sets: extra_body does not override them.
func ownOf(provider agentpb.Provider) []string {
	switch provider {
	case agentpb.Provider_OPENAI_RESPONSES:
		return []string{"background", "conversation", "instructions", "max_output_tokens", "previous_response_id", "store", "tools"}
	case agentpb.Provider_ANTHROPIC:
		return []string{"system", "tools"}
	default: // the others have no form of their own
		return nil
	}
}

// addExtra adds what extra_body and the record say, in the provider's form; what is there already stays.
func (w *wire) addExtra(asked rawjson.Fields) {
	extra, _ := rawjson.Object(asked.Get("extra_body")) // what is no object adds nothing
	for _, fields := range []rawjson.Fields{extra, w.target.settings.extra} {
		for _, field := range fields {
			_, there := w.plain[field.Name]
			there = there || field.Name == "tool_choice" && (w.settings.Choice != nil || w.settings.Parallel != nil)
			ours := slices.Contains(ownFields, field.Name) || slices.Contains(ownOf(w.target.model.GetProvider()), field.Name)
			sampled := (field.Name == "temperature" || field.Name == "top_p") && asked.Get(field.Name) != nil
			if !there && !ours && !sampled && !slices.Contains(w.target.model.GetUnsupportedParams(), field.Name) {
				w.plain[field.Name] = field.Value
			}
		}
	}
}

func (w *wire) put(name, part string, value any) *Error {
	encoded, err := json.Marshal(value)
	if err != nil {
		return invalid(name, "`"+name+"` is not valid JSON")
	}
	if w.nested[name] == nil {
		w.nested[name] = map[string]json.RawMessage{}
	}
	w.nested[name][part] = encoded
	return nil
}

func (w *wire) translate(field rawjson.Field) *Error {
	toMessages := w.target.model.GetProvider() == agentpb.Provider_ANTHROPIC
	switch field.Name {
	case "tool_choice":
		return w.toolChoice(field.Value)
	case "response_format":
		return w.format(field.Value, toMessages)
	case "reasoning", "reasoning_effort":
		return w.reasoning(field, toMessages)
	case "verbosity":
		return w.text("text", "verbosity", field)
	case "stop":
		return w.stop(field.Value)
	case "parallel_tool_calls":
		return w.parallel(field.Value)
	case "safety_identifier", "user":
		if field.Name == "user" && w.nested["metadata"] != nil {
			return nil // the newer name for the same thing was there
		}
		return w.text("metadata", "user_id", field)
	case "service_tier":
		return w.tier(field)
	}
	return unsupported(field.Name)
}

// text puts a parameter that is a text where the provider has it.
func (w *wire) text(name, part string, field rawjson.Field) *Error {
	var text string
	if json.Unmarshal(field.Value, &text) != nil {
		return invalid(field.Name, "`"+field.Name+"` must be a string")
	}
	return w.put(name, part, text)
}

// tier: the Messages API knows whether a request may use what was reserved, and no more.
func (w *wire) tier(field rawjson.Field) *Error {
	var text string
	if json.Unmarshal(field.Value, &text) != nil {
		return invalid(field.Name, "`service_tier` must be a string")
	}
	switch text {
	case "auto":
		w.plain[field.Name] = json.RawMessage(`"auto"`)
	case "default":
		w.plain[field.Name] = json.RawMessage(`"standard_only"`)
	default:
		return invalid(field.Name, "`service_tier` must be auto or default for this model")
	}
	return nil
}

func (w *wire) stop(value []byte) *Error {
	var one string
	if json.Unmarshal(value, &one) == nil {
		value, _ = json.Marshal([]string{one}) // a text always encodes
	}
	var all []string
	if json.Unmarshal(value, &all) != nil {
		return invalid("stop", "`stop` must be a string or an array of strings")
	}
	if len(all) > 0 {
		w.plain["stop_sequences"] = value
	}
	return nil
}

// toolChoice says whether the model may call tools.
func (w *wire) toolChoice(value []byte) *Error {
	const text = "`tool_choice` must be none, auto, required or a function of `tools` for this model"
	var mode string
	var named struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if json.Unmarshal(value, &mode) != nil {
		if json.Unmarshal(value, &named) != nil || named.Type != "function" {
			return invalid("tool_choice", text)
		}
		mode = "function"
	}
	if !slices.Contains([]string{"none", "auto", "required", "function"}, mode) {
		return invalid("tool_choice", text)
	}
	if len(w.tools) == 0 {
		if mode == "none" || mode == "auto" {
			return nil
		}
		return invalid("tool_choice", "`tool_choice` needs `tools`")
	}
	name := named.Function.Name
	if mode == "function" && !slices.ContainsFunc(w.tools, func(tool model.Tool) bool { return tool.Name == name }) {
		return invalid("tool_choice", "`tool_choice` names a function that is not among `tools`")
	}
	w.settings.Choice = &model.Choice{Mode: mode, Name: name}
	return nil
}

// parallel is part of the choice of tools in the Messages API, which without tools has none.
func (w *wire) parallel(value []byte) *Error {
	var parallel bool
	if json.Unmarshal(value, &parallel) != nil {
		return invalid("parallel_tool_calls", "`parallel_tool_calls` must be true or false")
	}
	if !parallel && len(w.tools) > 0 {
		w.settings.Parallel = &parallel
	}
	return nil
}

// format is the form of the answer. The Messages API keeps to every schema, and has no mode of any JSON.
func (w *wire) format(value []byte, toMessages bool) *Error {
	var said struct {
		Type   string `json:"type"`
		Schema struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Schema      json.RawMessage `json:"schema"`
			Strict      *bool           `json:"strict"`
		} `json:"json_schema"`
	}
	if json.Unmarshal(value, &said) != nil {
		return invalid("response_format", "`response_format` must be an object with a type")
	}
	schema, err := rawjson.Object(said.Schema.Schema)
	switch {
	case said.Type == "text":
		return nil
	case said.Type == "json_object" && !toMessages:
		return w.put("text", "format", map[string]string{"type": "json_object"})
	case said.Type != "json_schema":
		return invalid("response_format", "`response_format` of type "+shorten(said.Type)+" is not supported by this model")
	case said.Schema.Name == "" || err != nil || rawjson.IsNull(said.Schema.Schema):
		return invalid("response_format", "`response_format` needs a json_schema with a name and a schema")
	case !toMessages:
		return w.put("text", "format", struct {
			Type        string          `json:"type"`
			Name        string          `json:"name"`
			Description string          `json:"description,omitempty"`
			Schema      json.RawMessage `json:"schema"`
			Strict      *bool           `json:"strict,omitempty"`
		}{"json_schema", said.Schema.Name, said.Schema.Description, said.Schema.Schema, said.Schema.Strict})
	}
	whole := map[string]json.RawMessage{}
	for _, field := range schema {
		whole[field.Name] = field.Value
	}
	if _, described := whole["description"]; !described && said.Schema.Description != "" {
		whole["description"], _ = json.Marshal(said.Schema.Description) // a text always encodes
	}
	return w.put("output_config", "format", map[string]any{"type": "json_schema", "schema": whole})
}

// reasoning is how hard the model is to think. `reasoning` holds more than that for the Responses API.
func (w *wire) reasoning(field rawjson.Field, toMessages bool) *Error {
	effort := field.Value
	if field.Name == "reasoning" {
		fields, err := rawjson.Object(field.Value)
		if err != nil {
			return invalid(field.Name, "`reasoning` must be an object")
		}
		effort = nil
		for _, part := range fields {
			switch {
			case rawjson.IsNull(part.Value):
			case part.Name == "effort":
				effort = part.Value
			case toMessages:
				return invalid(field.Name, "`reasoning` can only hold effort for this model")
			default:
				_ = w.put("reasoning", part.Name, part.Value) // it was split from JSON
			}
		}
		if effort == nil {
			return nil
		}
	}
	var text string
	if json.Unmarshal(effort, &text) != nil {
		return invalid(field.Name, "the effort of reasoning must be a string")
	}
	if !toMessages {
		return w.effort(field.Name, "reasoning", text)
	}
	known := []string{"low", "medium", "high", "xhigh", "max"}
	switch {
	case text == "none":
		w.plain["thinking"] = json.RawMessage(`{"type":"disabled"}`)
		return nil
	case !slices.Contains(known, text):
		return invalid(field.Name, "the effort of reasoning must be none, "+strings.Join(known, ", ")+" for this model")
	}
	return w.effort(field.Name, "output_config", text)
}

func (w *wire) effort(param, where, text string) *Error {
	encoded, _ := json.Marshal(text) // a text always encodes
	if former, said := w.nested[where]["effort"]; said && string(former) != string(encoded) {
		return invalid(param, "`reasoning` and `reasoning_effort` contradict each other")
	}
	return w.put(where, "effort", text)
}

// sorted puts what others depend on first: the newer name of the user before the older.
func sorted(asked rawjson.Fields) rawjson.Fields {
	first := map[string]int{"safety_identifier": -1}
	ordered := slices.Clone(asked)
	slices.SortStableFunc(ordered, func(a, b rawjson.Field) int { return first[a.Name] - first[b.Name] })
	return ordered
}

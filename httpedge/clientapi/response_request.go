package clientapi

import (
	"encoding/json"
	"slices"
	"strings"

	"parley/actors/machine"
	"parley/httpedge/endpoint/wire"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// createResponseIn is the body of POST /responses: that of the official Responses API, as far as an agent can do it, and what
// both routes take. A field is honoured or refused; those that are marked as accepted change nothing here, and are answered
// as they were given.
type createResponseIn struct {
	responseOrder

	Input             itemsInput      `json:"input" required:"true" any:"true" doc:"Text, or items in order: messages (user, assistant, system, developer), function_call, function_call_output, item_reference; reasoning is skipped"`
	Stream            bool            `json:"stream" doc:"Answer with the events of the Responses API"`
	Instructions      anyText         `json:"instructions" doc:"Added to the agent's, for this turn"`
	Tools             json.RawMessage `json:"tools" any:"true" doc:"Of type function: added to the agent's own for this turn, and run by the caller"`
	ToolChoice        json.RawMessage `json:"tool_choice" any:"true" doc:"auto, none, required, or {type: function, name}; one that must be called is so in the first model call"`
	Text              textInput       `json:"text" any:"true" doc:"{format}: text, json_object or json_schema"`
	Temperature       *float64        `json:"temperature" doc:"0 to 2"`
	TopP              *float64        `json:"top_p" doc:"0 to 1"`
	MaxOutputTokens   *int64          `json:"max_output_tokens" doc:"Of each model call; it can lower the agent's own limit"`
	ParallelToolCalls *bool           `json:"parallel_tool_calls"`
	Reasoning         reasoningInput  `json:"reasoning" any:"true" doc:"{effort}, for models of the OpenAI kinds"`
	Metadata          metadataInput   `json:"metadata" doc:"Of the message; up to 16 pairs"`
	Store             *bool           `json:"store" doc:"true: every response is kept in its session"`
	Truncation        anyText         `json:"truncation" doc:"auto: a history that is too long loses its oldest part"`
	Include           []string        `json:"include" doc:"Accepted but for logprobs"`
	TopLogprobs       int64           `json:"top_logprobs" doc:"0"`
	ServiceTier       anyText         `json:"service_tier" doc:"auto or default"`
	User              anyText         `json:"user" doc:"Accepted"`
	SafetyIdentifier  anyText         `json:"safety_identifier" doc:"Accepted"`
	PromptCacheKey    anyText         `json:"prompt_cache_key" doc:"Accepted"`
	CacheRetention    anyText         `json:"prompt_cache_retention" doc:"Accepted"`
	StreamOptions     streamOptions   `json:"stream_options" any:"true" doc:"{include_obfuscation: false}"`

	options *conversationpb.TurnOptions // nil = none are set
	unknown string                      // name of the first field that is not taken
}

// textInput is the form of the answer.
type textInput struct {
	Format    json.RawMessage `json:"format"`
	Verbosity string          `json:"verbosity"`
}

// Described implements openapi.Described.
func (t textInput) Described() (value any, nullable bool) { return json.RawMessage(nil), true }

type reasoningInput struct {
	Effort          string `json:"effort"`
	Summary         string `json:"summary"`
	GenerateSummary string `json:"generate_summary"`
}

// Described implements openapi.Described.
func (r reasoningInput) Described() (value any, nullable bool) { return json.RawMessage(nil), true }

type streamOptions struct {
	IncludeObfuscation bool `json:"include_obfuscation"`
}

// Described implements openapi.Described.
func (s streamOptions) Described() (value any, nullable bool) { return json.RawMessage(nil), true }

// UnmarshalJSON notes fields that are not taken.
func (in *createResponseIn) UnmarshalJSON(raw []byte) error {
	type plain createResponseIn
	if err := json.Unmarshal(raw, (*plain)(in)); err != nil {
		return err
	}
	known := fieldsOf[createResponseIn]()
	eachMember(raw, func(name string, value json.RawMessage) {
		if in.unknown == "" && !asksNothing(value) && !known[strings.ToLower(name)] {
			in.unknown = name
		}
	})
	return nil
}

// Validate implements endpoint.Validator.
func (in *createResponseIn) Validate() *machine.Failure {
	for _, check := range []func() *machine.Failure{in.checkForm, in.checkKnown, in.checkUsual, in.checkNumbers, in.readOptions} {
		if failure := check(); failure != nil {
			return failure
		}
	}
	return in.checkBackground()
}

func (in *createResponseIn) checkKnown() *machine.Failure {
	if in.unknown != "" {
		return notTaken(in.unknown)
	}
	for _, text := range []struct {
		name  string
		value anyText
	}{
		{"instructions", in.Instructions},
		{"truncation", in.Truncation},
		{"service_tier", in.ServiceTier},
		{"user", in.User},
		{"safety_identifier", in.SafetyIdentifier},
		{"prompt_cache_key", in.PromptCacheKey},
		{"prompt_cache_retention", in.CacheRetention},
	} {
		if text.value.Wrong {
			return invalid("%s must be a string", text.name)
		}
	}
	return in.Metadata.failure
}

// checkUsual refuses values that ask for something that is not done here.
func (in *createResponseIn) checkUsual() *machine.Failure {
	switch {
	case in.Store != nil && !*in.Store:
		return invalid("store must be true: every response is kept in its session, which can be deleted")
	case in.Truncation.Text != "" && in.Truncation.Text != "auto":
		return invalid("truncation must be auto: a history that is too long loses its oldest part")
	case slices.Contains(in.Include, "message.output_text.logprobs"), in.TopLogprobs != 0:
		return invalid("logprobs are not supported")
	case !slices.Contains([]string{"", "auto", "default"}, in.ServiceTier.Text):
		return invalid("service_tier must be auto or default")
	case in.StreamOptions.IncludeObfuscation:
		return invalid("stream_options.include_obfuscation is not supported")
	case in.Text.Verbosity != "" && in.Text.Verbosity != "medium":
		return invalid("text.verbosity must be medium")
	}
	return nil
}

func (in *createResponseIn) checkNumbers() *machine.Failure {
	const hottest, mostTokens = 2, 1 << 30
	switch {
	case in.Temperature != nil && (*in.Temperature < 0 || *in.Temperature > hottest):
		return invalid("temperature is a number from 0 to %d", hottest)
	case in.TopP != nil && (*in.TopP < 0 || *in.TopP > 1):
		return invalid("top_p is a number from 0 to 1")
	case in.MaxOutputTokens != nil && (*in.MaxOutputTokens < 1 || *in.MaxOutputTokens > mostTokens):
		return invalid("max_output_tokens is a whole number from 1 on")
	}
	return nil
}

// checkBackground refuses what a run in the background does not have.
func (in *createResponseIn) checkBackground() *machine.Failure {
	switch {
	case !in.Background:
		return nil
	case in.Stream:
		return invalid("stream cannot go with background")
	case in.options != nil:
		return invalid("background cannot go with instructions, tools, text or other settings of the turn")
	case in.Metadata.pairs != nil:
		return invalid("metadata cannot go with background")
	}
	return nil
}

// readOptions makes of the settings what the turn is given.
func (in *createResponseIn) readOptions() *machine.Failure {
	options := &conversationpb.TurnOptions{
		Instructions: in.Instructions.Text, Temperature: in.Temperature, TopP: in.TopP,
		ParallelToolCalls: in.ParallelToolCalls, ReasoningEffort: in.Reasoning.Effort,
	}
	if in.MaxOutputTokens != nil {
		options.MaxOutputTokens = int32(*in.MaxOutputTokens)
	}
	var failure *machine.Failure
	if options.Tools, failure = readTools(in.Tools); failure != nil {
		return failure
	}
	if options.ToolChoice, failure = readToolChoice(in.ToolChoice, options.GetTools()); failure != nil {
		return failure
	}
	if options.Format, failure = readFormat(in.Text.Format); failure != nil {
		return failure
	}
	if !slices.Contains([]string{"", "none", "minimal", "low", "medium", "high", "xhigh"}, in.Reasoning.Effort) {
		return invalid("reasoning.effort is none, minimal, low, medium, high or xhigh")
	}
	in.setOptions(options)
	return nil
}

// setOptions keeps options of which something is set.
func (in *createResponseIn) setOptions(options *conversationpb.TurnOptions) {
	in.options = nil
	set := options.Temperature != nil || options.TopP != nil || options.ParallelToolCalls != nil || options.GetMaxOutputTokens() > 0 ||
		options.GetInstructions() != "" || options.GetReasoningEffort() != "" || len(options.GetTools()) > 0 ||
		options.GetToolChoice() != nil || options.GetFormat() != nil
	if set {
		in.options = options
	}
}

// instruct adds the system items of the input to the instructions.
func (in *createResponseIn) instruct(system []string) {
	if len(system) == 0 {
		return
	}
	if in.options == nil {
		in.options = &conversationpb.TurnOptions{}
	}
	in.options.Instructions = joined(in.options.GetInstructions(), strings.Join(system, "\n\n"))
}

// readTools takes the function tools of a request. Those of other kinds are the provider's own, and not to be had here.
func readTools(raw []byte) ([]*agentpb.Tool, *machine.Failure) {
	const most = 128
	if len(raw) == 0 || asksNothing(raw) {
		return nil, nil
	}
	var given []struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	}
	if json.Unmarshal(raw, &given) != nil {
		return nil, invalid("tools must be an array of {type: function, name, description, parameters, strict}")
	}
	if len(given) > most {
		return nil, invalid("there are more than %d tools", most)
	}
	tools := make([]*agentpb.Tool, len(given))
	for i, tool := range given {
		if tool.Type != "function" {
			return nil, invalid("tools[%d]: tools of type %q are not supported: give the agent such a tool", i, shortened(tool.Type))
		}
		tools[i] = &agentpb.Tool{Name: tool.Name, Description: tool.Description, Client: true, Strict: tool.Strict}
		if len(tool.Parameters) > 0 && !isNull(tool.Parameters) {
			tools[i].Schema = wire.Compact(tool.Parameters)
		}
	}
	return tools, nil
}

func readToolChoice(raw []byte, tools []*agentpb.Tool) (*conversationpb.ToolChoice, *machine.Failure) {
	var mode string
	var named struct {
		Type string `json:"type"`
		Name string `json:"name"`
	}
	switch {
	case len(raw) == 0 || asksNothing(raw):
		return nil, nil //nolint:nilnil // the model chooses
	case json.Unmarshal(raw, &mode) == nil:
		switch mode {
		case "auto":
			return nil, nil //nolint:nilnil // the model chooses
		case "none", "required":
			return &conversationpb.ToolChoice{Mode: mode}, nil
		}
	case json.Unmarshal(raw, &named) == nil && named.Type == "function":
		if !slices.ContainsFunc(tools, func(tool *agentpb.Tool) bool { return tool.GetName() == named.Name }) {
			return nil, invalid("tool_choice names none of the tools")
		}
		return &conversationpb.ToolChoice{Mode: named.Type, Name: named.Name}, nil
	}
	return nil, invalid("tool_choice must be auto, none, required or {type: function, name}")
}

func readFormat(raw []byte) (*conversationpb.OutputFormat, *machine.Failure) {
	if len(raw) == 0 || asksNothing(raw) {
		return nil, nil //nolint:nilnil // text
	}
	var given struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"schema"`
		Strict      *bool           `json:"strict"`
	}
	if json.Unmarshal(raw, &given) != nil {
		return nil, invalid("text.format must be an object with a type")
	}
	switch given.Type {
	case "text":
		return nil, nil //nolint:nilnil // as it is without
	case "json_object":
		return &conversationpb.OutputFormat{Type: given.Type}, nil
	case "json_schema":
		schema := wire.Compact(given.Schema)
		if given.Name == "" || len(schema) == 0 || schema[0] != '{' {
			return nil, invalid("text.format of type json_schema has a name and a schema")
		}
		return &conversationpb.OutputFormat{
			Type: given.Type, Name: given.Name, Description: given.Description, Schema: schema, Strict: given.Strict,
		}, nil
	}
	return nil, invalid("text.format.type must be text, json_object or json_schema")
}

// fits refuses settings that the agent's kind of model does not have.
func (in *createResponseIn) fits(agent *agentpb.Agent) *machine.Failure {
	provider := agent.GetModel().GetProvider()
	switch {
	case in.options == nil:
	case provider == agentpb.Provider_CONNECTED:
		return invalid("the agent runs elsewhere: instructions, tools, text and other settings of the turn cannot be given to it")
	case provider == agentpb.Provider_ANTHROPIC && in.options.GetReasoningEffort() != "":
		return invalid("reasoning.effort is not supported by the agent's model")
	}
	return nil
}

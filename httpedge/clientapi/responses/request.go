package responses

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"parley/actors/core/failure"
	"parley/actors/machine/rawjson"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint/wire"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// createResponseIn is the body of POST /responses: that of the official Responses API, as far as an agent can do it, and what
// both routes take. A field is honoured or refused; those that are marked as accepted change nothing here, and are answered
// as they were given.
type createResponseIn struct {
	responseOrder

	Input             itemsInput            `json:"input" required:"true" doc:"Text, or items in order: messages (user, assistant, system, developer), function_call, function_call_output, item_reference; reasoning is skipped"`
	Stream            bool                  `json:"stream" doc:"Answer with the events of the Responses API"`
	Instructions      anyText               `json:"instructions" doc:"Added to the agent's, for this turn"`
	Tools             json.RawMessage       `json:"tools" any:"true" doc:"Of type function: added to the agent's own for this turn, and run by the caller"`
	ToolChoice        toolChoiceInput       `json:"tool_choice" doc:"auto, none, required, or {type: function, name}; one that must be called is so in the first model call"`
	Text              textInput             `json:"text" any:"true" doc:"{format}: text, json_object or json_schema"`
	Temperature       *float64              `json:"temperature" doc:"0 to 2"`
	TopP              *float64              `json:"top_p" doc:"0 to 1"`
	MaxOutputTokens   *int64                `json:"max_output_tokens" doc:"Of each model call; it can lower the agent's own limit"`
	ParallelToolCalls *bool                 `json:"parallel_tool_calls"`
	Reasoning         reasoningInput        `json:"reasoning" any:"true" doc:"{effort}, for models of the OpenAI kinds"`
	Metadata          handler.MetadataInput `json:"metadata" doc:"Of the message; up to 16 pairs"`
	Store             *bool                 `json:"store" doc:"true: every response is kept in its session"`
	Truncation        anyText               `json:"truncation" doc:"auto: a history that is too long loses its oldest part"`
	Include           []string              `json:"include" doc:"Accepted but for logprobs"`
	TopLogprobs       int64                 `json:"top_logprobs" doc:"0"`
	ServiceTier       anyText               `json:"service_tier" doc:"auto or default"`
	User              anyText               `json:"user" doc:"Accepted"`
	SafetyIdentifier  anyText               `json:"safety_identifier" doc:"Accepted"`
	PromptCacheKey    anyText               `json:"prompt_cache_key" doc:"Accepted"`
	CacheRetention    anyText               `json:"prompt_cache_retention" doc:"Accepted"`
	StreamOptions     streamOptions         `json:"stream_options" any:"true" doc:"{include_obfuscation: false}"`

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

// UnmarshalJSON notes unsupported fields.
func (in *createResponseIn) UnmarshalJSON(raw []byte) error {
	type plain createResponseIn
	if err := json.Unmarshal(raw, (*plain)(in)); err != nil {
		return err
	}
	handler.EachMember(raw, func(name string, value json.RawMessage) {
		if in.unknown == "" && !fieldsOfResponse.Has(name) && !asksNothing(value) {
			in.unknown = name
		}
	})
	return nil
}

//nolint:gochecknoglobals // a table; nothing writes to it
var fieldsOfResponse = rawjson.NamesOf(reflect.TypeFor[createResponseIn]())

// Validate implements endpoint.Validator.
func (in *createResponseIn) Validate() *failure.Failure {
	for _, check := range []func() *failure.Failure{in.checkForm, in.checkKnown, in.checkUsual, in.checkNumbers, in.readOptions} {
		if refused := check(); refused != nil {
			return refused
		}
	}
	return in.checkBackground()
}

func (in *createResponseIn) checkKnown() *failure.Failure {
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
			return handler.Invalid(failure.MustBeString).In(text.name)
		}
	}
	return in.Metadata.Failure
}

// checkUsual refuses values that ask for something unsupported.
func (in *createResponseIn) checkUsual() *failure.Failure {
	switch {
	case in.Store != nil && !*in.Store:
		return handler.Invalid(failure.StoreOnly).In("store")
	case in.Truncation.Text != "" && in.Truncation.Text != "auto":
		return handler.Invalid(failure.TruncationOnlyAuto).In("truncation")
	case slices.Contains(in.Include, "message.output_text.logprobs"), in.TopLogprobs != 0:
		return handler.Invalid(failure.LogprobsNotSupported)
	case !slices.Contains([]string{"", "auto", "default"}, in.ServiceTier.Text):
		return handler.Invalid(failure.EitherOr).In("service_tier").Param("one", "auto").Param("other", "default")
	case in.StreamOptions.IncludeObfuscation:
		return handler.Invalid(failure.NotSupported).In("stream_options.include_obfuscation")
	case in.Text.Verbosity != "" && in.Text.Verbosity != "medium":
		return handler.Invalid(failure.VerbosityOnlyMedium).In("text.verbosity")
	}
	return nil
}

func (in *createResponseIn) checkNumbers() *failure.Failure {
	const hottest, mostTokens = 2, 1 << 30
	switch {
	case in.Temperature != nil && (*in.Temperature < 0 || *in.Temperature > hottest):
		return handler.Invalid(failure.NumberUpTo).In("temperature").Param("most", hottest)
	case in.TopP != nil && (*in.TopP < 0 || *in.TopP > 1):
		return handler.Invalid(failure.NumberUpTo).In("top_p").Param("most", 1)
	case in.MaxOutputTokens != nil && (*in.MaxOutputTokens < 1 || *in.MaxOutputTokens > mostTokens):
		return handler.Invalid(failure.OneTokenOrMore).In("max_output_tokens")
	}
	return nil
}

// checkBackground refuses fields that background runs do not support.
func (in *createResponseIn) checkBackground() *failure.Failure {
	switch {
	case !in.Background:
		return nil
	case in.Stream:
		return handler.Invalid(failure.CannotGoWith).In("stream").Param("other", "background")
	case in.options != nil:
		return handler.Invalid(failure.BackgroundWithSettings)
	case in.Metadata.Pairs != nil:
		return handler.Invalid(failure.CannotGoWith).In("metadata").Param("other", "background")
	}
	return nil
}

// readOptions turns the settings into the options of the turn.
func (in *createResponseIn) readOptions() *failure.Failure {
	options := &conversationpb.TurnOptions{
		Instructions: in.Instructions.Text, Temperature: in.Temperature, TopP: in.TopP,
		ParallelToolCalls: in.ParallelToolCalls, ReasoningEffort: in.Reasoning.Effort,
	}
	if in.MaxOutputTokens != nil {
		options.MaxOutputTokens = int32(*in.MaxOutputTokens)
	}
	var refused *failure.Failure
	if options.Tools, refused = readTools(in.Tools); refused != nil {
		return refused
	}
	if options.ToolChoice, refused = readToolChoice(in.ToolChoice.RawMessage, options.GetTools()); refused != nil {
		return refused
	}
	if options.Format, refused = readFormat(in.Text.Format); refused != nil {
		return refused
	}
	if !slices.Contains([]string{"", "none", "minimal", "low", "medium", "high", "xhigh"}, in.Reasoning.Effort) {
		return handler.Invalid(failure.BadReasoningEffort).In("reasoning.effort")
	}
	in.setOptions(options)
	return nil
}

// setOptions keeps the options unless all of them are unset.
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

// readTools reads the function tools of a request. Tools of other types run at a provider, and are not supported.
func readTools(raw []byte) ([]*agentpb.Tool, *failure.Failure) {
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
		return nil, handler.Invalid(failure.BadTools).In("tools")
	}
	if len(given) > most {
		return nil, handler.Invalid(failure.TooManyTools).Param("most", most)
	}
	tools := make([]*agentpb.Tool, len(given))
	for i, tool := range given {
		if tool.Type != "function" {
			return nil, handler.Invalid(failure.ToolTypeNotSupported).Param("type", shortened(tool.Type)).At(fmt.Sprintf("tools[%d]", i))
		}
		tools[i] = &agentpb.Tool{Name: tool.Name, Description: tool.Description, Client: true, Strict: tool.Strict}
		if len(tool.Parameters) > 0 && !handler.IsNull(tool.Parameters) {
			tools[i].Schema = wire.Compact(tool.Parameters)
		}
	}
	return tools, nil
}

type toolChoiceInput = wire.TextOr[namedTool]

// namedTool is the function that must be called.
type namedTool struct {
	Type string `json:"type" enum:"function" required:"true"`
	Name string `json:"name" required:"true"`
}

func readToolChoice(raw []byte, tools []*agentpb.Tool) (*conversationpb.ToolChoice, *failure.Failure) {
	var mode string
	var named namedTool
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
			return nil, handler.Invalid(failure.ToolChoiceOfNone).In("tool_choice")
		}
		return &conversationpb.ToolChoice{Mode: named.Type, Name: named.Name}, nil
	}
	return nil, handler.Invalid(failure.BadToolChoice).In("tool_choice")
}

func readFormat(raw []byte) (*conversationpb.OutputFormat, *failure.Failure) {
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
		return nil, handler.Invalid(failure.BadFormat).In("text.format")
	}
	switch given.Type {
	case "text":
		return nil, nil //nolint:nilnil // as it is without
	case "json_object":
		return &conversationpb.OutputFormat{Type: given.Type}, nil
	case "json_schema":
		schema := wire.Compact(given.Schema)
		if given.Name == "" || len(schema) == 0 || schema[0] != '{' {
			return nil, handler.Invalid(failure.FormatWithoutSchema).In("text.format")
		}
		return &conversationpb.OutputFormat{
			Type: given.Type, Name: given.Name, Description: given.Description, Schema: schema, Strict: given.Strict,
		}, nil
	}
	return nil, handler.Invalid(failure.BadFormatType).In("text.format.type")
}

// fits refuses settings that the agent's kind of model does not support.
func (in *createResponseIn) fits(agent *agentpb.Agent) *failure.Failure {
	provider := agent.GetModel().GetProvider()
	switch {
	case in.options == nil:
	case provider == agentpb.Provider_CONNECTED:
		return handler.Invalid(failure.SettingsNotPassedOn)
	case provider == agentpb.Provider_ANTHROPIC && in.options.GetReasoningEffort() != "":
		return handler.Invalid(failure.EffortNotSupported).In("reasoning.effort")
	}
	return nil
}

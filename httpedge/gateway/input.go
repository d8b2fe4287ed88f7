package gateway

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"

	"parley/actors/core/failure"
	"parley/actors/machine/rawjson"
	"parley/httpedge/endpoint/wire"
	"parley/proto/failurepb"
)

// fields is a body that is split and not decoded.
type fields struct{ rawjson.Fields }

// take keeps a copy of the body: a stream lives longer than the request.
func (f *fields) take(raw []byte) error {
	split, err := rawjson.Object(bytes.Clone(raw))
	if err != nil {
		return failure.New(failurepb.Code_VALIDATION, failure.BodyNotAnObject)
	}
	f.Fields = split
	return nil
}

// model returns the key of the model, which the body must name.
func (f *fields) model() (string, *failure.Failure) {
	if f.Fields == nil { // an empty body
		return "", failure.New(failurepb.Code_VALIDATION, failure.BodyNotAnObject)
	}
	key := f.Text("model")
	if key == "" {
		return "", invalid("model", failure.Required)
	}
	if strings.ContainsFunc(f.Text("request_id"), unicode.IsControl) {
		return "", invalid("request_id", failure.ControlCharacters)
	}
	return key, nil
}

type (
	textOrTexts  = wire.TextOr[[]string]
	textOrObject = wire.TextOr[map[string]any]
)

// chatInput is the body of POST /chat/completions. What is not in the document's list goes to OpenAI-compatible providers; what
// becomes of it with others is in DIVERGENCES.md.
type chatInput struct {
	Model                string            `json:"model" required:"true" doc:"Key of the model"`
	Messages             []json.RawMessage `json:"messages" required:"true" doc:"At least one"`
	Temperature          float64           `json:"temperature"`
	TopP                 float64           `json:"top_p"`
	MaxTokens            int               `json:"max_tokens"`
	MaxCompletionTokens  int               `json:"max_completion_tokens" doc:"Wins over max_tokens"`
	Stream               bool              `json:"stream"`
	StreamOptions        json.RawMessage   `json:"stream_options" doc:"{include_usage}"`
	Stop                 textOrTexts       `json:"stop" doc:"400 for models of the Responses API"`
	PresencePenalty      float64           `json:"presence_penalty" doc:"400 for models that are not OpenAI-compatible, unless 0"`
	FrequencyPenalty     float64           `json:"frequency_penalty" doc:"As presence_penalty"`
	Seed                 int               `json:"seed" doc:"400 for models that are not OpenAI-compatible"`
	User                 string            `json:"user"`
	SafetyIdentifier     string            `json:"safety_identifier"`
	Tools                []json.RawMessage `json:"tools"`
	ToolChoice           textOrObject      `json:"tool_choice"`
	ParallelToolCalls    bool              `json:"parallel_tool_calls"`
	Functions            []json.RawMessage `json:"functions" doc:"Of old clients; 400 for models that are not OpenAI-compatible"`
	FunctionCall         textOrObject      `json:"function_call" doc:"As functions"`
	ResponseFormat       json.RawMessage   `json:"response_format"`
	Reasoning            json.RawMessage   `json:"reasoning"`
	ReasoningEffort      string            `json:"reasoning_effort"`
	Verbosity            string            `json:"verbosity" doc:"400 for models of the Messages API, unless medium"`
	N                    int               `json:"n" doc:"400 for models that are not OpenAI-compatible, unless 1"`
	Logprobs             bool              `json:"logprobs" doc:"400 for models that are not OpenAI-compatible, if true"`
	TopLogprobs          int               `json:"top_logprobs" doc:"As logprobs"`
	LogitBias            json.RawMessage   `json:"logit_bias" doc:"400 for models that are not OpenAI-compatible"`
	Metadata             json.RawMessage   `json:"metadata"`
	Prediction           json.RawMessage   `json:"prediction"`
	PromptCacheKey       string            `json:"prompt_cache_key"`
	PromptCacheOptions   json.RawMessage   `json:"prompt_cache_options"`
	PromptCacheRetention string            `json:"prompt_cache_retention"`
	Audio                json.RawMessage   `json:"audio" doc:"Needs a model whose settings allow it: allowUnknownPassthrough"`
	Modalities           []string          `json:"modalities" doc:"As audio, unless text alone"`
	Moderation           json.RawMessage   `json:"moderation" doc:"As audio"`
	ServiceTier          string            `json:"service_tier" doc:"As audio, unless auto; auto and default for models of the Messages API"`
	Store                bool              `json:"store" doc:"As audio, if true"`
	WebSearchOptions     json.RawMessage   `json:"web_search_options" doc:"As audio"`
	ExtraBody            json.RawMessage   `json:"extra_body" doc:"Further fields for the provider, in its own form"`
	RequestID            string            `json:"request_id" doc:"Comes back in the answer"`
	CacheControl         string            `header:"Cache-Control" doc:"no-cache: the model answers, not its cache; no-store: nor is the answer kept"`

	fields
}

// cache is what a request that is not streamed wants of answers that are kept: no-cache asks for a new one, no-store for one that is not kept
// either.
func (in *chatInput) cache() *Cache {
	wants := &Cache{}
	for directive := range strings.SplitSeq(strings.ToLower(in.CacheControl), ",") {
		switch strings.TrimSpace(directive) {
		case "no-store":
			return nil
		case "no-cache":
			wants.Fresh = true
		}
	}
	return wants
}

// UnmarshalJSON keeps the body as it is.
func (in *chatInput) UnmarshalJSON(raw []byte) error { return in.take(raw) }

// Validate implements endpoint.Validator.
func (in *chatInput) Validate() *failure.Failure {
	if _, refused := in.model(); refused != nil {
		return refused
	}
	messages := in.Get("messages")
	if messages == nil || messages[0] != '[' || len(messages) < 2 || bytes.TrimLeft(messages[1:], " \t\r\n")[0] == ']' {
		return invalid("messages", failure.BadMessages)
	}
	return nil
}

// embeddingsInput is the body of POST /embeddings.
type embeddingsInput struct {
	Model          string      `json:"model" required:"true" doc:"Key of the model"`
	Input          textOrTexts `json:"input" required:"true" doc:"A text, or an array of texts"`
	Dimensions     int         `json:"dimensions"`
	EncodingFormat string      `json:"encoding_format" enum:"float,base64"`
	User           string      `json:"user"`
	RequestID      string      `json:"request_id" doc:"Comes back in the answer"`

	fields
}

// UnmarshalJSON keeps the body as it is.
func (in *embeddingsInput) UnmarshalJSON(raw []byte) error { return in.take(raw) }

// Validate implements endpoint.Validator.
func (in *embeddingsInput) Validate() *failure.Failure {
	if _, refused := in.model(); refused != nil {
		return refused
	}
	if !isTexts(in.Get("input")) {
		return invalid("input", failure.BadEmbeddingsInput)
	}
	if format := in.Get("encoding_format"); format != nil && in.Text("encoding_format") != "float" && in.Text("encoding_format") != "base64" {
		return invalid("encoding_format", failure.EitherOr).Param("one", "float").Param("other", "base64")
	}
	return nil
}

// maxTexts bounds the texts of one request.
const maxTexts = 2048

// isTexts reports whether JSON is a string, or an array of strings with at least one.
func isTexts(raw []byte) bool {
	if raw == nil || raw[0] == '"' {
		return raw != nil
	}
	items, err := rawjson.Array(raw, maxTexts)
	if err != nil || len(items) == 0 {
		return false
	}
	for _, item := range items {
		if item[0] != '"' {
			return false
		}
	}
	return true
}

// moderationsInput is the body of POST /moderations.
type moderationsInput struct {
	Input moderated `json:"input" required:"true" doc:"A text, an array of texts, or parts of text"`
	Model string    `json:"model" doc:"Key of the guardrail; default: the built-in one"`

	fields
	key   string
	texts []string
}

// UnmarshalJSON keeps the body as it is.
func (in *moderationsInput) UnmarshalJSON(raw []byte) error { return in.take(raw) }

// Validate implements endpoint.Validator.
func (in *moderationsInput) Validate() *failure.Failure {
	if in.Fields == nil {
		return failure.New(failurepb.Code_VALIDATION, failure.BodyNotAnObject)
	}
	if raw := in.Get("model"); raw != nil && raw[0] != '"' {
		return invalid("model", failure.BadGuardrailKey)
	}
	in.key = in.Text("model")
	raw := in.Get("input")
	if raw == nil {
		return invalid("input", failure.Required)
	}
	var refused *failure.Failure
	in.texts, refused = readTexts(raw)
	return refused
}

// moderated is a text, texts, or parts of text.
type moderated struct{}

// Either implements openapi.Either.
func (moderated) Either() []any { return []any{"", []string{}, []textPart{}} }

type textPart struct {
	Type string `json:"type" enum:"text,input_text"`
	Text string `json:"text"`
}

// readTexts takes a text, an array of texts (each judged by itself), or parts of text (judged as one).
func readTexts(raw []byte) ([]string, *failure.Failure) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []string{text}, nil
	}
	if isTexts(raw) {
		var texts []string
		_ = json.Unmarshal(raw, &texts) // it is texts
		return texts, nil
	}
	var parts []textPart
	if json.Unmarshal(raw, &parts) != nil || len(parts) == 0 || len(parts) > maxTexts {
		return nil, invalid("input", failure.BadModerationInput)
	}
	for _, part := range parts {
		if part.Type != "text" && part.Type != "input_text" {
			return nil, invalid("input", failure.BadModerationInput)
		}
		text += part.Text + "\n"
	}
	return []string{text}, nil
}

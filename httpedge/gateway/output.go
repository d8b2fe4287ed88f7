package gateway

import (
	"encoding/json"

	"parley/actors/core/moderate"
)

// whole is an unstreamed answer, encoded by the model's side.
type whole struct{ raw []byte }

// AppendJSON implements endpoint.Appender.
func (w *whole) AppendJSON(dst []byte) []byte { return append(dst, w.raw...) }

// chatCompletion is the answer of POST /chat/completions.
type chatCompletion struct {
	ID                string          `json:"id"`
	Object            string          `json:"object" enum:"chat.completion"`
	Created           int64           `json:"created"`
	Model             string          `json:"model" doc:"Key of the model"`
	SystemFingerprint *string         `json:"system_fingerprint"`
	Choices           []chatChoice    `json:"choices"`
	Usage             completionUsage `json:"usage"`
	Guardrails        *checked        `json:"guardrails,omitempty" doc:"What guardrails of the model found and let pass"`
	RequestID         string          `json:"request_id"`

	whole
}

type chatChoice struct {
	Index        int              `json:"index"`
	FinishReason string           `json:"finish_reason"`
	Message      json.RawMessage  `json:"message"`
	Logprobs     *json.RawMessage `json:"logprobs" doc:"As the provider has it"`
}

type completionUsage struct {
	PromptTokens            int             `json:"prompt_tokens"`
	CompletionTokens        int             `json:"completion_tokens"`
	CachedTokens            int             `json:"cached_tokens"`
	TotalTokens             int             `json:"total_tokens"`
	PromptTokensDetails     json.RawMessage `json:"prompt_tokens_details,omitempty"`
	CompletionTokensDetails json.RawMessage `json:"completion_tokens_details,omitempty"`
}

// embeddingList is the answer of POST /embeddings.
type embeddingList struct {
	Object    string         `json:"object" enum:"list"`
	Model     string         `json:"model"`
	Data      []embedding    `json:"data"`
	Usage     embeddingUsage `json:"usage"`
	RequestID string         `json:"request_id"`

	whole
}

type embedding struct {
	Object    string          `json:"object" enum:"embedding"`
	Index     int             `json:"index"`
	Embedding json.RawMessage `json:"embedding" any:"true" doc:"Numbers, or base64 of little-endian float32"`
}

type embeddingUsage struct {
	PromptTokens int `json:"prompt_tokens"`
	TotalTokens  int `json:"total_tokens"`
}

// moderation is the answer of POST /moderations.
type moderation struct {
	ID      string            `json:"id"`
	Model   string            `json:"model" doc:"Key of the guardrail"`
	Results []moderate.Result `json:"results"`

	raw []byte // of a model; nil = the fields are the answer
}

// AppendJSON implements endpoint.Appender.
func (m *moderation) AppendJSON(dst []byte) []byte {
	if m.raw != nil {
		return append(dst, m.raw...)
	}
	encoded, _ := json.Marshal(struct { // texts, flags and numbers always encode
		ID      string            `json:"id"`
		Model   string            `json:"model"`
		Results []moderate.Result `json:"results"`
	}{m.ID, m.Model, m.Results})
	return append(dst, encoded...)
}

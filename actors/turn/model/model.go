package model

import (
	"context"
	"encoding/json"
	"net/http"

	"parley/proto/agentpb"
)

// Provider calls one kind of model service. Implementations are safe for concurrent use.
type Provider interface {
	// Generate makes one model call and streams it. It returns when the answer is complete, or with an *Error.
	// When ctx is cancelled it returns soon, with whatever was known by then in Answer and context.Cause(ctx).
	Generate(ctx context.Context, request *Request, stream Stream) (*Answer, error)
	// NeedsHistory says whether Request.Messages must hold the earlier conversation, or only the newest message.
	NeedsHistory() bool
}

// Stream hears a model call as it happens, in order, from one goroutine. It must not block for long.
type Stream interface {
	Text(piece string)
	// ToolCall hears a complete tool call that the model asks for.
	ToolCall(call ToolCall)
}

// Overhearer is a Stream that also hears what a model produces and does not say: pieces of tool calls, and thoughts where the
// provider shows them. They cost as much as text.
type Overhearer interface {
	Stream
	Unsaid(piece string)
}

// Thinker is a Stream that hears the thoughts that a provider shows, and not as what is unsaid. Nothing is asked again once it has heard some.
type Thinker interface {
	Stream
	Thought(piece string)
}

// Request is one model call.
type Request struct {
	Agent *agentpb.Agent
	RunID string
	// ProjectID is whose circuits are looked at: one that is open is waited for. "" = the caller looks at them.
	ProjectID string
	Step      int // number of this call in its turn, from 0
	Messages  []Message
	Tools     []Tool
	// MaxOutputTokens caps the answer; 0 = the agent's own.
	MaxOutputTokens int
	Settings        Settings
	// Header is of this turn alone: a connected agent is sent it, over its own. Its values are secrets.
	Header http.Header
}

// Settings are what the caller of a turn, or of the gateway, sets over the agent's own. nil and "" = nothing.
type Settings struct {
	Format   *Format
	Choice   *Choice
	Parallel *bool        // several tool calls in one answer
	Effort   string       // of thinking
	Cache    []CachePoint // of the instructions
	// Extra are further fields of the provider's own wire form, over what the request says otherwise.
	Extra map[string]json.RawMessage
}

// Format is the form of the answer: json_object, or json_schema with a schema.
type Format struct {
	Type, Name, Description string
	Schema                  []byte // JSON Schema object
	Strict                  *bool
}

// Choice says whether the model may call tools.
type Choice struct {
	Mode string
	Name string // ChooseFunction: the tool
}

// Modes of Choice. Without a Choice the model decides.
const (
	ChooseAuto     = "auto"     // as without a Choice
	ChooseNone     = "none"     // it must not
	ChooseRequired = "required" // it must
	ChooseFunction = "function" // it must call this one
)

// CachePoint is the end of a part of a text up to which a provider is asked to keep what it has read, where it can be asked.
type CachePoint struct {
	At      int             // in bytes
	Control json.RawMessage // as the Messages API wants it said
}

// Role says who speaks in a Message.
type Role string

// Roles of a Message. The system prompt is the agent's and not a message.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool"
)

// Message is one message of the context window.
type Message struct {
	Role      Role
	Content   string
	Images    []Image    // user
	ToolCalls []ToolCall // assistant
	ToolID    string     // tool: the call this answers
	Cache     []CachePoint
	Failed    bool   // tool: Content is an error
	State     []byte // assistant: that of the Answer
}

// CanShow says whether pictures of a media type may be an Image: every provider takes these.
func CanShow(mime string) bool {
	switch mime {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}

// Image is a picture that the model is shown. MIME is one that CanShow.
type Image struct {
	MIME string
	Data []byte
	// URL is where the provider finds the picture, in place of MIME and Data.
	URL string
	// Detail is how closely the model is to look, where the provider knows that: auto, low, high. Empty is auto.
	Detail string
	Cache  json.RawMessage // as the Control of a CachePoint
}

// Tool describes a tool to the model. Schema is a JSON Schema object.
type Tool struct {
	Name, Description string
	Schema            []byte
	Strict            *bool           // whether the model must keep to the schema; nil = as the provider does it for schemas of any kind
	Cache             json.RawMessage // as the Control of a CachePoint
}

// ToolCall is the model's wish to run a tool. Arguments is a JSON object.
type ToolCall struct {
	ID, Name  string
	Arguments string
}

// Usage is what a call consumed. InputTokens counts the whole prompt, cached part included, whatever the provider's own
// habit; CachedInputTokens is the part of it that was read from the provider's cache. Known is false when the provider did
// not say, or not to the end: the numbers are then a lower bound. Disbelieved says that it said what no call can have consumed: then
// there are no numbers. ReasoningTokens is the part of OutputTokens that was thought, where the provider says it.
type Usage struct {
	InputTokens, OutputTokens, CachedInputTokens int64
	Known, Disbelieved                           bool
	ReasoningTokens                              int64
}

// Stop says why a model call ended.
type Stop string

// Reasons of Stop.
const (
	StopEnd    Stop = "end"    // said all it wanted
	StopTools  Stop = "tools"  // wants its tool calls run
	StopLength Stop = "length" // output cap or context window reached
	StopFilter Stop = "filter" // refused by the provider's policy
)

// Answer is a finished (or, beside an error, an unfinished) model call.
type Answer struct {
	Text      string
	ToolCalls []ToolCall
	Usage     Usage
	Stop      Stop
	// State is what only the provider can read of an answer that asks for tools: thoughts, signatures. It goes back with the next request
	// of the turn, as it is; nobody is shown it. The adapter leaves out what came from another provider or model. nil = none.
	State []byte
}

// Error is a failed model call. Its text is safe to show: no key, no header, no URL with userinfo.
type Error struct {
	Code    string // provider_error, provider_timeout, rate_limited, overloaded, invalid_request, authentication, cut
	Message string
	// Retryable says that nothing was streamed and that the same call may succeed later.
	Retryable bool
	Details   []byte // JSON object for who asked, see conversationpb.TurnError; nil = none
	Err       error  // for the log only; holds no key either
}

// Codes of Error.
const (
	CodeProviderError   = "provider_error"   // the provider failed, or could not be reached or understood
	CodeProviderTimeout = "provider_timeout" // no first token, a stall in mid-stream, or too long in all
	CodeRateLimited     = "rate_limited"
	CodeOverloaded      = "overloaded"
	CodeInvalidRequest  = "invalid_request" // the provider, or this package, refuses the request as it is
	CodeAuthentication  = "authentication"
	CodeCut             = "cut" // the stream ended before the answer did
)

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Unwrap gives the log what caused it.
func (e *Error) Unwrap() error { return e.Err }

package config

import "time"

// Agent is one agent on offer.
type Agent struct {
	// Id in URLs: 1 to 64 letters, digits, dots, hyphens and underscores, beginning with a letter or digit. Required.
	ID string `key:"id"`
	// Name shown to people. The id when empty.
	Name string `key:"name"`
	// What the agent is for.
	Description string `key:"description"`
	// Version of this definition.
	Version string `key:"version"`
	// Ids of the projects that may run it; for others it does not exist. All when empty.
	Projects []string `key:"projects"`
	// System prompt.
	Instructions string `key:"instructions"`
	// Text that a chat page shows before the first message; metadata.welcome on the wire.
	Welcome string `key:"welcome"`
	// First messages that a chat page suggests; metadata.starters on the wire.
	Starters []string `key:"starters"`
	// Object shown to clients as the agent's metadata.
	Metadata map[string]any `key:"metadata"`
	// Model that answers. Required.
	Model *Model `key:"model"`
	// What the agent can pause for, and attachments.
	Capabilities Capabilities `key:"capabilities"`
	// Switches of the chat page.
	Experience Experience `key:"experience"`
	// Tools the agent may call.
	Tools []Tool `key:"tools"`
	// OpenAPI documents and MCP servers whose operations become tools.
	ToolSources []ToolSource `key:"tool_sources"`
	// Model that generates titles (experience.titles); the agent's own when absent.
	TitleModel *Model `key:"title_model"`
	// Receives each rating of the agent's answers.
	FeedbackHook *FeedbackHook `key:"feedback_hook"`
	// Model calls in one turn; turn.max_rounds when 0.
	MaxTurns int `key:"max_turns" range:"0..1000"`
	// Budget of a conversation that is created without one. Needs a price.
	DefaultBudget *Budget `key:"default_budget"`
	// Permits callers of the Client API to run the agent in the background. Default false.
	Background bool `key:"background"`
	// Lets other agents call this one over A2A, with a token of the Client API. Default false.
	Exposed bool `key:"exposed"`
	// Id of the shield (Aegis) of each project that judges what the agent reads, calls and says; "default" is there in every project.
	// None when empty.
	Shield string `key:"shield"`
}

// Model configures the access to a model.
type Model struct {
	// scripted (built in, no network), openai (Chat Completions of any compatible server), openai-responses or anthropic.
	// Required.
	Provider string `key:"provider" one_of:"scripted,openai,openai-responses,anthropic"`
	// Model name as the provider knows it. Required except for scripted.
	Name string `key:"name"`
	// Base URL of the service; the provider's own when empty.
	BaseURL string `key:"base_url"`
	// API key. Give at most one of api_key, api_key_env and api_key_file.
	APIKey Secret `key:"api_key"`
	// Name of the environment variable with the API key.
	APIKeyEnv string `key:"api_key_env"`
	// File with the API key; a final newline is dropped.
	APIKeyFile string `key:"api_key_file"`
	// Sampling temperature, 0 to 2; the provider's own when absent.
	Temperature *float64 `key:"temperature" range:"0..2"`
	// Nucleus sampling, 0 to 1; the provider's own when absent.
	TopP *float64 `key:"top_p" range:"0..1"`
	// Most tokens of one answer; the provider's own when 0.
	MaxOutputTokens int `key:"max_output_tokens" range:"0..10_000_000"`
	// Context window in tokens; the newest messages that fit are sent. 128000 when 0.
	ContextTokens int `key:"context_tokens" range:"0..100_000_000"`
	// Wait for the first token of a call. 1m when 0.
	FirstTokenTimeout time.Duration `key:"first_token_timeout"`
	// Longest pause within an answer. 1m when 0.
	IdleTimeout time.Duration `key:"idle_timeout"`
	// Time limit of a call. 10m when 0.
	TotalTimeout time.Duration `key:"total_timeout"`
	// Retries of a call that failed before its first token. 2 when absent.
	Retries *int `key:"retries" range:"0..10"`
	// Price of the model; without it calls cost an unknown amount and budgets are refused.
	Price *Price `key:"price"`
	// What the scripted model does. Only for provider scripted.
	Script *Script `key:"script"`
}

// Price is in US dollars for one million tokens.
type Price struct {
	// Input tokens.
	Input USD `key:"input"`
	// Input tokens that were cached by the provider; the price of input when absent.
	CachedInput *USD `key:"cached_input"`
	// Output tokens.
	Output USD `key:"output"`
}

// Budget limits a conversation's spending.
type Budget struct {
	// US dollars. Required, above 0.
	MaxCost USD `key:"max_cost"`
	// What happens when it is used up: pause (a person may raise it) or stop. pause when empty.
	OnReach string `key:"on_reach" one_of:",pause,stop"`
	// Callers of the Client API may lower the budget, but neither raise nor remove it. Default false.
	Binding bool `key:"binding"`
}

// Capabilities are what an agent can pause for.
type Capabilities struct {
	// Tools that wait for a person's approval. Set automatically when a tool needs one.
	ToolApproval bool `key:"tool_approval"`
	// Questions to the person: the agent gets the tool ask_user.
	AskUser bool `key:"ask_user"`
	// Tools that run in the client. Set automatically when there is one.
	ClientTools bool `key:"client_tools"`
	// Files in messages.
	Attachments Attachments `key:"attachments"`
}

// Attachments configures files in messages.
type Attachments struct {
	// Accepts files.
	Enabled bool `key:"enabled"`
	// Files in one conversation; 10 when 0.
	MaxFiles int `key:"max_files" range:"0..1000"`
	// Largest file; 10MiB when 0.
	MaxFileSize Size `key:"max_file_size"`
	// MIME types accepted, e.g. image/*; all when empty.
	AllowedMIMETypes []string `key:"allowed_mime_types"`
	// The model understands images.
	AcceptsImages bool `key:"accepts_images"`
	// Days a file is kept; for ever when 0.
	RetentionDays int `key:"retention_days" range:"0..36_500"`
}

// Experience holds the switches of the chat page. An absent switch has its default.
type Experience struct {
	// Copy a message. true when absent.
	Copy *bool `key:"copy"`
	// Answer again. true when absent.
	Regenerate *bool `key:"regenerate"`
	// Edit a message. true when absent.
	Edit *bool `key:"edit"`
	// Rename a conversation. true when absent.
	Rename *bool `key:"rename"`
	// Pin a conversation. true when absent.
	Pin *bool `key:"pin"`
	// Delete several conversations. true when absent.
	BulkDelete *bool `key:"bulk_delete"`
	// Titles generated from the first exchange. false when absent.
	Titles *bool `key:"titles"`
	// Ratings of answers.
	Feedback Feedback `key:"feedback"`
	// Export of conversations.
	Export Export `key:"export"`
}

// Feedback configures ratings of answers.
type Feedback struct {
	// Accepts ratings. true when absent.
	Enabled *bool `key:"enabled"`
	// Accepts comments with them. true when absent.
	Comments *bool `key:"comments"`
	// Reasons to choose from; inaccurate, incomplete, off_topic, too_long, unsafe, other when empty.
	Reasons []string `key:"reasons"`
	// Longest comment in characters; 1000 when 0.
	MaxCommentLength int `key:"max_comment_length" range:"0..100_000"`
}

// Export configures the export of conversations.
type Export struct {
	// Permits export. true when absent.
	Enabled *bool `key:"enabled"`
	// Includes tool calls.
	IncludeTools bool `key:"include_tools"`
	// Formats on offer: md, json, html, pdf; all when empty.
	Formats []string `key:"formats" one_of:"md,json,html,pdf"`
}

// Script makes the scripted model follow fixed steps instead of its canned answers.
type Script struct {
	// Delay before the first token.
	FirstTokenDelay time.Duration `key:"first_token_delay"`
	// Delay between two tokens; all at once when 0.
	TokenInterval time.Duration `key:"token_interval"`
	// Number of words of the answer; the words of text, of the step or of a canned answer when 0.
	Tokens int `key:"tokens" range:"0..1_000_000"`
	// The answer.
	Text string `key:"text"`
	// One step per model call of a turn; the last one repeats.
	Steps []Step `key:"steps"`
	// Usage reported; counted from the words when absent.
	Usage *Usage `key:"usage"`
}

// Step is one model call of a script.
type Step struct {
	// The answer.
	Text string `key:"text"`
	// Tools that the model calls.
	ToolCalls []ToolCall `key:"tool_calls"`
	// Fails with this: rate_limited, overloaded, invalid_request, server_error or cut (in mid-stream).
	ErrorCode string `key:"error_code" one_of:",rate_limited,overloaded,invalid_request,server_error,cut"`
	// Text of the failure.
	ErrorMessage string `key:"error_message"`
	// Tokens streamed before the failure.
	ErrorAfterTokens int `key:"error_after_tokens"`
	// Fails this many times, then answers; for ever when 0.
	FailTimes int `key:"fail_times"`
	// Delay before the step.
	Delay time.Duration `key:"delay"`
}

// ToolCall is a tool call of a script.
type ToolCall struct {
	// Tool to call. Required.
	Name string `key:"name"`
	// Arguments, an object.
	Arguments map[string]any `key:"arguments"`
}

// Usage is the usage that a scripted call reports.
type Usage struct {
	// Input tokens.
	InputTokens int `key:"input_tokens"`
	// Output tokens.
	OutputTokens int `key:"output_tokens"`
	// Input tokens that were cached.
	CachedInputTokens int `key:"cached_input_tokens"`
}

package config

import "time"

// HITL configures what a turn may wait for: approvals, questions, tools of the client.
type HITL struct {
	// How long a person, or the client, has for a pending action unless its tool says otherwise; then it expires.
	Timeout time.Duration `key:"timeout" default:"24h" range:"1s..8760h"`
	// What happens to a turn whose action has expired: deny (the model is told that nobody approved or answered, and
	// the turn goes on) or cancel.
	OnTimeout string `key:"on_timeout" default:"deny" one_of:"deny,cancel"`
	// How long a request that resolves an action waits for the turn before it gets 202 with status running; the turn
	// goes on. 0 waits as long as a message does (turn.timeout).
	ResolveWait time.Duration `key:"resolve_wait" range:"0s..24h"`
	// Largest output of a client tool; larger ones are 400.
	ClientToolMaxOutput Size `key:"client_tool_max_output" default:"64KiB" range:"1..16MiB"`
	// What happens to a message while an action is pending: refuse (409 action_pending) or cancel (the action and its
	// turn are cancelled, and the message is accepted).
	PendingActionPolicy string `key:"pending_action_policy" default:"refuse" one_of:"refuse,cancel"`
}

// Hooks are calls of this server to an application of yours, by HTTP POST with a JSON body: questions, and notices of
// ratings. An empty url turns a hook off.
type Hooks struct {
	// Identifies the user of a request; its answer wins over every userId in query or body.
	ResolveContext Hook `key:"resolve_context"`
	// Permits raising a conversation's budget.
	AuthorizeBudget Hook `key:"authorize_budget"`
	// Permits deciding a pending action.
	AuthorizeResolve Hook `key:"authorize_resolve"`
	// May refuse a request (429).
	RateLimit Hook `key:"rate_limit"`
	// Receives each rating of any agent's answers; up to five attempts are made.
	OnFeedback Hook `key:"on_feedback"`
}

// Hook is one call to an application of yours.
type Hook struct {
	// URL to call.
	URL string `key:"url"`
	// Signs the calls (X-Service-Signature), so that the application can authenticate them.
	Secret Secret `key:"secret"`
	// Longest wait for a response.
	Timeout time.Duration `key:"timeout" default:"3s" range:"1ms..1m"`
	// What a missing or bad response means: refuse or allow.
	OnError string `key:"on_error" default:"refuse" one_of:"refuse,allow"`
}

// Tools bounds the tools of all agents, unless a tool has its own bounds.
type Tools struct {
	// Longest run of a tool.
	Timeout time.Duration `key:"timeout" default:"1m" range:"10ms..turn.timeout"`
	// Most of a tool's result that is passed to the model; the rest is cut off.
	MaxResult Size `key:"max_result" default:"64KiB" range:"256..4MiB"`
	// Most of all tools' results of one turn.
	MaxTurnResults Size `key:"max_turn_results" default:"1MiB" range:"tools.max_result..16MiB"`
	// Tools of a turn that run at the same time.
	MaxParallel int `key:"max_parallel" default:"8" range:"1..1000"`
}

// Outbound configures the calls that this server makes for agents and their users: tools, callbacks, ratings. Private,
// loopback, link-local and other special addresses are refused, whatever a name resolves to, and after every redirect.
type Outbound struct {
	// Address ranges (CIDR) that may be called nevertheless, e.g. 10.1.0.0/16.
	Allow []string `key:"allow"`
	// Host names that may be called nevertheless, e.g. tools.internal.
	AllowHosts []string `key:"allow_hosts"`
	// Memory for answers of tools, MCP servers, connected agents and model providers that are being read, shared fairly by
	// tenants: further ones wait. One answer may take half of it, a byte of text up to four.
	AnswerMemory Size `key:"answer_memory" default:"128MiB" range:"16MiB..64GiB"`
}

// Exports configures the export of conversations.
type Exports struct {
	// Program that renders PDF: a Chromium or Chrome, by name or path. Without one format=pdf is 501.
	Chromium string `key:"chromium"`
	// Starts it without its own sandbox, where this process may not create namespaces; always so for root. The pages
	// run no scripts and load nothing.
	NoSandbox bool `key:"no_sandbox"`
	// Time limit of rendering one PDF.
	Timeout time.Duration `key:"timeout" default:"30s" range:"100ms..1h"`
	// PDFs rendered at once, each by a browser of some 200 MB; further ones wait.
	MaxConcurrent int `key:"max_concurrent" default:"1" range:"1..100"`
}

// Tasks configures background tasks.
type Tasks struct {
	// Signs callbacks (X-Service-Signature). Without one they are sent unsigned.
	CallbackSecret Secret `key:"callback_secret"`
	// Time limit of one attempt of a callback; there are up to six.
	CallbackTimeout time.Duration `key:"callback_timeout" default:"10s" range:"10ms..1h"`
}

package config

import "time"

// HITL is about what a turn may wait for: approvals, questions, tools of the client.
type HITL struct {
	// How long a person, or the client, has for a pending action when its tool does not say; then it lapses. Default
	// 24h.
	Timeout time.Duration `key:"timeout"`
	// What becomes of a turn whose action lapsed: deny (the model is told that nobody approved or answered, and the
	// turn goes on) or cancel. Default deny.
	OnTimeout string `key:"on_timeout"`
	// How long a request that resolves an action waits for the turn before it is answered 202 with status running;
	// the turn goes on. 0 waits as long as a message does (turn.timeout). Default 0s.
	ResolveWait time.Duration `key:"resolve_wait"`
	// Largest output of a client tool; larger ones are 400. Default 64KiB.
	ClientToolMaxOutput Size `key:"client_tool_max_output"`
	// What a message does while an action is pending: refuse (409 action_pending) or cancel (the action and its turn
	// are given up, and the message is taken). Default refuse.
	PendingActionPolicy string `key:"pending_action_policy"`
}

// Hooks are questions that this server asks of an application of yours, by HTTP POST with a JSON body, and ratings it
// tells. An empty url switches a hook off.
type Hooks struct {
	// Says who is behind a request; its answer wins over every userId in query or body. Default "".
	ResolveContext Hook `key:"resolve_context"`
	// Permits raising a conversation's budget. Default "".
	AuthorizeBudget Hook `key:"authorize_budget"`
	// Permits deciding a pending action. Default "".
	AuthorizeResolve Hook `key:"authorize_resolve"`
	// May refuse a request (429). Default "".
	RateLimit Hook `key:"rate_limit"`
	// Hears each rating of any agent's answers; five attempts are made. Default "".
	OnFeedback Hook `key:"on_feedback"`
}

// Hook is one question to an application of yours.
type Hook struct {
	// Where to ask. Default "".
	URL string `key:"url"`
	// Signs what is sent (X-Service-Signature), so that the application knows who asks. Default "".
	Secret Secret `key:"secret"`
	// Longest wait for an answer. Default 3s.
	Timeout time.Duration `key:"timeout"`
	// What no answer, or a bad one, means: refuse or allow. Default refuse.
	OnError string `key:"on_error"`
}

// Tools bounds the tools of all agents, where a tool does not say.
type Tools struct {
	// Longest run of a tool. Default 1m.
	Timeout time.Duration `key:"timeout"`
	// Most of a tool's result that the model is shown; the rest is cut off. Default 64KiB.
	MaxResult Size `key:"max_result"`
	// Most of all tools' results of one turn. Default 1MiB.
	MaxTurnResults Size `key:"max_turn_results"`
	// Tools of one turn that run at the same time. Default 8.
	MaxParallel int `key:"max_parallel"`
}

// Outbound is about the calls this server makes for agents and their users: tools, callbacks, ratings. Private, loopback,
// link-local and other special addresses are refused, whatever a name resolves to, and after every redirect.
type Outbound struct {
	// Address ranges (CIDR) that may be called all the same, e.g. 10.1.0.0/16. Default [].
	Allow []string `key:"allow"`
	// Host names that may be called all the same, e.g. tools.internal. Default [].
	AllowHosts []string `key:"allow_hosts"`
}

// Exports is about conversations as files.
type Exports struct {
	// Program that makes PDF of a page: a Chromium or Chrome, by name or path. Without one format=pdf is 501.
	// Default "".
	Chromium string `key:"chromium"`
	// Starts it without its own sandbox, where this process may not make namespaces; always so for root. The pages run no
	// scripts and load nothing. Default false.
	NoSandbox bool `key:"no_sandbox"`
	// Longest making of one PDF. Default 30s.
	Timeout time.Duration `key:"timeout"`
	// PDFs made at once, each a browser of some 200 MB; further ones wait. Default 1.
	MaxConcurrent int `key:"max_concurrent"`
}

// Tasks is about background tasks.
type Tasks struct {
	// Signs callbacks (X-Service-Signature). Without one they are sent unsigned. Default "".
	CallbackSecret Secret `key:"callback_secret"`
	// Longest wait for one attempt of a callback; six are made. Default 10s.
	CallbackTimeout time.Duration `key:"callback_timeout"`
}

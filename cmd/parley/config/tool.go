package config

import "time"

// Tool is one tool of an agent: called over HTTP by this server, run by the client, or built in.
type Tool struct {
	// Name by which the model calls it: 1 to 64 letters, digits, hyphens and underscores. Required.
	Name string `key:"name"`
	// What it does and when to use it, for the model.
	Description string `key:"description"`
	// JSON Schema of its arguments, an object; any object when absent.
	Schema map[string]any `key:"schema"`
	// URL to call; {name} is replaced by the argument of that name. The other arguments become the query (GET, HEAD,
	// DELETE) or a JSON body.
	URL string `key:"url"`
	// HTTP method; POST when empty.
	Method string `key:"method"`
	// Request headers.
	Headers []Header `key:"headers"`
	// Header fields of a caller's runtime context that are passed to it; target tool:<name>. Only with url.
	RuntimeHeaders RuntimeHeaders `key:"runtime_headers"`
	// The client runs it: the turn waits for its output.
	Client bool `key:"client"`
	// Runs a tool of this server: current_time or random_number.
	Builtin string `key:"builtin" one_of:",current_time,random_number"`
	// When a person must approve a run: never, always or when. never when empty.
	Approval string `key:"approval" one_of:",never,always,when"`
	// With approval when: an expression over args, e.g. args.amount > 100. If it cannot be evaluated within 100 ms,
	// approval is needed.
	When string `key:"when"`
	// Text shown to the person.
	ApprovalPrompt string `key:"approval_prompt"`
	// May be run again if it is unknown whether it ran (same Idempotency-Key). Otherwise a person is asked.
	Idempotent bool `key:"idempotent"`
	// Longest run; tools.timeout when 0.
	Timeout time.Duration `key:"timeout" range:"0s..turn.timeout"`
	// Most of its result that is passed to the model; tools.max_result when 0.
	MaxResult Size `key:"max_result" range:"0..tools.max_turn_results"`
	// How long a person, or the client, has; hitl.timeout when 0.
	ActionTimeout time.Duration `key:"action_timeout" range:"0s..8760h"`
}

// Header is a request header.
type Header struct {
	// Name of the header. Required.
	Name string `key:"name"`
	// Its value. Give one of value, value_env and value_file.
	Value Secret `key:"value"`
	// Name of the environment variable with the value.
	ValueEnv string `key:"value_env"`
	// File with the value; a final newline is dropped.
	ValueFile string `key:"value_file"`
}

// RuntimeHeaders says which header fields of a caller's runtime context a target is sent.
type RuntimeHeaders struct {
	// Permits sending them.
	Allow bool `key:"allow"`
	// Only these names, case-insensitive; all when empty.
	AllowedNames []string `key:"allowed_names"`
}

// ToolSource is an OpenAPI document, or an MCP server, whose operations are tools of the agent.
type ToolSource struct {
	// Prefix of its tools' names: name_tool. Required for MCP servers.
	Name string `key:"name"`
	// File with an OpenAPI 3 document (YAML or JSON). Give one of openapi_file, mcp_url and mcp_command.
	OpenAPIFile string `key:"openapi_file"`
	// Base URL of the OpenAPI operations; the document's first server when empty.
	BaseURL string `key:"base_url"`
	// URL of an MCP server (streamable HTTP).
	MCPURL string `key:"mcp_url"`
	// Program that is an MCP server on standard input and output.
	MCPCommand string `key:"mcp_command"`
	// Its arguments.
	MCPArgs []string `key:"mcp_args"`
	// Its environment, NAME: value; of this server's environment it only gets PATH and HOME.
	MCPEnv []Header `key:"mcp_env"`
	// Headers of all calls.
	Headers []Header `key:"headers"`
	// Header fields of a caller's runtime context that its calls carry; target mcp:<name>, for a document tool:<name>.
	// Not with mcp_command.
	RuntimeHeaders RuntimeHeaders `key:"runtime_headers"`
	// Operation ids or tool names on offer; all when empty.
	Only []string `key:"only"`
	// Policy of all of its tools.
	Policy ToolPolicy `key:"policy"`
	// Policies of single tools, instead of policy.
	Policies []NamedPolicy `key:"policies"`
}

// ToolPolicy determines how a tool may be run.
type ToolPolicy struct {
	// When a person must approve a run: never, always or when. never when empty.
	Approval string `key:"approval" one_of:",never,always,when"`
	// With approval when: an expression over args.
	When string `key:"when"`
	// Text that asks the person.
	ApprovalPrompt string `key:"approval_prompt"`
	// May be run again when it is not known whether it ran.
	Idempotent bool `key:"idempotent"`
	// Longest run; tools.timeout when 0.
	Timeout time.Duration `key:"timeout" range:"0s..turn.timeout"`
	// Most of its result that the model is shown; tools.max_result when 0.
	MaxResult Size `key:"max_result" range:"0..tools.max_turn_results"`
	// How long a person has; hitl.timeout when 0.
	ActionTimeout time.Duration `key:"action_timeout" range:"0s..8760h"`
}

// NamedPolicy is the policy of one operation or tool.
type NamedPolicy struct {
	// Operation id, or the MCP server's name of the tool. Required.
	Tool string `key:"tool"`
	// Its policy.
	Policy ToolPolicy `key:"policy"`
}

// FeedbackHook receives each rating of the agent's answers.
type FeedbackHook struct {
	// Where to POST. Required.
	URL string `key:"url"`
	// Signs the requests (X-Service-Signature).
	Secret Secret `key:"secret"`
}

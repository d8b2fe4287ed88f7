package definition

import "encoding/json"

// Kinds of agents, as config.kind names them.
const (
	Native    = "native"
	Connected = "external"
)

// Config is an agent's config as far as the server reads it. What is secret is not in it: see Secrets.
type Config struct {
	Kind            string      `json:"kind,omitempty"`
	ModelKey        string      `json:"modelKey,omitempty"`
	SystemPrompt    string      `json:"systemPrompt,omitempty"`
	PromptKey       string      `json:"promptKey,omitempty"`
	Temperature     *float64    `json:"temperature,omitempty"`
	TopP            *float64    `json:"topP,omitempty"`
	MaxTokens       *int        `json:"maxTokens,omitempty"`
	KnowledgeKey    string      `json:"knowledgeEngineKey,omitempty"`
	InputGuardrail  string      `json:"inputGuardrailKey,omitempty"`
	OutputGuardrail string      `json:"outputGuardrailKey,omitempty"`
	ShieldID        string      `json:"shieldId,omitempty"`
	ToolBindings    []Binding   `json:"toolBindings,omitempty"`
	MaxTurns        int         `json:"maxTurns,omitempty"`
	Titles          bool        `json:"titles,omitempty"`
	AskUser         bool        `json:"askUser,omitempty"`
	Tools           []Tool      `json:"tools,omitempty"`
	MCPServers      []Server    `json:"mcpServers,omitempty"`
	Connection      *Connection `json:"connection,omitempty"` // of a connected agent only
}

// Binding offers tools that are recorded elsewhere.
type Binding struct {
	Source    string          `json:"source,omitempty"`
	SourceKey string          `json:"sourceKey,omitempty"`
	ToolNames []string        `json:"toolNames,omitempty"`
	Config    json.RawMessage `json:"config,omitempty"`
}

// Policy is how a tool may be run. Times are milliseconds; what is 0 or empty is the server's default.
type Policy struct {
	Approval        string `json:"approval,omitempty"` // never, always, when
	When            string `json:"when,omitempty"`     // expression over args
	ApprovalPrompt  string `json:"approvalPrompt,omitempty"`
	Idempotent      bool   `json:"idempotent,omitempty"`
	TimeoutMs       int64  `json:"timeoutMs,omitempty"`
	MaxResultBytes  int64  `json:"maxResultBytes,omitempty"`
	ActionTimeoutMs int64  `json:"actionTimeoutMs,omitempty"`
}

// RuntimeHeaders says which header fields of a turn's runtime context a target is sent.
type RuntimeHeaders struct {
	Allow        bool     `json:"allow"`
	AllowedNames []string `json:"allowedNames,omitempty"`
}

// Tool is one tool of an agent: exactly one of URL, Client and Builtin is set.
type Tool struct {
	Name           string            `json:"name"`
	Description    string            `json:"description,omitempty"`
	InputSchema    json.RawMessage   `json:"inputSchema,omitempty"`
	URL            string            `json:"url,omitempty"`
	Method         string            `json:"method,omitempty"`
	Headers        map[string]string `json:"headers,omitempty"`
	RuntimeHeaders *RuntimeHeaders   `json:"runtimeHeaders,omitempty"`
	Client         bool              `json:"client,omitempty"`
	Builtin        string            `json:"builtin,omitempty"`
	Policy
}

// Server is an MCP server whose tools the agent may call.
type Server struct {
	Name           string            `json:"name"`
	URL            string            `json:"url"`
	Headers        map[string]string `json:"headers,omitempty"`
	RuntimeHeaders *RuntimeHeaders   `json:"runtimeHeaders,omitempty"`
	ToolNames      []string          `json:"toolNames,omitempty"` // on offer; empty = all
	Policy
}

// Connection is where a connected agent runs (document 3, 7.5).
type Connection struct {
	Protocol              string            `json:"protocol"` // a2a, openai-chat, openai-responses
	URL                   string            `json:"url"`
	Model                 string            `json:"model,omitempty"`
	Headers               map[string]string `json:"headers,omitempty"`
	CredentialProviderKey string            `json:"credentialProviderKey,omitempty"`
	ResponsePath          string            `json:"responsePath,omitempty"`
	RuntimeHeaders        *RuntimeHeaders   `json:"runtimeHeaders,omitempty"`
}

// IsConnected says that the agent runs elsewhere.
func (c *Config) IsConnected() bool { return c.Kind == Connected }

// Parse reads a config as it is stored.
func Parse(stored []byte) (*Config, error) {
	config := new(Config)
	if err := json.Unmarshal(stored, config); err != nil {
		return nil, err
	}
	return config, nil
}

// Show is a stored config as clients see it: it says whether a connection has a key.
func Show(config []byte, sealed Sealed) json.RawMessage {
	parsed, err := Parse(config)
	if err != nil || !parsed.IsConnected() || parsed.Connection == nil {
		return config
	}
	_, hasKey := sealed[pathAPIKey]
	type shownConnection struct {
		*Connection
		HasAPIKey bool `json:"hasApiKey"`
	}
	shown, err := json.Marshal(struct {
		Kind       string          `json:"kind"`
		ShieldID   string          `json:"shieldId,omitempty"`
		Connection shownConnection `json:"connection"`
	}{Connected, parsed.ShieldID, shownConnection{parsed.Connection, hasKey}})
	if err != nil { // of text that was JSON
		return config
	}
	return shown
}

package definition

import (
	"encoding/json"
	"errors"
	"net/url"
	"reflect"
	"strings"
	"unicode"

	"parley/actors/machine"
	"parley/proto/failurepb"
)

// Limits of an agent. All of them are held in the memory of every node.
const (
	MaxConfig      = 256 << 10 // bytes
	MaxName        = 200       // characters
	MaxDescription = 2000
	maxTools       = 128
	maxServers     = 16
	maxBindings    = 64
)

// Draft is a config as a client sent it, made ready to be stored.
type Draft struct {
	Parsed *Config
	Config []byte            // JSON to be stored: every secret is masked or gone
	given  map[string]string // secrets in clear, by path
	kept   []string          // secrets that stay as they are stored
	wanted []string          // of kept: those that must be stored already
}

func invalid(format string, args ...any) *machine.Failure {
	return machine.Fail(failurepb.Code_INVALID_REQUEST, format, args...)
}

// KindOf is the kind of agent that a config asks for.
func KindOf(raw []byte) string {
	var config struct {
		Kind any `json:"kind"`
	}
	if json.Unmarshal(raw, &config) == nil && config.Kind == Connected {
		return Connected
	}
	return Native
}

// Read checks a config that a client sent (document 3, 7.4 and 7.5). The failure is for the client.
func Read(raw []byte) (*Draft, *machine.Failure) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, invalid("Agent config is required")
	}
	if len(raw) > MaxConfig {
		return nil, machine.Fail(failurepb.Code_TOO_LARGE, "config is larger than %d bytes", MaxConfig)
	}
	var head struct {
		Kind string `json:"kind"`
	}
	if failure := unmarshal("config", raw, &head); failure != nil {
		return nil, failure
	}
	draft := &Draft{given: map[string]string{}}
	var failure *machine.Failure
	switch head.Kind {
	case Connected:
		failure = draft.readConnected(raw)
	case "", Native:
		failure = draft.readNative(raw)
	default:
		failure = invalid("config.kind must be %s or %s", Native, Connected)
	}
	if failure != nil {
		return nil, failure
	}
	return draft, nil
}

func (d *Draft) readConnected(raw []byte) *machine.Failure {
	var sent struct {
		Connection *struct {
			Connection
			Provider string          `json:"provider"`
			BaseURL  string          `json:"baseUrl"`
			APIKey   json.RawMessage `json:"apiKey"`
		} `json:"connection"`
	}
	if failure := unmarshal("config", raw, &sent); failure != nil {
		return failure
	}
	if sent.Connection == nil {
		return invalid("Connection settings are required for a connected agent")
	}
	c := sent.Connection.Connection
	if c.Protocol == "" {
		c.Protocol = sent.Connection.Provider
	}
	c.URL, c.Model = strings.TrimSpace(c.URL), strings.TrimSpace(c.Model)
	if c.URL == "" {
		c.URL = strings.TrimSpace(sent.Connection.BaseURL)
	}
	switch {
	case c.Protocol != "a2a" && c.Protocol != "openai-chat" && c.Protocol != "openai-responses":
		return invalid("Unsupported connected agent protocol: %s", c.Protocol)
	case c.URL == "":
		return invalid("Connected agent endpoint URL is required")
	case !isURL(c.URL):
		return invalid("Connected agent endpoint URL must be an http or https URL without a user name")
	case c.Model == "" && c.Protocol != "a2a":
		return invalid("Model id is required for OpenAI-compatible connected agents")
	}
	failure := plain("config.connection", c.Model, c.CredentialProviderKey, c.ResponsePath)
	if failure != nil {
		return failure
	}
	if c.Headers, failure = d.headers("connection", c.Headers); failure != nil {
		return failure
	}
	if failure = d.apiKey(sent.Connection.APIKey); failure != nil {
		return failure
	}
	d.Parsed = &Config{Kind: Connected, Connection: &c}
	return d.encode(d.Parsed, nil)
}

// apiKey reads connection.apiKey: absent or blank keeps what is stored, null takes it away.
func (d *Draft) apiKey(raw json.RawMessage) *machine.Failure {
	if string(raw) == "null" {
		return nil
	}
	var key string
	if len(raw) > 0 && json.Unmarshal(raw, &key) != nil {
		return invalid("config.connection.apiKey must be a string")
	}
	key = strings.TrimSpace(key)
	switch {
	case key == "" || key == Mask:
		d.kept = append(d.kept, pathAPIKey)
	case len(key) > maxSecret || !isHeaderValue(key):
		return invalid("config.connection.apiKey is too long, or cannot be sent")
	default:
		d.given[pathAPIKey] = key
	}
	return nil
}

func (d *Draft) readNative(raw []byte) *machine.Failure {
	var config Config
	if failure := unmarshal("config", raw, &config); failure != nil {
		return failure
	}
	config.ModelKey, config.Connection = strings.TrimSpace(config.ModelKey), nil
	switch {
	case config.ModelKey == "":
		return invalid("Model configuration is required")
	case config.Temperature != nil && (*config.Temperature < 0 || *config.Temperature > 2):
		return invalid("config.temperature must be between 0 and 2")
	case config.TopP != nil && (*config.TopP < 0 || *config.TopP > 1):
		return invalid("config.topP must be between 0 and 1")
	case config.MaxTokens != nil && (*config.MaxTokens < 1 || *config.MaxTokens > maxTokens):
		return invalid("config.maxTokens must be between 1 and %d", maxTokens)
	case config.MaxTurns < 0 || config.MaxTurns > 1000:
		return invalid("config.maxTurns must be between 0 and 1000")
	case len(config.Tools) > maxTools, len(config.MCPServers) > maxServers, len(config.ToolBindings) > maxBindings:
		return invalid("config has more than %d tools, %d mcpServers or %d toolBindings", maxTools, maxServers, maxBindings)
	}
	if failure := config.plain(); failure != nil {
		return failure
	}
	if failure := d.nativeSecrets(&config); failure != nil {
		return failure
	}
	further, failure := furtherKeys(raw)
	if failure != nil {
		return failure
	}
	d.Parsed = &config
	return d.encode(&config, further)
}

// plain refuses keys and names that no log line and no header could show as they are.
func (c *Config) plain() *machine.Failure {
	failure := plain("config", c.ModelKey, c.PromptKey, c.KnowledgeKey, c.InputGuardrail, c.OutputGuardrail)
	for i := range c.ToolBindings {
		if failure == nil {
			failure = plain("config.toolBindings", append([]string{c.ToolBindings[i].Source, c.ToolBindings[i].SourceKey}, c.ToolBindings[i].ToolNames...)...)
		}
	}
	for i := range c.Tools {
		if failure == nil {
			failure = plain("config.tools", c.Tools[i].Name)
		}
	}
	for i := range c.MCPServers {
		if failure == nil {
			failure = plain("config.mcpServers", append([]string{c.MCPServers[i].Name}, c.MCPServers[i].ToolNames...)...)
		}
	}
	return failure
}

// plain refuses control characters in keys and names.
func plain(at string, names ...string) *machine.Failure {
	for _, name := range names {
		if strings.ContainsFunc(name, unicode.IsControl) {
			return invalid("%s: %q holds control characters", at, name)
		}
	}
	return nil
}

// nativeSecrets takes the values of the headers out of the config.
func (d *Draft) nativeSecrets(config *Config) *machine.Failure {
	seen := map[string]bool{}
	for i := range config.Tools {
		at := toolPath(config.Tools[i].Name)
		if seen[at] {
			return invalid("config.tools: two tools are called %q", config.Tools[i].Name)
		}
		seen[at] = true
		headers, failure := d.headers(at, config.Tools[i].Headers)
		if failure != nil {
			return failure
		}
		config.Tools[i].Headers = headers
	}
	for i := range config.MCPServers {
		server := &config.MCPServers[i]
		at := serverPath(server.Name)
		switch {
		case seen[at]:
			return invalid("config.mcpServers: two servers are called %q", server.Name)
		case !isURL(server.URL):
			return invalid("config.mcpServers: %q needs an http or https URL without a user name", server.Name)
		}
		seen[at] = true
		headers, failure := d.headers(at, server.Headers)
		if failure != nil {
			return failure
		}
		server.Headers = headers
	}
	for i := range config.ToolBindings {
		if failure := noSecrets("config.toolBindings", config.ToolBindings[i].Config); failure != nil {
			return failure
		}
	}
	return nil
}

// encode makes the JSON to be stored: of what was read, and of further keys.
func (d *Draft) encode(config *Config, further map[string]json.RawMessage) *machine.Failure {
	text, err := json.Marshal(config)
	if err != nil {
		return invalid("config holds malformed JSON")
	}
	if len(further) > 0 {
		all := further
		if err = json.Unmarshal(text, &all); err == nil { // adds its own keys, which win
			text, err = json.Marshal(all)
		}
		if err != nil {
			return invalid("config holds malformed JSON")
		}
	}
	d.Config = text
	return nil
}

// furtherKeys are the keys of a native config that mean nothing to the server.
func furtherKeys(raw []byte) (map[string]json.RawMessage, *machine.Failure) {
	var keys map[string]json.RawMessage
	if failure := unmarshal("config", raw, &keys); failure != nil {
		return nil, failure
	}
	known := map[string]bool{"apikeyenc": true, "hasapikey": true}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known[strings.ToLower(name)] = true // decoding looks at no case either
	}
	for key := range keys {
		if known[strings.ToLower(key)] {
			delete(keys, key)
		}
	}
	rest, err := json.Marshal(keys)
	if err != nil {
		return nil, invalid("config is not valid JSON")
	}
	return keys, noSecrets("config", rest)
}

// unmarshal decodes JSON of a client; what is wrong with it is said in terms of JSON.
func unmarshal(what string, raw []byte, into any) *machine.Failure {
	err := json.Unmarshal(raw, into)
	if err == nil {
		return nil
	}
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return invalid("%s is not valid JSON", what)
	case wrong.Field == "":
		return invalid("%s must be an object", what)
	}
	field := strings.NewReplacer(".Connection.", ".", ".Policy.", ".").Replace(wrong.Field) // which are embedded
	return invalid("%s.%s has the wrong type", what, field)
}

// isURL says whether something can be called there. A user name or password in it would not stay secret.
func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http") && u.User == nil && len(text) <= 2048
}

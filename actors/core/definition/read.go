package definition

import (
	"encoding/json"
	"errors"
	"net/url"
	"reflect"
	"strings"
	"unicode"

	"parley/actors/core/failure"
	"parley/actors/machine/rawjson"
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

func invalid(reason failure.Reason) *failure.Failure {
	return failure.New(failurepb.Code_INVALID_REQUEST, reason)
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
func Read(raw []byte) (*Draft, *failure.Failure) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, invalid(failure.AgentConfigMissing)
	}
	if len(raw) > MaxConfig {
		return nil, failure.New(failurepb.Code_TOO_LARGE, failure.TooLargeOf).In("config").Param("most", MaxConfig)
	}
	var head struct {
		Kind string `json:"kind"`
	}
	if refused := unmarshal("config", raw, &head); refused != nil {
		return nil, refused
	}
	draft := &Draft{given: map[string]string{}}
	var refused *failure.Failure
	switch head.Kind {
	case Connected:
		refused = draft.readConnected(raw)
	case "", Native:
		refused = draft.readNative(raw)
	default:
		refused = invalid(failure.EitherOr).In("config.kind").Param("one", Native).Param("other", Connected)
	}
	if refused != nil {
		return nil, refused
	}
	return draft, nil
}

func (d *Draft) readConnected(raw []byte) *failure.Failure {
	var sent struct {
		ShieldID   string `json:"shieldId"`
		Connection *struct {
			Connection
			Provider string          `json:"provider"`
			BaseURL  string          `json:"baseUrl"`
			APIKey   json.RawMessage `json:"apiKey"`
		} `json:"connection"`
	}
	if refused := unmarshal("config", raw, &sent); refused != nil {
		return refused
	}
	if sent.Connection == nil {
		return invalid(failure.ConnectionMissing)
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
		return invalid(failure.ProtocolNotSupported).Param("protocol", c.Protocol)
	case c.URL == "":
		return invalid(failure.EndpointURLMissing)
	case !isURL(c.URL):
		return invalid(failure.BadEndpointURL)
	case c.Model == "" && c.Protocol != "a2a":
		return invalid(failure.ConnectedModelMissing)
	}
	refused := plain("config.connection", c.Model, c.CredentialProviderKey, c.ResponsePath, sent.ShieldID)
	if refused != nil {
		return refused
	}
	if c.Headers, refused = d.headers("connection", c.Headers); refused != nil {
		return refused
	}
	if refused = d.apiKey(sent.Connection.APIKey); refused != nil {
		return refused
	}
	d.Parsed = &Config{Kind: Connected, Connection: &c, ShieldID: strings.TrimSpace(sent.ShieldID)}
	return d.encode(d.Parsed, nil)
}

// apiKey reads connection.apiKey: absent or blank keeps what is stored, null takes it away.
func (d *Draft) apiKey(raw json.RawMessage) *failure.Failure {
	if string(raw) == "null" {
		return nil
	}
	var key string
	if len(raw) > 0 && json.Unmarshal(raw, &key) != nil {
		return invalid(failure.MustBeString).In("config.connection.apiKey")
	}
	key = strings.TrimSpace(key)
	switch {
	case key == "" || key == Mask:
		d.kept = append(d.kept, pathAPIKey)
	case len(key) > maxSecret || !isHeaderValue(key):
		return invalid(failure.BadCredential).In("config.connection.apiKey")
	default:
		d.given[pathAPIKey] = key
	}
	return nil
}

func (d *Draft) readNative(raw []byte) *failure.Failure {
	var config Config
	if refused := unmarshal("config", raw, &config); refused != nil {
		return refused
	}
	config.Connection = nil
	for _, key := range []*string{&config.ModelKey, &config.ShieldID, &config.InputGuardrail, &config.OutputGuardrail} {
		*key = strings.TrimSpace(*key)
	}
	switch {
	case config.ModelKey == "":
		return invalid(failure.AgentModelMissing)
	case config.Temperature != nil && (*config.Temperature < 0 || *config.Temperature > 2):
		return invalid(failure.OutOfRange).In("config.temperature").Param("least", 0).Param("most", 2)
	case config.TopP != nil && (*config.TopP < 0 || *config.TopP > 1):
		return invalid(failure.OutOfRange).In("config.topP").Param("least", 0).Param("most", 1)
	case config.MaxTokens != nil && (*config.MaxTokens < 1 || *config.MaxTokens > maxTokens):
		return invalid(failure.OutOfRange).In("config.maxTokens").Param("least", 1).Param("most", maxTokens)
	case config.MaxTurns < 0 || config.MaxTurns > 1000:
		return invalid(failure.OutOfRange).In("config.maxTurns").Param("least", 0).Param("most", 1000)
	case len(config.Tools) > maxTools, len(config.MCPServers) > maxServers, len(config.ToolBindings) > maxBindings:
		return invalid(failure.TooManyConfigParts).
			Param("tools", maxTools).Param("servers", maxServers).Param("bindings", maxBindings)
	}
	if refused := config.plain(); refused != nil {
		return refused
	}
	if refused := d.nativeSecrets(&config); refused != nil {
		return refused
	}
	further, refused := furtherKeys(raw)
	if refused != nil {
		return refused
	}
	d.Parsed = &config
	return d.encode(&config, further)
}

// plain refuses keys and names that no log line and no header could show as they are.
func (c *Config) plain() *failure.Failure {
	refused := plain("config", c.ModelKey, c.PromptKey, c.KnowledgeKey, c.InputGuardrail, c.OutputGuardrail, c.ShieldID)
	for i := range c.ToolBindings {
		if refused == nil {
			refused = plain("config.toolBindings", append([]string{c.ToolBindings[i].Source, c.ToolBindings[i].SourceKey}, c.ToolBindings[i].ToolNames...)...)
		}
	}
	for i := range c.Tools {
		if refused == nil {
			refused = plain("config.tools", c.Tools[i].Name)
		}
	}
	for i := range c.MCPServers {
		if refused == nil {
			refused = plain("config.mcpServers", append([]string{c.MCPServers[i].Name}, c.MCPServers[i].ToolNames...)...)
		}
	}
	return refused
}

// plain refuses control characters in keys and names.
func plain(at string, names ...string) *failure.Failure {
	for _, name := range names {
		if strings.ContainsFunc(name, unicode.IsControl) {
			return invalid(failure.NameControlCharacters).In(at).Param("name", name)
		}
	}
	return nil
}

// nativeSecrets takes the values of the headers out of the config.
func (d *Draft) nativeSecrets(config *Config) *failure.Failure {
	seen := map[string]bool{}
	for i := range config.Tools {
		at := toolPath(config.Tools[i].Name)
		if seen[at] {
			return invalid(failure.TwoToolsOfOneName).In("config.tools").Param("name", config.Tools[i].Name)
		}
		seen[at] = true
		headers, refused := d.headers(at, config.Tools[i].Headers)
		if refused != nil {
			return refused
		}
		config.Tools[i].Headers = headers
	}
	for i := range config.MCPServers {
		server := &config.MCPServers[i]
		at := serverPath(server.Name)
		switch {
		case seen[at]:
			return invalid(failure.TwoServersOfOneName).In("config.mcpServers").Param("name", server.Name)
		case !isURL(server.URL):
			return invalid(failure.BadServerURL).In("config.mcpServers").Param("name", server.Name)
		}
		seen[at] = true
		headers, refused := d.headers(at, server.Headers)
		if refused != nil {
			return refused
		}
		server.Headers = headers
	}
	for i := range config.ToolBindings {
		if refused := noSecrets("config.toolBindings", config.ToolBindings[i].Config); refused != nil {
			return refused
		}
	}
	return nil
}

// encode makes the JSON to be stored: of what was read, and of further keys.
func (d *Draft) encode(config *Config, further map[string]json.RawMessage) *failure.Failure {
	text, err := json.Marshal(config)
	if err != nil {
		return invalid(failure.MalformedJSON).In("config")
	}
	if len(further) > 0 {
		all := further
		if err = json.Unmarshal(text, &all); err == nil { // adds its own keys, which win
			text, err = json.Marshal(all)
		}
		if err != nil {
			return invalid(failure.MalformedJSON).In("config")
		}
	}
	d.Config = text
	return nil
}

// furtherKeys are the keys of a native config that mean nothing to the server.
func furtherKeys(raw []byte) (map[string]json.RawMessage, *failure.Failure) {
	var keys map[string]json.RawMessage
	if refused := unmarshal("config", raw, &keys); refused != nil {
		return nil, refused
	}
	known := rawjson.NamesOf(reflect.TypeFor[Config]())
	known["apikeyenc"], known["hasapikey"] = "apiKeyEnc", "hasApiKey"
	for key := range keys {
		if known.Has(key) {
			delete(keys, key)
		}
	}
	rest, err := json.Marshal(keys)
	if err != nil {
		return nil, invalid(failure.NotJSON).In("config")
	}
	return keys, noSecrets("config", rest)
}

// unmarshal decodes JSON of a client; what is wrong with it is said in terms of JSON.
func unmarshal(what string, raw []byte, into any) *failure.Failure {
	err := json.Unmarshal(raw, into)
	if err == nil {
		return nil
	}
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return invalid(failure.NotJSON).In(what)
	case wrong.Field == "":
		return invalid(failure.MustBeObject).In(what)
	}
	field := strings.NewReplacer(".Connection.", ".", ".Policy.", ".").Replace(wrong.Field) // which are embedded
	return invalid(failure.WrongJSONType).In(what + "." + field)
}

// isURL says whether something can be called there. A user name or password in it would not stay secret.
func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http") && u.User == nil && len(text) <= 2048
}

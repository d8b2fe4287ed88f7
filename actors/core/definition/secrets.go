package definition

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"parley/actors/core/failure"
)

// Mask stands for a secret wherever one is shown. Sent back, it keeps the stored secret.
const Mask = "********"

const (
	pathAPIKey = "connection.apiKey"
	maxSecret  = 8 << 10 // bytes
	maxHeaders = 32
	maxTokens  = 10_000_000
)

func toolPath(name string) string         { return "tools." + name }
func serverPath(name string) string       { return "mcpServers." + name }
func headerPath(of, name string) string   { return of + ".headers." + name }
func about(recordKey, path string) string { return recordKey + "/" + path }

// isHeaderName says whether a text is a token of HTTP.
func isHeaderName(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool {
		alphanumeric := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}) < 0
}

// isHeaderValue says whether a text holds no control characters but tabs.
func isHeaderValue(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// Sealed is secrets as they are stored: encrypted, by path.
type Sealed map[string][]byte

// ParseSealed reads the secrets of a stored record; empty = none.
func ParseSealed(stored []byte) (Sealed, error) {
	if len(stored) == 0 {
		return nil, nil
	}
	var sealed Sealed
	err := json.Unmarshal(stored, &sealed)
	return sealed, err
}

// Encode makes what is stored of the secrets: nothing when there is none.
func (s Sealed) Encode() []byte {
	if len(s) == 0 {
		return nil
	}
	text, _ := json.Marshal(s) //nolint:errchkjson // strings and bytes
	return text
}

// Open decrypts all secrets of a record.
func (s Sealed) Open(recordKey string, open func(sealed []byte, about string) ([]byte, error)) (Secrets, error) {
	secrets := make(Secrets, len(s))
	for path, sealed := range s {
		secret, err := open(sealed, about(recordKey, path))
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", path, recordKey, err)
		}
		secrets[path] = string(secret)
	}
	return secrets, nil
}

// Stored is a definition as it is recorded: a config, and the secrets that belong to it.
type Stored struct {
	Config []byte
	Sealed Sealed
}

// origins are where the stored secrets go. Of a config that cannot be read it is not known.
func (s Stored) origins() map[string]string {
	if len(s.Sealed) == 0 {
		return nil
	}
	config, err := Parse(s.Config)
	if err != nil {
		return nil
	}
	return config.origins()
}

// origins are where the secrets of a config go, by path.
func (c *Config) origins() map[string]string {
	origins := map[string]string{}
	add := func(path, to string) {
		origin := Origin(to)
		if other, twice := origins[path]; twice && other != origin {
			origin = "" // two names that make one path: neither may have the other's
		}
		origins[path] = origin
	}
	if c.Connection != nil {
		add(pathAPIKey, c.Connection.URL)
		for name := range c.Connection.Headers {
			add(headerPath("connection", name), c.Connection.URL)
		}
	}
	for i := range c.Tools {
		for name := range c.Tools[i].Headers {
			add(headerPath(toolPath(c.Tools[i].Name), name), c.Tools[i].URL)
		}
	}
	for i := range c.MCPServers {
		for name := range c.MCPServers[i].Headers {
			add(headerPath(serverPath(c.MCPServers[i].Name), name), c.MCPServers[i].URL)
		}
	}
	return origins
}

// Origin is whom a URL calls: scheme, host and port, in one spelling. Of what is no URL it is "".
func Origin(text string) string {
	target, err := url.Parse(strings.TrimSpace(text))
	if err != nil || target.Host == "" {
		return ""
	}
	scheme, port := strings.ToLower(target.Scheme), target.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return scheme + "://" + joinHostPort(strings.TrimSuffix(strings.ToLower(target.Hostname()), "."), port)
}

func joinHostPort(host, port string) string {
	if strings.Contains(host, ":") { // an IPv6 address
		host = "[" + host + "]"
	}
	return host + ":" + port
}

// Secrets is secrets in clear, by path.
type Secrets map[string]string

// ConnectionKey is the key of a connected agent.
func (s Secrets) ConnectionKey() string { return s[pathAPIKey] }

// ConnectionHeaders puts the values back into the headers of a connection.
func (s Secrets) ConnectionHeaders(masked map[string]string) map[string]string {
	return s.headers("connection", masked)
}

// ToolHeaders puts the values back into the headers of a tool.
func (s Secrets) ToolHeaders(tool string, masked map[string]string) map[string]string {
	return s.headers(toolPath(tool), masked)
}

// ServerHeaders puts the values back into the headers of an MCP server.
func (s Secrets) ServerHeaders(server string, masked map[string]string) map[string]string {
	return s.headers(serverPath(server), masked)
}

func (s Secrets) headers(of string, masked map[string]string) map[string]string {
	if len(masked) == 0 {
		return nil
	}
	headers := make(map[string]string, len(masked))
	for name := range masked {
		headers[name] = s[headerPath(of, name)]
	}
	return headers
}

// Seal encrypts what the client gave and takes over from the stored definition the secrets that it left as they were. A secret
// was given for a host: one that would go to another host has to be given again.
func (d *Draft) Seal(
	recordKey string, stored Stored, seal func(secret []byte, about string) ([]byte, error),
) (Sealed, error) {
	was, is := stored.origins(), d.Parsed.origins()
	for _, path := range d.kept {
		if stored.Sealed[path] != nil && was[path] != is[path] {
			return nil, invalid(failure.SecretForAnotherHost).In(path)
		}
	}
	return d.seal(recordKey, stored.Sealed, seal)
}

func (d *Draft) seal(recordKey string, stored Sealed, seal func(secret []byte, about string) ([]byte, error)) (Sealed, error) {
	for _, path := range d.wanted {
		if stored[path] == nil {
			return nil, invalid(failure.SecretNotStored).In(path)
		}
	}
	sealed := Sealed{}
	for _, path := range d.kept {
		if stored[path] != nil {
			sealed[path] = stored[path]
		}
	}
	for path, secret := range d.given {
		box, err := seal([]byte(secret), about(recordKey, path))
		if err != nil {
			return nil, err
		}
		sealed[path] = box
	}
	return sealed, nil
}

// headers takes the values out of headers. Blank ones are dropped.
func (d *Draft) headers(of string, headers map[string]string) (map[string]string, *failure.Failure) {
	if len(headers) > maxHeaders {
		return nil, invalid(failure.TooManyHeaders).In(of).Param("most", maxHeaders)
	}
	masked := make(map[string]string, len(headers))
	for name, value := range headers {
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		path := headerPath(of, name)
		switch {
		case name == "" || value == "":
			continue
		case len(name) > 128 || !isHeaderName(name):
			return nil, invalid(failure.BadHeaderName).In(of).Param("name", name)
		case len(value) > maxSecret || !isHeaderValue(value):
			return nil, invalid(failure.BadHeaderValue).In(of).Param("name", name)
		case value == Mask:
			d.kept, d.wanted = append(d.kept, path), append(d.wanted, path)
		default:
			d.given[path] = value
		}
		masked[name] = Mask
	}
	return masked, nil
}

// isSecretName says that a key of that name is likely to hold a credential.
func isSecretName(name string) bool {
	switch strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name)) {
	case "apikey", "apitoken", "accesstoken", "authtoken", "secret", "secretkey", "clientsecret", "password", "authorization":
		return true
	}
	return false
}

// noSecrets refuses credentials where they would be kept in clear. Objects and arrays are looked into.
func noSecrets(at string, raw json.RawMessage) *failure.Failure {
	if len(raw) == 0 {
		return nil
	}
	var value any
	if json.Unmarshal(raw, &value) != nil {
		return invalid(failure.NotJSON).In(at)
	}
	return noSecretsIn(at, value)
}

func noSecretsIn(at string, value any) *failure.Failure {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			if text, isText := inner.(string); isText && text != "" && isSecretName(name) {
				return invalid(failure.CredentialInClear).In(at + "." + name)
			}
			if refused := noSecretsIn(at+"."+name, inner); refused != nil {
				return refused
			}
		}
	case []any:
		for _, inner := range value {
			if refused := noSecretsIn(at, inner); refused != nil {
				return refused
			}
		}
	}
	return nil
}

package runtimecontext

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"parley/proto/agentpb"
)

// SourceAPI is the source of turns that were requested over the API.
const SourceAPI = "api"

// Stamp is what the server itself adds about a turn: who requested it, with which API token, from which source.
type Stamp struct{ UserID, TokenID, Source string }

// Context is the runtime context of a turn. It is immutable and safe for concurrent use; a nil one passes nothing on.
type Context struct {
	headers     fields
	connections map[string]fields
	metadata    map[string]json.RawMessage
	stamp       Stamp
}

// fields are header fields by canonical name.
type fields map[string]string

// Target is one receiver of header fields.
type Target struct{ kind, key string }

// Agent is a connected agent.
func Agent(key string) Target { return Target{"agent", key} }

// Tool is a tool, or an OpenAPI document whose operations are tools.
func Tool(key string) Target { return Target{"tool", key} }

// MCP is an MCP server.
func MCP(key string) Target { return Target{"mcp", key} }

var errUnreadable = errors.New("a runtime context cannot be read")

// New merges a conversation's context and its turn's, as the edge encoded them; the turn's wins. Empty means none. The
// error means that one of them is malformed, and contains nothing of it.
func New(conversation, turn []byte, stamp Stamp) (*Context, error) {
	made := &Context{stamp: stamp}
	for _, text := range [][]byte{conversation, turn} {
		if len(text) == 0 {
			continue
		}
		if err := made.add(text); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// add merges a context over the present one, key by key.
func (c *Context) add(text []byte) error {
	var body struct {
		Headers     map[string]string `json:"headers"`
		Connections map[string]struct {
			Headers map[string]string `json:"headers"`
		} `json:"connections"`
		Metadata map[string]json.RawMessage `json:"metadata"`
	}
	if json.Unmarshal(text, &body) != nil {
		return errUnreadable // without the cause, which may quote a value
	}
	if c.headers == nil {
		c.headers, c.connections, c.metadata = fields{}, map[string]fields{}, map[string]json.RawMessage{}
	}
	c.headers.add(body.Headers)
	for key, connection := range body.Connections {
		if c.connections[key] == nil {
			c.connections[key] = fields{}
		}
		c.connections[key].add(connection.Headers)
	}
	maps.Copy(c.metadata, body.Metadata)
	return nil
}

// add sets fields; it drops those that cannot or must not be sent.
func (f fields) add(headers map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if httpguts.ValidHeaderFieldName(name) && httpguts.ValidHeaderFieldValue(headers[name]) && !agentpb.WithheldHeader(name) {
			f[http.CanonicalHeaderKey(name)] = headers[name]
		}
	}
}

// Headers returns the header fields for a target with this policy; nil = none. The caller may change them.
func (c *Context) Headers(to Target, policy *agentpb.RuntimeHeaders) http.Header {
	if c == nil || !policy.GetAllow() {
		return nil
	}
	header := http.Header{}
	// The more specific ones come later and win.
	for _, set := range []fields{c.headers, c.connections[to.key], c.connections[to.kind+":"+to.key]} {
		for name, value := range set {
			if allowed(policy, name) {
				header.Set(name, value)
			}
		}
	}
	if len(header) == 0 {
		return nil
	}
	return header
}

func allowed(policy *agentpb.RuntimeHeaders, name string) bool {
	names := policy.GetAllowedNames()
	return len(names) == 0 || slices.ContainsFunc(names, func(allowed string) bool { return strings.EqualFold(allowed, name) })
}

// Meta is the description of the turn for a target that takes metadata.
type Meta struct {
	UserID   string                     `json:"userId,omitempty"`
	TokenID  string                     `json:"tokenId,omitempty"`
	Source   string                     `json:"source,omitempty"`
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
}

// Meta returns the description for a target with this policy, without headers; nil = none.
func (c *Context) Meta(policy *agentpb.RuntimeHeaders) *Meta {
	if c == nil || !policy.GetAllow() {
		return nil
	}
	return &Meta{UserID: c.stamp.UserID, TokenID: c.stamp.TokenID, Source: c.stamp.Source, Metadata: c.metadata}
}

// shortest is the least length of a value that counts as a secret: shorter ones occur in ordinary words.
const shortest = 8

// Secrets returns the header values that must not be repeated where others read them: each as a whole, and without its
// scheme.
func Secrets(header http.Header) []string {
	var secrets []string
	for _, values := range header {
		for _, value := range values {
			value = strings.TrimSpace(value)
			_, credential, _ := strings.Cut(value, " ")
			for _, secret := range []string{value, strings.TrimSpace(credential)} {
				if len(secret) >= shortest {
					secrets = append(secrets, secret)
				}
			}
		}
	}
	// Longer ones first: one may be part of another.
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return secrets
}

// Redact removes secrets from a text.
func Redact(text string, secrets []string) string {
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return text
}

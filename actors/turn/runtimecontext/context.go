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

// SourceAPI is the source of turns that were asked for over the API.
const SourceAPI = "api"

// Stamp is what the server itself says of a turn: who asked for it, with which API token, by which way.
type Stamp struct{ UserID, TokenID, Source string }

// Context is the runtime context of a turn. It is only read, by any number of goroutines; a nil one passes nothing on.
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

// New joins a conversation's context and its turn's, as the edge encoded them; the turn's wins. Empty is none. The error
// says that one of them is no JSON object of that form, and nothing of what is in it.
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

// add merges a context over what is there, key by key.
func (c *Context) add(text []byte) error {
	var said struct {
		Headers     map[string]string `json:"headers"`
		Connections map[string]struct {
			Headers map[string]string `json:"headers"`
		} `json:"connections"`
		Metadata map[string]json.RawMessage `json:"metadata"`
	}
	if json.Unmarshal(text, &said) != nil {
		return errUnreadable // without its words: they may quote a value
	}
	if c.headers == nil {
		c.headers, c.connections, c.metadata = fields{}, map[string]fields{}, map[string]json.RawMessage{}
	}
	c.headers.add(said.Headers)
	for key, connection := range said.Connections {
		if c.connections[key] == nil {
			c.connections[key] = fields{}
		}
		c.connections[key].add(connection.Headers)
	}
	maps.Copy(c.metadata, said.Metadata)
	return nil
}

// add sets fields; what cannot be sent, or must not be, is dropped.
func (f fields) add(said map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(said)) {
		if httpguts.ValidHeaderFieldName(name) && httpguts.ValidHeaderFieldValue(said[name]) && !agentpb.WithheldHeader(name) {
			f[http.CanonicalHeaderKey(name)] = said[name]
		}
	}
}

// Headers are the header fields that a target with this policy is sent; nil = none. The caller may change them.
func (c *Context) Headers(to Target, policy *agentpb.RuntimeHeaders) http.Header {
	if c == nil || !policy.GetAllow() {
		return nil
	}
	header := http.Header{}
	// The narrower, the later.
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

// Meta is what a target that takes metadata is told of the turn; nil = nothing.
type Meta struct {
	UserID   string                     `json:"userId,omitempty"`
	TokenID  string                     `json:"tokenId,omitempty"`
	Source   string                     `json:"source,omitempty"`
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
}

// Meta is for a target with this policy. It holds no header.
func (c *Context) Meta(policy *agentpb.RuntimeHeaders) *Meta {
	if c == nil || !policy.GetAllow() {
		return nil
	}
	return &Meta{UserID: c.stamp.UserID, TokenID: c.stamp.TokenID, Source: c.stamp.Source, Metadata: c.metadata}
}

// shortest is the length from which a value is taken for a secret: what is shorter is part of words.
const shortest = 8

// Secrets are the values of header fields that must not be repeated where others read: each whole, and the part behind its
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
	// The longer first: one may be part of another.
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return secrets
}

// Redact takes secrets out of a text.
func Redact(text string, secrets []string) string {
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return text
}

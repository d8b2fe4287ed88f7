package clientapi

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/textproto"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/wire"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// Limits of a runtime context (document 3, 7.14). What is beyond them is dropped; only one that is too large as a whole is
// refused.
const (
	contextHeaders     = 24   // of a map
	contextHeaderName  = 128  // characters
	contextHeaderValue = 4096 // characters
	contextConnections = 32
	contextConnection  = 200         // characters of its key
	contextMetadata    = 8192        // characters of JSON
	contextBytes       = 32<<10 - 64 // as JSON: what a conversation keeps sealed
	contextPrefix      = "X-Service-Hdr-"
)

// runtimeContext is what a caller hands to the tools of a turn, without what may not be handed on. Header values are secrets:
// it is stored sealed and never shown.
type runtimeContext struct {
	Set bool

	headers     headerSet
	connections map[string]headerSet
	metadata    json.RawMessage
}

// headerSet is header fields by canonical name.
type headerSet map[string]string

// UnmarshalJSON never fails: what makes no sense is dropped.
func (c *runtimeContext) UnmarshalJSON(raw []byte) error {
	*c = runtimeContext{Set: true}
	eachMember(raw, func(name string, value json.RawMessage) {
		switch name {
		case "headers":
			c.headers = parseHeaders(value)
		case "connections":
			c.connections = parseConnections(value)
		case "metadata":
			if object := wire.Compact(value); len(object) > 0 && object[0] == '{' && utf8.RuneCount(object) <= contextMetadata {
				c.metadata = object
			}
		}
	})
	return nil
}

// Described implements openapi.Described.
func (c runtimeContext) Described() (value any, nullable bool) { return contextSchema{}, true }

type contextSchema struct {
	Headers     map[string]string          `json:"headers" doc:"Header fields for tools, MCP servers and connected agents that let them pass"`
	Connections map[string]json.RawMessage `json:"connections" doc:"{headers} for one target: its key, or tool:, mcp: or agent: and its key"`
	Metadata    json.RawMessage            `json:"metadata"`
}

// eachMember calls with the members of an object in their order. What is no object has none.
func eachMember(raw []byte, call func(name string, value json.RawMessage)) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if opening, err := decoder.Token(); err != nil || opening != json.Delim('{') {
		return
	}
	for decoder.More() {
		name, err := decoder.Token()
		text, isText := name.(string)
		var value json.RawMessage
		if err != nil || !isText || decoder.Decode(&value) != nil {
			return
		}
		call(text, value)
	}
}

func parseHeaders(raw []byte) headerSet {
	var headers headerSet
	eachMember(raw, func(name string, value json.RawMessage) {
		var text *string
		if json.Unmarshal(value, &text) == nil && text != nil {
			headers = headers.with(name, *text)
		}
	})
	return headers
}

func parseConnections(raw []byte) map[string]headerSet {
	var connections map[string]headerSet
	eachMember(raw, func(key string, value json.RawMessage) {
		n := utf8.RuneCountInString(key)
		if n == 0 || n > contextConnection || len(connections) >= contextConnections {
			return
		}
		var headers headerSet
		eachMember(value, func(name string, value json.RawMessage) {
			if name == "headers" {
				headers = parseHeaders(value)
			}
		})
		if len(headers) == 0 {
			return
		}
		if connections == nil {
			connections = make(map[string]headerSet)
		}
		connections[key] = headers
	})
	return connections
}

// with adds a header, unless it may not be handed on or there are too many.
func (h headerSet) with(name, value string) headerSet {
	if len(name) > contextHeaderName || !httpguts.ValidHeaderFieldName(name) || agentpb.WithheldHeader(name) {
		return h
	}
	if utf8.RuneCountInString(value) > contextHeaderValue || strings.ContainsAny(value, "\r\n\x00") {
		return h
	}
	name = textproto.CanonicalMIMEHeaderKey(name)
	if _, known := h[name]; !known && len(h) >= contextHeaders {
		return h
	}
	if h == nil {
		h = make(headerSet)
	}
	h[name] = value
	return h
}

// besides adds the header form of a request; the body's own headers win.
func (c *runtimeContext) besides(form map[string]string) {
	var headers headerSet
	for _, name := range slices.Sorted(maps.Keys(form)) {
		headers = headers.with(name, form[name])
	}
	if len(headers) == 0 {
		return
	}
	c.Set = true
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if _, own := c.headers[name]; !own {
			c.headers = c.headers.with(name, headers[name])
		}
	}
}

// encode is the context as a turn reads it: {headers, connections: {key: {headers}}, metadata}; empty when it says nothing.
func (c *runtimeContext) encode() []byte {
	type target struct {
		Headers headerSet `json:"headers"`
	}
	said := struct {
		Headers     headerSet         `json:"headers,omitempty"`
		Connections map[string]target `json:"connections,omitempty"`
		Metadata    json.RawMessage   `json:"metadata,omitempty"`
	}{Headers: c.headers, Metadata: c.metadata}
	for key, headers := range c.connections {
		if said.Connections == nil {
			said.Connections = make(map[string]target)
		}
		said.Connections[key] = target{headers}
	}
	encoded, err := json.Marshal(said)
	if err != nil || string(encoded) == "{}" {
		return nil
	}
	return encoded
}

// sealContext seals a request's runtime context for a conversation: its body's, and the header form where the body does not
// say otherwise. It returns nil when there is none, and something empty when it is there and says nothing.
func (a *API) sealContext(ctx context.Context, conversationID string, given runtimeContext) ([]byte, error) {
	given.besides(endpoint.PrefixedHeaders(ctx, contextPrefix))
	return a.seal(conversationID, given)
}

func (a *API) seal(conversationID string, given runtimeContext) ([]byte, error) {
	if !given.Set {
		return nil, nil
	}
	plain := given.encode()
	switch {
	case len(plain) == 0:
		return []byte{}, nil
	case len(plain) > contextBytes:
		return nil, invalid("runtime_context is larger than %d bytes", contextBytes)
	}
	return a.Sealer.Seal(plain, conversationpb.ContextAbout(conversationID))
}

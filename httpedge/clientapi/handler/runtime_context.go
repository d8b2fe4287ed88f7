package handler

import (
	"context"
	"encoding/json"
	"maps"
	"net/textproto"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"parley/actors/core/failure"
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

// RuntimeContext is what a caller passes to the tools of a turn, without the parts that must not be passed on. Header values are
// secrets: it is stored encrypted and never shown.
type RuntimeContext struct {
	Set bool

	headers     headerSet
	connections map[string]headerSet
	metadata    json.RawMessage
}

// headerSet is header fields by canonical name.
type headerSet map[string]string

// UnmarshalJSON never fails: invalid parts are dropped.
func (c *RuntimeContext) UnmarshalJSON(raw []byte) error {
	*c = RuntimeContext{Set: true}
	EachMember(raw, func(name string, value json.RawMessage) {
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
func (c RuntimeContext) Described() (value any, nullable bool) { return contextSchema{}, true }

type contextSchema struct {
	Headers     map[string]string          `json:"headers" doc:"Header fields for tools, MCP servers and connected agents that let them pass"`
	Connections map[string]json.RawMessage `json:"connections" doc:"{headers} for one target: its key, or tool:, mcp: or agent: and its key"`
	Metadata    json.RawMessage            `json:"metadata"`
}

func parseHeaders(raw []byte) headerSet {
	var headers headerSet
	EachMember(raw, func(name string, value json.RawMessage) {
		var text *string
		if json.Unmarshal(value, &text) == nil && text != nil {
			headers = headers.with(name, *text)
		}
	})
	return headers
}

func parseConnections(raw []byte) map[string]headerSet {
	var connections map[string]headerSet
	EachMember(raw, func(key string, value json.RawMessage) {
		n := utf8.RuneCountInString(key)
		if n == 0 || n > contextConnection || len(connections) >= contextConnections {
			return
		}
		var headers headerSet
		EachMember(value, func(name string, value json.RawMessage) {
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

// with adds a header unless it must not be passed on or there are too many.
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

// besides merges the context that came in the request's headers; the body wins.
func (c *RuntimeContext) besides(form map[string]string) {
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
func (c *RuntimeContext) encode() []byte {
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

// SealContext seals a request's runtime context for a conversation: its body's, and the header form where the body does not
// say otherwise. It returns nil when there is none, and something empty when it is there and says nothing.
func (a *API) SealContext(ctx context.Context, conversationID string, given RuntimeContext) ([]byte, error) {
	given.besides(endpoint.PrefixedHeaders(ctx, contextPrefix))
	return a.Seal(conversationID, given)
}

// Seal is SealContext without the header form.
func (a *API) Seal(conversationID string, given RuntimeContext) ([]byte, error) {
	if !given.Set {
		return nil, nil
	}
	plain := given.encode()
	switch {
	case len(plain) == 0:
		return []byte{}, nil
	case len(plain) > contextBytes:
		return nil, Invalid(failure.TooLargeOf).In("runtimeContext").Param("most", contextBytes)
	}
	return a.Sealer.Seal(plain, conversationpb.ContextAbout(conversationID))
}

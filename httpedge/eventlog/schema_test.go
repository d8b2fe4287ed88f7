package eventlog

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"parley/httpedge/endpoint"
	"parley/httpedge/openapi"
	"parley/proto/conversationpb"
)

type (
	conversationEvent struct{}
	clientEvent       struct{}
)

func (conversationEvent) Union() (property string, variants map[string]any) {
	return "type", Variants(Conversation)
}

func (clientEvent) Union() (property string, variants map[string]any) {
	return "type", Variants(Client)
}

type around[Event any] struct {
	Event Event `json:"event"`
}

// documentedEvents is the schema of an event in the document of each surface. Members that it does not name are refused; of members
// with a closed set of values any is taken, if so asked.
func documentedEvents(t *testing.T, anyValue bool) map[Dialect]*openapi3.Schema {
	t.Helper()
	return map[Dialect]*openapi3.Schema{
		Conversation: documentedEvent[conversationEvent](t, anyValue, "ConversationEvent"),
		Client:       documentedEvent[clientEvent](t, anyValue, "ClientEvent"),
	}
}

func documentedEvent[Event any](t *testing.T, anyValue bool, name string) *openapi3.Schema {
	t.Helper()
	raw := openapi.Document(openapi.Info{Title: "t", Version: "1", Error: struct{}{}}, []endpoint.Route{
		endpoint.On("GET /event", "read", func(context.Context, *struct{}) (*around[Event], error) {
			return nil, nil //nolint:nilnil // never called
		}),
	})
	document, err := openapi3.NewLoader().LoadFromData(raw)
	require.NoError(t, err)
	require.NoError(t, document.Validate(t.Context()))
	for _, schema := range document.Components.Schemas {
		if schema.Value.Properties == nil {
			continue
		}
		no := false
		schema.Value.AdditionalProperties.Has = &no
		for member, property := range schema.Value.Properties {
			if anyValue && member != "type" {
				property.Value.Enum = nil
			}
		}
	}
	return document.Components.Schemas[name].Value
}

// fits holds an event as it is written against what the documents say of it.
func fits(t *testing.T, schemas map[Dialect]*openapi3.Schema, event *conversationpb.Event) {
	t.Helper()
	for dialect, schema := range schemas {
		line := Append(nil, event, dialect)
		var value any
		require.NoError(t, json.Unmarshal(line, &value), "%s", line)
		require.NoError(t, schema.VisitJSON(value), "%s", line)
	}
}

// TestEveryPublicTypeIsDescribed: the documents know the types of the log, and no others.
func TestEveryPublicTypeIsDescribed(t *testing.T) {
	for _, dialect := range []Dialect{Conversation, Client} {
		require.Equal(t, conversationpb.PublicTypes(), slices.Sorted(maps.Keys(Variants(dialect))))
	}
}

package definition

import (
	"bytes"
	"encoding/json"
	"strings"

	"parley/actors/core/failure"
	"parley/actors/core/money"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// MaxMetadata bounds the metadata of an agent, a model or a provider, in bytes.
const MaxMetadata = 32 << 10

// Metadata is the keys of an agent's metadata that mean something to the server (document 3, 7.9).
type Metadata struct {
	A2A           *A2A           `json:"a2a,omitempty"`
	Background    *Background    `json:"background,omitempty"`
	SessionBudget *SessionBudget `json:"session_budget,omitempty"`
	Files         *Files         `json:"files,omitempty"`
}

// A2A exposes the agent to other agents.
type A2A struct {
	Enabled      bool   `json:"enabled"`
	AccessMode   string `json:"accessMode"` // token, public
	EndpointSlug string `json:"endpointSlug,omitempty"`
}

// Background permits runs in the background.
type Background struct {
	Enabled bool `json:"enabled"`
}

// SessionBudget is the budget of the agent's sessions, which callers may lower only.
type SessionBudget struct {
	MaxCostUSD float64 `json:"max_cost_usd"`
	OnReach    string  `json:"on_reach"` // pause, stop
}

// Files is what sessions of the agent take.
type Files struct {
	Enabled          bool     `json:"enabled"`
	MaxFiles         int32    `json:"maxFiles,omitempty"`
	MaxFileSize      int64    `json:"maxFileSize,omitempty"` // bytes
	AllowedMIMETypes []string `json:"allowedMimeTypes,omitempty"`
	RetentionDays    int32    `json:"retentionDays,omitempty"`
	AcceptsImages    bool     `json:"acceptsImages,omitempty"`
}

// minSlug is the shortest slug that is one: a shorter one is ignored (document 3, 7.9).
const minSlug = 8

const (
	accessToken  = "token"
	accessPublic = "public"
)

// ParseMetadata reads an agent's metadata as it is stored.
func ParseMetadata(stored []byte) (*Metadata, error) {
	metadata := new(Metadata)
	if len(stored) == 0 {
		return metadata, nil
	}
	return metadata, json.Unmarshal(stored, metadata)
}

// IsExposed reports whether other agents reach the agent over A2A.
func (m *Metadata) IsExposed() bool { return m.A2A != nil && m.A2A.Enabled }

// ReadMetadata checks and normalises the metadata that a client sent for an agent: all of it, in place of what is stored.
// Only the slug under which the agent is exposed outlives it; newSlug makes the first one.
func ReadMetadata(raw, stored []byte, newSlug func() string) ([]byte, *failure.Failure) {
	keys, refused := object("metadata", raw)
	if refused != nil {
		return nil, refused
	}
	var sent Metadata
	for _, part := range []struct {
		key  string
		into any
	}{{"a2a", &sent.A2A}, {"background", &sent.Background}, {"session_budget", &sent.SessionBudget}, {"files", &sent.Files}} {
		if value := keys[part.key]; len(value) > 0 {
			if refused = unmarshal("metadata."+part.key, value, part.into); refused != nil {
				return nil, refused
			}
		}
		for key := range keys { // reading looks at no case
			if strings.EqualFold(key, part.key) {
				delete(keys, key)
			}
		}
	}
	former, err := ParseMetadata(stored)
	if err != nil {
		former = new(Metadata)
	}
	sent.A2A = exposure(sent.A2A, former.A2A, newSlug)
	if refused = sent.check(); refused != nil {
		return nil, refused
	}
	known, err := json.Marshal(&sent)
	if err == nil {
		err = json.Unmarshal(known, &keys)
	}
	var text []byte
	if err == nil {
		text, err = json.Marshal(keys)
	}
	if err != nil {
		return nil, invalid(failure.MalformedJSON).In("metadata")
	}
	if refused = noSecrets("metadata", text); refused != nil {
		return nil, refused
	}
	return text, nil
}

// exposure is how the agent is exposed from now on. A slug that it has is never given up or changed.
func exposure(sent, former *A2A, newSlug func() string) *A2A {
	slug := ""
	if former != nil && len(former.EndpointSlug) >= minSlug {
		slug = former.EndpointSlug
	}
	if sent == nil && slug == "" {
		return nil
	}
	next := &A2A{AccessMode: accessToken}
	if sent != nil {
		next.Enabled = sent.Enabled
		if sent.AccessMode == accessPublic {
			next.AccessMode = accessPublic
		}
	}
	if slug == "" && next.Enabled {
		slug = newSlug()
	}
	next.EndpointSlug = slug
	return next
}

func (m *Metadata) check() *failure.Failure {
	if budget := m.SessionBudget; budget != nil {
		if _, ok := money.FromUSD(budget.MaxCostUSD); !ok {
			return failure.New(failurepb.Code_INVALID_BUDGET, failure.NumberAboveZero).In("metadata.session_budget.max_cost_usd")
		}
		if budget.OnReach == "" {
			budget.OnReach = conversationpb.OnReachPause
		}
		if budget.OnReach != conversationpb.OnReachPause && budget.OnReach != conversationpb.OnReachStop {
			return failure.New(failurepb.Code_INVALID_BUDGET, failure.OnReachChoice).In("metadata.session_budget.on_reach")
		}
	}
	if files := m.Files; files != nil {
		const maxFiles, maxDays, maxTypes = 1000, 36_500, 100
		if files.MaxFiles < 0 || files.MaxFiles > maxFiles || files.MaxFileSize < 0 ||
			files.RetentionDays < 0 || files.RetentionDays > maxDays || len(files.AllowedMIMETypes) > maxTypes {
			return invalid(failure.FilesMetadataOutOfRange).In("metadata.files").
				Param("files", maxFiles).Param("days", maxDays).Param("types", maxTypes)
		}
	}
	return nil
}

// object reads an object of a client, null being an empty one.
func object(what string, raw []byte) (map[string]json.RawMessage, *failure.Failure) {
	if len(raw) > MaxMetadata {
		return nil, failure.New(failurepb.Code_TOO_LARGE, failure.TooLargeOf).In(what).Param("most", MaxMetadata)
	}
	keys := map[string]json.RawMessage{}
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return keys, nil
	}
	return keys, unmarshal(what, raw, &keys)
}

// ReadObject checks an object that a client sent and that means nothing to the server.
func ReadObject(what string, raw []byte) ([]byte, *failure.Failure) {
	keys, refused := object(what, raw)
	if refused != nil {
		return nil, refused
	}
	return encode(what, keys)
}

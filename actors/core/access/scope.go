package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// Scope is what a token or a user's own permissions hold: service to level. A service that is not in it is none.
type Scope map[string]string

var errScope = errors.New(`servicePermissions must be an object of service to level, or a list of texts like "models:read"`)

// Parse reads servicePermissions as a client sends them: an object, a text like "models:read agents.write" (also parted by
// commas), or a list of such texts. Null or nothing is no scope at all: given is false. Services and levels that nobody knows
// are dropped (document 3, 2.3).
func Parse(raw []byte) (scope Scope, given bool, err error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, false, nil
	}
	switch raw[0] {
	case '{':
		var levels map[string]any
		if err := json.Unmarshal(raw, &levels); err != nil {
			return nil, false, errScope
		}
		scope = Scope{}
		for service, level := range levels {
			if text, ok := level.(string); ok {
				scope.add(service, text)
			}
		}
		return scope, true, nil
	case '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, false, errScope
		}
		return ParseTexts(text), true, nil
	case '[':
		var texts []string
		if err := json.Unmarshal(raw, &texts); err != nil {
			return nil, false, errScope
		}
		return ParseTexts(texts...), true, nil
	default:
		return nil, false, errScope
	}
}

// ParseTexts reads texts like "models:read", "webhooks.admin" or "models:read, agents:write". What nobody knows is dropped.
func ParseTexts(texts ...string) Scope {
	scope := Scope{}
	for _, text := range texts {
		for _, grant := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
			if at := strings.LastIndexAny(grant, ":."); at > 0 {
				scope.add(grant[:at], grant[at+1:])
			}
		}
	}
	return scope
}

// add notes a grant; of two for one service the higher counts.
func (s Scope) add(service, level string) {
	parsed, ok := ParseLevel(level)
	if !ok || !Known(Service(service)) {
		return
	}
	if held, _ := ParseLevel(s[service]); held <= parsed {
		s[service] = level
	}
}

// Within lowers a scope to what a grant itself allows: nobody gives away more than they have.
func (s Scope) Within(grant *Grant) Scope {
	lowered := make(Scope, len(s))
	for service, text := range s {
		level, _ := ParseLevel(text)
		lowered[service] = min(level, grant.Level(Service(service))).String()
	}
	return lowered
}

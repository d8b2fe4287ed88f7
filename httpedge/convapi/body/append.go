package body

import (
	"bytes"
	"encoding/json"
)

// without removes the members with the given names from a JSON object. A name may be spelled with escapes.
func without(object []byte, names [10]string) []byte {
	mentioned := bytes.Contains(object, []byte(`\u`))
	for _, name := range names {
		mentioned = mentioned || bytes.Contains(object, []byte(name))
	}
	var members map[string]json.RawMessage
	if !mentioned || json.Unmarshal(object, &members) != nil {
		return object
	}
	before := len(members)
	for _, name := range names {
		delete(members, name)
	}
	if len(members) == before {
		return object
	}
	kept, err := json.Marshal(members)
	if err != nil {
		return object
	}
	return kept
}

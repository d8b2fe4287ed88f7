package collection

import (
	"encoding/json"
	"reflect"
	"strings"
)

func decodeJSON[T any](raw []byte) (*T, error) {
	value := new(T)
	return value, json.Unmarshal(raw, value)
}

// encodeJSON writes a value and carries over the fields of the stored one that T does not have: a later release wrote them.
func encodeJSON[T any](value *T, stored []byte) ([]byte, error) {
	encoded, err := json.Marshal(value)
	if err != nil || len(stored) == 0 {
		return encoded, err
	}
	var fields, former map[string]json.RawMessage
	if err = json.Unmarshal(encoded, &fields); err != nil {
		return nil, err
	}
	if err = json.Unmarshal(stored, &former); err != nil {
		return nil, err
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			name = field.Name
		}
		delete(former, name)
	}
	if len(former) == 0 {
		return encoded, nil
	}
	for name, field := range former {
		fields[name] = field
	}
	return json.Marshal(fields)
}

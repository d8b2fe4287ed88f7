package rawjson

import (
	"reflect"
	"strings"
)

// NamesOf are the names of the members that fill a struct's fields, those with a json tag, in lower case: encoding/json reads them in any.
func NamesOf(t reflect.Type) map[string]bool {
	names := map[string]bool{}
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			names[strings.ToLower(name)] = true
		}
	}
	return names
}

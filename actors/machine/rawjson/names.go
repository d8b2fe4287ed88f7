package rawjson

import (
	"reflect"
	"strings"
)

// NamesOf are the names of the members that fill a struct's fields, those with a json tag, by their lower case: encoding/json reads them in any.
func NamesOf(t reflect.Type) map[string]string {
	names := map[string]string{}
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			names[strings.ToLower(name)] = name
		}
	}
	return names
}

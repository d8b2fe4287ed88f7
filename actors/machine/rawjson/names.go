package rawjson

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Names are those of the members that fill a struct's fields, by what encoding/json compares: it reads them in any case.
type Names map[string]string

// NamesOf are the names of a struct's fields that have a json tag.
func NamesOf(t reflect.Type) Names {
	names := Names{}
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			names[fold(name)] = name
		}
	}
	return names
}

// Has says whether a member of this name fills a field.
func (n Names) Has(name string) bool { return n[fold(name)] != "" }

// Is says whether a field has just this name.
func (n Names) Is(name string) bool { return n[fold(name)] == name }

// Unknown are the members that fill no field, in their order.
func (n Names) Unknown(members map[string]json.RawMessage) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(members)), n.Has)
}

// fold is the same for all spellings of an ASCII name that encoding/json takes for it, also with ſ for s and the sign of Kelvin for k.
func fold(name string) string { return strings.ToLower(strings.ToUpper(name)) }

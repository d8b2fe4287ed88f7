package config

import (
	"reflect"
	"strings"
	"time"
)

// envPrefix begins every environment variable of ours.
const envPrefix = "PARLEY_"

// setting is one leaf of the tree, with its spellings.
type setting struct {
	key   string // http.base_path
	value reflect.Value
	doc   string
}

// env is the setting's environment variable, e.g. PARLEY_HTTP_BASE_PATH.
func (s setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}

// flag is the setting's flag without dashes, e.g. http-base-path.
func (s setting) flag() string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(s.key)
}

// metavar says what kind of value the flag takes, with a blank before it; a switch takes none.
func (s setting) metavar() string {
	switch s.value.Interface().(type) {
	case bool:
		return ""
	case int, float64:
		return " NUMBER"
	case time.Duration:
		return " DURATION"
	case Size:
		return " SIZE"
	case []string:
		return " A,B"
	case string, Secret:
		return " TEXT"
	}
	return " YAML"
}

// set takes the setting's text from the environment or a flag. source names it in messages.
func (s setting) set(text, source string) []error {
	return bindText(s.value, text, source)
}

// settings lists all leaves of a configuration in the order of the tree.
func settings(c *Config) []setting {
	docs := fieldDocs()
	var list []setting
	var walk func(value reflect.Value, prefix string)
	walk = func(value reflect.Value, prefix string) {
		for _, f := range fieldsOf(value.Type()) {
			field := value.Field(f.index)
			key := prefix + f.key
			if field.Kind() == reflect.Struct {
				walk(field, key+".")
				continue
			}
			list = append(list, setting{key: key, value: field, doc: docs[f.doc]})
		}
	}
	walk(reflect.ValueOf(c).Elem(), "")
	return list
}

// field is one keyed field of a struct type.
type field struct {
	key   string
	index int
	doc   string // Type.Field, for fieldDocs
}

func fieldsOf(t reflect.Type) []field {
	fields := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		if key, ok := t.Field(i).Tag.Lookup("key"); ok {
			fields = append(fields, field{key: key, index: i, doc: t.Name() + "." + t.Field(i).Name})
		}
	}
	return fields
}

package config

import (
	"reflect"
	"strconv"
	"strings"
	"time"
)

// envPrefix begins every environment variable of ours.
const envPrefix = "PARLEY_"

// setting is one leaf of the tree, with its spellings.
type setting struct {
	field // its key is the whole one: http.base_path
	value reflect.Value
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
	case []string, []Secret:
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
	var list []setting
	var walk func(value reflect.Value, prefix string)
	walk = func(value reflect.Value, prefix string) {
		for _, f := range fieldsOf(value.Type()) {
			member := value.Field(f.index)
			key := prefix + f.key
			if member.Kind() == reflect.Struct {
				walk(member, key+".")
				continue
			}
			f.key = key
			list = append(list, setting{field: f, value: member})
		}
	}
	walk(reflect.ValueOf(c).Elem(), "")
	return list
}

// field is what a struct type declares of one setting, in its tags.
type field struct {
	key       string // key:"shards": its name within its section
	index     int
	docKey    string // Type.Field: where fieldDocs has its comment
	def       string // default:"16", in the form that the config file has; "" for the zero value
	low, high string // range:"1..http.max_body": least and greatest value, or the settings that hold them; "" for any
	oneOf     string // one_of:"text,json": the words that it may be
	document  string // document:"JWT_SECRET": the name that document 1 or 3 gives its variable, read besides ours; "" for none
}

// comment describes the field. The comments of list items say what holds when the field is absent.
func (f field) comment() string { return fieldDocs()[f.docKey] }

// doc is what users read about the setting: its comment and its default.
func (s setting) doc() string {
	text := s.def
	switch {
	case s.value.Kind() == reflect.Slice:
		text = "[" + strings.Join(splitList(text), ", ") + "]"
	case text == "":
		text = formatScalar(reflect.Zero(s.value.Type()))
	case strings.HasSuffix(text, " "):
		text = strconv.Quote(text)
	}
	return s.comment() + " Default " + text + "."
}

func fieldsOf(t reflect.Type) []field {
	fields := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		if key, ok := tag.Lookup("key"); ok {
			low, high, _ := strings.Cut(tag.Get("range"), "..")
			fields = append(fields, field{
				key: key, index: i, docKey: t.Name() + "." + t.Field(i).Name,
				def: tag.Get("default"), low: low, high: high, oneOf: tag.Get("one_of"), document: tag.Get("document"),
			})
		}
	}
	return fields
}

package openapi

import (
	"cmp"
	"encoding/json"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
)

// schema describes a Go type. Named structs become components, so that a client generator gives them names.
func (b *builder) schema(t reflect.Type, in use) object {
	if described, ok := b.described(t, in); ok {
		return described
	}
	switch t.Kind() {
	case reflect.Pointer:
		return b.schema(t.Elem(), in)
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer"}
	case reflect.Slice, reflect.Array:
		if t == reflect.TypeFor[json.RawMessage]() {
			return openObject()
		}
		return object{"type": "array", "items": b.schema(t.Elem(), in)}
	case reflect.Struct:
		return b.component(t, in)
	case reflect.Map:
		switch t.Elem().Kind() {
		case reflect.Interface:
			return openObject()
		case reflect.Pointer:
			return object{"type": "object", "additionalProperties": asNullable(b.schema(t.Elem(), in))}
		default:
			return object{"type": "object", "additionalProperties": b.schema(t.Elem(), in)}
		}
	default:
		return openObject()
	}
}

// openObject is an object of which nothing more is said.
func openObject() object { return object{"type": "object", "additionalProperties": true} }

func (b *builder) described(t reflect.Type, in use) (object, bool) {
	if t.Kind() == reflect.Pointer {
		return nil, false
	}
	switch value := reflect.New(t).Interface().(type) {
	case Union:
		return b.union(t, value, in), true
	case Either:
		return b.either(value, in), true
	case Described:
		looksLike, nullable := value.Described()
		schema := b.schema(reflect.TypeOf(looksLike), in)
		if !nullable {
			return schema, true
		}
		return asNullable(schema), true
	default:
		return nil, false
	}
}

func (b *builder) either(e Either, in use) object {
	var forms []object
	for _, form := range e.Either() {
		if form == nil {
			forms[0] = asNullable(forms[0])
			continue
		}
		forms = append(forms, b.schema(reflect.TypeOf(form), in))
	}
	return object{"oneOf": forms}
}

// union makes a component of the union and one of each variant, named after the value that tells it apart: "UserMessageEvent" of
// user.message in Event.
func (b *builder) union(t reflect.Type, u Union, in use) object {
	name := b.free(componentName(t, in), t)
	if b.types[name] == t {
		return reference(name)
	}
	b.types[name] = t
	property, variants := u.Union()
	var forms []object
	mapping := object{}
	for _, value := range slices.Sorted(maps.Keys(variants)) {
		variant := ""
		for word := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == '.' || r == '_' }) {
			variant += exported(word)
		}
		variant += name
		schema := b.structSchema(reflect.TypeOf(variants[value]), in)
		schema["properties"].(object)[property] = object{"type": "string", "enum": []string{value}} //nolint:errcheck,forcetypeassert // of structSchema
		b.types[variant], b.schemas[variant] = reflect.TypeOf(variants[value]), schema
		forms, mapping[value] = append(forms, reference(variant)), componentPath+variant
	}
	b.schemas[name] = object{"oneOf": forms, "discriminator": object{"propertyName": property, "mapping": mapping}}
	return reference(name)
}

// asNullable allows null. In OpenAPI 3.0 a reference cannot have siblings, hence allOf, and nullable says nothing without a type.
func asNullable(schema object) object {
	if _, isReference := schema["$ref"]; isReference {
		return object{"allOf": []object{schema}, "nullable": true, "type": "object"}
	}
	schema["nullable"] = true
	return schema
}

// component returns a reference to the schema of a named struct, or the schema itself for an unnamed one.
func (b *builder) component(t reflect.Type, in use) object {
	name := componentName(t, in)
	if name == "" {
		return b.structSchema(t, in)
	}
	name = b.free(name, t)
	b.types[name] = t
	if _, ok := b.schemas[name]; !ok {
		b.schemas[name] = object{} // for types that contain themselves
		b.schemas[name] = b.structSchema(t, in)
	}
	return reference(name)
}

// free is the name under which a type is described: another one where that belongs to a type of another package.
func (b *builder) free(name string, t reflect.Type) string {
	if taken, ok := b.types[name]; !ok && b.schemas[name] == nil || taken == t {
		return name
	}
	if t.PkgPath() == "" {
		declared, _ := t.FieldByName("Component")
		return cmp.Or(declared.Tag.Get("otherwise"), name+"Answer")
	}
	return exported(path.Base(t.PkgPath())) + name
}

// componentName makes "Conversation" of conversationSchema, "Agent" of agentRecord, and "Updated" of updated[budget].
func componentName(t reflect.Type, in use) string {
	if declared, is := t.FieldByName("Component"); is && t.Name() == "" { // a struct that was declared as data
		return declared.Tag.Get("component")
	}
	name, _, _ := strings.Cut(t.Name(), "[")
	for _, suffix := range []string{"Schema", "Record", "Out", "Input"} {
		name = strings.TrimSuffix(name, suffix)
	}
	if name == "" {
		return ""
	}
	name = exported(name)
	if in == body {
		return name + "Input"
	}
	return name
}

func exported(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

func (b *builder) structSchema(t reflect.Type, in use) object {
	properties := object{}
	var required []string
	for _, field := range reflect.VisibleFields(t) {
		tag, tagged := field.Tag.Lookup("json")
		if !tagged || !field.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		properties[name] = b.property(field, in)
		if in == answer && !strings.Contains(options, "omit") || in == body && field.Tag.Get("required") == "true" {
			required = append(required, name)
		}
	}
	schema := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

func (b *builder) property(field reflect.StructField, in use) object {
	schema := b.schema(field.Type, in)
	if field.Type.Kind() == reflect.Pointer && !strings.Contains(field.Tag.Get("json"), "omit") {
		schema = asNullable(schema)
	}
	extra := object{}
	if doc := field.Tag.Get("doc"); doc != "" {
		extra["description"] = doc
	}
	if enum := field.Tag.Get("enum"); enum != "" {
		extra["enum"] = strings.Split(enum, ",")
	}
	if format := field.Tag.Get("format"); format != "" {
		extra["format"], extra["type"] = format, "string"
	}
	if field.Tag.Get("any") == "true" {
		delete(schema, "type")
		delete(schema, "additionalProperties")
		delete(schema, "nullable") // without a type it says nothing: null is a value, too
	}
	if _, isReference := schema["$ref"]; isReference && len(extra) > 0 {
		schema = object{"allOf": []object{schema}}
	}
	for key, value := range extra {
		schema[key] = value
	}
	return schema
}

package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// properties builds the JSON Schema of an operation's arguments. Schemas are translated from the dialect of OpenAPI
// 3.0, and the schemas that they refer to are copied to $defs.
type properties struct {
	document *openapi3.T
	fields   map[string]any
	required []string
	defs     map[string]any
	more     any // additionalProperties of a body that became part of the arguments
}

func newProperties(document *openapi3.T) *properties {
	return &properties{document: document, fields: map[string]any{}, defs: map[string]any{}}
}

func (p *properties) definition() ([]byte, error) {
	definition := map[string]any{"type": "object", "properties": p.fields}
	if len(p.required) > 0 {
		slices.Sort(p.required)
		definition["required"] = slices.Compact(p.required)
	}
	if p.more != nil {
		definition["additionalProperties"] = p.more
	}
	used := make(map[string]any)
	p.use(definition, used)
	if len(used) > 0 {
		definition["$defs"] = used
	}
	return json.Marshal(definition)
}

// use collects the definitions that are referred to: that of a body that became part of the arguments is not needed.
func (p *properties) use(value any, used map[string]any) {
	switch value := value.(type) {
	case []any:
		for _, inner := range value {
			p.use(inner, used)
		}
	case map[string]any:
		for keyword, inner := range value {
			text, _ := inner.(string)
			name, reference := strings.CutPrefix(text, defs)
			if keyword != "$ref" || !reference {
				p.use(inner, used)
			} else if used[name] == nil {
				used[name] = p.defs[name]
				p.use(p.defs[name], used)
			}
		}
	}
}

// free returns an unused name for a property: the parameter's own, unless another parameter has it.
func (p *properties) free(name, in string) string {
	for p.fields[name] != nil {
		name += "_" + in
	}
	return name
}

func (p *properties) addParameter(name string, spec *openapi3.Parameter) error {
	reference := spec.Schema
	for _, media := range spec.Content {
		if reference == nil && media != nil {
			reference = media.Schema
		}
	}
	schema, err := p.translate(reference)
	if err != nil {
		return err
	}
	if fields, ok := schema.(map[string]any); ok && spec.Description != "" && fields["description"] == nil {
		fields["description"] = spec.Description
	}
	p.fields[name] = schema
	if spec.Required || spec.In == openapi3.ParameterInPath {
		p.required = append(p.required, name)
	}
	return nil
}

// addBody makes the properties of a body properties of the arguments, or the whole body one property.
func (p *properties) addBody(read *body, reference *openapi3.SchemaRef) error {
	translated, err := p.translate(reference)
	if err != nil {
		return fmt.Errorf("body: %w", err)
	}
	if object, own := p.plainObject(reference, translated); own != nil {
		read.names = make(map[string]bool, len(own))
		for name, schema := range own {
			p.fields[name], read.names[name] = schema, true
		}
		if read.required {
			p.required = append(p.required, texts(object["required"])...)
		}
		p.more = object["additionalProperties"]
		return nil
	}
	read.whole = true
	if p.fields["body"] != nil {
		return errors.New("a parameter is called body, and the body cannot be part of the arguments")
	}
	p.fields["body"] = translated
	if read.required {
		p.required = append(p.required, "body")
	}
	return nil
}

// plainObject returns a body's schema and properties if they can be merged with the parameters: the body is an object
// without conditions on the whole, and no name occurs twice.
func (p *properties) plainObject(reference *openapi3.SchemaRef, translated any) (object, own map[string]any) {
	object, _ = translated.(map[string]any)
	if reference != nil && reference.Ref != "" {
		object, _ = p.defs[strings.TrimPrefix(reference.Ref, schemas)].(map[string]any)
	}
	own, _ = object["properties"].(map[string]any)
	if object["type"] != "object" || len(own) == 0 {
		return nil, nil
	}
	for keyword := range object {
		switch keyword {
		case "type", "properties", "required", "additionalProperties", "title", "description":
		default:
			return nil, nil
		}
	}
	for name := range own {
		if p.fields[name] != nil {
			return nil, nil
		}
	}
	return object, own
}

func texts(value any) []string {
	list, _ := value.([]any)
	var found []string
	for _, one := range list {
		if text, ok := one.(string); ok {
			found = append(found, text)
		}
	}
	return found
}

// Where documents keep referenced schemas, and where they are kept here.
const (
	schemas = "#/components/schemas/"
	defs    = "#/$defs/"
)

// maxNesting bounds the depth of a schema: the operator's document may come from someone else.
const maxNesting = 64

// translate returns the JSON Schema for a schema of the document.
func (p *properties) translate(reference *openapi3.SchemaRef) (any, error) {
	if reference == nil {
		return map[string]any{}, nil
	}
	value, err := generic(reference)
	if err != nil {
		return nil, err
	}
	return p.schema(value, 0)
}

// generic returns a schema of the document as written, with its references.
func generic(reference *openapi3.SchemaRef) (value any, err error) {
	raw, err := json.Marshal(reference)
	if err == nil {
		err = json.Unmarshal(raw, &value)
	}
	return value, err
}

// schema translates a schema and its subschemas.
func (p *properties) schema(value any, depth int) (any, error) {
	object, ok := value.(map[string]any)
	if !ok {
		return value, nil // true, false
	}
	if depth > maxNesting {
		return nil, errors.New("the schema is nested too deeply")
	}
	made := make(map[string]any, len(object))
	for keyword, inner := range object {
		translated, err := p.keyword(keyword, inner, depth)
		if err != nil {
			return nil, err
		}
		if translated != nil {
			made[keyword] = translated
		}
	}
	strip(made)
	exclusive(made, "exclusiveMinimum", "minimum")
	exclusive(made, "exclusiveMaximum", "maximum")
	if isTrue(object["nullable"]) {
		made = nullable(made)
	}
	return made, nil
}

// keyword translates the value of one keyword; nil = omit it.
func (p *properties) keyword(keyword string, value any, depth int) (any, error) {
	switch keyword {
	case "$ref":
		return p.reference(value, depth)
	case "nullable", "example", "examples", "discriminator", "xml", "externalDocs", "deprecated", "$schema", "$id":
		return nil, nil
	case "properties", "patternProperties", "$defs", "dependentSchemas":
		named, ok := value.(map[string]any)
		if !ok {
			return nil, nil
		}
		made := make(map[string]any, len(named))
		for name, inner := range named {
			schema, err := p.schema(inner, depth+1)
			if err != nil {
				return nil, err
			}
			made[name] = schema
		}
		return made, nil
	case "allOf", "anyOf", "oneOf", "prefixItems":
		list, _ := value.([]any)
		made := make([]any, 0, len(list))
		for _, inner := range list {
			schema, err := p.schema(inner, depth+1)
			if err != nil {
				return nil, err
			}
			made = append(made, schema)
		}
		return made, nil
	case "items", "not", "additionalProperties", "contains", "propertyNames", "if", "then", "else", "unevaluatedItems",
		"unevaluatedProperties":
		return p.schema(value, depth+1)
	}
	if strings.HasPrefix(keyword, "x-") {
		return nil, nil
	}
	return value, nil
}

// reference copies the referenced schema to $defs.
func (p *properties) reference(value any, depth int) (any, error) {
	text, _ := value.(string)
	name, ours := strings.CutPrefix(text, schemas)
	if !ours || strings.ContainsAny(name, "/~%") || p.document.Components == nil {
		return nil, fmt.Errorf("the reference %q is not to a named schema of the document", text)
	}
	target := p.document.Components.Schemas[name]
	if target == nil || target.Value == nil {
		return nil, fmt.Errorf("the document has no schema %q", name)
	}
	if _, there := p.defs[name]; !there {
		p.defs[name] = map[string]any{} // it may refer to itself
		inner, err := generic(target)
		if err != nil {
			return nil, err
		}
		schema, err := p.schema(inner, depth+1)
		if err != nil {
			return nil, err
		}
		p.defs[name] = schema
	}
	return defs + name, nil
}

// strip removes the read-only properties of an object: they belong to responses and must not be sent.
func strip(object map[string]any) {
	own, _ := object["properties"].(map[string]any)
	var gone []string
	maps.DeleteFunc(own, func(name string, schema any) bool {
		inner, ok := schema.(map[string]any)
		readOnly := ok && isTrue(inner["readOnly"])
		if readOnly {
			gone = append(gone, name)
		}
		return readOnly
	})
	if len(gone) == 0 || object["required"] == nil {
		return
	}
	required := slices.DeleteFunc(texts(object["required"]), func(name string) bool { return slices.Contains(gone, name) })
	delete(object, "required")
	if len(required) > 0 {
		kept := make([]any, len(required))
		for index, name := range required {
			kept[index] = name
		}
		object["required"] = kept
	}
}

func isTrue(value any) bool {
	is, _ := value.(bool)
	return is
}

// exclusive converts a bound with a boolean exclusive keyword (3.0) to an exclusive bound (3.1, JSON Schema).
func exclusive(object map[string]any, keyword, bound string) {
	is, old := object[keyword].(bool)
	if !old {
		return
	}
	delete(object, keyword)
	if is && object[bound] != nil {
		object[keyword] = object[bound]
		delete(object, bound)
	}
}

// nullable permits null.
func nullable(object map[string]any) map[string]any {
	kind, single := object["type"].(string)
	if !single || object["enum"] != nil {
		return map[string]any{"anyOf": []any{object, map[string]any{"type": "null"}}}
	}
	object["type"] = []any{kind, "null"}
	return object
}

package tool

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"golang.org/x/net/http/httpguts"
)

// parameter is one parameter of an operation and its serialisation.
type parameter struct {
	property string // of the arguments
	name, in string
	style    string
	explode  bool
	asJSON   bool // the parameter is defined with JSON content instead of a style
	required bool
}

// newParameter supports the common styles: simple in paths and headers; form, deepObject, and lists with spaces or
// pipes in queries. Cookies can be set by the configured headers.
func newParameter(spec *openapi3.Parameter) (parameter, error) {
	read := parameter{name: spec.Name, in: spec.In, required: spec.Required || spec.In == openapi3.ParameterInPath}
	if spec.In == openapi3.ParameterInCookie {
		return read, fmt.Errorf("parameter %q is a cookie", spec.Name)
	}
	if spec.In == openapi3.ParameterInHeader && !httpguts.ValidHeaderFieldName(spec.Name) {
		return read, fmt.Errorf("parameter %q is no header", spec.Name)
	}
	if spec.Schema == nil && len(spec.Content) > 0 {
		read.asJSON = true
		for kind := range spec.Content {
			if !isJSON(kind) {
				return read, fmt.Errorf("parameter %q is neither a value nor JSON", spec.Name)
			}
		}
		return read, nil
	}
	method, err := spec.SerializationMethod()
	if err != nil {
		return read, err
	}
	read.style, read.explode = method.Style, method.Explode
	usual := []string{openapi3.SerializationSimple}
	if spec.In == openapi3.ParameterInQuery {
		usual = []string{
			openapi3.SerializationForm, openapi3.SerializationSpaceDelimited, openapi3.SerializationPipeDelimited,
			openapi3.SerializationDeepObject,
		}
	}
	if !slices.Contains(usual, read.style) {
		return read, fmt.Errorf("parameter %q has the style %q", spec.Name, read.style)
	}
	return read, nil
}

// request builds the request of a call.
func (o *operation) request(base *url.URL, values map[string]json.RawMessage) (*exchange, error) {
	asked := &exchange{method: o.method, header: make(http.Header)}
	query, path := make(url.Values), o.path
	for index := range o.parameters {
		one := &o.parameters[index]
		value, given := values[one.property]
		if !given || string(value) == "null" && !one.required {
			if one.required {
				return nil, failure("argument %s is missing", one.property)
			}
			continue
		}
		switch one.in {
		case openapi3.ParameterInQuery:
			one.addQuery(query, value)
		case openapi3.ParameterInHeader:
			text := one.text(value)
			if !httpguts.ValidHeaderFieldValue(text) {
				return nil, failure("argument %s cannot be sent as a header", one.property)
			}
			asked.header.Set(one.name, text)
		default:
			text := one.text(value)
			if text == "" || text == "." || text == ".." {
				return nil, failure("argument %s: %q is not a possible value", one.property, text)
			}
			path = strings.ReplaceAll(path, "{"+one.name+"}", url.PathEscape(text))
		}
	}
	if err := o.writeBody(asked, values); err != nil {
		return nil, err
	}
	maps.Copy(query, base.Query()) // the operator's values win
	asked.url = base.Scheme + "://" + base.Host + strings.TrimSuffix(base.EscapedPath(), "/") + path
	if len(query) > 0 {
		asked.url += "?" + query.Encode()
	}
	return asked, nil
}

func (o *operation) writeBody(asked *exchange, values map[string]json.RawMessage) error {
	if o.body.contentType == "" {
		return nil
	}
	if o.body.whole {
		asked.body = values["body"]
	} else {
		properties := maps.Clone(values)
		maps.DeleteFunc(properties, func(name string, _ json.RawMessage) bool { return !o.inBody(name) })
		if len(properties) > 0 || o.body.required {
			raw, err := json.Marshal(properties)
			if err != nil {
				return err
			}
			asked.body = raw
		}
	}
	if asked.body != nil {
		asked.header.Set("Content-Type", o.body.contentType)
	}
	return nil
}

// inBody reports whether an argument belongs to the body: it is a property of its schema, or it is no parameter and the
// schema permits additional properties.
func (o *operation) inBody(name string) bool {
	return o.body.names[name] || !slices.ContainsFunc(o.parameters, func(p parameter) bool { return p.property == name })
}

// addQuery adds a query parameter.
func (p *parameter) addQuery(query url.Values, value json.RawMessage) {
	if p.asJSON {
		query.Add(p.name, string(value))
		return
	}
	if fields, ok := fieldsOf(value); ok {
		switch {
		case p.style == openapi3.SerializationDeepObject:
			for _, field := range fields {
				query.Add(p.name+"["+field.name+"]", field.text)
			}
		case p.explode:
			for _, field := range fields {
				query.Add(field.name, field.text)
			}
		default:
			query.Add(p.name, joined(fields, ",", ","))
		}
		return
	}
	texts := spread(value)
	if p.explode || len(texts) < 2 {
		for _, text := range texts {
			query.Add(p.name, text)
		}
		return
	}
	between := ","
	switch p.style {
	case openapi3.SerializationSpaceDelimited:
		between = " "
	case openapi3.SerializationPipeDelimited:
		between = "|"
	}
	query.Add(p.name, strings.Join(texts, between))
}

// text serialises a path or header parameter: style simple.
func (p *parameter) text(value json.RawMessage) string {
	if p.asJSON {
		return string(value)
	}
	if fields, ok := fieldsOf(value); ok {
		if p.explode {
			return joined(fields, "=", ",")
		}
		return joined(fields, ",", ",")
	}
	return strings.Join(spread(value), ",")
}

type field struct{ name, text string }

// fieldsOf returns the fields of an object, sorted by name; nested values stay JSON.
func fieldsOf(value json.RawMessage) ([]field, bool) {
	var object map[string]json.RawMessage
	if len(value) == 0 || value[0] != '{' || json.Unmarshal(value, &object) != nil {
		return nil, false
	}
	var fields []field
	for _, name := range slices.Sorted(maps.Keys(object)) {
		text, err := scalar(object[name])
		if err != nil {
			text = string(object[name])
		}
		fields = append(fields, field{name, text})
	}
	return fields, true
}

func joined(fields []field, inside, between string) string {
	parts := make([]string, len(fields))
	for index, one := range fields {
		parts[index] = one.name + inside + one.text
	}
	return strings.Join(parts, between)
}

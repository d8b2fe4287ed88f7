// Package openapi generates an OpenAPI 3.0.3 document from a surface's routes, so that the document matches what is
// served: paths, parameters and bodies come from the types that the handlers use.
//
// Properties come from json tags; the tags doc, enum, format, any (JSON of any type) and required add what a Go type
// cannot express. In responses a property without omitempty is required; in request bodies one with the tag required,
// which its handler checks. A type with its own JSON encoding implements Described, Either or Union.
//
// The document is deterministic: the same routes give the same bytes. Every request body has an example that the server takes as it
// stands: examples.json holds them by the names of the handlers.
package openapi

import (
	"bytes"
	_ "embed" // examples.json
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// Described is a type whose JSON is not that of its fields but that of another type, of which it returns a value.
type Described interface {
	Described() (value any, nullable bool)
}

// Either is a type whose JSON is that of one of several types, of which it returns values; nil behind the first = null.
type Either interface {
	Either() []any
}

// Union is a type whose JSON is that of one of several types, which the value of a property tells apart: variants holds a value of
// each type.
type Union interface {
	Union() (property string, variants map[string]any)
}

// Info is the part of the document that does not come from the routes.
type Info struct {
	Title, Version, Description string
	Server                      string // base path
	BearerAuth                  bool   // callers authenticate with a bearer token
	SessionCookie               string // the cookie by which callers authenticate; "" = with none
	Refusals                    map[failurepb.Code]endpoint.Refusal
	Error                       any // a value of the error body's type
	// Others are routes of other surfaces in the same document.
	Others []Part
}

// Part is the routes of a surface with its own errors.
type Part struct {
	Routes   []endpoint.Route
	Below    string                              // what their paths are below, relative to the server
	Names    string                              // begins their operations' names, where another part has the same routes; "" = nothing
	Refusals map[failurepb.Code]endpoint.Refusal // nil = as in Info
	Error    any                                 // a value of the error body's type; named after it
}

type object = map[string]any

//go:embed examples.json
var examplesFile []byte

// examples are request bodies by the names of their handlers. Surfaces that share handlers share these.
var examples = sync.OnceValue(func() map[string]json.RawMessage { //nolint:gochecknoglobals // computed once, never changed
	bodies := map[string]json.RawMessage{}
	if json.Unmarshal(examplesFile, &bodies) != nil {
		return nil // unreachable: a test sends each of them
	}
	return bodies
})

// Document renders the document.
func Document(info Info, routes []endpoint.Route) []byte {
	b := &builder{info: info, schemas: object{}, types: map[string]reflect.Type{}, paths: object{}}
	b.problem, b.refusals = "Error", info.Refusals
	b.schemas[b.problem] = b.structSchema(reflect.TypeOf(info.Error), answer)
	b.types[b.problem] = reflect.TypeOf(info.Error)
	b.add(routes, Part{})
	for _, part := range info.Others {
		b.refusals = info.Refusals
		if part.Refusals != nil {
			b.refusals = part.Refusals
		}
		b.problem = strings.TrimPrefix(fmt.Sprint(b.component(reflect.TypeOf(part.Error), answer)["$ref"]), componentPath)
		b.add(part.Routes, part)
	}
	components := object{"schemas": b.schemas, "headers": object{"RetryAfter": object{
		"description": "Seconds after which it makes sense to ask again", "schema": object{"type": "integer"},
	}}}
	document := object{
		"openapi":    "3.0.3",
		"info":       object{"title": info.Title, "version": info.Version, "description": info.Description},
		"servers":    []object{{"url": serverURL(info.Server)}},
		"tags":       b.tags,
		"paths":      b.paths,
		"components": components,
		"security":   []object{}, // none, which is said
	}
	if info.BearerAuth {
		components["securitySchemes"] = object{"BearerAuth": object{"type": "http", "scheme": "bearer"}}
		document["security"] = []object{{"BearerAuth": []string{}}}
	}
	if info.SessionCookie != "" {
		components["securitySchemes"] = object{"Session": object{"type": "apiKey", "in": "cookie", "name": info.SessionCookie}}
		document["security"] = []object{{"Session": []string{}}}
	}
	return render(document)
}

func serverURL(base string) string {
	if base == "" {
		return "/"
	}
	return base
}

// render writes maps with sorted keys, as encoding/json does, indented.
func render(document object) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		return []byte("{}") // unreachable: the document is maps, texts, numbers and flags
	}
	return buffer.Bytes()
}

type builder struct {
	info     Info
	schemas  object
	types    map[string]reflect.Type // by the name of their schema
	paths    object
	tags     []object
	problem  string // schema of the errors of the part being added
	refusals map[failurepb.Code]endpoint.Refusal
}

// add adds the routes of one surface to the document, where and under which names the part says.
func (b *builder) add(routes []endpoint.Route, part Part) {
	for i := range routes {
		route := &routes[i]
		if route.Hidden {
			continue
		}
		path := part.Below + strings.Replace(route.Path, ":*}", "}", 1) // a parameter that takes the rest of the path
		item, ok := b.paths[path].(object)
		if !ok {
			item = object{}
			b.paths[path] = item
		}
		item[strings.ToLower(route.Method)] = b.operation(route, part.Names)
		tagged := slices.ContainsFunc(b.tags, func(tag object) bool { return tag["name"] == route.Tag })
		if !tagged {
			b.tags = append(b.tags, object{"name": route.Tag})
		}
	}
}

// operationID is a handler's name, or one that begins with another word.
func operationID(names, handler string) string {
	if names == "" {
		return handler
	}
	return names + strings.ToUpper(handler[:1]) + handler[1:]
}

// use tells schemas of request bodies, which handlers check, from those of responses, which are promised.
type use int

const (
	body use = iota
	answer
)

func (b *builder) operation(route *endpoint.Route, names string) object {
	operation := object{
		"operationId": operationID(names, route.Handler),
		"summary":     route.Summary,
		"tags":        []string{route.Tag},
		"responses":   b.responses(route),
	}
	if b.info.SessionCookie != "" && route.IsPublic() {
		operation["security"] = []object{}
	}
	if parameters := b.parameters(route); len(parameters) > 0 {
		operation["parameters"] = parameters
	}
	content := object{}
	required := false
	if route.HasBody() {
		schema := b.structSchema(route.In, body)
		_, required = schema["required"]
		media := object{"schema": schema}
		if example, ok := examples()[route.Handler]; ok {
			media["example"] = example
		}
		content["application/json"] = media
	}
	if route.Kind == endpoint.Uploads {
		required = true
		if len(route.Media) == 0 {
			content["application/octet-stream"] = object{"schema": binary()} // or any other type; behind JSON, which pages then offer first
		}
		for _, media := range route.Media {
			content[media] = object{"schema": binary()}
			if strings.HasPrefix(media, "multipart/") {
				content[media] = object{"schema": b.formSchema(route.In)}
			}
		}
	}
	if len(content) > 0 {
		operation["requestBody"] = object{"required": required, "content": content}
	}
	return operation
}

// formSchema is the schema of a form with the fields of an input, in which files stand for what JSON has otherwise.
func (b *builder) formSchema(in reflect.Type) object {
	properties, required := object{}, []string{}
	whole, _ := b.structSchema(in, body)["properties"].(object)
	for i := range in.NumField() {
		field := in.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		schema := whole[name]
		if file := field.Tag.Get("form"); file != "" {
			name, schema = file, binary()
		} else if field.Type.Kind() == reflect.Slice {
			name += "[]"
		}
		properties[name] = schema
		if field.Tag.Get("required") == "true" {
			required = append(required, name)
		}
	}
	return object{"type": "object", "properties": properties, "required": required}
}

func (b *builder) parameters(route *endpoint.Route) []object {
	var parameters []object
	for _, param := range route.Params() {
		schema := object{"type": "string"}
		if param.Type == reflect.Int {
			schema["type"] = "integer"
			schema["minimum"] = 0
			if param.Max > 0 {
				schema["maximum"] = param.Max
			}
		}
		if len(param.Enum) > 0 {
			schema["enum"] = param.Enum
		}
		if param.Default != "" {
			schema["default"] = defaultOf(param)
		}
		parameter := object{"name": param.Name, "in": string(param.Source), "schema": schema}
		if param.Source == endpoint.FromPath {
			parameter["required"] = true
		}
		if param.Doc != "" {
			parameter["description"] = param.Doc
		}
		parameters = append(parameters, parameter)
	}
	return parameters
}

func defaultOf(param endpoint.Param) any {
	if param.Type != reflect.Int {
		return param.Default
	}
	n, err := strconv.Atoi(param.Default)
	if err != nil {
		return param.Default
	}
	return n
}

func (b *builder) responses(route *endpoint.Route) object {
	responses := object{strconv.Itoa(route.Status): b.success(route)}
	for _, other := range route.Also {
		if other.Refuses {
			continue
		}
		otherwise := *route
		if other.Out != nil {
			otherwise.Out = other.Out
		}
		success := b.success(&otherwise)
		success["description"] = other.Meaning
		responses[strconv.Itoa(other.Status)] = success
	}
	if route.Ranged {
		part := b.success(route)
		part["description"] = "The range that was asked for"
		responses["206"] = part
		responses["304"] = object{"description": "Not changed since the entity tag of If-None-Match"}
		responses["416"] = b.refused("range_not_satisfiable")
	}
	codes := append([]failurepb.Code{failurepb.Code_UNAVAILABLE, failurepb.Code_INTERNAL}, route.Errors...)
	if b.info.BearerAuth || b.info.SessionCookie != "" && !route.IsPublic() {
		codes = append(codes, failurepb.Code_AUTH_REQUIRED)
	}
	if route.HasBody() {
		codes = append(codes, failurepb.Code_TOO_LARGE)
	}
	if route.Idempotent {
		codes = append(codes, failurepb.Code_IDEMPOTENCY_CONFLICT)
	}
	byStatus := map[int][]string{}
	for _, code := range codes {
		refusal, ok := b.refusals[code]
		if ok && !slices.Contains(byStatus[refusal.Status], refusal.Code) {
			byStatus[refusal.Status] = append(byStatus[refusal.Status], refusal.Code)
		}
	}
	for _, other := range route.Also {
		if other.Refuses && !slices.Contains(byStatus[other.Status], other.Meaning) {
			byStatus[other.Status] = append(byStatus[other.Status], other.Meaning)
		}
	}
	for status, names := range byStatus {
		slices.Sort(names)
		refused := b.refused(strings.Join(names, ", "))
		if endpoint.SaysWhen(status) {
			refused["headers"] = object{"Retry-After": object{"$ref": "#/components/headers/RetryAfter"}}
		}
		responses[strconv.Itoa(status)] = refused
	}
	return responses
}

func (b *builder) refused(codes string) object {
	return object{
		"description": codes,
		"content":     object{"application/json": object{"schema": reference(b.problem)}},
	}
}

func (b *builder) success(route *endpoint.Route) object {
	response := object{"description": route.Summary}
	if route.Summary == "" {
		response["description"] = "Success"
	}
	content := object{}
	if route.Kind == endpoint.Events {
		content["text/event-stream"] = object{"schema": object{"type": "string"}}
	}
	if route.Kind == endpoint.Bytes {
		if len(route.Media) == 0 {
			content["application/json"] = object{"schema": openObject()}
		}
		for _, media := range route.Media {
			content[media] = object{"schema": binary()}
		}
	} else if route.Out != reflect.TypeFor[endpoint.Empty]() {
		content["application/json"] = object{"schema": b.schema(route.Out, answer)}
	}
	if len(content) > 0 {
		response["content"] = content
	}
	return response
}

// binary is the schema of raw bytes.
func binary() object { return object{"type": "string", "format": "binary"} }

const componentPath = "#/components/schemas/"

func reference(name string) object { return object{"$ref": componentPath + name} }

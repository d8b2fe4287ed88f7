// Package openapi generates an OpenAPI 3.0.3 document from a surface's routes, so that the document matches what is
// served: paths, parameters and bodies come from the types that the handlers use.
//
// Properties come from json tags; the tags doc, enum, format, any (JSON of any type) and required add what a Go type
// cannot express. In responses a property without omitempty is required; in request bodies one with the tag required,
// which its handler checks. A type with its own JSON encoding implements Described.
//
// The document is deterministic: the same routes give the same bytes.
package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// Described is a type whose JSON is not that of its fields but that of another type, of which it returns a value.
type Described interface {
	Described() (value any, nullable bool)
}

// Info is the part of the document that does not come from the routes.
type Info struct {
	Title, Version, Description string
	Server                      string // base path
	BearerAuth                  bool   // callers authenticate with a bearer token
	Refusals                    map[failurepb.Code]endpoint.Refusal
	Error                       any // a value of the error body's type
	// Others are routes of other surfaces in the same document.
	Others []Part
}

// Part is the routes of a surface with its own errors.
type Part struct {
	Rows     []endpoint.Row
	Refusals map[failurepb.Code]endpoint.Refusal // nil = as in Info
	Error    any                                 // a value of the error body's type; named after it
}

type object = map[string]any

// Document renders the document.
func Document(info Info, rows []endpoint.Row) []byte {
	b := &builder{info: info, schemas: object{}, types: map[string]reflect.Type{}, paths: object{}}
	b.problem, b.refusals = "Error", info.Refusals
	b.schemas[b.problem] = b.structSchema(reflect.TypeOf(info.Error), answer)
	b.types[b.problem] = reflect.TypeOf(info.Error)
	b.add(rows)
	for _, part := range info.Others {
		b.refusals = info.Refusals
		if part.Refusals != nil {
			b.refusals = part.Refusals
		}
		b.problem = strings.TrimPrefix(fmt.Sprint(b.component(reflect.TypeOf(part.Error), answer)["$ref"]), componentPath)
		b.add(part.Rows)
	}
	components := object{"schemas": b.schemas}
	document := object{
		"openapi":    "3.0.3",
		"info":       object{"title": info.Title, "version": info.Version, "description": info.Description},
		"servers":    []object{{"url": serverURL(info.Server)}},
		"tags":       b.tags,
		"paths":      b.paths,
		"components": components,
	}
	if info.BearerAuth {
		components["securitySchemes"] = object{"BearerAuth": object{"type": "http", "scheme": "bearer"}}
		document["security"] = []object{{"BearerAuth": []string{}}}
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

// add adds the routes of one surface to the document.
func (b *builder) add(rows []endpoint.Row) {
	for i := range rows {
		row := &rows[i]
		if row.Hidden {
			continue
		}
		path := strings.Replace(row.Path, ":*}", "}", 1) // a parameter that takes the rest of the path
		item, ok := b.paths[path].(object)
		if !ok {
			item = object{}
			b.paths[path] = item
		}
		item[strings.ToLower(row.Method)] = b.operation(row)
		tagged := slices.ContainsFunc(b.tags, func(tag object) bool { return tag["name"] == row.Tag })
		if !tagged {
			b.tags = append(b.tags, object{"name": row.Tag})
		}
	}
}

// use tells schemas of request bodies, which handlers check, from those of responses, which are promised.
type use int

const (
	body use = iota
	answer
)

func (b *builder) operation(row *endpoint.Row) object {
	operation := object{
		"operationId": row.Handler,
		"summary":     row.Summary,
		"tags":        []string{row.Tag},
		"responses":   b.responses(row),
	}
	if parameters := b.parameters(row); len(parameters) > 0 {
		operation["parameters"] = parameters
	}
	content := object{}
	required := false
	if row.HasBody() {
		schema := b.structSchema(row.In, body)
		_, required = schema["required"]
		content["application/json"] = object{"schema": schema}
	}
	if row.Kind == endpoint.Uploads {
		required = true
		content["*/*"] = object{"schema": binary()}
	}
	if len(content) > 0 {
		operation["requestBody"] = object{"required": required, "content": content}
	}
	return operation
}

func (b *builder) parameters(row *endpoint.Row) []object {
	var parameters []object
	for _, param := range row.Params() {
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

func (b *builder) responses(row *endpoint.Row) object {
	responses := object{strconv.Itoa(row.Status): b.success(row)}
	for _, other := range row.Also {
		otherwise := *row
		if other.Out != nil {
			otherwise.Out = other.Out
		}
		success := b.success(&otherwise)
		success["description"] = other.Meaning
		responses[strconv.Itoa(other.Status)] = success
	}
	if row.Ranged {
		part := b.success(row)
		part["description"] = "The range that was asked for"
		responses["206"] = part
		responses["304"] = object{"description": "Not changed since the entity tag of If-None-Match"}
		responses["416"] = b.refused("range_not_satisfiable")
	}
	codes := append([]failurepb.Code{failurepb.Code_UNAVAILABLE, failurepb.Code_INTERNAL}, row.Errors...)
	if b.info.BearerAuth {
		codes = append(codes, failurepb.Code_AUTH_REQUIRED)
	}
	if row.HasBody() {
		codes = append(codes, failurepb.Code_TOO_LARGE)
	}
	if row.Idempotent {
		codes = append(codes, failurepb.Code_IDEMPOTENCY_CONFLICT)
	}
	byStatus := map[int][]string{}
	for _, code := range codes {
		refusal, ok := b.refusals[code]
		if ok && !slices.Contains(byStatus[refusal.Status], refusal.Code) {
			byStatus[refusal.Status] = append(byStatus[refusal.Status], refusal.Code)
		}
	}
	for status, names := range byStatus {
		slices.Sort(names)
		responses[strconv.Itoa(status)] = b.refused(strings.Join(names, ", "))
	}
	return responses
}

func (b *builder) refused(codes string) object {
	return object{
		"description": codes,
		"content":     object{"application/json": object{"schema": reference(b.problem)}},
	}
}

func (b *builder) success(row *endpoint.Row) object {
	response := object{"description": row.Summary}
	if row.Summary == "" {
		response["description"] = "Success"
	}
	content := object{}
	if row.Kind == endpoint.Events {
		content["text/event-stream"] = object{"schema": object{"type": "string"}}
	}
	if row.Kind == endpoint.Bytes {
		if len(row.Media) == 0 {
			content["application/json"] = object{"schema": object{"type": "object"}}
		}
		for _, media := range row.Media {
			content[media] = object{"schema": binary()}
		}
	} else if row.Out != reflect.TypeFor[endpoint.Empty]() {
		content["application/json"] = object{"schema": b.schema(row.Out, answer)}
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

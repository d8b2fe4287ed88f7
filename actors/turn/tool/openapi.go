package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"parley/actors/deliver"
	"parley/actors/schema"
	"parley/actors/turn/runtimecontext"
	"parley/proto/agentpb"
)

// Limits of a document: it is parsed at the start, and again on each node that runs its agent.
const (
	maxDocument   = 8 << 20
	maxOperations = 500
)

// operations returns the tools of an OpenAPI document. An operation that cannot be a tool (a body that is not JSON, a
// parameter in an unusual style) is an error if it was configured by name; otherwise it is omitted.
func (b *Toolbox) operations(api *agentpb.OpenAPI, check *schema.Checker) ([]*Tool, error) {
	document, err := load(api.GetDocument())
	if err != nil {
		return nil, err
	}
	base, err := baseURL(api, document)
	if err != nil {
		return nil, err
	}
	header, err := headers(api.GetHeaders())
	if err != nil {
		return nil, err
	}
	found := listOperations(document)
	if err := known(api, found); err != nil {
		return nil, err
	}
	if len(api.GetOperations()) == 0 && len(found) > maxOperations {
		return nil, fmt.Errorf("it has more than %d operations: name those on offer", maxOperations)
	}
	var tools []*Tool
	for _, one := range found {
		wanted := slices.Contains(api.GetOperations(), one.id)
		if !wanted && len(api.GetOperations()) > 0 {
			continue
		}
		tool, err := b.operation(api, document, one, check)
		if err != nil && wanted {
			return nil, fmt.Errorf("operation %q: %w", one.id, err)
		}
		if err != nil {
			b.config.Logger.Warn("an operation is left out", slog.String("operation", one.id), slog.Any("err", err))
			continue
		}
		tool.run = b.runOperation(one, base, header, api)
		tools = append(tools, tool)
	}
	return tools, nil
}

func load(text []byte) (*openapi3.T, error) {
	if len(text) > maxDocument {
		return nil, fmt.Errorf("the document is longer than %d bytes", maxDocument)
	}
	loader := openapi3.NewLoader() // loads no other files or URLs
	document, err := loader.LoadFromData(text)
	if err != nil {
		return nil, fmt.Errorf("document: %w", err)
	}
	if !strings.HasPrefix(document.OpenAPI, "3.") {
		return nil, errors.New("the document is not of OpenAPI 3")
	}
	return document, nil
}

// known checks that the document has the operations that the configuration names.
func known(api *agentpb.OpenAPI, found []*operation) error {
	ids := make(map[string]bool, len(found))
	for _, one := range found {
		ids[one.id] = true
	}
	for _, id := range append(slices.Clone(api.GetOperations()), slices.Sorted(maps.Keys(api.GetPolicies()))...) {
		if !ids[id] {
			return fmt.Errorf("the document has no operation %q", id)
		}
	}
	return nil
}

// baseURL is the configured one, or the document's first server with the defaults of its variables.
func baseURL(api *agentpb.OpenAPI, document *openapi3.T) (*url.URL, error) {
	text := api.GetBaseUrl()
	if text == "" && len(document.Servers) > 0 && document.Servers[0] != nil {
		text = document.Servers[0].URL
		for name, variable := range document.Servers[0].Variables {
			if variable != nil {
				text = strings.ReplaceAll(text, "{"+name+"}", variable.Default)
			}
		}
	}
	base, err := url.Parse(text)
	if err != nil || deliver.CheckURL(text) != nil || strings.ContainsAny(text, "{}") || base.Fragment != "" {
		return nil, errors.New("base_url, or the URL of the document's first server, is not an http or https URL")
	}
	return base, nil
}

// operation is one operation of a document, with what it takes to turn a call into a request.
type operation struct {
	id, method, path string
	item             *openapi3.PathItem
	spec             *openapi3.Operation

	parameters []parameter
	body       body
}

// body describes the source of a request's JSON body.
type body struct {
	contentType string          // empty = no body
	whole       bool            // the property "body"
	names       map[string]bool // otherwise these properties
	required    bool            // it is sent even if none of them is given
}

// listOperations returns the document's operations, ordered by path and method.
func listOperations(document *openapi3.T) []*operation {
	var found []*operation
	paths := document.Paths.Map()
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := paths[path]
		if item == nil {
			continue
		}
		specs := item.Operations()
		for _, method := range slices.Sorted(maps.Keys(specs)) {
			if specs[method] == nil || !slices.Contains(methods, method) {
				continue
			}
			id := cmp.Or(specs[method].OperationID, strings.ToLower(method)+"_"+strings.Trim(safeName(path), "_"))
			found = append(found, &operation{id: id, method: method, path: path, item: item, spec: specs[method]})
		}
	}
	return found
}

func (b *Toolbox) operation(
	api *agentpb.OpenAPI, document *openapi3.T, one *operation, check *schema.Checker,
) (*Tool, error) {
	properties := newProperties(document)
	if err := one.readParameters(properties); err != nil {
		return nil, err
	}
	if err := one.readBody(properties); err != nil {
		return nil, err
	}
	definition, err := properties.definition()
	if err != nil {
		return nil, err
	}
	policy := api.GetPolicies()[one.id]
	if policy == nil {
		policy = api.GetPolicy()
	}
	name, changed := prefixed(api.GetName(), one.id)
	tool, err := b.tool(&agentpb.Tool{Name: name, Description: describe(one.spec), Schema: definition, Policy: policy}, check)
	if err != nil {
		return nil, err
	}
	tool.origin, tool.renamed = api.GetName()+"\x00"+one.id, changed
	return tool, nil
}

// prefixed returns the name of a tool of a document or server, and whether it had to be changed.
func prefixed(prefix, name string) (string, bool) {
	if prefix != "" {
		name = prefix + "_" + name
	}
	safe := safeName(name)
	return safe, safe != name
}

// maxDescription bounds a description from a document or server that is passed to a model.
const maxDescription = 4 << 10

func describe(spec *openapi3.Operation) string {
	text := strings.TrimSpace(spec.Summary)
	if more := strings.TrimSpace(spec.Description); more != "" && more != text {
		text = strings.TrimSpace(text + "\n\n" + more)
	}
	return clean(text, maxDescription)
}

// readParameters reads the operation's parameters, and those of its path that it does not override.
func (o *operation) readParameters(properties *properties) error {
	type place struct{ in, name string }
	seen := make(map[place]bool)
	for _, reference := range append(slices.Clone(o.spec.Parameters), o.item.Parameters...) {
		if reference == nil || reference.Value == nil {
			return errors.New("a parameter has no definition")
		}
		spec := reference.Value
		at := place{spec.In, spec.Name}
		if seen[at] || spec.In == openapi3.ParameterInHeader && reserved(spec.Name) {
			continue
		}
		seen[at] = true
		read, err := newParameter(spec)
		if err != nil {
			if !spec.Required {
				continue
			}
			return err
		}
		read.property = properties.free(spec.Name, spec.In)
		if err := properties.addParameter(read.property, spec); err != nil {
			return fmt.Errorf("parameter %q: %w", spec.Name, err)
		}
		o.parameters = append(o.parameters, read)
	}
	return o.checkPath()
}

// reserved reports whether a header must not be a parameter (OpenAPI 3, "Parameter Object").
func reserved(header string) bool {
	switch http.CanonicalHeaderKey(header) {
	case "Accept", "Authorization", "Content-Type", "Content-Length", "Cookie", "Host", IdempotencyHeader:
		return true
	}
	return false
}

// checkPath checks that each placeholder of the path has a parameter.
func (o *operation) checkPath() error {
	for _, match := range placeholder.FindAllStringSubmatch(o.path, -1) {
		if !slices.ContainsFunc(o.parameters, func(p parameter) bool {
			return p.in == openapi3.ParameterInPath && p.name == match[1]
		}) {
			return fmt.Errorf("the path's parameter %q is not defined", match[1])
		}
	}
	return nil
}

// readBody reads the schema of the JSON body.
func (o *operation) readBody(properties *properties) error {
	if o.spec.RequestBody == nil || o.spec.RequestBody.Value == nil {
		return nil
	}
	spec := o.spec.RequestBody.Value
	for _, kind := range slices.Sorted(maps.Keys(spec.Content)) {
		if media := spec.Content[kind]; isJSON(kind) && media != nil {
			o.body.contentType, o.body.required = kind, spec.Required
			return properties.addBody(&o.body, media.Schema)
		}
	}
	if spec.Required {
		return errors.New("its body is not JSON")
	}
	return nil
}

func isJSON(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")
}

func (b *Toolbox) runOperation(
	one *operation, base *url.URL, header http.Header, api *agentpb.OpenAPI,
) func(context.Context, *Call) (string, error) {
	hidden := runtimecontext.Secrets(header)
	return func(ctx context.Context, call *Call) (string, error) {
		var values map[string]json.RawMessage
		if json.Unmarshal(call.Args, &values) != nil {
			return "", failure("the arguments cannot be read")
		}
		request, err := one.request(base, values)
		if err != nil {
			return "", err
		}
		maps.Copy(request.header, header) // the operator's headers win over the model's
		request.hidden = hidden
		request.runtime = call.Context.Headers(runtimecontext.Tool(api.GetName()), api.GetRuntimeHeaders())
		return b.do(ctx, request, call)
	}
}

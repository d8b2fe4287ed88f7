package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"parley/actors/deliver"
	"parley/actors/schema"
	"parley/actors/turn/runtimecontext"
	"parley/proto/agentpb"
)

// anyObject is the schema of a tool without a schema. Some model APIs require properties.
const anyObject = `{"type":"object","properties":{}}`

// plain returns a configured tool.
func (b *Toolbox) plain(spec *agentpb.Tool, check *schema.Checker) (*Tool, error) {
	if !validName(spec.GetName()) {
		return nil, errors.New("a name is 1 to 64 letters, digits, _ and -")
	}
	tool, err := b.tool(spec, check)
	if err != nil {
		return nil, err
	}
	switch {
	case oneOf(spec.GetHttp() != nil, spec.GetClient(), spec.GetBuiltin() != "") != 1:
		return nil, errors.New("it must be exactly one of http, client and builtin")
	case spec.GetClient():
		if tool.approval != nil {
			return nil, errors.New("a client tool is the caller's to approve: approval must be never")
		}
		tool.Kind = Client
	case spec.GetBuiltin() != "":
		return tool, builtin(tool, spec)
	default:
		tool.run, err = b.plainHTTP(spec.GetName(), spec.GetHttp())
	}
	return tool, err
}

func oneOf(conditions ...bool) int {
	count := 0
	for _, is := range conditions {
		if is {
			count++
		}
	}
	return count
}

// tool returns a tool with what all kinds have in common. The checker is of the document that it is from.
func (b *Toolbox) tool(spec *agentpb.Tool, check *schema.Checker) (*Tool, error) {
	policy, definition := cmp.Or(spec.GetPolicy(), &agentpb.ToolPolicy{}), spec.GetSchema()
	if policy.GetTimeoutMs() < 0 || policy.GetMaxResultBytes() < 0 || policy.GetActionTimeoutMs() < 0 {
		return nil, errors.New("no limit of a policy may be negative")
	}
	if len(definition) == 0 {
		definition = []byte(anyObject)
	}
	if err := checkDefinition(definition, check); err != nil {
		return nil, err
	}
	asks, err := b.newApproval(policy)
	if err != nil {
		return nil, err
	}
	return &Tool{
		Name: spec.GetName(), Description: spec.GetDescription(), Schema: definition, Policy: policy, approval: asks,
		timeout: cmp.Or(time.Duration(policy.GetTimeoutMs())*time.Millisecond, b.config.Timeout),
		limit:   cmp.Or(int(policy.GetMaxResultBytes()), b.config.MaxResult), answers: b.config.Answers, logger: b.config.Logger,
	}, nil
}

func checkDefinition(definition []byte, check *schema.Checker) error {
	var top struct {
		Type any `json:"type"`
	}
	if err := json.Unmarshal(definition, &top); err != nil {
		return errors.New("the schema is not a JSON object")
	}
	if top.Type != nil && top.Type != "object" {
		return errors.New("the schema is not of an object")
	}
	if err := check.Check(definition); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	return nil
}

// maxName bounds a name that models are given.
const maxName = 64

var nameRule = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func validName(name string) bool { return nameRule.MatchString(name) }

// safeName turns any name into one that every model API accepts.
func safeName(name string) string {
	return strings.Map(func(letter rune) rune {
		if letter < 0x80 && validName(string(letter)) {
			return letter
		}
		return '_'
	}, name[:min(len(name), maxName)])
}

var placeholder = regexp.MustCompile(`\{([^{}]*)\}`)

// target is a URL with placeholders, checked when it is parsed: an argument can never change the host or structure of a
// request.
type target struct {
	base  string   // scheme, user and host
	path  string   // escaped, with {name}
	query string   // escaped, with {name}
	names []string // in path and query
}

func newTarget(text string) (*target, error) {
	var made target
	head, query, _ := strings.Cut(text, "?")
	made.query = query
	scheme, rest, found := strings.Cut(head, "://")
	if !found {
		return nil, errors.New("the URL is not an absolute one")
	}
	host, path, slash := strings.Cut(rest, "/")
	made.base = scheme + "://" + host
	if slash {
		made.path = "/" + path
	}
	if strings.ContainsAny(made.base, "{}") || strings.ContainsAny(text, "#") {
		return nil, errors.New("the host of the URL is not fixed, or it has a fragment")
	}
	if err := deliver.CheckURL(placeholder.ReplaceAllString(text, "x")); err != nil {
		return nil, errors.New("the URL is not a usable http or https URL")
	}
	for _, match := range placeholder.FindAllStringSubmatch(made.path+"?"+made.query, -1) {
		made.names = append(made.names, match[1])
	}
	return &made, nil
}

// fill inserts the arguments, each escaped. In the path none may be empty or a dot segment.
func (t *target) fill(values map[string]json.RawMessage) (string, error) {
	var missing error
	in := func(escape func(string) string, path bool) func(string) string {
		return func(match string) string {
			name := match[1 : len(match)-1]
			value, err := scalar(values[name])
			if err == nil && path && (value == "" || value == "." || value == "..") {
				err = fmt.Errorf("%q is not a possible value", value)
			}
			if err != nil && missing == nil {
				missing = failure("argument %s: %s", name, err)
			}
			return escape(value)
		}
	}
	text := t.base + placeholder.ReplaceAllStringFunc(t.path, in(url.PathEscape, true))
	if t.query != "" {
		text += "?" + placeholder.ReplaceAllStringFunc(t.query, in(url.QueryEscape, false))
	}
	return text, missing
}

// scalar returns a value as it is written in a URL or a header: a string as it is, a number or a boolean as in JSON.
func scalar(value json.RawMessage) (string, error) {
	if len(value) == 0 || string(value) == "null" {
		return "", errors.New("it is missing")
	}
	switch value[0] {
	case '"':
		var text string
		err := json.Unmarshal(value, &text)
		return text, err
	case '{', '[':
		return "", errors.New("it must be a single value")
	}
	return string(value), nil
}

// plainHTTP returns the run function of an HTTP tool that is described by its URL.
func (b *Toolbox) plainHTTP(name string, spec *agentpb.HTTP) (func(context.Context, *Call) (string, error), error) {
	method := strings.ToUpper(cmp.Or(spec.GetMethod(), http.MethodPost))
	if !slices.Contains(methods, method) {
		return nil, fmt.Errorf("method %q is none of %s", spec.GetMethod(), strings.Join(methods, ", "))
	}
	where, err := newTarget(spec.GetUrl())
	if err != nil {
		return nil, err
	}
	header, err := headers(spec.GetHeaders())
	if err != nil {
		return nil, err
	}
	hidden := runtimecontext.Secrets(header)
	return func(ctx context.Context, call *Call) (string, error) {
		var values map[string]json.RawMessage
		if unreadable := json.Unmarshal(call.Args, &values); unreadable != nil {
			return "", failure("the arguments cannot be read")
		}
		address, missing := where.fill(values)
		if missing != nil {
			return "", missing
		}
		for _, name := range where.names {
			delete(values, name)
		}
		asked := &exchange{
			method: method, url: address, header: header.Clone(), hidden: hidden,
			runtime: call.Context.Headers(runtimecontext.Tool(name), spec.GetRuntimeHeaders()),
		}
		var unfit error // of this call: others run concurrently
		if inQuery(method) {
			asked.url, unfit = addQuery(address, values)
		} else {
			asked.body, unfit = json.Marshal(values)
		}
		if unfit != nil {
			return "", unfit
		}
		return b.do(ctx, asked, call)
	}, nil
}

//nolint:gochecknoglobals // a list; nothing writes to it
var methods = []string{
	http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPatch, http.MethodPost, http.MethodPut,
}

// inQuery reports whether a method's arguments go into the query instead of a body.
func inQuery(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodDelete || method == http.MethodOptions
}

// addQuery adds the arguments to a URL: an array as one parameter per element, an object as JSON. Parameters that the
// URL already has are the operator's.
func addQuery(address string, values map[string]json.RawMessage) (string, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return "", failure("the arguments make no valid URL")
	}
	fixed, query := parsed.Query(), parsed.Query()
	for name, value := range values {
		if fixed.Has(name) {
			continue
		}
		for _, one := range spread(value) {
			query.Add(name, one)
		}
	}
	parsed.RawQuery = query.Encode()
	return parsed.String(), nil
}

// spread returns a value as texts: one per element of an array, none for null.
func spread(value json.RawMessage) []string {
	var list []json.RawMessage
	if len(value) == 0 || value[0] != '[' || json.Unmarshal(value, &list) != nil {
		list = []json.RawMessage{value}
	}
	var texts []string
	for _, one := range list {
		if string(one) == "null" {
			continue
		}
		text, err := scalar(one)
		if err != nil {
			text = string(one)
		}
		texts = append(texts, text)
	}
	return texts
}

// headers checks configured headers.
func headers(configured map[string]string) (http.Header, error) {
	header := make(http.Header, len(configured))
	for name, value := range configured {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("header %q cannot be sent", name)
		}
		header.Set(name, value)
	}
	return header, nil
}

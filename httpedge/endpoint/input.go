package endpoint

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/failurepb"
)

// Source says where an input field comes from.
type Source string

// Sources of input fields, as the tags and the document name them.
const (
	FromPath   Source = "path"
	FromQuery  Source = "query"
	FromHeader Source = "header"
)

// Param is an input field outside of the body.
//
// Tags: path, query or header name it; default and max bound a number; enum lists what a text may be; list:"," says that
// it is a list with that separator, so that a repeated parameter means the same as one with all its values; doc describes it. A number that is missing, malformed, zero or negative is the default, one above max is max. A text that is
// missing is the default, which may be empty; another one outside of enum is refused.
type Param struct {
	Source  Source
	Name    string
	Type    reflect.Kind // String or Int
	Default string
	Max     int
	Enum    []string
	List    string // separator of a list; empty = a single value, the first of repeated ones counts
	Doc     string

	index  []int // nil = of the request itself, not of the handler's input
	number int
}

// Page overrides the default and the maximum of a number in the query, for limits that are configuration.
func Page(name string, fallback, limit int) Option {
	return func(r *Route) {
		r.pages = append(r.pages, page{name: name, fallback: fallback, limit: limit})
	}
}

type page struct {
	name            string
	fallback, limit int
}

// Validator is an input that checks what its tags cannot say.
type Validator interface {
	Validate() *machine.Failure
}

// BodyTaker is an input that reads the request's body by itself, as it came: what is no JSON is its business too. Its fields
// with a json tag only describe the body.
type BodyTaker interface {
	// SetBody is given the body. It must be copied to be kept after the handler has returned.
	SetBody(body []byte)
}

// inputPlan is how to fill one input type.
type inputPlan struct {
	params    []Param
	body      *bodyPlan // nil = the route reads none
	validates bool
}

// Params lists the fields of the route's input that are not in its body.
func (r *Route) Params() []Param { return slices.Clone(r.input.params) }

// HasBody says whether the route reads a JSON body.
func (r *Route) HasBody() bool { return r.input.body != nil }

func planInput(in reflect.Type, pages []page) *inputPlan {
	plan := &inputPlan{body: planBody(in), validates: reflect.PointerTo(in).Implements(reflect.TypeFor[Validator]())}
	for _, field := range reflect.VisibleFields(in) {
		if _, ofBody := field.Tag.Lookup("json"); ofBody || field.Anonymous || !field.IsExported() {
			continue
		}
		if param, ok := planParam(field); ok {
			plan.params = append(plan.params, param)
		}
	}
	for _, page := range pages {
		for i := range plan.params {
			if plan.params[i].Name == page.name {
				plan.params[i].Default = strconv.Itoa(page.fallback)
				plan.params[i].number = page.fallback
				plan.params[i].Max = page.limit
			}
		}
	}
	return plan
}

func planParam(field reflect.StructField) (Param, bool) {
	for _, source := range []Source{FromPath, FromQuery, FromHeader} {
		name, ok := field.Tag.Lookup(string(source))
		if !ok {
			continue
		}
		param := Param{
			Source: source, Name: name, Type: field.Type.Kind(), index: field.Index,
			Default: field.Tag.Get("default"), List: field.Tag.Get("list"), Doc: field.Tag.Get("doc"),
		}
		if enum := field.Tag.Get("enum"); enum != "" {
			param.Enum = strings.Split(enum, ",")
		}
		param.number = atoi(param.Default)
		param.Max = atoi(field.Tag.Get("max"))
		return param, true
	}
	return Param{}, false
}

// decode fills an input: the body first, so that nothing in it can stand for a path or query field.
func (p *inputPlan) decode(x *exchange, value reflect.Value, in any) error {
	var body []byte
	if p.body != nil {
		var err error
		if body, err = x.wholeBody(); err != nil {
			return err
		}
		if refused := x.checkJSON(body); refused != nil {
			return refused
		}
		if taker, ok := in.(BodyTaker); ok {
			taker.SetBody(body)
			body = nil
		} else if refused := p.body.decode(body, value, x.mux.config.MaxJSONDepth); refused != nil {
			return refused
		}
	}
	if refused := p.decodeParams(x, value); refused != nil {
		return refused
	}
	if v, ok := in.(Validator); ok && p.validates {
		if refused := v.Validate(); refused != nil {
			return refused
		}
	}
	if vast := vastNumber(body); vast != "" { // last: fields of their own have better words for it
		return failure.New(failurepb.Code_VALIDATION, failure.NumberOutOfRange).Param("number", vast)
	}
	return nil
}

// decodeParams fills the fields that are not in the body.
func (p *inputPlan) decodeParams(x *exchange, value reflect.Value) *machine.Failure {
	for i := range p.params {
		param := &p.params[i]
		text, refused := x.param(param)
		switch {
		case refused != nil:
		case param.index != nil:
			refused = param.set(value.FieldByIndex(param.index), text)
		case param.Name == headerConsistency:
			text, refused = param.chosen(text)
			x.call.wantsStale = text == readStale
		}
		if refused != nil {
			return refused
		}
	}
	return nil
}

// param returns the text of a field as the request carries it, "" when it does not.
func (x *exchange) param(p *Param) (string, *machine.Failure) {
	var text string
	switch p.Source {
	case FromPath:
		raw, _ := x.rc.UserValue(p.Name).(string) // an absent parameter is the empty text
		decoded, err := url.PathUnescape(raw)
		if err != nil {
			return "", failure.New(failurepb.Code_VALIDATION, failure.BadPathEscape)
		}
		text = decoded
	case FromQuery:
		if args := x.rc.QueryArgs(); args.Len() > 0 {
			text = string(args.Peek(p.Name))
			if p.List != "" {
				text = string(bytes.Join(args.PeekMulti(p.Name), []byte(p.List)))
			}
		}
	case FromHeader:
		text = string(x.rc.Request.Header.Peek(p.Name))
	}
	if !utf8.ValidString(text) {
		return "", failure.New(failurepb.Code_VALIDATION, failure.ParameterNotUTF8).Param("source", p.Source).Param("name", p.Name)
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return "", failure.New(failurepb.Code_VALIDATION, failure.ParameterControlCharacters).Param("source", p.Source).Param("name", p.Name)
	}
	return text, nil
}

// Values of X-Read-Consistency.
const (
	readFresh = "fresh"
	readStale = "stale"
)

// consistencyParam is the header of StaleReads: it is no field of the input.
func consistencyParam() Param {
	return Param{
		Source: FromHeader, Name: headerConsistency, Type: reflect.String,
		Default: readFresh, Enum: []string{readFresh, readStale},
		Doc: "stale: where the conversation's node is not to be had, answer with what this node holds, which may be old; " +
			"the answer then has X-Read-Stale: true",
	}
}

// idempotencyParam is the header of Idempotent: it is no field of the input.
func idempotencyParam() Param {
	return Param{
		Source: FromHeader, Name: headerIdempotency, Type: reflect.String,
		Doc: "the same key with the same body gets the first request's answer again, for 24 hours; with another body it is refused",
	}
}

func (p *Param) set(field reflect.Value, text string) *machine.Failure {
	if p.Type == reflect.Int {
		n, err := strconv.Atoi(strings.TrimSpace(text)) // of what is too large for a number, the largest one
		if err != nil && !errors.Is(err, strconv.ErrRange) || n <= 0 {
			n = p.number
		}
		if p.Max > 0 {
			n = min(n, p.Max)
		}
		field.SetInt(int64(min(n, math.MaxInt32))) // so that no sum of two of them overflows
		return nil
	}
	text, refused := p.chosen(text)
	if refused == nil {
		field.SetString(text)
	}
	return refused
}

// chosen is a text or its default, if it is one that may be.
func (p *Param) chosen(text string) (string, *machine.Failure) {
	if text == "" {
		text = p.Default
	}
	if len(p.Enum) > 0 && text != "" && !slices.Contains(p.Enum, text) {
		return "", failure.New(failurepb.Code_VALIDATION, failure.NotOneOf).Param("name", p.Name).Param("choices", strings.Join(p.Enum, ", "))
	}
	return text, nil
}

// check says what is wrong with a route; "" when nothing is.
func (r *Route) check() string {
	if r.Method == "" || !strings.HasPrefix(r.Path, "/") {
		return fmt.Sprintf("%s: pattern must be METHOD /path", r.Source)
	}
	if r.Access == "" {
		return fmt.Sprintf("%s: %s %s has no access", r.Source, r.Method, r.Path)
	}
	for _, param := range r.input.params {
		if param.Type != reflect.String && param.Type != reflect.Int {
			return fmt.Sprintf("%s: field %q must be a string or an int", r.Source, param.Name)
		}
		if param.Source == FromPath && !strings.Contains(r.Path, "{"+param.Name) {
			return fmt.Sprintf("%s: path has no {%s}", r.Source, param.Name)
		}
	}
	return ""
}

func atoi(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// Package failure is how the product says no: an answer to a caller, as data. What broke is an error and no failure.
//
// A Failure carries a code (which decides the status of the answer), a reason (a stable identifier of one kind of refusal), the
// field it is about in the rules' spelling, parameters, and details for the client. It holds no sentence: the surface that
// answers the caller words it (Wording), with its own names of fields and things. So nothing a client sends, the name of a file
// for example, can change the words of an answer, and no code has to read English. The default words stand in logs and in
// messages for nodes of the release before, which know no reasons.
package failure

import (
	"fmt"
	"maps"

	"parley/proto/failurepb"
)

// Failure is a refusal.
type Failure struct {
	Code failurepb.Code
	// Reason names the kind of refusal. It is the same for every code it may come with.
	Reason Reason
	// Field is what it is about, in the rules' spelling (fileId); empty = no single field.
	Field string
	// Params are the values that only the words need, in the order in which they were set.
	Params []Param
	// Details are shown to the client as they are, and may stand in the words as well. They must marshal to JSON.
	Details map[string]any
}

// Param is a named value in a failure's words: a string or an int64.
type Param struct {
	Name  string
	Value any
}

// New returns a failure.
func New(code failurepb.Code, reason Reason) *Failure {
	return &Failure{Code: code, Reason: reason}
}

// Verbatim returns a failure in words from outside, which every surface shows as they are: a hook's answer. What this product
// refuses itself has a reason.
func Verbatim(code failurepb.Code, text string) *Failure {
	return New(code, Literal).Param(paramText, text)
}

// In names the field that the failure is about, in the rules' spelling.
func (f *Failure) In(field string) *Failure {
	f.Field = field
	return f
}

// Param sets a value for the words: a string, a number or something that is shown as text.
func (f *Failure) Param(name string, value any) *Failure {
	f.Params = append(f.Params, Param{Name: name, Value: typed(value)})
	return f
}

// With sets a detail: it is shown to the client, and the words may use it.
func (f *Failure) With(name string, value any) *Failure {
	if f.Details == nil {
		f.Details = make(map[string]any, 1)
	}
	f.Details[name] = value
	return f
}

// WithCode returns the same failure with another code.
func (f *Failure) WithCode(code failurepb.Code) *Failure {
	other := *f
	other.Code, other.Details = code, maps.Clone(f.Details)
	return &other
}

// At returns the same failure about a part of the request: a path like "input[3]", which comes before the words.
func (f *Failure) At(path string) *Failure {
	other := *f
	if before, ok := f.value(paramPath).(string); ok {
		path += ": " + before
	}
	other.Params = []Param{{Name: paramPath, Value: path}}
	for _, p := range f.Params {
		if p.Name != paramPath {
			other.Params = append(other.Params, p)
		}
	}
	return &other
}

// Error is the code and the default words, for logs.
func (f *Failure) Error() string { return f.Code.String() + ": " + f.DefaultText() }

// DefaultText is the failure in the default words. A surface words a failure itself.
func (f *Failure) DefaultText() string { return (*Wording)(nil).Text(f) }

// Names of parameters that mean the same for every reason.
const (
	paramText = ".text" // of Literal: the words
	paramPath = ".at"   // which part of the request it is about
)

// value is a parameter or, failing that, a detail; nil if there is neither.
func (f *Failure) value(name string) any {
	for _, p := range f.Params {
		if p.Name == name {
			return p.Value
		}
	}
	return f.Details[name]
}

// typed is a value in one of the two types of parameters.
func typed(value any) any {
	switch v := value.(type) {
	case string, int64:
		return v
	case int:
		return int64(v)
	case int32:
		return int64(v)
	case uint32:
		return int64(v)
	case fmt.Stringer:
		return v.String()
	default:
		return fmt.Sprint(v)
	}
}

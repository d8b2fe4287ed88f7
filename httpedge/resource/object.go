package resource

import (
	"encoding/json"
	"reflect"
	"strconv"

	"parley/actors/machine/rawjson"
	"parley/httpedge/endpoint/wire"
)

// Object declares the JSON of records of type R, and how a body is read into the input I that the rules of such records take. Each
// field is declared once; answers, bodies and their schemas follow from it. It is built when routes are declared and not changed
// afterwards.
type Object[R, I any] struct {
	name, component string
	otherwise       string // for component, where the document has one of that name
	plural, member  string // the name of many, and of what holds them in a list
	bare            bool   // an answer with one record has no member around it
	key             string // what the path's parameter is
	under           func(*I) *string
	fields          []member[R, I]
	wrong           func(error) error
}

// New declares records: name is the member that holds one in an answer ("provider"), component the name of their schema.
func New[R, I any](name, component string) *Object[R, I] {
	return &Object[R, I]{name: name, component: component, plural: name + "s", member: name + "s", wrong: func(err error) error { return err }}
}

// Otherwise is the schema's name in a document that has another one of the same name.
func (o *Object[R, I]) Otherwise(component string) *Object[R, I] {
	o.otherwise = component
	return o
}

// Plural is New's name of many where that is not the name and an s.
func (o *Object[R, I]) Plural(name string) *Object[R, I] {
	o.plural, o.member = name, name
	return o
}

// Member is what holds the records of a list, where their own name says more.
func (o *Object[R, I]) Member(name string) *Object[R, I] {
	o.member = name
	return o
}

// Under says where the key goes of what a record is made for, which the path of Create has.
func (o *Object[R, I]) Under(in func(*I) *string) *Object[R, I] {
	o.under = in
	return o
}

// Bare answers with a record itself, with {"object": "list", "data": [...]} for many and {"deleted": true, "id": key} for one that is
// gone, as the fields of such records are in snake_case. It leaves what it is called on as it was: both can be in use.
func (o *Object[R, I]) Bare() *Object[R, I] {
	bare := *o
	bare.bare = true
	return &bare
}

// Failures words the errors of the rules for the surface.
func (o *Object[R, I]) Failures(worded func(error) error) *Object[R, I] {
	o.wrong = worded
	return o
}

// KeyDoc describes the parameter of paths by which a record is found.
func (o *Object[R, I]) KeyDoc(text string) *Object[R, I] {
	o.key = text
	return o
}

// member is a field as the object uses it, its type forgotten.
type member[R, I any] interface {
	appendTo(dst []byte, record R) []byte
	answer() reflect.StructField
	body(of use) (reflect.StructField, func(in *I, value reflect.Value), bool)
}

// AppendJSON writes a record.
func (o *Object[R, I]) AppendJSON(dst []byte, record R) []byte {
	start := len(dst)
	for _, field := range o.fields {
		dst = field.appendTo(dst, record)
	}
	return wire.Close(dst, start)
}

// JSON is a record for an answer that is written by hand.
func (o *Object[R, I]) JSON(record R) json.RawMessage { return o.AppendJSON(nil, record) }

// Type is a struct that looks like the records' JSON, for the API document.
func (o *Object[R, I]) Type() reflect.Type {
	fields := []reflect.StructField{named(o.component)}
	if o.otherwise != "" {
		fields[0].Tag += reflect.StructTag(` otherwise:"` + o.otherwise + `"`)
	}
	for _, field := range o.fields {
		fields = append(fields, field.answer())
	}
	return reflect.StructOf(fields)
}

// Text declares a text.
func (o *Object[R, I]) Text(name string, get func(R) string) *Field[R, I, string] {
	return add[string](o, name, reflect.TypeFor[string](), func(dst []byte, record R) []byte { return wire.AppendString(dst, get(record)) })
}

// NullableText declares a text that is null when it is empty.
func (o *Object[R, I]) NullableText(name string, get func(R) string) *Field[R, I, string] {
	return add[string](o, name, reflect.TypeFor[*string](), func(dst []byte, record R) []byte {
		if text := get(record); text != "" {
			return wire.AppendString(dst, text)
		}
		return append(dst, "null"...)
	})
}

// Number declares a whole number.
func (o *Object[R, I]) Number(name string, get func(R) int64) *Field[R, I, int64] {
	return add[int64](o, name, reflect.TypeFor[int64](), func(dst []byte, record R) []byte { return strconv.AppendInt(dst, get(record), 10) })
}

// OptionalText declares a text that is left out when it is empty.
func (o *Object[R, I]) OptionalText(name string, get func(R) string) *Field[R, I, string] {
	f := o.Text(name, get)
	f.omitted = func(record R) bool { return get(record) == "" }
	return f
}

// Flag declares a truth value.
func (o *Object[R, I]) Flag(name string, get func(R) bool) *Field[R, I, bool] {
	return add[bool](o, name, reflect.TypeFor[bool](), func(dst []byte, record R) []byte {
		return strconv.AppendBool(dst, get(record))
	})
}

// Document declares a JSON object that is stored as it is, {} when nothing is.
func (o *Object[R, I]) Document(name string, get func(R) []byte) *Field[R, I, json.RawMessage] {
	return Value[json.RawMessage](o, name, func(record R) json.RawMessage { return wire.AppendObject(nil, get(record)) })
}

// OptionalDocument declares a JSON object that is left out when there is none.
func (o *Object[R, I]) OptionalDocument(name string, get func(R) []byte) *Field[R, I, json.RawMessage] {
	f := o.Document(name, get)
	f.omitted = func(record R) bool { return len(get(record)) == 0 }
	return f
}

// NullableTime declares a time of Unix milliseconds, null for 0.
func (o *Object[R, I]) NullableTime(name string, get func(R) int64) *Field[R, I, string] {
	return add[string](o, name, reflect.TypeFor[*string](), func(dst []byte, record R) []byte {
		if at := get(record); at != 0 {
			return wire.AppendTime(dst, at)
		}
		return append(dst, "null"...)
	}).tagged("format", "date-time")
}

// OptionalTime declares a time of Unix milliseconds that is left out when there is none.
func (o *Object[R, I]) OptionalTime(name string, get func(R) int64) *Field[R, I, string] {
	f := o.Time(name, get)
	f.omitted = func(record R) bool { return get(record) <= 0 }
	return f
}

// Time declares a time of Unix milliseconds.
func (o *Object[R, I]) Time(name string, get func(R) int64) *Field[R, I, string] {
	return add[string](o, name, reflect.TypeFor[string](), func(dst []byte, record R) []byte { return wire.AppendTime(dst, get(record)) }).
		tagged("format", "date-time")
}

// Value declares a field that is shown as V and read as T, with the JSON of these types.
func Value[T, R, I, V any](o *Object[R, I], name string, get func(R) V) *Field[R, I, T] {
	return add[T](o, name, reflect.TypeFor[V](), func(dst []byte, record R) []byte {
		shown, err := rawjson.AppendValue(dst, get(record))
		if err != nil {
			return append(dst, "null"...) // unreachable: V is plain data
		}
		return shown
	})
}

// Written declares a field that looks like V and is written by a function of its own: where that counts, or what is stored is JSON.
func Written[V, R, I any](o *Object[R, I], name string, write func(dst []byte, record R) []byte) *Field[R, I, V] {
	return add[V](o, name, reflect.TypeFor[V](), write)
}

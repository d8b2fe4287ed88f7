package resource

import (
	"reflect"
	"strconv"
	"strings"
)

// use tells the body that makes a record from the one that changes it.
type use int

const (
	create use = iota
	change
)

// Field is one field of records: how it is shown, and where its value of type T goes when a body may set it.
type Field[R, I, T any] struct {
	name    string
	label   []byte // a comma, the name as JSON, and its colon
	shown   reflect.Type
	show    func(dst []byte, record R) []byte
	tags    [3]string           // of the bodies, by use, and of the answer
	omitted func(record R) bool // not shown at all; nil = never

	plain     func(*I) *T  // is set in any case
	pointer   func(*I) **T // stays nil where the body does not say it
	on        [2]bool      // which bodies may say it
	optional  bool         // left out of the body that creates, the rules see nothing
	clearable bool         // null in a change is the empty value
}

const inAnswer = 2

func add[T, R, I any](o *Object[R, I], name string, shown reflect.Type, show func([]byte, R) []byte) *Field[R, I, T] {
	f := &Field[R, I, T]{name: name, label: []byte("," + strconv.Quote(name) + ":"), shown: shown, show: show}
	o.fields = append(o.fields, f)
	return f
}

// Write lets a body set the field when the record is made, and in changes that name it. null is no value of it there.
func (f *Field[R, I, T]) Write(in func(*I) **T) *Field[R, I, T] {
	f.pointer, f.on = in, [2]bool{true, true}
	return f
}

// Take is Write for an input without a pointer, in which the empty value is none: documents, maps. null is up to T.
func (f *Field[R, I, T]) Take(in func(*I) *T) *Field[R, I, T] {
	f.plain, f.on = in, [2]bool{true, true}
	return f
}

// Create lets only the body set the field that makes the record.
func (f *Field[R, I, T]) Create(in func(*I) *T) *Field[R, I, T] {
	f.plain, f.on = in, [2]bool{true, false}
	return f
}

// Optional leaves the input of a new record nil where its body does not say the field.
func (f *Field[R, I, T]) Optional() *Field[R, I, T] {
	f.optional = true
	return f
}

// Clearable makes null, in a change or where Optional, the empty value.
func (f *Field[R, I, T]) Clearable() *Field[R, I, T] {
	f.clearable = true
	return f
}

// Required says, for the document, that the rules refuse a new record without it.
func (f *Field[R, I, T]) Required() *Field[R, I, T] { return f.tag(create, "required", "true") }

// Enum says what the field may be.
func (f *Field[R, I, T]) Enum(values ...string) *Field[R, I, T] {
	return f.tagged("enum", strings.Join(values, ","))
}

// Accepts says what bodies may set the field to, of which answers may show more.
func (f *Field[R, I, T]) Accepts(values ...string) *Field[R, I, T] {
	joined := strings.Join(values, ",")
	return f.tag(create, "enum", joined).tag(change, "enum", joined)
}

// Doc describes the field of answers.
func (f *Field[R, I, T]) Doc(text string) *Field[R, I, T] { return f.tag(inAnswer, "doc", text) }

// CreateDoc describes the field of the body that makes a record.
func (f *Field[R, I, T]) CreateDoc(text string) *Field[R, I, T] { return f.tag(create, "doc", text) }

// ChangeDoc describes the field of changes.
func (f *Field[R, I, T]) ChangeDoc(text string) *Field[R, I, T] { return f.tag(change, "doc", text) }

func (f *Field[R, I, T]) tagged(key, value string) *Field[R, I, T] {
	return f.tag(create, key, value).tag(change, key, value).tag(inAnswer, key, value)
}

func (f *Field[R, I, T]) tag(of use, key, value string) *Field[R, I, T] {
	f.tags[of] += " " + key + ":" + strconv.Quote(value)
	return f
}

func (f *Field[R, I, T]) appendTo(dst []byte, record R) []byte {
	if f.omitted != nil && f.omitted(record) {
		return dst
	}
	return f.show(append(dst, f.label...), record)
}

func (f *Field[R, I, T]) answer() reflect.StructField { return f.field(f.shown, inAnswer) }

func (f *Field[R, I, T]) field(is reflect.Type, of use) reflect.StructField {
	name := f.name
	if of == inAnswer && f.omitted != nil {
		name += ",omitempty"
	}
	return reflect.StructField{
		Name: "F" + strings.TrimPrefix(f.name, "_") + strconv.Itoa(len(f.name)), Type: is,
		Tag: reflect.StructTag("json:" + strconv.Quote(name) + f.tags[of]),
	}
}

// body returns the field as a body has it, and how its value gets into the input.
func (f *Field[R, I, T]) body(of use) (field reflect.StructField, put func(in *I, value reflect.Value), is bool) {
	if !f.on[of] {
		return field, nil, false
	}
	asIs := f.field(reflect.TypeFor[T](), of)
	switch {
	case f.plain != nil:
		return asIs, func(in *I, v reflect.Value) { *f.plain(in) = read[T](v) }, true
	case f.clearable && (of == change || f.optional):
		return f.field(reflect.TypeFor[Given[T]](), of), func(in *I, v reflect.Value) { *f.pointer(in) = read[Given[T]](v).Pointer() }, true
	case of == create && f.optional:
		return f.field(reflect.TypeFor[*T](), of), func(in *I, v reflect.Value) { *f.pointer(in) = read[*T](v) }, true
	case of == create:
		return asIs, func(in *I, v reflect.Value) {
			value := read[T](v)
			*f.pointer(in) = &value
		}, true
	default:
		return f.field(reflect.TypeFor[Set[T]](), of), func(in *I, v reflect.Value) { *f.pointer(in) = read[Set[T]](v).Pointer() }, true
	}
}

// read returns the value of a field that was made of type T.
func read[T any](v reflect.Value) T {
	value, _ := v.Interface().(T) // always: see body
	return value
}

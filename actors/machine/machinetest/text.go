package machinetest

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"parley/actors/machine"
)

// Text prints a message on one line, set fields in the order of their numbers. Unlike the module's own text form it
// is the same on every run and in every version.
func Text(message proto.Message) string {
	if message == nil {
		return "none"
	}
	var b strings.Builder
	writeMessage(&b, message.ProtoReflect())
	return b.String()
}

func writeMessage(b *strings.Builder, message protoreflect.Message) {
	var fields []protoreflect.FieldDescriptor
	message.Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		fields = append(fields, field)
		return true
	})
	slices.SortFunc(fields, func(x, y protoreflect.FieldDescriptor) int { return int(x.Number()) - int(y.Number()) })
	b.WriteByte('{')
	first := true
	for _, field := range fields {
		for _, value := range values(field, message.Get(field)) {
			if !first {
				b.WriteByte(' ')
			}
			first = false
			b.WriteString(string(field.Name()))
			b.WriteString(": ")
			writeValue(b, field, value)
		}
	}
	b.WriteByte('}')
}

func values(field protoreflect.FieldDescriptor, value protoreflect.Value) []protoreflect.Value {
	if !field.IsList() {
		return []protoreflect.Value{value}
	}
	list := make([]protoreflect.Value, value.List().Len())
	for i := range list {
		list[i] = value.List().Get(i)
	}
	return list
}

func writeValue(b *strings.Builder, field protoreflect.FieldDescriptor, value protoreflect.Value) {
	switch field.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		writeMessage(b, value.Message())
	case protoreflect.StringKind:
		b.WriteString(strconv.Quote(value.String()))
	case protoreflect.BytesKind:
		b.WriteString(strconv.Quote(string(value.Bytes())))
	case protoreflect.EnumKind:
		if known := field.Enum().Values().ByNumber(value.Enum()); known != nil {
			b.WriteString(string(known.Name()))
			return
		}
		fmt.Fprint(b, value.Enum())
	default:
		fmt.Fprint(b, value.Interface())
	}
}

// EffectText prints an effect: its type and the fields that are set.
func EffectText(effect machine.Effect) string {
	value := reflect.ValueOf(effect)
	var b strings.Builder
	b.WriteString(value.Type().Name())
	b.WriteByte('{')
	writeFields(&b, value)
	b.WriteByte('}')
	return b.String()
}

func writeFields(b *strings.Builder, value reflect.Value) {
	if value.Kind() != reflect.Struct {
		fmt.Fprint(b, value.Interface())
		return
	}
	for i := range value.NumField() {
		field, name := value.Field(i), value.Type().Field(i)
		if !name.IsExported() || field.IsZero() {
			continue
		}
		if name.Anonymous && field.Kind() == reflect.Struct {
			writeFields(b, field)
			continue
		}
		if !strings.HasSuffix(b.String(), "{") {
			b.WriteByte(' ')
		}
		b.WriteString(name.Name + ": ")
		if field.Kind() == reflect.Slice && field.Type().Elem().Implements(reflect.TypeFor[proto.Message]()) {
			for j := range field.Len() {
				message, _ := field.Index(j).Interface().(proto.Message)
				b.WriteString(Text(message))
			}
			continue
		}
		switch x := field.Interface().(type) {
		case proto.Message:
			b.WriteString(Text(x))
		case []byte:
			b.WriteString(strconv.Quote(string(x)))
		case string:
			b.WriteString(strconv.Quote(x))
		default:
			fmt.Fprint(b, x)
		}
	}
}

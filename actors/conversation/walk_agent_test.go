package conversation_test

import (
	"fmt"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"parley/actors/machine/machinetest"
	"parley/proto/agentpb"
)

// checkCarried: the part of an agent that commands carry to the owner (agentpb.Agent.Rules) decides like the whole agent.
func (w *walk) checkCarried(command proto.Message) {
	carried := proto.Clone(command)
	shorten(carried.ProtoReflect())
	if proto.Equal(command, carried) {
		return
	}
	w.seen["carried agent"]++
	require.Equal(w.t, w.outcome(command), w.outcome(carried), "%s", machinetest.Text(command))
}

// outcome is what the rules would decide now. Its ids are not the entity's.
func (w *walk) outcome(command proto.Message) string {
	env, minted := w.env, 0
	env.NewID = func(kind string) string {
		minted++
		return fmt.Sprintf("%s_of_check_%d", kind, minted)
	}
	var before proto.Message
	if w.entity.State != nil {
		before = proto.Clone(w.entity.State)
	}
	return machinetest.Outcome(w.rules.Decide(before, command, env))
}

// shorten replaces every agent in a message by what commands carry of it.
func shorten(message protoreflect.Message) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.Message() == nil || field.IsList() || field.IsMap() {
			return true
		}
		if agent, is := value.Message().Interface().(*agentpb.Agent); is {
			message.Set(field, protoreflect.ValueOfMessage(agent.Rules().ProtoReflect()))
		} else {
			shorten(value.Message())
		}
		return true
	})
}

// whole fills in fields of an agent that the walk leaves out, those of later releases included.
func (w *walk) whole(agent *agentpb.Agent) *agentpb.Agent {
	if rapid.IntRange(0, 3).Draw(w.t, "whole agent") == 3 {
		furnish(agent.ProtoReflect(), rapid.Uint64().Draw(w.t, "fields"), 2)
	}
	return agent
}

// furnish sets those unset fields whose numbers are in the mask, down to a depth. An unlimited budget and the word of one that pauses
// are chosen so that walks still get somewhere.
func furnish(message protoreflect.Message, mask uint64, depth int) {
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch {
		case message.Has(field) || mask>>(field.Number()%64)&1 == 0 || field.IsMap() || field.ContainingOneof() != nil:
		case field.Message() == nil && field.IsList():
			message.Mutable(field).List().Append(filling(field))
		case field.Message() == nil:
			message.Set(field, filling(field))
		case depth > 0 && field.IsList():
			furnish(message.Mutable(field).List().AppendMutable().Message(), mask, depth-1)
		case depth > 0:
			furnish(message.Mutable(field).Message(), mask, depth-1)
		}
	}
}

func filling(field protoreflect.FieldDescriptor) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("pause")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(`{}`))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(1 << 20)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(1 << 40)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(0.5)
	default:
		return field.Default()
	}
}

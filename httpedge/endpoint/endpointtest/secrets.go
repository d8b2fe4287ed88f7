package endpointtest

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"parley/proto/agentpb"
)

// Secret is what is in every text of an agent of SecretAgent.
const Secret = "never leaves the process"

// SecretAgent returns an agent whose every field is set, also those that are added to the message later. What of it may be in
// commands is set by public; each other text holds Secret.
func SecretAgent(public *agentpb.Agent) *agentpb.Agent {
	agent := &agentpb.Agent{}
	fill(agent.ProtoReflect())
	agent.Capabilities.Attachments, agent.DefaultBudget, agent.Experience = nil, nil, nil
	proto.Merge(agent, public)
	if public.GetId() != "" {
		agent.Id, agent.Name = public.GetId(), public.GetName()
	}
	return agent
}

// fill sets all fields of a message.
func fill(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch {
		case field.IsMap():
			entries := m.Mutable(field).Map()
			entries.Set(protoreflect.ValueOfString(Secret).MapKey(), filled(field.MapValue(), entries.NewValue))
		case field.IsList():
			list := m.Mutable(field).List()
			list.Append(filled(field, list.NewElement))
		default:
			m.Set(field, filled(field, func() protoreflect.Value { return m.NewField(field) }))
		}
	}
}

// filled is a value of a field; empty makes the empty one.
func filled(field protoreflect.FieldDescriptor, empty func() protoreflect.Value) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(Secret)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(Secret))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.MessageKind:
		value := empty()
		fill(value.Message())
		return value
	default:
		return empty()
	}
}

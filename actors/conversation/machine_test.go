package conversation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"parley/actors/conversation"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

func TestLimits(t *testing.T) {
	require.NoError(t, conversation.DefaultLimits().Validate())
	for name, change := range map[string]func(*conversation.Limits){
		"message bytes":   func(l *conversation.Limits) { l.MessageBytes = 0 },
		"metadata bytes":  func(l *conversation.Limits) { l.MetadataBytes = -1 },
		"context bytes":   func(l *conversation.Limits) { l.ContextBytes = 0 },
		"title runes":     func(l *conversation.Limits) { l.TitleRunes = 0 },
		"outcomes":        func(l *conversation.Limits) { l.Outcomes = 0 },
		"attempts":        func(l *conversation.Limits) { l.Attempts = 0 },
		"settle wait":     func(l *conversation.Limits) { l.SettleWait = 0 },
		"max settle wait": func(l *conversation.Limits) { l.MaxSettleWait = 0 },
		"cancel grace":    func(l *conversation.Limits) { l.CancelGrace = 0 },

		"takeover silence": func(l *conversation.Limits) { l.TakeoverSilence = 0 },

		"action timeout":           func(l *conversation.Limits) { l.ActionTimeout = 0 },
		"on action timeout":        func(l *conversation.Limits) { l.OnActionTimeout = "" },
		"pending policy":           func(l *conversation.Limits) { l.PendingPolicy = "x" },
		"client tool output bytes": func(l *conversation.Limits) { l.ClientToolOutputBytes = 0 },
		"max pending":              func(l *conversation.Limits) { l.MaxPending = 0 },
		"action args bytes":        func(l *conversation.Limits) { l.ActionArgsBytes = 0 },
		"remembered tools":         func(l *conversation.Limits) { l.RememberedTools = 0 },
		"queue":                    func(l *conversation.Limits) { l.Queue = 0 },
	} {
		limits := conversation.DefaultLimits()
		change(&limits)
		require.ErrorContains(t, limits.Validate(), name)
	}
}

// TestTextThatNoScriptCanSay: text that is not UTF-8 never comes in through strings of a script.
func TestTextThatNoScriptCanSay(t *testing.T) {
	rules := suite().Machine
	env := machine.Env{Now: time.UnixMilli(1000), Epoch: 1, NewID: func(kind string) string { return kind + "_1" }}
	state := &conversationpb.State{Id: "conv_1", Status: conversationpb.Status_IDLE, NextMessage: 1}
	bad := "caf\xe9"
	for name, command := range map[string]*conversationpb.Command{
		"content":    {Body: &conversationpb.Command_Send{Send: &conversationpb.Send{Content: bad}}},
		"command id": {CommandId: bad, Body: &conversationpb.Command_Send{Send: &conversationpb.Send{Content: "x"}}},
		"title": {Body: &conversationpb.Command_Update{Update: &conversationpb.Update{
			Patch: &conversationpb.Patch{Title: &bad},
		}}},
		"metadata": {Body: &conversationpb.Command_Update{Update: &conversationpb.Update{
			Patch: &conversationpb.Patch{Metadata: []byte(`{"a":"` + bad + `"}`)},
		}}},
	} {
		_, failure := rules.Decide(state, command, env)
		require.NotNil(t, failure, name)
		require.Equal(t, failurepb.Code_VALIDATION, failure.Code, name)
	}
	create := suite().Command()
	prepare(create)
	command, _ := create.(*conversationpb.Command)
	command.Body = &conversationpb.Command_Create{Create: &conversationpb.Create{}}
	for _, user := range []string{bad, string(make([]byte, 257))} {
		command.Caller.UserId = user
		command.GetCreate().Agent = agent()
		_, failure := rules.Decide(nil, command, env)
		require.NotNil(t, failure)
		require.Equal(t, failurepb.Code_VALIDATION, failure.Code)
	}
}

// TestEvolveKeepsEveryField: the state is copied field by field, so a field that is added to the message and
// forgotten there would be lost with the next event.
func TestEvolveKeepsEveryField(t *testing.T) {
	full := new(conversationpb.State)
	fill(full.ProtoReflect(), 1)
	full.ProtoReflect().SetUnknown(protoreflect.RawFields{0xf8, 0x3f, 0x01}) // field 1023 = 1
	full.Lease.ProtoReflect().SetUnknown(protoreflect.RawFields{0xf8, 0x3f, 0x02})
	rules := suite().Machine

	nothing := &conversationpb.Event{Seq: full.GetLastSeq()}
	require.True(t, proto.Equal(full, rules.Evolve(full, []proto.Message{nothing})), "a field of State is lost")

	cancelled, _ := rules.Evolve(full, []proto.Message{&conversationpb.Event{
		Body: &conversationpb.Event_CancelRequested{CancelRequested: &conversationpb.CancelRequested{}},
	}}).(*conversationpb.State)
	require.True(t, proto.Equal(full.GetLease(), cancelled.GetLease()), "a field of Lease is lost")
}

// fill sets every field of a message, down to a depth, to something.
func fill(message protoreflect.Message, depth int) {
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch {
		case field.IsList() && field.Kind() == protoreflect.MessageKind:
			message.Mutable(field).List().AppendMutable()
		case field.IsList():
			message.Mutable(field).List().Append(scalar(field))
		case field.Kind() == protoreflect.MessageKind:
			nested := message.Mutable(field).Message()
			if depth > 0 {
				fill(nested, depth-1)
			}
		default:
			message.Set(field, scalar(field))
		}
	}
}

func scalar(field protoreflect.FieldDescriptor) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("x")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte("x"))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(7)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(7)
	default:
		return protoreflect.ValueOfUint64(7)
	}
}

// TestPublicTypes: every event has a type in the public log, but the first, that a background run holds, what was said elsewhere
// what a caller sets for a turn, whom a turn is told to, and rows of lists, which are none of its log.
func TestPublicTypes(t *testing.T) {
	event := new(conversationpb.Event)
	require.Empty(t, event.PublicType())
	bodies := event.ProtoReflect().Descriptor().Oneofs().ByName("body").Fields()
	seen := map[string]bool{}
	for i := range bodies.Len() {
		event := new(conversationpb.Event)
		event.ProtoReflect().Mutable(bodies.Get(i))
		name := event.PublicType()
		if event.GetCreated() != nil || event.GetHeld() != nil || event.GetImported() != nil || event.GetTurnOptions() != nil ||
			event.GetPushSet() != nil || event.GetPushRemoved() != nil || event.GetPushDue() != nil || event.GetPushOver() != nil || event.GetListed() != nil {
			require.Empty(t, name)
			continue
		}
		require.NotEmpty(t, name, bodies.Get(i).Name())
		if event.GetTurnResumed() == nil { // it runs again
			require.False(t, seen[name], name)
		}
		seen[name] = true
	}
}

func TestMachineOfNothing(t *testing.T) {
	rules := suite().Machine
	require.Equal(t, "conv", rules.Kind())
	require.Zero(t, rules.Seq(nil))
	require.Zero(t, rules.Seq(rules.NewState()))
	require.Nil(t, rules.OnActivate(nil, machine.Env{}))
	_, failure := rules.Decide(nil, nil, machine.Env{})
	require.Equal(t, failurepb.Code_VALIDATION, failure.Code)
	_, failure = rules.Decide(nil, &conversationpb.Command{Body: &conversationpb.Command_Create{
		Create: &conversationpb.Create{Agent: agent()},
	}}, machine.Env{})
	require.Equal(t, failurepb.Code_VALIDATION, failure.Code, "no id")
}

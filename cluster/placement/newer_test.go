package placement

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"parley/proto/nodepb"
)

// newerMessage is a message of a type that this release does not have.
func newerMessage(t *testing.T) proto.Message {
	t.Helper()
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("future.proto"), Package: proto.String("parley.future"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Command")}},
	}, protoregistry.GlobalFiles)
	require.NoError(t, err)
	return dynamicpb.NewMessage(file.Messages().Get(0))
}

// newerFields is field 1000 with the value 1.
func newerFields() protoreflect.RawFields {
	return protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1)
}

// TestMessagesOfANewerRelease: what a node does not know is answered with an error, fields that it does not know are
// passed over, and the connection goes on working.
func TestMessagesOfANewerRelease(t *testing.T) {
	_, a, b, to := pair(t)
	newer := newerMessage(t)
	for name, ask := range map[string]func() (proto.Message, error){
		"command": func() (proto.Message, error) { return a.Ask(t.Context(), to, "conv_1", newer) },
		"query":   func() (proto.Message, error) { return a.Read(t.Context(), to, newer) },
		"call":    func() (proto.Message, error) { return a.Call(t.Context(), "b", newer) },
	} {
		_, err := ask()
		require.ErrorContains(t, err, "not known here", name)
		require.ErrorContains(t, err, "parley.future.Command", name)
	}
	require.Contains(t, b.handle(t.Context(), "a", &nodepb.Request{Kind: 1000}).GetFault().GetMessage(), "not known here")

	known := command("hello")
	known.ProtoReflect().SetUnknown(newerFields())
	reply, err := a.Ask(t.Context(), to, "conv_1", known)
	require.NoError(t, err)
	require.Equal(t, "hello", commandID(reply))

	// A kind of envelope that is not known is dropped, and an envelope may have more fields.
	dropped := valueOf(b.metrics.dropped)
	on := a.links.Load().byName["b"].connected()
	require.NotNil(t, on)
	envelope := &nodepb.Envelope{}
	envelope.ProtoReflect().SetUnknown(newerFields())
	require.True(t, on.send(nodeTarget, envelope, beatBytes))
	require.Eventually(t, func() bool { return valueOf(b.metrics.dropped) > dropped }, patience, time.Millisecond)
	reply, err = a.Ask(t.Context(), to, "conv_1", command("still there"))
	require.NoError(t, err)
	require.Equal(t, "still there", commandID(reply))
	require.Same(t, on, a.links.Load().byName["b"].connected())
}

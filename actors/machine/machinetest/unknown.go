package machinetest

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// checkUnknown: a field of a newer release is still in the state after this release has folded events into it.
func (e *Entity) checkUnknown(after proto.Message, events []proto.Message) error {
	if e.State == nil || after == nil {
		return nil
	}
	newerField := protoreflect.RawFields{0xf8, 0x3f, 0x01} // number 1023, which no release has, with the value 1
	newer := clone(e.State)
	newer.ProtoReflect().SetUnknown(newerField)
	if kept := e.Machine.Evolve(newer, events).ProtoReflect().GetUnknown(); !bytes.Equal(kept, newerField) {
		return fmt.Errorf("evolve drops the fields of a newer release")
	}
	return nil
}

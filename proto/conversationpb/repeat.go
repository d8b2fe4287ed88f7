package conversationpb

import "google.golang.org/protobuf/proto"

// Again returns the command as it is given when nothing is known of what became of it.
func (x *Command) Again() *Command {
	if x.GetRepeated() {
		return x
	}
	again := proto.CloneOf(x)
	again.Repeated = true
	return again
}

// Repeat is Again for those who do not know what they pass on.
func (x *Command) Repeat() proto.Message { return x.Again() }

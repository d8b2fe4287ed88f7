package actors

import (
	"google.golang.org/protobuf/proto"

	"parley/actors/idempotency"
	"parley/actors/machine"
	"parley/proto/idempotencypb"
)

// IdempotencyKeys is the kind of requests that carry an Idempotency-Key. All that it does in the world is to be forgotten.
func IdempotencyKeys(rules machine.Machine) Kind {
	return Kind{
		Machine: rules,
		Due: Due{List: idempotency.ListDue, Command: func(id string) proto.Message {
			return &idempotencypb.Command{Id: id, Body: &idempotencypb.Command_Due{Due: &idempotencypb.Due{}}}
		}},
	}
}

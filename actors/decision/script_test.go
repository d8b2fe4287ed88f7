package decision_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"parley/actors/decision"
	"parley/actors/machine/machinetest"
	"parley/proto/decisionpb"
)

func suite() machinetest.Suite {
	return machinetest.Suite{
		Machine: decision.New().Machine,
		Command: func() proto.Message { return new(decisionpb.Command) },
		Event:   func() proto.Message { return new(decisionpb.Event) },
		Prepare: func(message proto.Message) {
			if command, ok := message.(*decisionpb.Command); ok && command.Id == "" {
				command.Id = "dec_1"
			}
		},
	}
}

func TestScripts(t *testing.T) { suite().Scripts(t, "testdata") }

func TestTable(t *testing.T) { suite().Table(t, "states.md") }

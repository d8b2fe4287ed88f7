package meter_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"parley/actors/machine/machinetest"
	"parley/actors/meter"
	"parley/proto/meterpb"
)

// prepare makes a script's command one of meter_1.
func prepare(message proto.Message) {
	command, _ := message.(*meterpb.Command)
	if command.Id == "" {
		command.Id = "meter_1"
	}
}

func suite() machinetest.Suite {
	return machinetest.Suite{
		Machine: meter.New().Machine,
		Command: func() proto.Message { return new(meterpb.Command) },
		Event:   func() proto.Message { return new(meterpb.Event) },
		Prepare: prepare,
	}
}

func TestScripts(t *testing.T) { suite().Scripts(t, "testdata") }

func TestTable(t *testing.T) { suite().Table(t, "states.md") }

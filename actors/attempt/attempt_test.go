package attempt_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"parley/actors/attempt"
	"parley/actors/machine/machinetest"
	"parley/proto/attemptpb"
)

// prepare makes a script's command one of attempt_1.
func prepare(message proto.Message) {
	command, _ := message.(*attemptpb.Command)
	if command.Id == "" {
		command.Id = "attempt_1"
	}
}

func suite() machinetest.Suite {
	return machinetest.Suite{
		Machine: attempt.New().Machine,
		Command: func() proto.Message { return new(attemptpb.Command) },
		Event:   func() proto.Message { return new(attemptpb.Event) },
		Prepare: prepare,
	}
}

func TestScripts(t *testing.T) { suite().Scripts(t, "testdata") }

func TestTable(t *testing.T) { suite().Table(t, "states.md") }

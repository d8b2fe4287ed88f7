package approval_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"parley/actors/approval"
	"parley/actors/machine/machinetest"
	"parley/proto/approvalpb"
)

func suite() machinetest.Suite {
	return machinetest.Suite{
		Machine: approval.New().Machine,
		Command: func() proto.Message { return new(approvalpb.Command) },
		Event:   func() proto.Message { return new(approvalpb.Event) },
		Prepare: func(message proto.Message) {
			if command, ok := message.(*approvalpb.Command); ok && command.Id == "" {
				command.Id = "apr_1"
			}
		},
	}
}

func TestScripts(t *testing.T) { suite().Scripts(t, "testdata") }

func TestTable(t *testing.T) { suite().Table(t, "states.md") }

package idempotency_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"parley/actors/idempotency"
	"parley/actors/machine/machinetest"
	"parley/proto/idempotencypb"
)

// prepare makes a script's command one of idem_1, and its request's hash 32 bytes long.
func prepare(message proto.Message) {
	command, _ := message.(*idempotencypb.Command)
	if command.Id == "" {
		command.Id = "idem_1"
	}
	pad := func(hash []byte) []byte {
		if len(hash) == 1 {
			return append(hash, make([]byte, 31)...)
		}
		return hash
	}
	if begin := command.GetBegin(); begin != nil {
		begin.Request = pad(begin.Request)
	}
	if release := command.GetRelease(); release != nil {
		release.Request = pad(release.Request)
	}
	if keep := command.GetKeep(); keep != nil {
		keep.Request = pad(keep.Request)
	}
}

func suite() machinetest.Suite {
	return machinetest.Suite{
		Machine: idempotency.New(16).Machine,
		Command: func() proto.Message { return new(idempotencypb.Command) },
		Event:   func() proto.Message { return new(idempotencypb.Event) },
		Prepare: prepare,
	}
}

func TestScripts(t *testing.T) { suite().Scripts(t, "testdata") }

func TestTable(t *testing.T) { suite().Table(t, "states.md") }

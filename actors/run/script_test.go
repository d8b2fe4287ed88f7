package run_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/machine/machinetest"
	"parley/actors/run"
	"parley/proto/conversationpb"
	"parley/proto/runpb"
)

func limits() run.Limits {
	limits := run.DefaultLimits()
	limits.InputBytes, limits.MetadataBytes, limits.ContextBytes, limits.Calls = 48, 32, 16, 2
	limits.Keep = time.Hour
	return limits
}

func suite() machinetest.Suite {
	return machinetest.Suite{
		Machine: run.New(limits(), run.Config{}).Machine,
		Command: func() proto.Message { return new(runpb.Command) },
		Event:   func() proto.Message { return new(runpb.Event) },
		Prepare: prepare,
	}
}

// prepare makes a script's command one of Ann's on run_1 unless it says otherwise.
func prepare(message proto.Message) {
	command, is := message.(*runpb.Command)
	if !is {
		return
	}
	if command.RunId == "" {
		command.RunId = "run_1"
	}
	if command.Caller == nil {
		command.Caller = &conversationpb.Caller{TenantId: "t", ProjectId: "p", UserId: "ann", Identified: true, TokenId: "k"}
	}
}

func TestScripts(t *testing.T) { suite().Scripts(t, "testdata") }

func TestTable(t *testing.T) { suite().Table(t, "states.md") }

package task_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"parley/actors/machine/machinetest"
	"parley/actors/task"
	"parley/proto/conversationpb"
	"parley/proto/taskpb"
)

func limits() task.Limits {
	limits := task.DefaultLimits()
	limits.InputBytes, limits.CommentBytes, limits.MetadataBytes, limits.Comments, limits.Outcomes = 48, 32, 64, 6, 3
	limits.CallbackAttempts = 3
	return limits
}

func suite() machinetest.Suite {
	return machinetest.Suite{
		Machine: task.New(limits(), task.Config{}).Machine,
		Command: func() proto.Message { return new(taskpb.Command) },
		Event:   func() proto.Message { return new(taskpb.Event) },
		Prepare: prepare,
	}
}

// prepare makes a script's command one of Ann's on task_1 unless it says otherwise.
func prepare(message proto.Message) {
	command, is := message.(*taskpb.Command)
	if !is {
		return
	}
	if command.TaskId == "" {
		command.TaskId = "task_1"
	}
	if command.Caller == nil {
		command.Caller = &conversationpb.Caller{TenantId: "t", ProjectId: "p", UserId: "ann", Identified: true}
	}
}

func TestScripts(t *testing.T) { suite().Scripts(t, "testdata") }

func TestTable(t *testing.T) { suite().Table(t, "states.md") }

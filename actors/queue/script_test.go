package queue_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/machine/machinetest"
	"parley/actors/queue"
	"parley/proto/runpb"
)

func limits() queue.Limits {
	return queue.Limits{Concurrency: 2, MaxQueued: 2, Lease: 10 * time.Second}
}

func suite() machinetest.Suite {
	return machinetest.Suite{
		Machine: queue.New(limits(), nil, nil).Machine,
		Command: func() proto.Message { return new(runpb.QueueCommand) },
		Event:   func() proto.Message { return new(runpb.QueueEvent) },
		Prepare: func(message proto.Message) {
			if command, is := message.(*runpb.QueueCommand); is {
				command.QueueId = "queue_1"
			}
		},
	}
}

func TestScripts(t *testing.T) { suite().Scripts(t, "testdata") }

func TestTable(t *testing.T) { suite().Table(t, "states.md") }

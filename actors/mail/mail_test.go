package mail_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"parley/actors/machine/machinetest"
	"parley/actors/mail"
	"parley/proto/mailpb"
)

// prepare makes a script's command one of mail_1.
func prepare(message proto.Message) {
	command, _ := message.(*mailpb.Command)
	if command.Id == "" {
		command.Id = "mail_1"
	}
}

func suite() machinetest.Suite {
	return machinetest.Suite{
		Machine: mail.New(nil, nil).Machine,
		Command: func() proto.Message { return new(mailpb.Command) },
		Event:   func() proto.Message { return new(mailpb.Event) },
		Prepare: prepare,
	}
}

func TestScripts(t *testing.T) { suite().Scripts(t, "testdata") }

func TestTable(t *testing.T) { suite().Table(t, "states.md") }

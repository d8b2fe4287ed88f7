package conversation_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/machine/machinetest"
	"parley/proto/conversationpb"
)

func suite() machinetest.Suite { return suiteOf(suiteLimits()) }

func suiteLimits() conversation.Limits {
	limits := conversation.DefaultLimits()
	limits.MessageBytes, limits.MetadataBytes, limits.ContextBytes = 64, 48, 48
	limits.TitleRunes, limits.Outcomes, limits.Attempts = 20, 3, 3
	limits.ClientToolOutputBytes, limits.ActionArgsBytes, limits.MaxPending, limits.RememberedTools = 48, 120, 3, 2
	limits.Queue = 2
	return limits
}

func suiteOf(limits conversation.Limits) machinetest.Suite {
	return machinetest.Suite{
		Machine: conversation.New(limits),
		Command: func() proto.Message { return new(conversationpb.Command) },
		Event:   func() proto.Message { return new(conversationpb.Event) },
		Prepare: prepare,
	}
}

// prepare makes a script's command one of Ann's on conv_1 unless it says otherwise.
func prepare(message proto.Message) {
	command, _ := message.(*conversationpb.Command)
	if command.ConversationId == "" {
		command.ConversationId = "conv_1"
	}
	if command.Caller == nil {
		command.Caller = &conversationpb.Caller{TenantId: "t", ProjectId: "p", UserId: "ann", Identified: true}
	}
}

func TestScripts(t *testing.T) {
	suite().Scripts(t, "testdata")
}

// TestCancellingPolicies: a server on which pending actions give way, to a new message and to time.
func TestCancellingPolicies(t *testing.T) {
	limits := conversation.DefaultLimits()
	limits.OnActionTimeout, limits.PendingPolicy = "cancel", "cancel"
	suiteOf(limits).Script(t, "testdata/policy/cancel")
}

func TestRecordedHistories(t *testing.T) {
	suite().Replay(t, "testdata/history")
}

func TestTable(t *testing.T) {
	suite().Table(t, "states.md")
}

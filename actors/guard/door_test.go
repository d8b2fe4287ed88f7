package guard_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/aegis"
	"parley/actors/core/failure"
	"parley/actors/guard"
	"parley/actors/machine"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/decisionpb"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
	"parley/proto/runpb"
	"parley/proto/taskpb"
)

// behind is what stands behind the door.
type behind struct {
	asked proto.Message
	state *conversationpb.State
}

func (b *behind) Ask(_ context.Context, _ string, command proto.Message) (proto.Message, error) {
	b.asked = command
	return &conversationpb.Reply{}, nil
}

func (b *behind) Read(_ context.Context, query proto.Message) (proto.Message, error) {
	if _, is := query.(*nodepb.TaskQuery); is {
		return &nodepb.TaskReply{Task: &taskpb.State{AgentId: "guarded"}}, nil
	}
	return &nodepb.StateReply{State: b.state}, nil
}

type agents struct{}

func (agents) Agent(_, id string, _ int64) (*agentpb.Agent, bool) {
	return &agentpb.Agent{Id: id, Shield: map[string]string{"guarded": "default", "lost": "gone"}[id]}, id != "none"
}

type fixture struct {
	*guard.Door

	behind *behind
	shield *directorypb.Shield
	kept   []*decisionpb.Verdict
	taken  int
	judge  func(by *guard.Payer, question *aegis.Question) (string, error)
}

func open() *fixture {
	f := &fixture{behind: &behind{}, shield: aegis.Default("t", "p")}
	f.Door = &guard.Door{Client: f.behind, Agents: agents{}, Known: &guard.Known{}, Guard: guard.New(guard.Parts{
		Ready: func() error { return nil },
		Shield: func(_ context.Context, _, _, id string) (*directorypb.Shield, error) {
			if id == "gone" {
				return nil, failure.New(failurepb.Code_NOT_FOUND, failure.ShieldNotFound)
			}
			return f.shield, nil
		},
		Roles: func(context.Context, string, string) []string { return nil },
		Fits:  func(context.Context, []byte, []byte) error { return nil },
		Take: func(_ context.Context, _ string, most int) (bool, error) {
			f.taken++
			return f.taken <= most, nil
		},
		Ask: func(_ context.Context, by *guard.Payer, question *aegis.Question) (string, error) {
			return f.judge(by, question)
		},
		Keep:  func(_ context.Context, v *decisionpb.Verdict) error { f.kept = append(f.kept, v); return nil },
		NewID: func(string) string { return "trc" },
	})}
	return f
}

const secret = "mail me@corp.com"

const clean = "mail [REDACTED:email]"

func send(agent string) *conversationpb.Command {
	return &conversationpb.Command{
		Caller: &conversationpb.Caller{TenantId: "t", ProjectId: "p", UserId: "ann"},
		Opening: &conversationpb.Opening{Create: &conversationpb.Create{
			Title: secret, FirstMessage: secret, Metadata: []byte(`{"a":"me@corp.com"}`),
		}},
		Body: &conversationpb.Command_Send{Send: &conversationpb.Send{
			Agent: &agentpb.Agent{Id: agent}, Content: secret, Metadata: []byte(`{"a":"me@corp.com"}`),
			Earlier: []*conversationpb.Message{{Content: secret, ToolCalls: []*conversationpb.ToolCall{{Arguments: `{"a":"me@corp.com"}`, Result: secret, Error: secret}}}},
			Given:   []*conversationpb.ToolUse{{Text: secret, Calls: []*conversationpb.ToolCall{{Arguments: `{"a":"me@corp.com"}`, Result: secret}}}},
			Options: &conversationpb.TurnOptions{Instructions: secret},
		}},
	}
}

// TestNothingSecretPasses: of all that comes with a message, nothing is left that the shield takes out.
func TestNothingSecretPasses(t *testing.T) {
	f := open()
	_, err := f.Ask(t.Context(), "conv", send("guarded"))
	require.NoError(t, err)
	passed, err := proto.Marshal(f.behind.asked)
	require.NoError(t, err)
	require.NotContains(t, string(passed), "me@corp.com")
	require.Contains(t, string(passed), clean)
	require.Len(t, f.kept, 1)
	require.Equal(t, []string{"input.pre", "guarded", "redact", "ann"}, []string{f.kept[0].GetStage(), f.kept[0].GetResourceName(), f.kept[0].GetDecision(), f.kept[0].GetActorId()})

	for _, agent := range []string{"free", "none"} {
		_, err = f.Ask(t.Context(), "conv", send(agent))
		require.NoError(t, err)
		require.True(t, proto.Equal(send(agent), f.behind.asked), "without a shield nothing is touched")
	}
	f.shield.Mode = aegis.Simulate
	_, err = f.Ask(t.Context(), "conv", send("guarded"))
	require.NoError(t, err)
	require.True(t, proto.Equal(send("guarded"), f.behind.asked))
	require.Len(t, f.kept, 2, "it only records")
	f.shield.Mode = aegis.Disabled
	_, err = f.Ask(t.Context(), "conv", send("guarded"))
	require.NoError(t, err)
	require.Len(t, f.kept, 2)
}

// TestDoorAsksTheJudge: what people say is judged at the door, whether it comes for the first time or again; the sender's tokens and project
// pay. What is blocked begins nothing.
func TestDoorAsksTheJudge(t *testing.T) {
	f := open()
	f.shield.Llm = []byte(`{"modelKey":"wise","judge":{"enabled":true,"stages":["input.pre"]}}`)
	var payers []guard.Payer
	answer := `{"risk":0.2}`
	f.judge = func(by *guard.Payer, question *aegis.Question) (string, error) {
		payers = append(payers, *by)
		require.Contains(t, question.Text, "[REDACTED:email]")
		require.NotContains(t, question.Text, "me@corp.com")
		return answer, nil
	}
	command := send("guarded")
	command.Caller.TokenId = "tok"
	_, err := f.Ask(t.Context(), "conv", command)
	require.NoError(t, err)
	require.Equal(t, []guard.Payer{{TenantID: "t", ProjectID: "p", UserID: "ann", TokenID: "tok"}}, payers)
	require.Equal(t, "the judge sees a risk of 0.2", f.kept[0].GetReasons()[len(f.kept[0].GetReasons())-1], "the trail says that it spoke")

	f.behind.asked, answer = nil, `{"risk":0.9,"reason":"it is a trap"}`
	again := send("guarded").Again()
	_, err = f.Ask(t.Context(), "conv", again)
	var wrong *machine.Failure
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "Blocked by Aegis shield: the judge sees a risk of 0.9, and blocks from 0.7 on", wrong.DefaultText())
	require.Nil(t, f.behind.asked)
	require.Len(t, f.kept, 1, "what is repeated is not kept again")
	require.Len(t, payers, 2)
}

func TestDoorIsClosed(t *testing.T) {
	f := open()
	refused := func(command proto.Message, text string) {
		t.Helper()
		f.behind.asked = nil
		_, err := f.Ask(t.Context(), "conv", command)
		var wrong *machine.Failure
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, []any{failurepb.Code_FORBIDDEN, text}, []any{wrong.Code, wrong.DefaultText()})
		require.Nil(t, f.behind.asked, "nothing begins")
	}
	refused(send("lost"), `The agent's shield "gone" does not exist`)
	f.shield.Rules = []byte(`{"limits":{"perActorPerMinute":1}}`)
	_, err := f.Ask(t.Context(), "conv", send("guarded"))
	require.NoError(t, err)
	refused(send("guarded"), "Blocked by Aegis shield: the actor's limit of calls in a minute is reached")
	again := send("guarded")
	again.Repeated = true
	_, err = f.Ask(t.Context(), "conv", again)
	require.NoError(t, err, "what came before is not counted again")
	require.Len(t, f.kept, 2)
	f.shield.Rules = []byte(`{"limits":{"maxResultBytes":10}}`)
	refused(send("guarded"), "Blocked by Aegis shield: content has more than 10 bytes")
}

// TestDoorKnowsConversations: a message that does not name its agent is looked after, and its conversation is read once.
func TestDoorKnowsConversations(t *testing.T) {
	f := open()
	f.behind.state = &conversationpb.State{AgentId: "guarded"}
	for range 2 {
		command := send("")
		command.Opening = nil
		_, err := f.Ask(t.Context(), "conv", command)
		require.NoError(t, err)
		require.Equal(t, clean, command.GetSend().GetContent())
		f.behind.state = nil
	}
}

// TestDoorOfEveryWayIn: edits, answers, results of callers, background runs and tasks pass the same door.
func TestDoorOfEveryWayIn(t *testing.T) {
	f := open()
	f.behind.state = &conversationpb.State{AgentId: "guarded", Pending: []*conversationpb.PendingAction{{Id: "act", ToolName: "camera", ToolCallId: "call"}}}
	caller := &conversationpb.Caller{TenantId: "t", ProjectId: "p"}
	agent := &agentpb.Agent{Id: "guarded"}
	json := []byte(`{"a":"me@corp.com"}`)
	resolve := func(r *conversationpb.Resolve) *conversationpb.Command {
		r.ActionId = "act"
		return &conversationpb.Command{Caller: caller, Body: &conversationpb.Command_Resolve{Resolve: r}}
	}
	for name, command := range map[string]proto.Message{
		"create":   &conversationpb.Command{Caller: caller, Body: &conversationpb.Command_Create{Create: &conversationpb.Create{Agent: agent, Title: secret}}},
		"edit":     &conversationpb.Command{Caller: caller, Body: &conversationpb.Command_Edit{Edit: &conversationpb.Edit{Agent: agent, Content: secret}}},
		"answers":  resolve(&conversationpb.Resolve{Resolution: &conversationpb.Resolve_Answers{Answers: &conversationpb.UserAnswers{Answers: json}}}),
		"client":   resolve(&conversationpb.Resolve{Resolution: &conversationpb.Resolve_Client{Client: &conversationpb.ClientResult{Output: json, Error: secret}}}),
		"approval": resolve(&conversationpb.Resolve{Resolution: &conversationpb.Resolve_Approval{Approval: &conversationpb.ToolApproval{ApprovedArgs: json, Comment: secret}}}),
		"answer":   &conversationpb.Command{Caller: caller, Body: &conversationpb.Command_Answer{Answer: &conversationpb.Answer{Outputs: []*conversationpb.ToolCall{{Id: "call", Result: secret}}}}},
		"run": &runpb.Command{Caller: caller, Body: &runpb.Command_Create{Create: &runpb.Create{
			AgentId: "guarded", Order: &runpb.Order{Content: secret, Metadata: json}, Opening: &conversationpb.Opening{Create: &conversationpb.Create{FirstMessage: secret}},
		}}},
		"task":    &taskpb.Command{Caller: caller, Body: &taskpb.Command_Create{Create: &taskpb.Create{AgentId: "guarded", Input: secret, Metadata: json}}},
		"comment": &taskpb.Command{Caller: caller, Body: &taskpb.Command_AddComment{AddComment: &taskpb.AddComment{Content: secret, Metadata: json}}},
	} {
		_, err := f.Ask(t.Context(), "conv", command)
		require.NoError(t, err, name)
		passed, err := proto.Marshal(f.behind.asked)
		require.NoError(t, err)
		require.NotContains(t, string(passed), "me@corp.com", name)
		require.Contains(t, string(passed), "[REDACTED:email]", name)
	}
	for _, v := range f.kept {
		if v.GetStage() == aegis.ToolPost {
			require.Equal(t, "camera", v.GetResourceName())
		}
	}
}

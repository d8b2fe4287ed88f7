package guard_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/aegis"
	"parley/actors/core/failure"
	"parley/actors/core/guardrail"
	"parley/actors/guard"
	"parley/actors/machine"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/decisionpb"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
	"parley/proto/runpb"
	"parley/proto/taskpb"
)

// railedAgents have guardrails: their own, their model's, both, and one that is not there.
type railedAgents struct{}

func (railedAgents) Agent(_, id string, _ int64) (*agentpb.Agent, bool) {
	agent := &agentpb.Agent{Id: id, Model: &agentpb.Model{}}
	switch id {
	case "railed", "guarded":
		agent.InputGuardrail = "words"
	case "modelled":
		agent.Model.InputGuardrail = "words"
	case "both":
		agent.InputGuardrail, agent.Model.InputGuardrail, agent.Shield = "mails", "words", "default"
	case "lost":
		agent.InputGuardrail = "gone"
	case "off":
		agent.InputGuardrail = "off"
	}
	return agent, true
}

// rails is a project with guardrails: words blocks "project falcon" and takes mail addresses out, mails takes them out.
func rails(t *testing.T) *fixture {
	t.Helper()
	f := open()
	records := map[string]*directorypb.Guardrail{
		"words": {Key: "words", Name: "W", Enabled: true, Action: guardrail.Redact, Rules: []byte(`{"pii":{},"wordFilter":{"words":["project falcon"],"action":"block"}}`)},
		"mails": {Key: "mails", Name: "M", Enabled: true, Action: guardrail.Redact, Message: "Not here.", Rules: []byte(`{"pii":{},"wordFilter":{"words":["secret plan"],"action":"block"}}`)},
		"off":   {Key: "off", Name: "O", Action: guardrail.Block, Rules: []byte(`{"pii":{}}`)},
	}
	f.Agents = railedAgents{}
	f.Guard = guard.New(guard.Parts{
		Ready:  func() error { return nil },
		Shield: func(context.Context, string, string, string) (*directorypb.Shield, error) { return f.shield, nil },
		Guardrail: func(_ context.Context, _, key string) (*guardrail.Guardrail, error) {
			record, found := records[key]
			if !found {
				return nil, failure.New(failurepb.Code_NOT_FOUND, failure.GuardrailNotFound)
			}
			rail, wrong := guardrail.Of(record)
			require.Nil(t, wrong)
			return rail, nil
		},
		Roles: func(context.Context, string, string) []string { return nil },
		Fits:  func(context.Context, []byte, []byte) error { return nil },
		Take:  func(context.Context, string, int) (bool, error) { f.taken++; return true, nil },
		Keep:  func(_ context.Context, v *decisionpb.Verdict) error { f.kept = append(f.kept, v); return nil },
		NewID: func(string) string { return "trc" },
	})
	return f
}

func (f *fixture) refused(t *testing.T, command proto.Message) *machine.Failure {
	t.Helper()
	f.behind.asked = nil
	_, err := f.Ask(t.Context(), "conv", command)
	var wrong *machine.Failure
	require.ErrorAs(t, err, &wrong)
	require.Nil(t, f.behind.asked, "nothing begins")
	return wrong
}

// told is what guardrails were kept to have found since it was last asked.
func (f *fixture) told() (all []string) {
	for _, v := range f.kept {
		if rail := v.GetRail(); rail != nil {
			said := strings.Join([]string{v.GetStage(), rail.GetSource(), rail.GetConversationId(), v.GetResourceName(), rail.GetUserId(), v.GetDecision(), rail.GetKey() + ":"}, " ")
			for _, found := range rail.GetFound() {
				said += fmt.Sprintf(" %d %s", found.GetCount(), found.GetCategory())
			}
			all = append(all, said)
		}
	}
	f.kept = nil
	return all
}

// TestGuardrailsLeaveVerdicts: one for each guardrail and command, of what was said as it came, and none where nothing is found or when it
// comes again.
func TestGuardrailsLeaveVerdicts(t *testing.T) {
	f := rails(t)
	says := func(agent, text string, repeated bool) []string {
		_, err := f.Ask(t.Context(), "conv", &conversationpb.Command{
			Caller: &conversationpb.Caller{TenantId: "t", ProjectId: "p", UserId: "ann"}, Repeated: repeated,
			Body: &conversationpb.Command_Send{Send: &conversationpb.Send{
				Agent: &agentpb.Agent{Id: agent}, Content: text, Metadata: []byte(`{"a":"bob@example.com"}`), Earlier: []*conversationpb.Message{
					{Role: conversationpb.Role_USER, Content: "harmless"}, {Role: conversationpb.Role_ASSISTANT, Content: "project falcon"},
				},
			}},
		})
		if err != nil {
			require.ErrorContains(t, err, "ardrail")
		}
		return f.told()
	}
	require.Equal(t, []string{"input agent conv railed ann redact words: 3 email"}, says("railed", "me@corp.com, us@corp.com", false))
	require.Empty(t, says("railed", "me@corp.com", true), "it was kept then")
	require.Equal(t, []string{"input agent conv railed ann block words: 1 word 1 email"}, says("railed", "Project Falcon, me@corp.com", false))
	require.Equal(t, []string{"input agent conv both ann redact mails: 1 email", "input agent conv both ann redact words: 1 email"},
		says("both", "me@corp.com", false), "its shield has taken it out of the metadata")
	require.Empty(t, says("off", "me@corp.com", false))
}

func TestGuardrailsTakeOut(t *testing.T) {
	f := rails(t)
	for _, agent := range []string{"railed", "modelled", "both"} {
		_, err := f.Ask(t.Context(), "conv", send(agent))
		require.NoError(t, err)
		passed, err := proto.Marshal(f.behind.asked)
		require.NoError(t, err)
		require.NotContains(t, string(passed), "me@corp.com", agent)
		require.Contains(t, string(passed), clean)
	}
	for _, agent := range []string{"free", "off"} {
		_, err := f.Ask(t.Context(), "conv", send(agent))
		require.NoError(t, err)
		require.True(t, proto.Equal(send(agent), f.behind.asked), "nothing is touched")
	}
}

func TestGuardrailsBlock(t *testing.T) {
	f := rails(t)
	says := func(agent, text string) *conversationpb.Command {
		command := send(agent)
		command.GetSend().Content = text
		return command
	}
	wrong := f.refused(t, says("railed", "About Project Falcon"))
	require.Equal(t, []any{failurepb.Code_GUARDRAIL_BLOCKED, "Blocked by guardrail: The text holds a word that is filtered"}, []any{wrong.Code, wrong.DefaultText()})
	require.Equal(t, []any{"words", "block"}, []any{wrong.Details["guardrail_key"], wrong.Details["action"]})
	require.Len(t, wrong.Details["findings"], 1)
	require.Equal(t, "Not here.", f.refused(t, says("both", "The secret plan")).DefaultText(), "in the guardrail's words")
	require.Equal(t, "words", f.refused(t, says("both", "Project falcon")).Details["guardrail_key"], "the model's, too")
	require.Zero(t, f.taken, "the shield is not asked about what goes no further")
	wrong = f.refused(t, send("lost"))
	require.Equal(t, []any{failurepb.Code_GUARDRAIL_MISSING, "The agent's guardrail `gone` does not exist"}, []any{wrong.Code, wrong.DefaultText()})
}

// TestGuardrailsAtEveryWayIn: whatever people and programs say to an agent can be blocked; what the model has said is only cleaned.
func TestGuardrailsAtEveryWayIn(t *testing.T) {
	const bad = "Project Falcon"
	f := rails(t)
	f.behind.state = &conversationpb.State{AgentId: "railed", Pending: []*conversationpb.PendingAction{{Id: "act", ToolName: "camera", ToolCallId: "call"}}}
	caller := &conversationpb.Caller{TenantId: "t", ProjectId: "p"}
	agent := &agentpb.Agent{Id: "railed"}
	json := []byte(`{"a":"Project\u0020Falcon"}`)
	of := func(c *conversationpb.Command) *conversationpb.Command { c.Caller = caller; return c }
	resolve := func(r *conversationpb.Resolve) *conversationpb.Command {
		r.ActionId = "act"
		return of(&conversationpb.Command{Body: &conversationpb.Command_Resolve{Resolve: r}})
	}
	sends := func(s *conversationpb.Send) *conversationpb.Command {
		s.Agent = agent
		return of(&conversationpb.Command{Body: &conversationpb.Command_Send{Send: s}})
	}
	user, model := conversationpb.Role_USER, conversationpb.Role_ASSISTANT
	for name, command := range map[string]proto.Message{
		"send":       sends(&conversationpb.Send{Content: bad}),
		"earlier":    sends(&conversationpb.Send{Content: "And?", Earlier: []*conversationpb.Message{{Role: user, Content: bad}}}),
		"results":    sends(&conversationpb.Send{Content: "And?", Earlier: []*conversationpb.Message{{Role: model, ToolCalls: []*conversationpb.ToolCall{{Result: string(json)}}}}}),
		"given":      sends(&conversationpb.Send{Content: "And?", Given: []*conversationpb.ToolUse{{Calls: []*conversationpb.ToolCall{{Error: bad}}}}}),
		"edit":       of(&conversationpb.Command{Body: &conversationpb.Command_Edit{Edit: &conversationpb.Edit{Agent: agent, Content: bad}}}),
		"regenerate": of(&conversationpb.Command{Body: &conversationpb.Command_Regenerate{Regenerate: &conversationpb.Regenerate{Agent: agent, UserMessage: &conversationpb.Message{Content: bad}}}}),
		"answers":    resolve(&conversationpb.Resolve{Resolution: &conversationpb.Resolve_Answers{Answers: &conversationpb.UserAnswers{Answers: json}}}),
		"client":     resolve(&conversationpb.Resolve{Resolution: &conversationpb.Resolve_Client{Client: &conversationpb.ClientResult{Output: json}}}),
		"problem":    resolve(&conversationpb.Resolve{Resolution: &conversationpb.Resolve_Client{Client: &conversationpb.ClientResult{Error: bad}}}),
		"arguments":  resolve(&conversationpb.Resolve{Resolution: &conversationpb.Resolve_Approval{Approval: &conversationpb.ToolApproval{ApprovedArgs: json}}}),
		"comment on": resolve(&conversationpb.Resolve{Resolution: &conversationpb.Resolve_Approval{Approval: &conversationpb.ToolApproval{Comment: bad}}}),
		"answer":     of(&conversationpb.Command{Body: &conversationpb.Command_Answer{Answer: &conversationpb.Answer{Outputs: []*conversationpb.ToolCall{{Id: "call", Result: bad}}}}}),
		"run":        &runpb.Command{Caller: caller, Body: &runpb.Command_Create{Create: &runpb.Create{AgentId: "railed", Order: &runpb.Order{Content: bad}}}},
		"task":       &taskpb.Command{Caller: caller, Body: &taskpb.Command_Create{Create: &taskpb.Create{AgentId: "railed", Input: bad}}},
		"comment":    &taskpb.Command{Caller: caller, Body: &taskpb.Command_AddComment{AddComment: &taskpb.AddComment{Content: bad}}},
	} {
		require.Equal(t, failurepb.Code_GUARDRAIL_BLOCKED, f.refused(t, command).Code, name)
	}
	_, err := f.Ask(t.Context(), "conv", sends(&conversationpb.Send{
		Content: "And?", Earlier: []*conversationpb.Message{{Role: model, Content: bad}}, Options: &conversationpb.TurnOptions{Instructions: "Never speak of project falcon"},
		Given: []*conversationpb.ToolUse{{Text: bad}},
	}))
	require.NoError(t, err, "it holds words about what must not be")
	_, err = f.Ask(t.Context(), "conv", of(&conversationpb.Command{Body: &conversationpb.Command_Cancel{Cancel: &conversationpb.Cancel{}}}))
	require.NoError(t, err)
}

// TestGuardrailAndShield: both see what was said as it came, and each takes out what it does.
func TestGuardrailAndShield(t *testing.T) {
	f := rails(t)
	f.shield.Rules = []byte(`{"limits":{"maxResultBytes":30}}`)
	command := send("both")
	command.GetSend().Content = "mail me@corp.com" + strings.Repeat(" please", 5)
	require.Equal(t, failure.ShieldBlocked, f.refused(t, command).Reason)
	f.shield.Mode = aegis.Disabled
	said := send("both")
	_, err := f.Ask(t.Context(), "conv", said)
	require.NoError(t, err)
	require.Equal(t, clean, said.GetSend().GetContent(), "a disabled shield takes no guardrail with it")
}

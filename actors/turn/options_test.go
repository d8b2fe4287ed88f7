package turn

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

func lookTool() *agentpb.Tool {
	return &agentpb.Tool{Name: "look", Client: true, Schema: []byte(`{"type":"object","required":["at"],"properties":{"at":{"type":"string"}}}`)}
}

// given begins a turn with options and a round of tool calls, as the rules journal them.
func (b *bench) given(options *conversationpb.TurnOptions) {
	b.book.add(&conversationpb.Step{Body: &conversationpb.Step_Options{Options: options}})
	b.book.add(&conversationpb.Step{Body: &conversationpb.Step_Use{Use: &conversationpb.ToolUse{
		Text: "Let me see.", Given: true, Calls: []*conversationpb.ToolCall{{Id: "g1", Name: "look", Arguments: `{"at":"x"}`}},
	}}})
	b.book.add(&conversationpb.Step{Body: &conversationpb.Step_Results{Results: &conversationpb.ToolResults{
		Results: []*conversationpb.ToolCall{{Id: "g1", Name: "look", Result: "nothing"}},
	}}})
	b.book.calls = []*conversationpb.OpenCall{{Id: "g1", Name: "look", Need: conversationpb.Need_CLIENT, Done: true}}
	b.book.resumed = 3
}

// What a caller sets stands over the agent's own, and a round that came along is read, not said again.
func TestTurnOptions(t *testing.T) {
	b := newBench(t, says("never"), says("Nothing there."))
	b.agent.Instructions, b.agent.MaxTurns, b.agent.Model.MaxOutputTokens = "I know.", 1, 50
	hot, single := 1.5, false
	b.given(&conversationpb.TurnOptions{
		Instructions: "Be brief.", Temperature: &hot, MaxOutputTokens: 90, ParallelToolCalls: &single, ReasoningEffort: "low",
		Tools: []*agentpb.Tool{lookTool()}, ToolChoice: &conversationpb.ToolChoice{Mode: "required"},
		Format: &conversationpb.OutputFormat{Type: "json_object"},
	})
	finish := b.whole(t)
	require.Equal(t, "Let me see.\n\nNothing there.", finish.GetContent())
	require.Equal(t, "\n\nNothing there.", b.page.text.String(), "what was given is not said again")
	require.Equal(t, conversationpb.StopReason_END_TURN, finish.GetStopReason(), "a round that came along is none of the turn's")
	require.Equal(t, []string{`g1 look {"at":"x"} = nothing`}, callsOf(finish.GetToolCalls()))
	asked := b.talks.last()
	require.Equal(t, "I know.\n\nBe brief.", asked.Agent.GetInstructions())
	require.InDelta(t, hot, asked.Agent.GetModel().GetTemperature(), 0)
	require.EqualValues(t, 50, asked.Agent.GetModel().GetMaxOutputTokens(), "no more than the agent allows")
	require.Equal(t, &model.Settings{
		Format: &model.Format{Type: "json_object"}, Choice: &model.Choice{Mode: "required"}, Parallel: &single, Effort: "low",
	}, &asked.Settings)
	var names []string
	for _, tool := range asked.Tools {
		names = append(names, tool.Name)
	}
	require.Equal(t, []string{"ask_user", "camera", "look", "pay", "read", "write"}, names)
	require.Equal(t, "I know.", b.agent.GetInstructions(), "the agent itself is as it was")
}

// A call of the caller's tool pauses the turn; what must be called must be so once only.
func TestCallersToolPausesTheTurn(t *testing.T) {
	b := newBench(t, asks("Hm.", `c1 write {}`), asks("", `c2 look {"at":"y"}`, `c3 look {}`))
	b.book.add(&conversationpb.Step{Body: &conversationpb.Step_Options{Options: &conversationpb.TurnOptions{
		Tools: []*agentpb.Tool{lookTool()}, ToolChoice: &conversationpb.ToolChoice{Mode: "function", Name: "look"},
	}}})
	b.book.resumed = 1
	stored := b.untilPause(t)
	require.Equal(t, []conversationpb.Need{conversationpb.Need_CLIENT, conversationpb.Need_RUN}, needs(b.book.calls), "its schema is kept to")
	require.True(t, b.book.calls[0].GetOfCaller())
	require.Equal(t, "Hm.", stored.GetContent())
	require.Equal(t, &model.Choice{Mode: "function", Name: "look"}, b.talks.requests[0].Settings.Choice)
	require.Nil(t, b.talks.requests[1].Settings.Choice)
}

func TestCallersToolOfATakenName(t *testing.T) {
	b := newBench(t, says("never"))
	b.book.add(&conversationpb.Step{Body: &conversationpb.Step_Options{Options: &conversationpb.TurnOptions{
		Tools: []*agentpb.Tool{{Name: "camera", Client: true}},
	}}})
	finish := b.whole(t)
	require.Equal(t, conversationpb.StopReason_ERROR, finish.GetStopReason())
	require.Equal(t, model.CodeInvalidRequest, finish.GetError().GetCode())
	require.Empty(t, b.talks.requests)
}

func TestTitleBesideOptions(t *testing.T) {
	b := newBench(t, says("ok"))
	b.agent.Experience = &agentpb.Experience{Titles: true}
	b.agent.TitleModel = &agentpb.Model{Provider: agentpb.Provider_ANTHROPIC, Price: testPrice}
	b.renew(t, func(c *Config) {
		c.Providers[agentpb.Provider_ANTHROPIC] = &script{generate: func(_ context.Context, request *model.Request, stream model.Stream) (*model.Answer, error) {
			text := "Camera " + strings.TrimPrefix(request.Agent.GetInstructions(), titlePrompt)
			stream.Text(text)
			return &model.Answer{Text: text, Usage: callUsage}, nil
		}}
	})
	b.book.add(&conversationpb.Step{Body: &conversationpb.Step_Options{Options: &conversationpb.TurnOptions{Instructions: "Be rude."}}})
	b.book.resumed, b.untitled = 1, true
	title := b.whole(t).GetTitle()
	if title == "" {
		title = (<-b.titles).GetTitle()
	}
	require.Equal(t, "Camera", title, "nothing of what the caller sets is in it")
}

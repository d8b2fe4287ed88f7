package model

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/proto/agentpb"
)

// TestScriptedMeterIsExact: at every word the meter says what the usage would be if the call were cut there.
func TestScriptedMeterIsExact(t *testing.T) {
	scripted := New(Config{})[agentpb.Provider_SCRIPTED]
	rapid.Check(t, func(t *rapid.T) {
		script := &agentpb.Script{Tokens: rapid.Int32Range(1, 60).Draw(t, "words")}
		if rapid.Bool().Draw(t, "own usage") {
			script.Usage = &agentpb.Script_Usage{
				InputTokens: rapid.Int64Range(0, 1000).Draw(t, "input"), OutputTokens: rapid.Int64Range(0, 1000).Draw(t, "output"),
			}
		}
		request := &Request{
			Agent: &agentpb.Agent{
				Instructions: strings.Repeat("be kind ", rapid.IntRange(0, 5).Draw(t, "instructions")),
				Model:        &agentpb.Model{Script: script},
			},
			Messages:        []Message{{Role: User, Content: "how are you"}},
			MaxOutputTokens: rapid.IntRange(0, 80).Draw(t, "cap"),
		}
		meter := NewMeter(scripted, request)
		answer, err := scripted.Generate(t.Context(), request, meterStream{meter})
		require.NoError(t, err)
		require.Equal(t, answer.Usage.InputTokens, meter.Input())
		require.Equal(t, answer.Usage.OutputTokens, meter.Output())
		if request.MaxOutputTokens > 0 && (script.Usage == nil || script.GetUsage().GetOutputTokens() <= int64(script.GetTokens())) {
			require.LessOrEqual(t, answer.Usage.OutputTokens, int64(request.MaxOutputTokens))
		}
	})
}

type meterStream struct{ Meter }

func (meterStream) ToolCall(ToolCall) {}

func TestEstimateDoesNotDependOnPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		whole, parts := &estimate{}, &estimate{}
		whole.Text(text)
		for _, r := range text {
			parts.Unsaid(string(r))
		}
		require.Equal(t, whole.Output(), parts.Output())
		require.EqualValues(t, EstimateTokens(text), whole.Output())
	})
}

func TestEstimateOfThePrompt(t *testing.T) {
	request := &Request{
		Agent: &agentpb.Agent{Instructions: strings.Repeat("i", 350)}, Messages: []Message{{Role: User, Content: strings.Repeat("m", 700)}},
		Tools: []Tool{weatherTool()},
	}
	openai := New(Config{})[agentpb.Provider_OPENAI]
	require.InDelta(t, 100+200+50, NewMeter(openai, request).Input(), 40)
}

package config

import (
	"regexp"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"parley/actors/turn/model"
	"parley/proto/agentpb"
)

type unheard struct{}

func (unheard) Text(string)             {}
func (unheard) ToolCall(model.ToolCall) {}

// The built-in assistant answers each of its own suggestions, and the configurations that it offers for real models are valid.
func TestAssistantAnswersItsSuggestions(t *testing.T) {
	yaml := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	var providers []string
	for _, starter := range assistant().Starters {
		synctest.Test(t, func(t *testing.T) {
			records, err := Default().AgentRecords()
			require.NoError(t, err)
			scripted := model.New(model.Config{})
			defer scripted.Close()
			request := &model.Request{Agent: records[0], Messages: []model.Message{{Role: model.User, Content: starter}}}
			answer, err := scripted[agentpb.Provider_SCRIPTED].Generate(t.Context(), request, unheard{})
			require.NoError(t, err)
			require.NotContains(t, answer.Text, "You wrote", starter)
			for _, file := range yaml.FindAllStringSubmatch(answer.Text, -1) {
				offered, err := load(t, file[1], []string{"OPENAI_API_KEY=k", "ANTHROPIC_API_KEY=k"})
				require.NoError(t, err)
				agents, err := offered.Config.AgentRecords()
				require.NoError(t, err)
				require.Len(t, agents, 2)
				used := agents[1].GetModel()
				providers = append(providers, used.GetProvider().String()+" "+used.GetBaseUrl())
			}
		})
	}
	require.Equal(t, []string{"OPENAI ", "ANTHROPIC ", "OPENAI http://127.0.0.1:11434/v1"}, providers)
}

package actors

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"parley/actors/conversation"
	"parley/actors/turn"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// versioned is an agent that notes which version of it was asked for. Its titles are another model's.
type versioned struct{ asked chan int64 }

func (v versioned) Agent(projectID, id string, version int64) (*agentpb.Agent, bool) {
	v.asked <- version
	return &agentpb.Agent{
		Id: id, ProjectId: projectID, Experience: &agentpb.Experience{Titles: true},
		Model:      &agentpb.Model{Provider: agentpb.Provider_SCRIPTED, Name: "m-1"},
		TitleModel: &agentpb.Model{Provider: agentpb.Provider_SCRIPTED, Key: "titles", Name: "m-2"},
	}, true
}

// lateTitles answers at once, and makes a title when it is told to.
type lateTitles struct{ now chan struct{} }

func (lateTitles) NeedsHistory() bool { return false }

func (l lateTitles) Generate(_ context.Context, request *model.Request, stream model.Stream) (*model.Answer, error) {
	if request.Agent.GetModel().GetKey() == "titles" {
		<-l.now
	}
	stream.Text("fine")
	return &model.Answer{
		Text: "fine", Stop: model.StopEnd, Usage: model.Usage{InputTokens: 3, OutputTokens: 1, Known: true},
	}, nil
}

// TestTurnsArePutDownToWhoAsked: the version that was asked for runs, and the log says which model was used and for whom,
// also of a title that comes after its turn.
func TestTurnsArePutDownToWhoAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, streams := newJournal(), NewLiveStreams(LiveStreamsConfig{})
		agents, titles := versioned{make(chan int64, 1)}, lateTitles{make(chan struct{})}
		runner, err := turn.New(turn.Config{
			Agents: agents, History: noHistory{}, Publisher: streams,
			Providers: map[agentpb.Provider]model.Provider{agentpb.Provider_SCRIPTED: titles},
		})
		require.NoError(t, err)
		s := newShell(t, j, 1, func(c *Config) {
			c.LiveStreams = streams
			c.Kinds = []Kind{Conversations(conversation.New(conversation.DefaultLimits()), runner, streams, nil)}
		})
		s.create(t)
		answer, err := s.Ask(t.Context(), testShard, testID, &conversationpb.Command{
			ConversationId: testID, AgentVersion: 5,
			Caller: &conversationpb.Caller{TenantId: "t", ProjectId: "p", UserId: "u", TokenId: "tok_1", Identified: true},
			Body: &conversationpb.Command_Send{Send: &conversationpb.Send{
				Agent: &agentpb.Agent{Id: "a"}, Content: "hello", Wait: true,
			}},
		})
		require.NoError(t, err)
		reply, _ := answer.(*conversationpb.Reply)
		require.EqualValues(t, 5, <-agents.asked)
		require.Equal(t, "m-1", reply.GetTurn().GetUsage().GetModel(), "a model without a record goes by its name")

		close(titles.now)
		synctest.Wait()
		log := j.log(t, testID)
		updated := log[len(log)-1].GetUpdated()
		require.Equal(t, "fine", updated.GetPatch().GetTitle())
		require.Equal(t, "titles", updated.GetUsage().GetModel())
		require.Equal(t, "u", updated.GetByUser())
		require.Equal(t, "tok_1", updated.GetByToken())
	})
}

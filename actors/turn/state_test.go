package turn

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// thinks is a round whose provider has said more than the model's text and calls.
func thinks(state string, round func(model.Stream) (*model.Answer, error)) func(model.Stream) (*model.Answer, error) {
	return func(stream model.Stream) (*model.Answer, error) {
		answer, err := round(stream)
		answer.State = []byte(state)
		return answer, err
	}
}

func statesOf(messages []model.Message) (states []string) {
	for _, message := range messages {
		if message.Role == model.Assistant {
			states = append(states, string(message.State))
		}
	}
	return states
}

// TestStateOfTheProviderGoesBack: under the real rules, with a runner that is lost after each step and a pause for a person, each request
// of a turn has what the provider said in its steps before, and nobody else sees it.
func TestStateOfTheProviderGoesBack(t *testing.T) {
	c := newCourt(t, thinks("SECRET 1", asks("One.", `c1 read {}`)), thinks("SECRET 2", asks("Two.", `c2 pay {"n":1}`)), thinks("SECRET 3", says("Three.")))
	stuck, lost := make(chan struct{}), false
	c.after = func(command *conversationpb.Command) error {
		if command.GetProgress().GetUse() != nil && !lost {
			lost = true
			close(stuck)
			return ErrFenced
		}
		return nil
	}
	c.send("s1")
	<-stuck
	c.crashed()
	paused := <-c.ended
	require.Equal(t, []string{"SECRET 1"}, statesOf(c.talks.last().Messages))
	c.crashed()
	c.resolve(paused.GetPending()[0], `{"n":100}`)
	done := <-c.ended
	require.Equal(t, []string{"SECRET 1", "SECRET 2"}, statesOf(c.talks.last().Messages))
	require.Equal(t, "One.\n\nTwo.\n\nThree.", done.GetResponse().GetContent())
	for _, shown := range []interface{ String() string }{paused.GetResponse(), done.GetResponse(), c.state()} {
		require.NotContains(t, shown.String(), "SECRET")
	}
	c.requireTidy() // it ends with its turn
}

// TestTurnOfAReasoningModel: a server that refuses a step after a tool call without the signed thoughts of the step before gets them, from a
// runner that continues the turn of a lost one, too.
func TestTurnOfAReasoningModel(t *testing.T) {
	asked, refused := make(chan struct{}, 10), 0
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		var sent struct {
			Messages []struct{ Content []map[string]any }
		}
		body, _ := io.ReadAll(request.Body)
		if json.Unmarshal(body, &sent) != nil {
			refused++
		}
		block := `{"type":"text","text":"Done."}`
		if len(sent.Messages) < 5 {
			at := len(sent.Messages)
			block = fmt.Sprintf(`{"type":"thinking","thinking":"Hm %[1]d","signature":"s%[1]d"},{"type":"tool_use","id":"c%[1]d","name":"read","input":{}}`, at)
		}
		for i := 1; i < len(sent.Messages); i += 2 {
			if first := sent.Messages[i].Content[0]; first["thinking"] != fmt.Sprint("Hm ", i) || first["signature"] != fmt.Sprint("s", i) {
				refused++
				http.Error(response, `{"type":"error","error":{"type":"invalid_request_error","message":"thoughts are missing"}}`, http.StatusBadRequest)
				return
			}
		}
		asked <- struct{}{}
		_, _ = fmt.Fprintf(response, `{"type":"message","role":"assistant","content":[%s],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`, block)
	}))
	defer server.Close()
	adapters := model.New(model.Config{})
	defer adapters.Close()
	b := newBench(t)
	b.agent.Model = &agentpb.Model{Provider: agentpb.Provider_ANTHROPIC, Name: "thinker", BaseUrl: server.URL, ApiKey: "k"}
	with := func(c *Config) {
		c.Providers = map[agentpb.Provider]model.Provider{agentpb.Provider_ANTHROPIC: adapters[agentpb.Provider_ANTHROPIC]}
	}
	b.book.lose = func(p *conversationpb.Progress) error {
		if p.GetResults() != nil && p.GetStep() == 2 {
			return ErrFenced // its runner is lost
		}
		return nil
	}
	b.renew(t, with)
	b.start(t)
	<-asked
	b.Wait(t.Context(), 3)
	b.book.lost()
	b.page = &page{}
	b.renew(t, with)
	finish := b.whole(t)
	require.Zero(t, refused)
	require.Len(t, asked, 2)
	require.Equal(t, "Done.", finish.GetContent())
	require.Equal(t, []string{`c1 read {} = read done`, `c3 read {} = read done`}, callsOf(finish.GetToolCalls()))
}

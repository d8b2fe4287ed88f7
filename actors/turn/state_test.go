package turn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/turn/model"
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

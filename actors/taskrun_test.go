package actors

import (
	"testing"

	"github.com/stretchr/testify/require"

	"parley/proto/taskpb"
)

func TestAnswersToAnAction(t *testing.T) {
	asked := &taskpb.Waiting{Questions: []*taskpb.Question{
		{ActionId: "a", Text: "Where?"}, {ActionId: "a", Text: "When?"}, {ActionId: "b", Text: "Who?"}, {ActionId: "b", Text: "When?"},
	}}
	for _, one := range []struct{ brought, a, b string }{
		{"", `{"Where?":"text","When?":"text"}`, `{"Who?":"text","When?":"text"}`},
		{`{"Where?":"here","When?":["now"]}`, `{"Where?":"here","When?":["now"]}`, `{"When?":["now"]}`},
		{`{"Who?":"I","else":1}`, `{"else":1}`, `{"Who?":"I","else":1}`},
	} {
		open := &taskpb.Run{Waiting: asked, Prompt: &taskpb.Prompt{Text: "text", Answers: []byte(one.brought)}}
		for action, wanted := range map[string]string{"a": one.a, "b": one.b} {
			answers, err := answersTo(action, open)
			require.NoError(t, err)
			require.JSONEq(t, wanted, string(answers))
		}
	}
}

package conversation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/logpb"
)

// TestAnswersFitTheirQuestions: an answer belongs to a question, and is one that the question takes.
func TestAnswersFitTheirQuestions(t *testing.T) {
	const (
		open = `{"questions":[{"question":"Which?","header":"Kind","options":[{"label":"Red","value":"r"},{"label":"Blue"}]},` +
			`{"question":"Why?","required":false}],"allowFreeText":true}`
		closed = `{"questions":[{"question":"Which?","multiSelect":true,"options":[{"label":"Red","value":"r"},{"label":"Blue"}]}],"allowFreeText":false}`
	)
	cases := map[string]struct {
		asked, answers string
		taken          bool
	}{
		"text":                 {open, `{"Which?":"Red"}`, true},
		"free_text":            {open, `{"Which?":"Green"}`, true},
		"by_header":            {open, `{"Kind":"Red"}`, true},
		"values":               {open, `{"Which?":{"values":["r"],"freeText":"or not","notes":"n"},"Why?":["so"]}`, true},
		"list":                 {open, `{"Which?":["Blue"]}`, true},
		"number":               {open, `{"Which?":7}`, false},
		"list_of_numbers":      {open, `{"Which?":["Red",7]}`, false},
		"other_object":         {open, `{"Which?":"Red","Why?":{"because":"so"}}`, false},
		"optional_number":      {open, `{"Which?":"Red","Why?":7}`, false},
		"only_free_text":       {open, `{"Which?":{"freeText":"Green"}}`, true},
		"nothing":              {open, `{}`, false},
		"null":                 {open, `{"Which?":null}`, false},
		"blank":                {open, `{"Which?":"  "}`, false},
		"empty_values":         {open, `{"Which?":{"values":[]}}`, false},
		"only_the_optional":    {open, `{"Why?":"so"}`, false},
		"not_asked":            {open, `{"Which?":"Red","Who?":"me"}`, false},
		"two_of_one":           {open, `{"Which?":["Red","Blue"]}`, false},
		"an_option":            {closed, `{"Which?":"r"}`, true},
		"two_options":          {closed, `{"Which?":["Red","Blue"]}`, true},
		"no_option":            {closed, `{"Which?":"Green"}`, false},
		"free_where_closed":    {closed, `{"Which?":{"values":["Red"],"freeText":"or not"}}`, false},
		"questions_unknown":    {`{}`, `{"anything":1}`, true},
		"other_form_where_set": {closed, `{"Which?":true}`, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			talk := newTalk(t, conversation.DefaultLimits())
			talk.do(&conversationpb.Command{Body: &conversationpb.Command_Send{Send: &conversationpb.Send{Content: "ask me"}}})
			talk.do(&conversationpb.Command{Body: &conversationpb.Command_Progress{Progress: &conversationpb.Progress{
				RunId: talk.state().GetLease().GetRunId(), Epoch: talk.state().GetLease().GetEpoch(), Step: 1,
				Body: &conversationpb.Progress_Use{Use: &conversationpb.ToolUse{
					Calls: []*conversationpb.ToolCall{{Id: "c1", Name: "ask_user", Arguments: "{}"}},
					Open: []*conversationpb.OpenCall{{
						Id: "c1", Name: "ask_user", Need: conversationpb.Need_QUESTION, Args: []byte(`{}`), Details: []byte(c.asked),
					}},
				}},
			}}})
			_, failure := talk.try(&conversationpb.Command{Body: &conversationpb.Command_Resolve{Resolve: &conversationpb.Resolve{
				ActionId:   talk.state().GetPending()[0].GetId(),
				Resolution: &conversationpb.Resolve_Answers{Answers: &conversationpb.UserAnswers{Answers: []byte(c.answers)}},
			}}})
			if c.taken {
				require.Nil(t, failure)
				return
			}
			require.NotNil(t, failure)
			require.Equal(t, failurepb.Code_VALIDATION, failure.Code)
		})
	}
}

// TestCreationOrderWithinAMillisecond: lists are in order of creation, whatever the ids are.
func TestCreationOrderWithinAMillisecond(t *testing.T) {
	rules := conversation.New(conversation.DefaultLimits())
	last := map[string]int64{}
	for i, id := range []string{"conv_c", "conv_a", "conv_b"} {
		env := machine.Env{Now: time.UnixMicro(1_700_000_000_000_000 + int64(i)), NewID: func(kind string) string { return kind }}
		decision, failure := rules.Decide(nil, &conversationpb.Command{ConversationId: id, Body: &conversationpb.Command_Create{
			Create: &conversationpb.Create{Agent: agent(), Source: conversationpb.SourceSession},
		}}, env)
		require.Nil(t, failure)
		after := rules.Evolve(nil, decision.Events)
		change := &logpb.Append{}
		rules.Project(nil, after, decision.Events, change)
		for _, row := range change.GetListings() {
			if row.GetList()[:len("conv/u")] == "conv/u" {
				continue // by update
			}
			require.Greater(t, row.GetScore(), last[row.GetList()], row.GetList())
			last[row.GetList()] = row.GetScore()
		}
	}
	require.Len(t, last, 5)
	// One of an earlier release stands before them, and leaves the place that it has.
	old := &conversationpb.State{Id: "conv_z", TenantId: "t", AgentId: "a", CreatedAt: 1_700_000_000_001}
	change := &logpb.Append{}
	rules.Project(proto.Clone(old), nil, nil, change)
	require.NotEmpty(t, change.GetListings())
	for _, row := range change.GetListings() {
		require.LessOrEqual(t, row.GetScore(), old.GetCreatedAt())
	}
}

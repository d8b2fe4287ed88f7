package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/actors/turn/tool"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

func open(t *testing.T, config tool.Config, agent *agentpb.Agent) tool.Set {
	t.Helper()
	box, err := tool.New(config)
	require.NoError(t, err)
	t.Cleanup(box.Close)
	set, err := box.Open(t.Context(), agent)
	require.NoError(t, err)
	return set
}

// paying is an agent with one tool that moves money.
func paying(policy *agentpb.ToolPolicy) *agentpb.Agent {
	return &agentpb.Agent{Id: "a", Tools: []*agentpb.Tool{{
		Name: "pay", Http: &agentpb.HTTP{Url: "https://bank.example/pay"}, Policy: policy,
		Schema: []byte(`{"type":"object","properties":{"amount":{"type":"number"},"to":{"type":"string"}},"required":["amount"]}`),
	}}}
}

func find(t *testing.T, set tool.Set, name string) *tool.Tool {
	t.Helper()
	found, ok := set.Find(name)
	require.True(t, ok, name)
	return found
}

func TestArguments(t *testing.T) {
	t.Parallel()
	pay := find(t, open(t, tool.Config{}, paying(nil)), "pay")
	for args, want := range map[string]string{
		`{"amount": 1}`:                      `{"amount":1}`,
		" {\n\"amount\":1e3, \"x\":[]}":      `{"amount":1e3,"x":[]}`,
		`{"amount":1,"to":"\u00fc"}`:         `{"amount":1,"to":"ü"}`,
		`{"to":"a<b","to":"c<d","amount":1}`: `{"amount":1,"to":"c<d"}`,
		`{"amount":12345678901234567890.10}`: `{"amount":12345678901234567890.10}`,
		``:                                   "error: the arguments do not fit the tool's schema",
		`{}`:                                 "error: the arguments do not fit the tool's schema",
		`{"amount":"1"}`:                     "error: the arguments do not fit the tool's schema",
		`[1]`:                                "error: the arguments are not a JSON object",
		`null`:                               "error: the arguments are not a JSON object",
		`"x"`:                                "error: the arguments are not a JSON object",
		`{"amount":1} {}`:                    "error: the arguments are not valid JSON",
		`{"amount":`:                         "error: the arguments are not valid JSON",
		`{"amount":1,"to":"` + strings.Repeat("x", 70_000) + `"}`: "error: the arguments are longer than 65536 bytes",
	} {
		judged, err := pay.Judge(t.Context(), args)
		if message, failed := strings.CutPrefix(want, "error: "); failed {
			require.ErrorContains(t, err, message, args)
			require.Less(t, len(err.Error()), 3000)
			continue
		}
		require.NoError(t, err, args)
		require.Equal(t, want, string(judged.Args))
		require.Equal(t, conversationpb.Need_RUN, judged.Need)
	}
}

func TestApproval(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		policy *agentpb.ToolPolicy
		args   string
		asks   bool
	}{
		{&agentpb.ToolPolicy{}, `{"amount":1}`, false},
		{&agentpb.ToolPolicy{Approval: "never"}, `{"amount":1}`, false},
		{&agentpb.ToolPolicy{Approval: "always"}, `{"amount":1}`, true},
		{when(`args.amount > 100`), `{"amount":100}`, false},
		{when(`args.amount > 100`), `{"amount":100.01}`, true},
		{when(`args.amount == 9007199254740993`), `{"amount":9007199254740992}`, false},
		{when(`args.amount == 9007199254740993`), `{"amount":9007199254740993}`, true},
		{when(`args.amount > 9007199254740993`), `{"amount":12345678901234567890}`, true},
		{when(`args.to != "me"`), `{"amount":1,"to":"me"}`, false},
		{when(`args.to != "me"`), `{"amount":1}`, true},
		// What cannot be judged is asked: a missing value, a value of another type, an answer that is none.
		{when(`args.limit > 100`), `{"amount":1}`, true},
		{when(`args.to > 100`), `{"amount":1,"to":"x"}`, true},
		{when(`args.amount`), `{"amount":1}`, true},
		{when(`len(args.to) > 3 and args.amount < 5`), `{"amount":1,"to":"abcd"}`, true},
		{when(`args.deep.er == 1`), `{"amount":1}`, true},
		{when(`args["to"] in ["a", "b"]`), `{"amount":1,"to":"c"}`, false},
	} {
		judged, err := find(t, open(t, tool.Config{}, paying(row.policy)), "pay").Judge(t.Context(), row.args)
		require.NoError(t, err)
		require.Equal(t, row.asks, judged.Need == conversationpb.Need_APPROVAL, "%v %s", row.policy, row.args)
	}
}

// An expression that takes too long, or too much memory, asks a person, and stops; so does one whose turn is cancelled.
func TestApprovalIsBounded(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	set := open(t, tool.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, paying(when(
		`let r = 1..1000; args.amount > 1 and all(r, all(r, all(r, all(r, # >= 0))))`)))
	pay := find(t, set, "pay")
	judged, err := pay.Judge(t.Context(), `{"amount":1}`)
	require.NoError(t, err)
	require.Equal(t, conversationpb.Need_RUN, judged.Need)
	began := time.Now()
	judged, err = pay.Judge(t.Context(), `{"amount":2}`)
	require.NoError(t, err)
	require.Less(t, time.Since(began), 30*time.Second) // 100 ms, and what else the machine has to do
	require.Equal(t, conversationpb.Need_APPROVAL, judged.Need)
	require.Contains(t, log.String(), "too expensive")

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	judged, err = pay.Judge(cancelled, `{"amount":1}`)
	require.NoError(t, err)
	require.Equal(t, conversationpb.Need_APPROVAL, judged.Need)
}

// An expression that the server does not take is refused where agents are checked. An agent that has one all the same, from
// before, goes on: the tool asks always.
func TestApprovalThatCannotBeCompiled(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{`args.`, `args.to matches args.pattern`, `timezone(args.to) == nil`, strings.Repeat("(", 9000)} {
		require.ErrorContains(t, tool.Check(paying(when(expression))), "expression of approval", expression)
		judged, err := find(t, open(t, tool.Config{}, paying(when(expression))), "pay").Judge(t.Context(), `{"amount":1}`)
		require.NoError(t, err)
		require.Equal(t, conversationpb.Need_APPROVAL, judged.Need)
	}
}

func when(expression string) *agentpb.ToolPolicy {
	return &agentpb.ToolPolicy{Approval: "when", When: expression}
}

func TestApprovalDetails(t *testing.T) {
	t.Parallel()
	policy := &agentpb.ToolPolicy{Approval: "always", ApprovalPrompt: `Pay "now"?`, ActionTimeoutMs: 5000}
	judged, err := find(t, open(t, tool.Config{}, paying(policy)), "pay").Judge(t.Context(), `{"amount":1}`)
	require.NoError(t, err)
	require.JSONEq(t, `{"prompt":"Pay \"now\"?"}`, string(judged.Details))
	require.Equal(t, 5*time.Second, judged.ActionTimeout)
}

func TestAskUser(t *testing.T) {
	t.Parallel()
	agent := &agentpb.Agent{Id: "a", AskUser: &agentpb.AskUser{ActionTimeoutMs: 60_000}}
	ask := find(t, open(t, tool.Config{}, agent), tool.AskUser)
	require.Equal(t, tool.Ask, ask.Kind)
	judged, err := ask.Judge(t.Context(), `{"questions":[{"question":"Where to?","options":[{"label":"Home"},{"label":"Work","value":"w"}]},
		{"question":"When?","required":false,"header":"Time","multiSelect":true,"placeholder":"now"}]}`)
	require.NoError(t, err)
	require.Equal(t, conversationpb.Need_QUESTION, judged.Need)
	require.Equal(t, time.Minute, judged.ActionTimeout)
	require.JSONEq(t, `{"questions":[
		{"question":"Where to?","multiSelect":false,"required":true,"options":[{"label":"Home","value":"Home"},{"label":"Work","value":"w"}]},
		{"question":"When?","header":"Time","multiSelect":true,"placeholder":"now","required":false}],
		"allowFreeText":true}`, string(judged.Details))

	judged, err = ask.Judge(t.Context(), `{"questions":[{"question":"A?"}],"allowFreeText":false}`)
	require.NoError(t, err)
	require.Contains(t, string(judged.Details), `"allowFreeText":false`)
	for _, wrong := range []string{
		`{}`, `{"questions":[]}`, `{"questions":[{}]}`, `{"questions":[{"question":""}]}`,
		`{"questions":[{"question":"A?"},{"question":"A?"}]}`, `{"questions":[{"question":"A?","options":[{}]}]}`,
	} {
		_, err = ask.Judge(t.Context(), wrong)
		require.Error(t, err, wrong)
	}
	_, err = ask.Run(t.Context(), tool.Call{})
	require.Error(t, err)
}

func TestClientTool(t *testing.T) {
	t.Parallel()
	agent := &agentpb.Agent{Id: "a", Tools: []*agentpb.Tool{{Name: "camera", Client: true}}}
	camera := find(t, open(t, tool.Config{}, agent), "camera")
	require.Equal(t, tool.Client, camera.Kind)
	judged, err := camera.Judge(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, tool.Judgement{Args: []byte("{}"), Need: conversationpb.Need_CLIENT}, judged)
}

// Whatever a model writes, a judgement is an error or a JSON object.
func TestJudgeProperty(t *testing.T) {
	t.Parallel()
	set := open(t, tool.Config{}, &agentpb.Agent{Id: "a", AskUser: &agentpb.AskUser{}, Tools: []*agentpb.Tool{
		{Name: "any", Http: &agentpb.HTTP{Url: "https://a.example"}, Policy: when("args.a.b[0] > 1")},
	}})
	value := rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string {
		raw, _ := json.Marshal(rapid.MapOf(rapid.SampledFrom([]string{"a", "questions", "question"}), rapid.String()).Draw(t, "map"))
		return string(raw)
	}), rapid.SampledFrom([]string{`{"a":{"b":[2]}}`, `{"a":{"b":2}}`, `{"a":null}`, `{"questions":[null]}`, "{\"a\":\"\xff\"}"}))
	rapid.Check(t, func(r *rapid.T) {
		args := value.Draw(r, "args")
		for _, name := range []string{"any", tool.AskUser} {
			judged, err := find(t, set, name).Judge(t.Context(), args)
			if err == nil {
				var object map[string]any
				require.NoError(t, json.Unmarshal(judged.Args, &object))
				require.NotNil(t, object)
				require.NotZero(t, judged.Need)
			}
		}
	})
}

package model

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/proto/agentpb"
)

func TestEstimateTokens(t *testing.T) {
	require.Zero(t, EstimateTokens(""))
	require.Equal(t, 1, EstimateTokens("a"))
	require.Equal(t, 2, EstimateTokens("seven b"))
	require.Equal(t, 4, EstimateTokens("日本語。"))
	require.Equal(t, 1, EstimateTokens("\xff"))
	require.Equal(t, 200, EstimateTokens(strings.Repeat("x", 700)))
}

func TestWindow(t *testing.T) {
	require.Equal(t, 128_000-4096, Window(nil, nil))
	agent := &agentpb.Agent{Instructions: strings.Repeat("x", 700), Model: &agentpb.Model{ContextTokens: 8000, MaxOutputTokens: 1000}}
	require.Equal(t, 6800, Window(agent, nil))
	require.Equal(t, 6800-4-2-200, Window(agent, []Tool{{Name: "seven b", Schema: []byte(strings.Repeat("x", 700))}}))
	agent.Model.MaxOutputTokens = 0
	require.Equal(t, 8000-2000-200, Window(agent, nil), "a quarter of a small window")
	agent.Instructions = strings.Repeat("x", 700_000)
	require.Equal(t, 1000, Window(agent, nil))
}

// sized is a message that takes that many tokens.
func sized(role Role, name string, tokens int) Message {
	text := name + strings.Repeat("語", tokens-messageOverhead-EstimateTokens(name))
	message := Message{Role: role, Content: text}
	if role == ToolRole {
		message.ToolID = name
	}
	return message
}

func names(messages []Message) string {
	var all []string
	for _, message := range messages {
		all = append(all, strings.TrimRight(message.Content, "語"))
	}
	return strings.Join(all, " ")
}

func TestFit(t *testing.T) {
	talk := []Message{
		sized(User, "u1", 10), sized(Assistant, "a1", 10), sized(User, "u2", 10), sized(Assistant, "a2", 10), sized(ToolRole, "t2", 10),
		sized(Assistant, "a3", 10), sized(User, "u3", 10),
	}
	steps := []Message{
		sized(User, "u1", 10), sized(Assistant, "a1", 10), sized(User, "u2", 10),
		sized(Assistant, "s1", 10), sized(ToolRole, "t1", 10), sized(Assistant, "s2", 10), sized(ToolRole, "t2", 10), sized(ToolRole, "t3", 10),
	}
	tests := []struct {
		name     string
		messages []Message
		tokens   int
		want     string
	}{
		{"all", talk, 70, "u1 a1 u2 a2 t2 a3 u3"},
		{"starts_with_a_question", talk, 69, "u2 a2 t2 a3 u3"},
		{"a_question_and_its_steps", talk, 50, "u2 a2 t2 a3 u3"},
		{"no_results_without_their_call", talk, 40, "u3"},
		{"only_the_newest", talk, 10, "u3"},
		{"the_newest_stays", talk, 1, "u3"},
		{"steps_all", steps, 80, "u1 a1 u2 s1 t1 s2 t2 t3"},
		{"steps_of_this_turn", steps, 69, "u2 s1 t1 s2 t2 t3"},
		{"oldest_steps_give_way", steps, 59, "u2 s2 t2 t3"},
		{"steps_too_large", steps, 39, "u2"},
		{"none", nil, 10, ""},
		{"no_question", []Message{sized(Assistant, "a1", 10), sized(Assistant, "a2", 10)}, 15, "a2"},
		{"only_results", []Message{sized(ToolRole, "t1", 10)}, 15, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { require.Equal(t, test.want, names(Fit(test.messages, test.tokens))) })
	}
}

func TestFitProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var messages []Message
		for i := range rapid.IntRange(0, 20).Draw(t, "length") {
			role := rapid.SampledFrom([]Role{User, Assistant, ToolRole}).Draw(t, "role")
			messages = append(messages, sized(role, fmt.Sprintf("m%d", i), rapid.IntRange(8, 40).Draw(t, "size")))
		}
		tokens := rapid.IntRange(0, 300).Draw(t, "tokens")
		fitting := Fit(messages, tokens)

		next, newest := 0, -1
		for i, message := range messages {
			if message.Role == User {
				newest = i
			}
		}
		hasNewest := false
		for _, message := range fitting {
			for next < len(messages) && messages[next].Content != message.Content {
				next++
			}
			if next == len(messages) {
				t.Fatalf("%q is out of order or not from the conversation", message.Content)
			}
			hasNewest = hasNewest || next == newest
		}
		if newest >= 0 && !hasNewest {
			t.Fatal("the newest user message is gone")
		}
		if len(fitting) > 0 && newest >= 0 && fitting[0].Role != User {
			t.Fatalf("starts with %s", fitting[0].Role)
		}
		if len(fitting) > 0 && fitting[0].Role == ToolRole {
			t.Fatal("starts with a result")
		}
		rounds := splitRounds(fitting)
		if len(rounds) > 1 && estimateAll(fitting) > tokens && estimateAll(fitting) > estimateAll(rounds[0]) {
			asked := splitRounds(messages[max(newest, 0):])
			if len(asked) == 0 || estimateAll(asked[0]) <= tokens {
				t.Fatalf("%d tokens in a window of %d", estimateAll(fitting), tokens)
			}
		}
		if again := Fit(fitting, tokens); names(again) != names(fitting) {
			t.Fatalf("not settled: %s, then %s", names(fitting), names(again))
		}
	})
}

func TestHistoryHasOneResultPerCall(t *testing.T) {
	messages := history(&Request{Messages: conversationWithTools()})
	require.Equal(t, []Message{
		{Role: User, Content: "Weather in Bern and Rome?"},
		{Role: Assistant, Content: "Let me look.", ToolCalls: []ToolCall{
			{ID: "c1", Name: "weather", Arguments: `{"city":"Bern"}`}, {ID: "c2", Name: "weather", Arguments: `{"city":"Rome"}`},
		}},
		{Role: ToolRole, ToolID: "c1", Content: "rain"},
		{Role: ToolRole, ToolID: "c2", Content: noResult},
		{Role: Assistant, Content: "Rain in Bern."},
		{Role: User, Content: "And Oslo?"},
	}, messages)
}

package model

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"parley/proto/agentpb"
)

func TestCannedReplies(t *testing.T) {
	tests := []struct{ say, starts, contains string }{
		{"", "Your message is empty.", "help"},
		{"  \n ", "Your message is empty.", "help"},
		{"Hello!", "Hello! This is the agent \"Tester\".", "stand-in"},
		{"good morning", "Hello!", "stand-in"},
		{"merhaba", "Hello!", "stand-in"},
		{"help", "I am the built-in stand-in", "count to 50"},
		{"What can you do?", "I am the built-in stand-in", "count to 50"},
		{"what is parley", "Parley is a server", "not a language model"},
		{"Who are you?", "This is the agent", "not a language model"},
		{"are you human or a robot, tell me the truth please", "This is the agent", "not a language model"},
		{"thanks a lot", "You are welcome", "stand-in"},
		{"bye", "Goodbye!", "stand-in"},
		{"count to 5", "1 2 3 4 5", ""},
		{"Please count up to 3, slowly", "1 2 3", ""},
		{"count", "1 2 3 4 5 6 7 8 9 10", ""},
		{"count to 0", "1", ""},
		{"count to 99999", "1 2 3", " 999 1000"},
		{"count to 99999999999999999999", "1 2 3 4 5 6 7 8 9 10", ""},
		{"echo  some   words", "some words", ""},
		{"echo", "Echo of nothing", "stand-in"},
		{"a long answer please", "This is a longer answer", "help"},
		{"What can this server do?", "It runs conversations", "/dashboard"},
		{"How do I connect a real model?", "Write an agent", "provider: anthropic"},
		{"Tell me a short story.", "The lighthouse keeper", ""},
		{"What happens if the server is killed while you answer?", "Try it", "begins it anew"},
		{"markdown", "## A sample", "```go"},
		{"What is the capital of France?", "You wrote: \"What is the capital of France?\"", "not a language model"},
		{"?!", "You wrote: \"?!\"", "not a language model"},
		{"法国的首都是哪里", "You wrote: \"法国的首都是哪里\"", "not a language model"},
	}
	for _, test := range tests {
		reply := cannedReply("Tester", test.say)
		require.True(t, strings.HasPrefix(reply, test.starts), "%q: %q", test.say, reply)
		require.Contains(t, reply, test.contains, test.say)
	}
	require.Equal(t, "1 2 3 4 5", cannedReply("Tester", "count to 5"))
	require.NotContains(t, cannedReply("", "hi"), `""`)
}

func FuzzCannedReply(f *testing.F) {
	for _, seed := range []string{"hello", "count to 12", "echo \xff", "what is parley", strings.Repeat("ä", 500), "help\x00"} {
		f.Add("Agent", seed)
	}
	f.Fuzz(func(t *testing.T, agent, text string) {
		reply := cannedReply(agent, text)
		require.NotEmpty(t, strings.TrimSpace(reply))
		require.True(t, utf8.ValidString(reply))
		require.LessOrEqual(t, len(reply), 4<<10)
		require.Equal(t, reply, cannedReply(agent, text))
		words := 0
		for rest := reply; rest != ""; words++ {
			end := nextPiece(rest)
			require.Positive(t, end)
			rest = rest[end:]
		}
		require.Equal(t, countWords(reply), words)
	})
}

// A canned reply calls tools of any schema with arguments that fit it.
func TestCannedCallsFitTheSchema(t *testing.T) {
	schema := `{"type":"object","required":["city","days","exact","list","unit","where"],"properties":{"city":{"type":["string","null"]},"days":{"type":"integer"},` +
		`"exact":{"type":"boolean"},"list":{"type":"array"},"unit":{"enum":["c","f"]},"where":{"type":"object","required":["zip"],"properties":{"zip":{"const":"1"}}},"more":{"type":"string"}}}`
	request := &Request{RunID: "r", Agent: &agentpb.Agent{}, Tools: []Tool{{Name: "get_weather", Schema: []byte(schema)}, {Name: "other"}}}
	request.Messages = []Message{{Role: User, Content: "What is the weather in Rome?"}}
	calls := cannedCalls(request)
	require.Len(t, calls, 1)
	require.JSONEq(t, `{"city":"Rome","days":1,"exact":true,"list":[],"unit":"c","where":{"zip":"1"}}`, calls[0].Arguments)

	request.Settings.Choice = &Choice{Mode: ChooseNone}
	require.Empty(t, cannedCalls(request))
	request.Settings.Choice = &Choice{Mode: ChooseFunction, Name: "other"}
	require.Equal(t, "other", cannedCalls(request)[0].Name)
	request.Messages[0].Content, request.Settings.Choice = "hello", &Choice{Mode: ChooseRequired}
	require.Equal(t, "get_weather", cannedCalls(request)[0].Name)
}

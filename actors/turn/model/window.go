package model

import (
	"unicode/utf8"

	"parley/proto/agentpb"
)

// defaultContextTokens is the context window of a model that does not say.
const defaultContextTokens = 128_000

// messageOverhead is what providers spend on the frame of one message or tool, in tokens.
const messageOverhead = 4

// EstimateTokens guesses how many tokens text takes: 3.5 ASCII bytes or one other rune a token. It errs to the high side for
// prose, because a message too few in the window costs less than a refused call. Tokenizers differ; none is embedded.
func EstimateTokens(text string) int {
	ascii := 0
	for i := range len(text) {
		if text[i] < utf8.RuneSelf {
			ascii++
		}
	}
	other := 0
	if ascii < len(text) {
		other = utf8.RuneCountInString(text) - ascii
	}
	return (2*ascii+6)/7 + other
}

// imageTokens is about what the providers charge for an image at the size that they scale it down to.
const imageTokens = 1600

// EstimateMessage guesses how many tokens a message takes in the window.
func EstimateMessage(message Message) int {
	const stateBytes = 7 // a token, with its share of the signature
	tokens := messageOverhead + EstimateTokens(message.Content) + imageTokens*len(message.Images) + len(message.State)/stateBytes
	for _, call := range message.ToolCalls {
		tokens += messageOverhead + EstimateTokens(call.Name) + EstimateTokens(call.Arguments)
	}
	return tokens
}

// Window is how many tokens of the agent's context window are left for messages: the whole, less the system prompt, the
// tools and the room for the answer. It never falls below an eighth of the window, so that a huge prompt shows as the provider's
// refusal and not as a conversation without messages.
func Window(agent *agentpb.Agent, tools []Tool) int {
	total := int(agent.GetModel().GetContextTokens())
	if total <= 0 {
		total = defaultContextTokens
	}
	answer := int(agent.GetModel().GetMaxOutputTokens())
	if answer <= 0 {
		answer = min(defaultAnthropicOutput, total/4)
	}
	return max(total-answer-estimateFrame(agent, tools), total/8)
}

// estimateFrame guesses how many tokens stand around the messages: the system prompt and the tools.
func estimateFrame(agent *agentpb.Agent, tools []Tool) int {
	tokens := EstimateTokens(agent.GetInstructions())
	for _, tool := range tools {
		tokens += messageOverhead + EstimateTokens(tool.Name) + EstimateTokens(tool.Description) + (2*len(tool.Schema)+6)/7
	}
	return tokens
}

// Fit returns the newest messages that fit into a window of that many tokens, in order. A tool call is never parted from its
// results. The newest user message always stays, even when the steps after it have to give way or it is too long by
// itself, and the result starts with a user message when it holds one. Fit of its own result is the result.
func Fit(messages []Message, tokens int) []Message {
	rounds := splitRounds(messages)
	asked := -1
	for i := range rounds {
		if rounds[i][0].Role == User {
			asked = i
		}
	}
	left := tokens
	if asked >= 0 {
		left -= estimateAll(rounds[asked])
	}
	first := len(rounds)
	for first > 0 {
		i := first - 1
		if i != asked {
			cost := estimateAll(rounds[i])
			if cost > left {
				break
			}
			left -= cost
		}
		first = i
	}
	kept := rounds[first:]
	if asked >= 0 && first <= asked {
		for kept[0][0].Role != User {
			kept = kept[1:]
		}
	}
	var fitting []Message
	if asked >= 0 && first > asked {
		fitting = append(fitting, rounds[asked]...)
	}
	for _, round := range kept {
		fitting = append(fitting, round...)
	}
	return fitting
}

// splitRounds groups each message with the tool results that follow it. Results at the very start answer nothing that is
// still known and are left out.
func splitRounds(messages []Message) [][]Message {
	var rounds [][]Message
	for i := 0; i < len(messages); {
		end := i + 1
		for end < len(messages) && messages[end].Role == ToolRole {
			end++
		}
		if messages[i].Role != ToolRole {
			rounds = append(rounds, messages[i:end])
		}
		i = end
	}
	return rounds
}

func estimateAll(messages []Message) int {
	tokens := 0
	for _, message := range messages {
		tokens += EstimateMessage(message)
	}
	return tokens
}

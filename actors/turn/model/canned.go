package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"parley/actors/core/letters"
)

const (
	maxCount  = 1000 // of "count to N"
	maxQuoted = 400  // bytes of the user's words that a reply repeats
)

const (
	standIn = "I am the built-in stand-in, not a language model: my replies are canned, and I pick one by looking for a few key words."

	connect = "Ask `How do I connect a real model?` for the few lines that it takes."

	connectReply = "Write an agent with a model into a file, `parley.yaml`. Take one of these.\n\n" +
		"OpenAI:\n\n```yaml\nagents:\n  - id: helper\n    name: Helper\n    instructions: Be brief.\n" +
		"    model: {provider: openai, name: gpt-4o-mini, api_key_env: OPENAI_API_KEY}\n```\n\n" +
		"Anthropic:\n\n```yaml\nagents:\n  - id: helper\n    name: Helper\n    instructions: Be brief.\n" +
		"    model: {provider: anthropic, name: claude-sonnet-4-5, api_key_env: ANTHROPIC_API_KEY}\n```\n\n" +
		"Ollama, vLLM or any other server of the Chat Completions API (Ollama listens on port 11434, vLLM on 8000):\n\n```yaml\nagents:\n  - id: helper\n    name: Helper\n" +
		"    instructions: Be brief.\n    model: {provider: openai, name: llama3.2, base_url: \"http://127.0.0.1:11434/v1\"}\n```\n\n" +
		"The name is the model's, as its server knows it. `api_key_env` names the environment variable that holds the key, so that the file has no secret in it; " +
		"your own server needs none. Then stop this server and start it with the file:\n\n" +
		"```sh\nexport OPENAI_API_KEY=...\nbin/parley serve --config parley.yaml\n```\n\n" +
		"The agent is in the list beside New. With `price: {input: 0.15, output: 0.6}` in its model, in dollars for a million tokens, answers show what they cost, " +
		"and conversations can have a budget. `bin/parley serve --print-config` prints every other setting."

	serverReply = "It runs conversations with AI agents, and keeps them whatever happens:\n\n" +
		"- answers are streamed, and go on when you close the page\n" +
		"- every event is written to a replicated log before anyone sees it: a server that dies loses nothing that it confirmed\n" +
		"- agents call tools, ask people questions and wait for approvals, for days if need be\n" +
		"- budgets hold while an answer is being written\n" +
		"- files, exports, webhooks, background runs, and a console for the people who run it all, at `/dashboard`\n\n" +
		"The agent `demo`, in the list beside New while no other agent is configured, shows approvals, questions, files and budgets. " +
		"Everything on this page is the public API, see API above.\n\n" + standIn + " " + connect

	killedReply = "Try it: kill it now, with `kill -9`, and start it again. Your question was written to the log before this answer began, so it is there. " +
		"The server finds that an answer was under way and begins it anew; this page notices that the connection is gone, comes back by itself and shows the new attempt. " +
		"In a cluster another node takes over in about a second, without anyone starting anything.\n\n" +
		"A tool that may have run when the server died is run again only if it is declared idempotent. Otherwise a person is asked, since nobody else can know."

	storyReply = "The lighthouse keeper wrote down every ship before she waved to it. One night the storm took the lamp, the door and the page that she was writing, " +
		"but not the book: it was already shut. In the morning a stranger relit the lamp, opened the book at the last line, and waved to the ship that was still waiting."

	helpReply = standIn + "\n\nThings to try:\n\n" +
		"- `count to 50`: a stream that you can check by eye; cancel it half way\n" +
		"- `long`: a longer answer, to watch streaming or to kill the server in the middle\n" +
		"- `markdown`: a heading, a list, a table and some code\n" +
		"- `what is parley`: what this server does\n" +
		"- `echo` and some words: they come back\n\n" + connect

	parleyReply = "Parley is a server for conversations with AI agents. Each conversation is a small actor of its own: it takes one turn at a " +
		"time, writes every event to a replicated log before anyone sees it, and streams the answer to whoever follows. If the process dies in " +
		"mid-turn, the events that were acknowledged are still there when it starts again, and the turn is finished or marked as stopped.\n\n" + standIn

	longReply = "This is a longer answer, so that there is time to watch it. It arrives word by word, at a steady pace, the way the answer of a " +
		"language model does, though nothing here was thought up just now: the text is part of the program.\n\n" +
		"While it runs you can open the event log beside it. The words that you read now are not in it: pieces of an answer are passed on " +
		"to those who listen and then forgotten. What is kept is the question, the fact that a turn began, and in the end the answer " +
		"as a whole. That is why a conversation stays small however often its answers were watched.\n\n" +
		"You can cancel in the middle. The turn then stops where it is, keeps what was said so far, and the conversation is free for the next question. " +
		"You can close this page and come back: the answer goes on without you, and the page catches up from the last event it saw.\n\n" +
		"You can also be less kind and kill the server. When it starts again, it finds that a turn was under way, and either finishes it or says " +
		"honestly that it was interrupted. What it will not do is lose a message that it had confirmed, or answer the same question twice.\n\n" +
		"That was all. Ask for `help` to see what else there is to try."

	markdownReply = "## A sample\n\nSome *emphasis*, some **weight**, and `code` in a line.\n\n1. first\n2. second\n   - nested\n\n" +
		"| word | length |\n|---|---|\n| turn | 4 |\n| event | 5 |\n\n```go\nfunc main() {\n\tfmt.Println(\"hello\")\n}\n```\n\n> " + standIn
)

// cannedReply picks a reply to text by its key words. It is total and deterministic; agent may be empty.
func cannedReply(agent, text string) string {
	words := keyWords(text)
	has := func(any ...string) bool {
		return slices.ContainsFunc(any, func(word string) bool { return slices.Contains(words, word) })
	}
	short := len(words) <= 6
	switch {
	case len(words) == 0 && strings.TrimSpace(text) == "":
		return "Your message is empty. Write something, or ask for `help`. " + standIn
	case len(words) > 0 && slices.Contains([]string{"echo", "repeat", "say"}, words[0]):
		return echo(text)
	case has("count"):
		return count(words)
	case has("connect", "configure") && has("model", "models", "openai", "anthropic", "ollama", "vllm"):
		return connectReply
	case has("killed", "kill", "crash", "crashes", "dies") && has("server", "node", "you"):
		return killedReply
	case has("parley"):
		return parleyReply
	case has("what") && has("can") && has("server"):
		return serverReply
	case has("help", "hilfe", "commands") || (short && has("what") && has("can") && has("you")):
		return helpReply
	case short && has("who", "what") && has("you"), has("robot", "human", "llm"):
		return introduction(agent) + " " + standIn + " " + connect
	case short && has("hi", "hello", "hey", "hallo", "hola", "merhaba", "salut", "greetings", "morning", "evening"):
		return "Hello! " + introduction(agent) + " " + standIn + " Ask for `help` to see what you can try here."
	case short && has("thanks", "thank", "thx", "danke", "merci"):
		return "You are welcome, though there is little to thank for. " + standIn
	case short && has("bye", "goodbye", "ciao", "tschüss"):
		return "Goodbye! The conversation stays here; come back to it whenever you like. " + standIn
	case short && has("short") && has("story"):
		return storyReply
	case short && has("long", "longer", "story", "essay"):
		return longReply
	case short && has("markdown", "table", "code"):
		return markdownReply
	default:
		return fmt.Sprintf("You wrote: \"%s\"\n\n%s So I cannot say anything about it. Ask for `help` to see what I do have a reply to.\n\n%s",
			quote(text), standIn, connect)
	}
}

func introduction(agent string) string {
	if agent = quote(agent); agent != "" {
		return "This is the agent \"" + agent + "\"."
	}
	return "This is an agent on the scripted model."
}

// echo repeats what follows the first word.
func echo(text string) string {
	_, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	if rest = quote(rest); rest != "" {
		return rest
	}
	return "Echo of nothing: write some words after `echo`. " + standIn
}

// count answers "count to N", with N between 1 and maxCount and 10 when it is missing.
func count(words []string) string {
	n := 10
	for _, word := range words {
		if number, err := strconv.Atoi(word); err == nil {
			n = min(max(number, 1), maxCount)
			break
		}
	}
	var text strings.Builder
	for i := 1; i <= n; i++ {
		if i > 1 {
			text.WriteByte(' ')
		}
		text.WriteString(strconv.Itoa(i))
	}
	return text.String()
}

// keyWords are the first words of text, in lower case, without punctuation.
func keyWords(text string) []string {
	const enough = 32
	text = letters.Head(text, maxQuoted)
	words := strings.FieldsFunc(strings.ToLower(text), func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c)
	})
	return words[:min(len(words), enough)]
}

// quote is text on one line, valid, and cut to what a reply repeats.
func quote(text string) string {
	short := letters.Head(text, maxQuoted)
	line := strings.Join(strings.Fields(strings.ToValidUTF8(short, "\uFFFD")), " ")
	if len(short) < len(text) {
		line += " ..."
	}
	return line
}

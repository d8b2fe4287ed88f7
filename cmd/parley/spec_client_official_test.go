package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// chatOrder is a request for chat as the provider reads it.
type chatOrder struct {
	Messages []struct {
		Role, Content string
		ToolCalls     []struct{ Function struct{ Name string } } `json:"tool_calls"`
	}
	Tools          []any
	ResponseFormat any `json:"response_format"`
}

func readOrder(r *http.Request) *chatOrder {
	body, _ := r.Context().Value(bodyKey{}).(tree)
	order := &chatOrder{}
	encoded, err := json.Marshal(body.v)
	if err == nil {
		err = json.Unmarshal(encoded, order)
	}
	if err != nil || len(order.Messages) == 0 {
		panic(http.ErrAbortHandler)
	}
	return order
}

// weatherman is a model that calls a tool in pieces when it has one, tells what came of it, and else repeats what it has read.
func weatherman(w http.ResponseWriter, r *http.Request) {
	order := readOrder(r)
	last := order.Messages[len(order.Messages)-1]
	switch {
	case order.ResponseFormat != nil:
		saying(w, `{"city":`, `"Rome"}`)
	case last.Role == "tool":
		var told []string
		for _, message := range order.Messages {
			switch message.Role {
			case "user":
				told = nil
			case "tool":
				told = append(told, message.Content)
			}
		}
		saying(w, "It is ", strings.Join(told, " and "), " there.")
	case len(order.Tools) > 0 && strings.Contains(last.Content, "weather"):
		cities := []string{"Rome"}
		if strings.Contains(last.Content, "both") {
			cities = append(cities, "Oslo")
		}
		calling(w, len(order.Messages), cities)
	default:
		var said []string
		for _, message := range order.Messages {
			switch {
			case len(message.ToolCalls) > 0:
				said = append(said, "calls "+message.ToolCalls[0].Function.Name)
			case message.Role == "tool":
				said = append(said, "output "+message.Content)
			case message.Role != "system" || message.Content != "I know the weather.":
				said = append(said, message.Role+": "+message.Content)
			}
		}
		text := strings.Join(said, " / ")
		saying(w, text[:3], text[3:])
	}
}

// saying streams an answer in pieces.
func saying(w http.ResponseWriter, pieces ...string) {
	chunks := []string{helloFirst}
	for _, piece := range pieces {
		chunks = append(chunks, fmt.Sprintf(`{"id":"c1","created":5,"choices":[{"index":0,"delta":{"content":%s}}]}`, quote(piece)))
	}
	// A model takes its time for a token. What comes at once may be passed on at once.
	streams(chunks[:2]...)(w, nil)
	<-time.After(tokenTime)
	streams(append(chunks[2:], helloEnd, helloUsage, "[DONE]")...)(w, nil)
}

const tokenTime = 100 * time.Millisecond

// calling streams calls of get_weather whose arguments come in pieces, one call after the other.
func calling(w http.ResponseWriter, number int, cities []string) {
	chunks := []string{helloFirst, `{"id":"c1","created":5,"choices":[{"index":0,"delta":{"content":"Let me see."}}]}`}
	for i, city := range cities {
		head := fmt.Sprintf(`"index":%d,"id":"call_%d_%d","type":"function","function":{"name":"get_weather","arguments":""}`, i, number, i)
		chunks = append(chunks, `{"id":"c1","created":5,"choices":[{"index":0,"delta":{"tool_calls":[{`+head+`}]}}]}`)
		for _, piece := range []string{`{"ci`, `ty": "` + city[:2], city[2:] + `"}`} {
			chunks = append(chunks, fmt.Sprintf(`{"id":"c1","created":5,"choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}}]}`, i, quote(piece)))
		}
	}
	chunks = append(chunks, `{"id":"c1","created":5,"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, helloUsage, "[DONE]")
	streams(chunks...)(w, nil)
}

func quote(text string) string {
	quoted, _ := json.Marshal(text) // a text always encodes
	return string(quoted)
}

// agentOf makes an agent of a model and returns its key.
func agentOf(t *testing.T, h apiCaller, name, model string, config object1) string {
	t.Helper()
	settings := object1{"modelKey": model}
	for key, value := range config {
		settings[key] = value
	}
	return h.done(t, "POST", "/agents", object1{"name": name, "config": settings}).text("agent", "key")
}

// TestClientOfficialResponses runs the official clients for Node.js against /responses; the cases are in
// testdata/openai/responses.mjs. The provider behind the agents streams as a real one does.
func TestClientOfficialResponses(t *testing.T) {
	t.Parallel()
	h := house(t)
	model := newModel(t, h, "llm", weatherman)
	failing := newModel(t, h, "llm", says(400, `{"error":{"message":"no such thing","type":"invalid_request_error"}}`))
	agents := map[string]string{
		"weather": agentOf(t, h, "Weather", model.key, object1{"systemPrompt": "I know the weather."}),
		"broken":  agentOf(t, h, "Broken weather", failing.key, nil),
		"careful": agentOf(t, h, "Careful", "scripted", object1{"tools": []any{
			object1{"name": "roll_dice", "url": "http://127.0.0.1:9/roll", "approval": "always"},
		}}),
	}
	runNode(t, "responses.mjs", h, agents, []string{
		"openai_streams_text", "openai_helper_streams_text", "openai_calls_a_tool_and_continues", "openai_calls_a_tool_with_the_whole_input",
		"openai_calls_tools_side_by_side", "openai_earlier_items_and_instructions", "openai_structured_output", "openai_pause_for_a_person",
		"openai_failures", "agents_streams_and_calls_tools", "ai_streams_and_calls_tools", "langchain_streams_and_calls_tools",
	})
}

// runNode runs the cases of a script with the official clients, and fails when one of the named ones did not run.
func runNode(t *testing.T, script string, h apiCaller, given map[string]string, names []string) {
	t.Helper()
	runCases(t, filepath.Join("testdata", "openai"), []string{nodeWith(t, "openai", "openai"), script}, h, given, names)
}

// nodeWith is Node.js with the packages of a folder of testdata, of which one is named.
func nodeWith(t *testing.T, folder, one string) string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("Node.js is not installed: make " + folder)
	}
	if _, err = os.Stat(filepath.Join("testdata", folder, "node_modules", one)); err != nil {
		t.Skip("the clients are not installed: make " + folder)
	}
	return node
}

// runCases runs a program that prints a line for each of its cases, and holds it to have run those that are named.
func runCases(t *testing.T, dir string, program []string, h apiCaller, given map[string]string, names []string) {
	t.Helper()
	encoded, err := json.Marshal(given)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program[0], append(program[1:], h.url(""), h.token, string(encoded))...) //nolint:gosec // of this test
	command.Dir = dir
	var errors strings.Builder
	command.Stderr = &errors
	output, err := command.Output()
	require.NoErrorf(t, err, "%s\n%s", output, errors.String())
	ran := map[string]bool{}
	for line := range strings.Lines(string(output)) {
		var result struct {
			Name  string
			Error *string
		}
		require.NoError(t, json.Unmarshal([]byte(line), &result), line)
		ran[result.Name] = true
		t.Run(result.Name, func(t *testing.T) {
			if result.Error != nil {
				require.Fail(t, *result.Error)
			}
		})
	}
	for _, name := range names {
		require.True(t, ran[name], name)
	}
}

// TestClientResponseStreams: what becomes of a streamed turn whose client, or whose process, is gone.
func TestClientResponseStreams(t *testing.T) {
	t.Parallel()
	p := newProcess(t, houseConfig)
	p.start()
	h := apiCaller{p, houseToken}
	begin := func(t *testing.T, answer http.HandlerFunc, order object1) (*upstream, *stream, string) {
		t.Helper()
		model := newModel(t, h, "llm", answer)
		order["model"], order["stream"] = agentOf(t, h, "Talker", model.key, nil), true
		s := p.follow(t, "POST", h.url("/responses"), order, "Authorization", "Bearer "+h.token)
		id := s.until("response.created").data.text("response", "session_id")
		s.until("response.output_text.delta")
		return model, s, id
	}
	answered := func(t *testing.T, id string) tree {
		t.Helper()
		s := p.follow(t, "GET", h.url("/agents/sessions/"+id+"/events/stream"), nil, "Authorization", "Bearer "+h.token)
		for block := ""; !strings.Contains(block, "event: session.status_idle\n"); {
			block = s.block()
			require.NotEmpty(t, block, "the stream ended")
		}
		s.cancel()
		messages := h.done(t, "GET", "/agents/sessions/"+id+"/messages", nil).at("data").list()
		return messages[len(messages)-1]
	}
	t.Run("goes_on_after_a_crash", func(t *testing.T) {
		calls := make(chan struct{}, 1)
		model, _, id := begin(t, func(w http.ResponseWriter, r *http.Request) {
			select {
			case calls <- struct{}{}:
				streams(helloFirst, helloText)(w, r)
				<-r.Context().Done()
			default:
				hello(w, r)
			}
		}, object1{
			"instructions": "Be brief.", "tools": []any{object1{"type": "function", "name": "look", "strict": true}},
			"tool_choice": "required", "parallel_tool_calls": false, "temperature": 0.25, "text": object1{"format": object1{"type": "json_object"}},
			"input": []any{
				object1{"role": "user", "content": "one"},
				object1{"role": "assistant", "content": "two"},
				object1{"role": "user", "content": "three"},
				object1{"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
				object1{"type": "function_call_output", "call_id": "c1", "output": "seen"},
			},
		})
		p.kill()
		p.start()
		require.Equal(t, "Hello", answered(t, id).text("content"))
		asked := model.asked()
		require.Len(t, asked, 2)
		for _, request := range asked {
			request.body.t = t
			require.Equal(t, []string{"system", "user", "assistant", "user", "assistant", "tool"}, texts(request.body.at("messages").list(), "role"))
			require.Equal(t, "look", request.body.at("tools").list()[0].text("function", "name"))
			require.Equal(t, true, request.body.at("tools").list()[0].at("function", "strict").v)
			require.Equal(t, []any{"required", false, 0.25, "json_object"}, []any{
				request.body.at("tool_choice").v, request.body.at("parallel_tool_calls").v, request.body.at("temperature").v,
				request.body.at("response_format", "type").v,
			})
		}
	})
	t.Run("goes_on_without_its_client", func(t *testing.T) {
		goOn := make(chan struct{})
		_, s, id := begin(t, func(w http.ResponseWriter, r *http.Request) {
			streams(helloFirst, helloText)(w, r)
			<-goOn
			streams(helloText, helloEnd, helloUsage, "[DONE]")(w, r)
		}, object1{"input": "hello"})
		s.cancel()
		close(goOn)
		require.Equal(t, "HelloHello", answered(t, id).text("content"))
	})
}

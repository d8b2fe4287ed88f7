package model

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestForeignNames: a conversation goes on with another model, whatever ids and names the one before gave to calls.
func TestForeignNames(t *testing.T) {
	long, odd, foreign := strings.Repeat("i", 84), "call|1:ä", "functions.look up"
	named := regexp.MustCompile(`"(?:tool_call_id|tool_use_id|call_id|id|name)":"([^"]*)"`)
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			server, seen := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) { stream(response, w.answer("ok")) })
			request := w.request(server)
			calls := []ToolCall{{ID: long, Name: "look"}, {ID: odd, Name: foreign}, {ID: long + "2", Name: foreign + "2"}, {ID: "c4", Name: "as.offered"}}
			request.Messages = []Message{
				{Role: User, Content: "Hi"},
				{Role: Assistant, ToolCalls: calls},
				{Role: ToolRole, ToolID: long, Content: "r1"},
				{Role: ToolRole, ToolID: odd, Content: "r2"},
				{Role: ToolRole, ToolID: long + "2", Content: "r3"},
				{Role: ToolRole, ToolID: "c4", Content: "r4"},
			}
			request.Tools = []Tool{{Name: "as.offered"}}
			_, _, err := w.ask(t, Config{}, request)
			require.NoError(t, err)
			counts := map[string]int{}
			for _, found := range named.FindAllStringSubmatch(seen.body, -1) {
				counts[found[1]]++
			}
			pairs := 0
			for name, count := range counts {
				require.True(t, name == "as.offered" || wireName.MatchString(name), name)
				if count == 2 {
					pairs++
				}
			}
			require.Equal(t, 5, pairs, "four ids of a call and its result, and the tool that is offered: %v", counts)
			require.Equal(t, 2, strings.Count(seen.body, `"functions_look_up`))
			require.Equal(t, long, calls[0].ID, "the request's own are not touched")
		})
	}
}

package model

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// thinker hears thoughts apart.
type thinker struct {
	heard

	thoughts, unsaid []string
}

func (t *thinker) Thought(piece string) { t.thoughts = append(t.thoughts, piece) }
func (t *thinker) Unsaid(piece string)  { t.unsaid = append(t.unsaid, piece) }

// TestThinker: thoughts that were heard are not asked for again.
func TestThinker(t *testing.T) {
	for _, w := range wires() {
		thought := map[string]string{
			"openai":           chatChunk(`{"reasoning_content":"Hm"}`, "null"),
			"openai_responses": responsesEvent("response.reasoning_summary_text.delta", `,"item_id":"rs_1","output_index":7,"summary_index":0,"delta":"Hm"`),
			"anthropic":        anthropicEvent("content_block_delta", `,"index":7,"delta":{"type":"thinking_delta","thinking":"Hm"}`),
		}[w.name]
		t.Run(w.name, func(t *testing.T) {
			server, seen := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) {
				stream(response, w.start, thought, w.trouble)
			})
			listener := &thinker{}
			_, err := adapterOf(t, w.kind, Config{}).Generate(t.Context(), w.request(server), listener)
			require.False(t, requireError(t, err, CodeOverloaded).Retryable)
			require.Equal(t, []string{"Hm"}, listener.thoughts)
			require.Empty(t, listener.unsaid)
			require.EqualValues(t, 1, seen.count.Load())
		})
	}
}

package export_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/httpedge/export"
	"parley/proto/conversationpb"
)

// TestCostlyAnswers: what Markdown would make into far more than was written, or take minutes over, stays text. Without
// that the widest of these needs more memory than a machine has.
func TestCostlyAnswers(t *testing.T) {
	const n = 1 << 18
	for name, text := range map[string]string{
		"table":       "|" + strings.Repeat("a|", n/8) + "\n|" + strings.Repeat("-|", n/8) + "\n" + strings.Repeat("b\n", n/4),
		"bare_table":  strings.Repeat("a|", n/8) + "a\n" + strings.Repeat("-|", n/8) + "-\n" + strings.Repeat("b\r", n/4),
		"links":       strings.Repeat("[a](", n/4),
		"images":      strings.Repeat("![", n/2),
		"references":  strings.Repeat("[a]: /u\n", n/16) + strings.Repeat("[a]", n/6),
		"quotes":      strings.Repeat(">", n),
		"quotes_wide": strings.Repeat(">   ", n/4),
		"lists":       strings.Repeat("- ", n/2) + "a",
		"numbers":     strings.Repeat("1. ", n/3) + "a",
		"mixed":       strings.Repeat("> 1) + * ", n/9),
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			page := export.HTML(export.Options{}).Message(nil, &conversationpb.Message{
				Role: conversationpb.Role_ASSISTANT, Content: text,
			})
			require.Less(t, len(page), 8*len(text))
			require.Less(t, time.Since(began), 30*time.Second)
		})
	}
	usual := "| a | b |\n|---|---|\n| 1 | [2](https://x.example) |\n\n> > - quoted\n\n" + strings.Repeat("- point\n", 3000)
	page := export.HTML(export.Options{}).Message(nil, &conversationpb.Message{
		Role: conversationpb.Role_ASSISTANT, Content: usual,
	})
	require.Contains(t, string(page), "<td>1</td>")
	require.Contains(t, string(page), "<li>point</li>")
}

func TestFencesAreFoundAtOnce(t *testing.T) {
	ticks := strings.Repeat("`", 1<<18)
	began := time.Now()
	out := export.Markdown(export.Options{Tools: true}).Message(nil, &conversationpb.Message{
		Role: conversationpb.Role_ASSISTANT, ToolCalls: []*conversationpb.ToolCall{{Name: "x", Result: ticks}},
	})
	require.Contains(t, string(out), "\n"+ticks+"`\n"+ticks)
	require.Less(t, time.Since(began), 30*time.Second)
}

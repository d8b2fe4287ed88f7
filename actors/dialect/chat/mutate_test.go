package chat_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/dialect/chat"
	"parley/actors/provider"
)

var (
	streams = flag.Int("streams", 5000, "how many streams TestMutatedStreams reads")
	seed    = flag.Uint64("seed", 0, "of TestMutatedStreams; 0 = any")
)

// said is a known answer, or what was read.
type said struct {
	Text, Thought string
	Calls         []toolCall
	Finish        chat.Finish
	Usage         string
}

type toolCall struct{ Name, Arguments string }

// TestMutatedStreams: known answers, encoded in all the ways in which servers do it. What comes out is what went in.
func TestMutatedStreams(t *testing.T) {
	first := *seed
	if first == 0 {
		first = rand.Uint64()
	}
	t.Logf("-seed %d", first)
	for i := range uint64(*streams) { //nolint:gosec // it is positive
		m := &mutator{rand.New(rand.NewPCG(first, i)), nil}
		want := m.answer()
		body := m.encode(want)
		if m.may("cut", 8) {
			cut := body[:m.IntN(len(body)+1)]
			got, err := read(cut)
			if err == nil { // after the end: all but the usage was there
				got.Usage = want.Usage
				require.Equal(t, want, got, "-seed %d, stream %d, %v\n%s", first, i, m.ways, cut)
			}
		}
		got, err := read(body)
		require.NoError(t, err, "-seed %d, stream %d, %v\n%s", first, i, m.ways, body)
		require.Equal(t, want, got, "-seed %d, stream %d, %v\n%s", first, i, m.ways, body)
	}
}

// read is what a reader hears. It checks numbers and ids of calls.
func read(body string) (said, error) {
	var got said
	reader := chat.NewReader(provider.Redactor{}, 1)
	var ids []string
	err := reader.Stream(strings.NewReader(body), func(deltas []chat.Delta, _ bool) error {
		for _, delta := range deltas {
			got.Text += delta.Text.String()
			got.Thought += delta.Thought.String()
			if delta.Finish != "" {
				got.Finish = delta.Finish
			}
			for _, call := range delta.Calls {
				if call.First {
					if call.Number != len(got.Calls) {
						return fmt.Errorf("call %d comes after %d", call.Number, len(got.Calls))
					}
					for _, id := range ids {
						if id != "" && id == call.ID {
							return fmt.Errorf("id %s twice", id)
						}
					}
					ids = append(ids, call.ID)
					got.Calls = append(got.Calls, toolCall{})
				}
				got.Calls[call.Number].Name += call.Name
				got.Calls[call.Number].Arguments += call.Arguments.String()
			}
		}
		return nil
	})
	u := reader.Usage
	got.Usage = fmt.Sprint(u.Input, u.Output, u.Cached, u.Known)
	return got, err
}

// mutator draws answers and ways of encoding them.
type mutator struct {
	*rand.Rand
	ways []string
}

// may draws a way.
func (m *mutator) may(way string, in int) bool {
	if m.IntN(in) != 0 {
		return false
	}
	m.ways = append(m.ways, way)
	return true
}

func (m *mutator) words() string {
	pieces := []string{"word", " ", "ö", "😀", "\n", `"`, `\`, `\u`, "{", "}", "data: ", "𝔘𝔫𝔦", "\u2028", "\t", "日本"}
	var text strings.Builder
	for range m.IntN(12) {
		text.WriteString(pieces[m.IntN(len(pieces))])
	}
	return text.String()
}

func (m *mutator) answer() said {
	input, output := m.IntN(1000)+1, m.IntN(1000)+1
	want := said{Text: m.words(), Thought: m.words(), Finish: chat.Stop, Usage: fmt.Sprint(input, output, m.IntN(input), true)}
	names := []string{"alpha", "beta", "get_weather", "a"}
	for i := range m.IntN(4) {
		arguments := map[string]any{"n": i}
		for range m.IntN(3) {
			arguments[m.words()] = m.words()
		}
		raw, _ := json.Marshal(arguments)
		want.Calls = append(want.Calls, toolCall{names[m.IntN(len(names))], string(raw)})
	}
	if len(want.Calls) > 0 {
		want.Finish = chat.ToolCalls
	}
	return want
}

// quote is a text as JSON, in one of its forms.
func (m *mutator) quote(text []uint16) string {
	var quoted strings.Builder
	quoted.WriteByte('"')
	escape := m.IntN(2) == 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"' || c == '\\':
			quoted.WriteString(`\` + string(rune(c)))
		case c == '\n':
			quoted.WriteString(`\n`)
		case c >= 0xd800 && c < 0xdc00 && !escape && i+1 < len(text):
			quoted.WriteString(string((rune(c)-0xd800)<<10 + rune(text[i+1]) - 0xdc00 + 0x10000))
			i++
		case c < 0x20, c >= 0xd800 && c < 0xe000, c >= 0x7f && escape:
			fmt.Fprintf(&quoted, `\u%04x`, c)
		default:
			quoted.WriteRune(rune(c))
		}
	}
	quoted.WriteByte('"')
	return quoted.String()
}

// split cuts a text anywhere, also within characters.
func (m *mutator) split(text string) []string {
	units := utf16Of(text)
	var pieces []string
	for len(units) > 0 {
		n := 1 + m.IntN(len(units))
		pieces = append(pieces, m.quote(units[:n]))
		units = units[n:]
	}
	return pieces
}

// encode writes an answer as a stream, or as a document.
func (m *mutator) encode(want said) string {
	if m.may("document", 10) {
		return m.document(want)
	}
	var deltas []string
	thoughts := []string{"reasoning_content", "reasoning"}[m.IntN(2)]
	for _, piece := range m.split(want.Thought) {
		if m.may("thought in parts", 8) {
			deltas = append(deltas, `{"content":[{"type":"thinking","thinking":[{"type":"text","text":`+piece+`}]}]}`)
			continue
		}
		deltas = append(deltas, `{"`+thoughts+`":`+piece+`,"content":null}`)
	}
	for _, piece := range m.split(want.Text) {
		if m.may("text in parts", 8) {
			piece = `[{"type":"text","text":` + piece + `}]`
		}
		deltas = append(deltas, `{"role":"assistant","content":`+piece+`}`)
	}
	deltas = m.merge(deltas, m.calls(want.Calls))
	var input, output, cached int
	_, _ = fmt.Sscan(want.Usage, &input, &output, &cached)
	usage := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`, input, output, cached)
	var chunks []string
	for i, delta := range deltas {
		chunk := `{"choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]`
		switch {
		case m.may("cumulative usage", 10):
			chunk += fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":%d}`, input, i)
		case m.may("null usage", 4):
			chunk += `,"usage":null`
		}
		chunks = append(chunks, chunk+"}")
	}
	finish := string(want.Finish)
	marked := m.may("no finish_reason", 6) && (want.Text != "" || len(want.Calls) > 0)
	if !marked {
		chunks = append(chunks, `{"choices":[{"index":0,"delta":{},"finish_reason":"`+finish+`"}]}`)
		if m.may("finish_reason twice", 6) {
			chunks = append(chunks, chunks[len(chunks)-1])
		}
	}
	if m.may("whole message at last", 8) && (want.Text != "" || len(want.Calls) > 0) {
		whole := m.document(want)
		chunks = append(chunks, whole)
	}
	chunks = append(chunks, `{"choices":[],"usage":`+usage+`}`)
	if m.may("less usage at last", 6) {
		chunks = append(chunks, `{"choices":[],"usage":{"completion_tokens":null,"total_tokens":5}}`)
	}
	end := []string{"\n", "\r\n", "\r"}[m.IntN(3)]
	var body strings.Builder
	for _, chunk := range chunks {
		if m.may("comment", 10) {
			body.WriteString(": ping" + end + end)
		}
		if m.may("empty data", 10) {
			body.WriteString("data:" + end + end)
		}
		space := strings.Repeat(" ", m.IntN(2))
		body.WriteString("data:" + space + chunk + end + end)
	}
	if marked || m.IntN(2) == 0 {
		body.WriteString("data: [DONE]" + end + end)
	}
	return body.String()
}

// merge keeps the order of both, which may go on at the same time.
func (m *mutator) merge(a, b []string) []string {
	if !m.may("calls within the text", 4) {
		return append(a, b...)
	}
	var merged []string
	for len(a) > 0 && len(b) > 0 {
		if m.IntN(2) == 0 {
			merged, a = append(merged, a[0]), a[1:]
		} else {
			merged, b = append(merged, b[0]), b[1:]
		}
	}
	return append(append(merged, a...), b...)
}

func (m *mutator) document(want said) string {
	var input, output, cached int
	_, _ = fmt.Sscan(want.Usage, &input, &output, &cached)
	content := m.quote(utf16Of(want.Text))
	if m.may("document in parts", 3) {
		content = `[{"type":"thinking","thinking":` + m.quote(utf16Of(want.Thought)) + `},{"type":"text","text":` + content + `}]`
	} else {
		content += `,"reasoning_content":` + m.quote(utf16Of(want.Thought))
	}
	calls := make([]string, 0, len(want.Calls))
	for i, call := range want.Calls {
		arguments := m.quote(utf16Of(call.Arguments))
		if m.IntN(3) == 0 {
			arguments = call.Arguments
		}
		id := []string{`"id":"one",`, ``, fmt.Sprintf(`"id":"c%d",`, i)}[m.IntN(3)]
		calls = append(calls, `{`+id+`"type":"function","function":{"name":"`+call.Name+`","arguments":`+arguments+`}}`)
	}
	finish := []string{"null", `"` + string(want.Finish) + `"`}[m.IntN(2)]
	raw := fmt.Sprintf(`{"object":"chat.completion","choices":[{"index":0,"finish_reason":%s,"message":{"role":"assistant","content":%s,"tool_calls":[%s]}}],`+
		`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}}`,
		finish, content, strings.Join(calls, ","), input, output, cached)
	return raw
}

// calls writes tool calls in one of the manners of servers.
func (m *mutator) calls(all []toolCall) []string {
	if len(all) == 0 {
		return nil
	}
	manner := []string{
		"plain", "interleaved", "name repeated", "name and id repeated", "all under index 0", "arguments under the next index",
		"arguments under index 0", "a new id in every piece", "no index", "no id", "neither index nor id", "one id for all", "in one list",
		"id first", "name in pieces", "whole repeated", "arguments as object", "a new id and the name in every piece", "no index, a new id in every piece",
		"one id for all under index 0", "the id in every piece under index 0",
	}[m.IntN(21)]
	m.ways = append(m.ways, manner)
	piece := func(index int, id, name, arguments string) string {
		var fields []string
		if index >= 0 {
			fields = append(fields, fmt.Sprintf(`"index":%d`, index))
		}
		if id != "" {
			fields = append(fields, `"id":"`+id+`"`)
		}
		if m.IntN(2) == 0 {
			fields = append(fields, `"type":"function"`)
		}
		var function []string
		if name != "" {
			function = append(function, `"name":"`+name+`"`)
		} else if m.IntN(3) == 0 {
			function = append(function, `"name":null`)
		}
		if arguments != "" {
			function = append(function, `"arguments":`+arguments)
		} else if m.IntN(2) == 0 {
			function = append(function, `"arguments":`+[]string{`""`, "null"}[m.IntN(2)])
		}
		return `{` + strings.Join(append(fields, `"function":{`+strings.Join(function, ",")+`}`), ",") + `}`
	}
	delta := func(pieces ...string) string { return `{"tool_calls":[` + strings.Join(pieces, ",") + `]}` }
	var deltas []string
	var list []string
	queues := make([][]string, len(all))
	for i, call := range all {
		id := fmt.Sprintf("call_%d", i)
		index := i
		arguments := m.split(call.Arguments)
		switch manner {
		case "a new id and the name in every piece", "no index, a new id in every piece", "the id in every piece under index 0":
			name := ""
			fresh := func() string { return fmt.Sprintf("new_%d", m.Uint32()) }
			switch manner {
			case "a new id and the name in every piece":
				name = call.Name
			case "no index, a new id in every piece":
				index = -1
			default:
				index, fresh = 0, func() string { return id }
			}
			deltas = append(deltas, delta(piece(index, id, call.Name, "")))
			for _, fragment := range arguments {
				deltas = append(deltas, delta(piece(index, fresh(), name, fragment)))
			}
		case "one id for all under index 0", "plain", "name repeated", "name and id repeated", "all under index 0", "no id", "no index", "neither index nor id", "one id for all":
			name, again := call.Name, ""
			if strings.HasPrefix(manner, "name") {
				again = name
			}
			switch manner {
			case "all under index 0":
				index = 0
			case "no id":
				id = ""
			case "no index":
				index = -1
			case "neither index nor id":
				index, id = -1, ""
			case "one id for all":
				id = "one"
			case "one id for all under index 0":
				index, id = 0, "one"
			}
			deltas = append(deltas, delta(piece(index, id, name, "")))
			for _, fragment := range arguments {
				if manner == "name and id repeated" {
					deltas = append(deltas, delta(piece(index, id, again, fragment)))
				} else {
					deltas = append(deltas, delta(piece(index, "", again, fragment)))
				}
			}
			if again != "" {
				deltas = append(deltas, delta(piece(index, []string{"", id}[m.IntN(2)], again, "")))
			}
		case "interleaved":
			queues[i] = []string{delta(piece(index, id, call.Name, ""))}
			for _, fragment := range arguments {
				queues[i] = append(queues[i], delta(piece(index, "", "", fragment)))
			}
		case "arguments under the next index", "arguments under index 0":
			deltas = append(deltas, delta(piece(index, id, call.Name, "")))
			other := i + 1
			if manner == "arguments under index 0" {
				other = 0
			}
			for _, fragment := range arguments {
				deltas = append(deltas, delta(piece(other, "", "", fragment)))
			}
		case "a new id in every piece":
			deltas = append(deltas, delta(piece(index, id, call.Name, "")))
			for _, fragment := range arguments {
				deltas = append(deltas, delta(piece(index, fmt.Sprintf("new_%d", m.Uint32()), "", fragment)))
			}
		case "in one list":
			list = append(list, piece([]int{-1, index, 0}[m.IntN(3)], id, call.Name, m.quote(utf16Of(call.Arguments))))
		case "id first":
			deltas = append(deltas, delta(piece(index, id, "", "")), delta(piece(index, "", call.Name, "")))
			for _, fragment := range arguments {
				deltas = append(deltas, delta(piece(index, id, "", fragment)))
			}
		case "name in pieces":
			half := len(call.Name) / 2
			deltas = append(deltas, delta(piece(index, id, call.Name[:half+1], "")))
			if half+1 < len(call.Name) {
				deltas = append(deltas, delta(piece(index, "", call.Name[half+1:], "")))
			}
			for _, fragment := range arguments {
				deltas = append(deltas, delta(piece(index, "", "", fragment)))
			}
		case "whole repeated":
			deltas = append(deltas, delta(piece(index, id, call.Name, "")))
			for _, fragment := range arguments {
				deltas = append(deltas, delta(piece(index, "", "", fragment)))
			}
			deltas = append(deltas, delta(piece(index, id, call.Name, m.quote(utf16Of(call.Arguments)))))
		case "arguments as object":
			deltas = append(deltas, delta(piece(index, id, call.Name, call.Arguments)))
		}
	}
	for {
		var open []int
		for i, queue := range queues {
			if len(queue) > 0 {
				open = append(open, i)
			}
			if len(queue) > 1 && queueIsNew(queues, i) {
				break // its head comes before those of later calls
			}
		}
		if len(open) == 0 {
			break
		}
		i := open[m.IntN(len(open))]
		deltas, queues[i] = append(deltas, queues[i][0]), queues[i][1:]
	}
	if list != nil {
		deltas = append(deltas, delta(list...))
	}
	return deltas
}

// queueIsNew says that the head of a call was not written yet.
func queueIsNew(queues [][]string, i int) bool {
	return strings.Contains(queues[i][0], `"id"`)
}

func utf16Of(text string) []uint16 {
	var units []uint16
	for _, r := range text {
		if r >= 0x10000 {
			r -= 0x10000
			units = append(units, uint16(0xd800+r>>10), uint16(0xdc00+r&0x3ff)) //nolint:gosec // as UTF-16 is
			continue
		}
		units = append(units, uint16(r)) //nolint:gosec // it fits
	}
	return units
}

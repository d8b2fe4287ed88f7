package provider

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestEvents(t *testing.T) {
	for name, c := range map[string]struct {
		stream, document string
		events           []string
		text             bool
	}{
		"plain":            {stream: "data: a\n\ndata: b\n\n", events: []string{"a", "b"}},
		"no space, no end": {stream: "data:a\n\ndata:b", events: []string{"a", "b"}},
		"CRLF":             {stream: "data: a\r\n\r\ndata: b\r\n\r\n", events: []string{"a", "b"}},
		"CR alone":         {stream: "data: a\r\rdata: b\r\r", events: []string{"a", "b"}},
		"all in one":       {stream: "data: a\r\n\rdata: b\n\r\n", events: []string{"a", "b"}},
		"other fields":     {stream: ": ping\n\nevent: x\nid: 1\nretry: 5\ndata: a\n\n", events: []string{"a"}},
		"nothing behind":   {stream: "data:\n\ndata: \n\ndata:  \n\ndata\n\ndata: a\n\n", events: []string{"a"}},
		"byte order mark":  {stream: "\ufeffdata: a\n\n", events: []string{"a"}},
		"many lines":       {stream: "data: {\ndata: \"a\":1}\n\n", events: []string{"{\n\"a\":1}"}},
		"unmarked lines":   {stream: "data: {\n  \"a\": 1\n}\n\ndata: b\n\n", events: []string{"{\n  \"a\": 1\n}", "b"}},
		"a document":       {stream: "{\n \"a\":\n\n1}", document: "{\n \"a\":\n1}\n"},
		"a list":           {stream: "\r[1]", document: "[1]\n"},
		"document at last": {stream: "data: a\n\n{\"b\":1}\n", events: []string{"a"}, document: "{\"b\":1}\n"},
		"right after":      {stream: "data: a\n{\"b\":1}\n", events: []string{"a"}, document: "{\"b\":1}\n"},
		"a text":           {stream: "<html>\n", text: true},
		"nothing":          {},
	} {
		t.Run(name, func(t *testing.T) {
			for _, reader := range []io.Reader{strings.NewReader(c.stream), iotest.OneByteReader(strings.NewReader(c.stream)), iotest.DataErrReader(strings.NewReader(c.stream))} {
				source := NewEvents(reader)
				var events []string
				for {
					data, err := source.next()
					if errors.Is(err, io.EOF) {
						break
					}
					require.NoError(t, err)
					events = append(events, string(data))
				}
				require.Equal(t, c.events, events)
				require.Equal(t, c.document, string(source.document))
				require.Equal(t, c.text, len(source.text) > 0)
			}
		})
	}
}

// TestEventsAtOnce: an event is there when its last byte is, whatever ends its lines.
func TestEventsAtOnce(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r"} {
		in, out := io.Pipe()
		source := NewEvents(in)
		go func() { _, _ = io.WriteString(out, "data: a"+end+end) }()
		data, err := source.next()
		require.NoError(t, err)
		require.Equal(t, "a", string(data))
		require.NoError(t, in.Close())
	}
}

func TestEventsBoundDocuments(t *testing.T) {
	source := NewEvents(strings.NewReader("{" + strings.Repeat("\n\n"+strings.Repeat(" ", 1<<10), 5<<10)))
	_, err := source.Next()
	require.ErrorIs(t, err, ErrEventSize)
}

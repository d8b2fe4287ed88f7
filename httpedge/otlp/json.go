package otlp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"parley/actors/core/tracing"
)

// failed is the code of the status of a span that failed.
const failed = 2

// JSON reads a request as JSON: at most tracing.MaxSpans spans, and how many there are.
func JSON(body []byte) (spans []tracing.Span, all int, err error) {
	d := decoder{json.NewDecoder(bytes.NewReader(body))}
	err = d.lists([]string{"resourceSpans", "scopeSpans", "spans"}, func() error {
		if all++; len(spans) == tracing.MaxSpans {
			return d.skip()
		}
		var s span
		if bad := d.Decode(&s); bad != nil {
			return bad
		}
		spans = append(spans, s.span())
		return nil
	})
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the document")
		}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read JSON: %w", err)
	}
	return spans, all, nil
}

// decoder reads a document piece by piece.
type decoder struct{ *json.Decoder }

// lists reads an object whose member of the first name is a list of objects, whose members of the next name are, and so on. It calls
// each before every element of the last.
func (d decoder) lists(names []string, each func() error) error {
	return d.inside('{', func() error {
		key, err := d.Token()
		switch {
		case err != nil:
			return err
		case key != names[0]:
			return d.skip()
		case len(names) == 1:
			return d.inside('[', each)
		}
		return d.inside('[', func() error { return d.lists(names[1:], each) })
	})
}

// inside reads an object or a list, null as an empty one. It calls each before every member.
func (d decoder) inside(opens json.Delim, each func() error) error {
	switch token, err := d.Token(); {
	case err != nil:
		return err
	case token == nil:
		return nil
	case token != opens:
		return errType
	}
	for d.More() {
		if err := each(); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// nothing is JSON that is passed over.
type nothing struct{}

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (nothing) UnmarshalJSON([]byte) error { return nil }

func (d decoder) skip() error { return d.Decode(&nothing{}) }

// span is a span as JSON has it.
type span struct {
	TraceID  tracing.Text         `json:"traceId"`
	SpanID   tracing.Text         `json:"spanId"`
	ParentID tracing.Text         `json:"parentSpanId"`
	Name     tracing.Text         `json:"name"`
	Start    nanos                `json:"startTimeUnixNano"`
	End      nanos                `json:"endTimeUnixNano"`
	Status   tracing.Loose[state] `json:"status"`
	GenAI    attributes           `json:"attributes"`
}

type state struct {
	Message tracing.Text `json:"message"`
	Code    tracing.Text `json:"code"`
}

func (s *span) span() tracing.Span {
	code := s.Status.Value.Code
	return tracing.Span{
		TraceID: strings.ToLower(string(s.TraceID)), SpanID: strings.ToLower(string(s.SpanID)), ParentID: strings.ToLower(string(s.ParentID)),
		Name: string(s.Name), Start: uint64(s.Start), End: uint64(s.End), GenAI: tracing.GenAI(s.GenAI),
		Failed: code == "STATUS_CODE_ERROR" || code == tracing.Text(strconv.Itoa(failed)), Problem: string(s.Status.Value.Message),
	}
}

// nanos is a time in nanoseconds: whole, as a string or a number; anything else is none.
type nanos uint64

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (n *nanos) UnmarshalJSON(raw []byte) error {
	if number, err := strconv.ParseUint(strings.Trim(string(raw), `"`), 10, 64); err == nil {
		*n = nanos(number)
	}
	return nil
}

// attributes are those of a span that are kept.
type attributes tracing.GenAI

// UnmarshalJSON implements json.Unmarshaler.
func (a *attributes) UnmarshalJSON(raw []byte) error {
	d, kept := decoder{json.NewDecoder(bytes.NewReader(raw))}, (*tracing.GenAI)(a)
	return d.inside('[', func() error {
		var one struct {
			Key   tracing.Text `json:"key"`
			Value tracing.Loose[struct {
				Text   tracing.Text  `json:"stringValue"`
				Number tracing.Whole `json:"intValue"`
			}] `json:"value"`
		}
		if err := d.Decode(&one); err != nil {
			return err
		}
		if text := kept.Text(string(one.Key)); text != nil {
			*text = string(one.Value.Value.Text)
		}
		if number := kept.Number(string(one.Key)); number != nil {
			*number = one.Value.Value.Number
		}
		return nil
	})
}

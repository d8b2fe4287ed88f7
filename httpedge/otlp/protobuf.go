package otlp

import (
	"encoding/hex"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"parley/actors/core/tracing"
)

var errType = errors.New("a field has another type than it should have")

// fields calls each with the fields of a message: held is what a field of bytes has, number what any other.
func fields(message []byte, each func(field int, held []byte, number uint64) error) error {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		var held []byte
		var number uint64
		switch kind {
		case protowire.BytesType:
			held, n = protowire.ConsumeBytes(message)
			if held == nil {
				held = []byte{}
			}
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(message)
		case protowire.Fixed64Type:
			number, n = protowire.ConsumeFixed64(message)
		default:
			n = protowire.ConsumeFieldValue(field, kind, message)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if err := each(int(field), held, number); err != nil {
			return err
		}
	}
	return nil
}

// within calls each with what the messages in one field of a message hold.
func within(message []byte, wanted int, each func(held []byte) error) error {
	return fields(message, func(field int, held []byte, _ uint64) error {
		switch {
		case field != wanted:
			return nil
		case held == nil:
			return errType
		}
		return each(held)
	})
}

// Protobuf reads an ExportTraceServiceRequest: at most tracing.MaxSpans spans, and how many there are.
func Protobuf(body []byte) (spans []tracing.Span, all int, err error) {
	const resourceSpans, scopeSpans, span = 1, 2, 2
	err = within(body, resourceSpans, func(held []byte) error {
		return within(held, scopeSpans, func(held []byte) error {
			return within(held, span, func(held []byte) error {
				if all++; len(spans) == tracing.MaxSpans {
					return nil
				}
				spans = append(spans, tracing.Span{})
				return readSpan(held, &spans[len(spans)-1])
			})
		})
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read protobuf: %w", err)
	}
	return spans, all, nil
}

func readSpan(message []byte, s *tracing.Span) error {
	return fields(message, func(field int, held []byte, number uint64) error {
		switch field {
		case 1:
			s.TraceID = hex.EncodeToString(held[:min(len(held), tracing.MaxID)])
		case 2:
			s.SpanID = hex.EncodeToString(held[:min(len(held), tracing.MaxID)])
		case 4:
			s.ParentID = hex.EncodeToString(held[:min(len(held), tracing.MaxID)])
		case 5:
			s.Name = string(held)
		case 7:
			s.Start = number
		case 8:
			s.End = number
		case 9:
			return readAttribute(held, &s.GenAI)
		case 15:
			return fields(held, func(field int, held []byte, number uint64) error {
				switch field {
				case 2:
					s.Problem = string(held)
				case 3:
					s.Failed = number == failed
				}
				return nil
			})
		}
		return nil
	})
}

// readAttribute reads a KeyValue, and its value only where it is kept.
func readAttribute(message []byte, into *tracing.GenAI) error {
	var key, value []byte
	err := fields(message, func(field int, held []byte, _ uint64) error {
		switch field {
		case 1:
			key = held
		case 2:
			value = held
		}
		return nil
	})
	if err != nil {
		return err
	}
	text, counted := into.Text(string(key)), into.Number(string(key))
	if text == nil && counted == nil {
		return nil
	}
	return fields(value, func(field int, held []byte, number uint64) error {
		switch {
		case field == 1 && text != nil:
			*text = string(held)
		case field == 3 && counted != nil:
			*counted = tracing.Counted(int64(number))
		}
		return nil
	})
}

// PartialSuccess is the ExportTraceServiceResponse to a request of which some spans were left out; nothing for 0.
func PartialSuccess(leftOut int64, why string) []byte {
	if leftOut == 0 {
		return nil
	}
	partial := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(leftOut))
	partial = protowire.AppendString(protowire.AppendTag(partial, 2, protowire.BytesType), why)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial)
}

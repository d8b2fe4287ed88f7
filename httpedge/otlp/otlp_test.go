package otlp_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"parley/actors/core/tracing"
	"parley/httpedge/otlp"
)

// message is a protobuf field that holds a message of fields.
func message(field protowire.Number, parts ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), bytes.Join(parts, nil))
}

func number(field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), n)
}

func fixed(field protowire.Number, n uint64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(nil, field, protowire.Fixed64Type), n)
}

func text(field protowire.Number, s string) []byte { return message(field, []byte(s)) }

func inHex(field protowire.Number, s string) []byte {
	raw, _ := hex.DecodeString(s)
	return message(field, raw)
}

const (
	traceID = "5b8efff798038103d269b633813fc60c"
	spanID  = "eee19b7ec3c1b174"
	started = 1_767_225_600_123_456_789
)

// spanJSON and spanProtobuf are the same span.
func spanJSON() string {
	return fmt.Sprintf(`{"traceId":"%s","spanId":"%s","parentSpanId":"","name":"chat large","kind":3,"startTimeUnixNano":"%d","endTimeUnixNano":%d,
		"attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.usage.input_tokens","value":{"intValue":"120"}},
		{"key":"gen_ai.usage.output_tokens","value":{"intValue":30}},{"key":"gen_ai.response.finish_reasons","value":{"arrayValue":{"values":[{"stringValue":"stop"}]}}},
		{"key":"gen_ai.response.model","value":{"stringValue":"large-2"}}],"events":[],"status":{"code":2,"message":"late"}}`, strings.ToUpper(traceID), spanID, started, started+5)
}

func spanProtobuf() []byte {
	attribute := func(key string, value []byte) []byte { return message(9, text(1, key), message(2, value)) }
	return message(2, inHex(1, traceID), inHex(2, spanID), text(5, "chat large"), number(6, 3), fixed(7, started), fixed(8, started+5),
		attribute("gen_ai.operation.name", text(1, "chat")), attribute("gen_ai.usage.input_tokens", number(3, 120)),
		attribute("gen_ai.usage.output_tokens", number(3, 30)), attribute("gen_ai.response.finish_reasons", message(5, message(1, text(1, "stop")))),
		attribute("gen_ai.response.model", text(1, "large-2")), message(15, text(2, "late"), number(3, 2)))
}

func wrapJSON(spans ...string) []byte {
	return []byte(`{"resourceSpans":[{"resource":{"attributes":[]},"scopeSpans":[{"scope":{"name":"a"},"spans":[` + strings.Join(spans, ",") + `]}]}]}`)
}

func wrapProtobuf(spans ...[]byte) []byte {
	return message(1, message(1, message(1, text(1, "service.name"))), message(2, message(1, text(1, "a")), bytes.Join(spans, nil)))
}

// TestRead: the same span in both forms.
func TestRead(t *testing.T) {
	want := tracing.Span{TraceID: traceID, SpanID: spanID, Name: "chat large", Problem: "late", Failed: true, Start: started, End: started + 5, GenAI: tracing.GenAI{
		Operation: "chat", ResponseModel: "large-2", Input: 120, Output: 30,
	}}
	spans, all, err := otlp.JSON(wrapJSON(spanJSON(), spanJSON()))
	require.NoError(t, err)
	require.Equal(t, []any{2, []tracing.Span{want, want}}, []any{all, spans})
	spans, all, err = otlp.Protobuf(wrapProtobuf(spanProtobuf(), spanProtobuf()))
	require.NoError(t, err)
	require.Equal(t, []any{2, []tracing.Span{want, want}}, []any{all, spans})
}

// TestReadOdd: fields of other types are as if they were absent; what is no request is refused.
func TestReadOdd(t *testing.T) {
	for body, want := range map[string]int{
		`{}`: 0, `{"resourceSpans":null}`: 0, `{"other":[1,{"spans":[]}],"resourceSpans":[{"scopeSpans":[]},{}]}`: 0,
		`{"resourceSpans":[{"scopeSpans":[{"spans":[{},{"name":7,"status":"x","attributes":null,"startTimeUnixNano":"soon"}]}]}]}`: 2,
		``: -1, `[]`: -1, `{"resourceSpans":{}}`: -1, `{"resourceSpans":[7]}`: -1, `{"resourceSpans":[{"scopeSpans":[{"spans":[7]}]}]}`: -1, `{"resourceSpans":[`: -1, `{} {}`: -1,
		`{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":{}}]}]}]}`: -1,
	} {
		_, all, err := otlp.JSON([]byte(body))
		require.Equal(t, want < 0, err != nil, "%s: %v", body, err)
		require.Equal(t, max(want, 0), all, body)
	}
	for _, body := range [][]byte{{0xff}, number(1, 7), message(1, number(2, 7)), {0x0a, 0x05, 0x00}} {
		_, _, err := otlp.Protobuf(body)
		require.Error(t, err, "%x", body)
	}
	rapid.Check(t, func(t *rapid.T) { // nothing breaks
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		_, _, _ = otlp.Protobuf(body)
		_, _, _ = otlp.Protobuf(wrapProtobuf(message(2, body)))
		_, _, _ = otlp.JSON(body)
	})
}

// TestReadMany: what a body of nothing but spans, or attributes, takes in memory does not grow with them.
func TestReadMany(t *testing.T) {
	const n, most = 1 << 20, 32 << 20
	allocated := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for name, read := range map[string]func() ([]tracing.Span, int, error){
		"spans, JSON": func() ([]tracing.Span, int, error) {
			return otlp.JSON(wrapJSON(strings.TrimSuffix(strings.Repeat("{},", n/8), ",")))
		},
		"spans, protobuf": func() ([]tracing.Span, int, error) {
			return otlp.Protobuf(wrapProtobuf(bytes.Repeat(message(2), n/8)))
		},
		"attributes, protobuf": func() ([]tracing.Span, int, error) {
			return otlp.Protobuf(wrapProtobuf(message(2, bytes.Repeat(message(9), n))))
		},
	} {
		before := allocated()
		spans, all, err := read()
		require.NoError(t, err, name)
		require.LessOrEqual(t, len(spans), tracing.MaxSpans, name)
		require.GreaterOrEqual(t, all, len(spans), name)
		require.Less(t, int64(allocated())-int64(before), int64(most), name)
		runtime.KeepAlive(spans)
	}
}

// BenchmarkSpans is how fast requests of 512 spans are read, and made into what is stored.
func BenchmarkSpans(b *testing.B) {
	const batch = 512
	inJSON, inProtobuf := make([]string, batch), make([][]byte, batch)
	for i := range batch {
		inJSON[i], inProtobuf[i] = spanJSON(), spanProtobuf()
	}
	for name, c := range map[string]struct {
		body []byte
		read func([]byte) ([]tracing.Span, int, error)
	}{"JSON": {wrapJSON(inJSON...), otlp.JSON}, "protobuf": {wrapProtobuf(inProtobuf...), otlp.Protobuf}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				spans, _, err := c.read(c.body)
				if err != nil {
					b.Fatal(err)
				}
				tracing.Sessions(spans, func() string { return "made" })
			}
			b.ReportMetric(float64(batch*b.N)/b.Elapsed().Seconds(), "spans/s")
		})
	}
}

// TestPartialSuccess: what a client of protobuf is told.
func TestPartialSuccess(t *testing.T) {
	require.Empty(t, otlp.PartialSuccess(0, "nothing"))
	require.Equal(t, message(1, number(1, 7), text(2, "why")), otlp.PartialSuccess(7, "why"))
}

package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"strconv"
)

// defaultSpans is how many spans a report has, when -records says nothing: an exporter of OpenTelemetry sends 512 at most by itself.
const defaultSpans = 200

// runSpans measures POST /traces: reports of -records spans each, every one a trace of its own, which becomes a session with as many events.
func runSpans(ctx context.Context, o *Options, live *progress) (*Report, error) {
	c, err := newClientAPI(o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	spans := cmp.Or(o.Records, defaultSpans)
	template, err := spansOf(spans)
	if err != nil {
		return nil, err
	}
	reports := make([][]byte, o.Concurrency) // one for each caller, who writes another trace into it each time
	for i := range reports {
		reports[i] = bytes.Clone(template)
	}
	taken := []byte(`"eventsStored":` + strconv.Itoa(spans) + `,`)
	l := &load{options: o, live: live, op: func(caller, _ int) error {
		retrace(reports[caller])
		return c.call("POST", "/traces", reports[caller], 200, func(answer []byte) error {
			if !bytes.Contains(answer, taken) {
				return &callError{Status: 200, Code: "not all spans were taken"}
			}
			return nil
		})
	}}
	report, err := measure(ctx, c, l)
	if report != nil {
		report.Numbers["spans of a report"] = float64(spans)
		report.Numbers["spans per second"] = report.PerSecond * float64(spans)
	}
	return report, err
}

// traceOfTemplate stands for the trace in a report.
const traceOfTemplate = "00000000000000000000000000000000"

// retrace gives a report another trace, in place.
func retrace(report []byte) {
	var id [16]byte
	for i := range id {
		id[i] = byte(rand.Uint32())
	}
	trace := hex.AppendEncode(make([]byte, 0, len(traceOfTemplate)), id[:])
	mark := []byte(`"traceId":"`)
	for rest := report; ; {
		at := bytes.Index(rest, mark)
		if at < 0 {
			return
		}
		rest = rest[at+len(mark):]
		copy(rest, trace)
	}
}

// spansOf is a report of model calls and tools below one root, about 500 bytes a span, as the semantic conventions for generative AI name them.
func spansOf(n int) ([]byte, error) {
	type value map[string]any
	text := func(key, said string) value { return value{"key": key, "value": value{"stringValue": said}} }
	number := func(key string, said int) value {
		return value{"key": key, "value": value{"intValue": strconv.Itoa(said)}}
	}
	const began, millisecond = 1_790_000_000_000_000_000, 1_000_000
	spans := make([]value, n)
	for i := range spans {
		id := strconv.FormatUint(uint64(i)|1<<60, 16)
		spans[i] = value{
			"traceId": traceOfTemplate, "spanId": id, "name": "chat demo", "kind": 3,
			"startTimeUnixNano": strconv.Itoa(began + i*millisecond), "endTimeUnixNano": strconv.Itoa(began + (i+1)*millisecond),
			"attributes": []value{
				text("gen_ai.operation.name", "chat"), text("gen_ai.request.model", "demo"), text("gen_ai.agent.name", "assistant"),
				number("gen_ai.usage.input_tokens", 100+i), number("gen_ai.usage.output_tokens", 20),
			},
		}
		if i > 0 {
			spans[i]["parentSpanId"] = strconv.FormatUint(1<<60, 16)
		}
	}
	return json.Marshal(value{"resourceSpans": []value{{
		"resource":   value{"attributes": []value{text("service.name", "bench")}},
		"scopeSpans": []value{{"scope": value{"name": "bench"}, "spans": spans}},
	}}})
}

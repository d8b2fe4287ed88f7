package failure

// Of traces.
const (
	TraceNoSession Reason = "trace_no_session"
	TraceNoEvent   Reason = "trace_no_event"
	TraceNoSpans   Reason = "trace_no_spans"
	TraceMissing   Reason = "trace_missing"
	TraceFull      Reason = "trace_full"
	TraceTooLong   Reason = "trace_too_long"
	ThreadMissing  Reason = "thread_missing"
	BadTrace       Reason = "bad_trace"
	TracesNotReady Reason = "traces_not_ready"
	TraceLongID    Reason = "trace_long_id"
	BadSpans       Reason = "bad_spans"
	TraceEncoding  Reason = "trace_encoding"
	TraceTooLarge  Reason = "trace_too_large"
)

// traceWords are the default words of these reasons; empty for any other.
func traceWords(r Reason) string {
	switch r {
	case TraceNoSession:
		return "sessionId is required"
	case TraceNoEvent:
		return "event is required"
	case TraceNoSpans:
		return "No spans found in payload"
	case TraceMissing:
		return "Session not found"
	case TraceFull:
		return "A session has at most {most} events"
	case TraceTooLong:
		return "Events of a session are at most {most} ms after its start"
	case ThreadMissing:
		return "Thread not found"
	case BadTrace:
		return "What is reported of a session needs its tenant, project and id, and a time for which it is kept"
	case TracesNotReady:
		return "A node of the cluster is of an older release, which keeps no traces"
	case TraceLongID:
		return "{name} must be at most {most} bytes long"
	case BadSpans:
		return "The body is not an OTLP request: {problem}"
	case TraceEncoding:
		return "Content-Encoding must be gzip, or absent"
	case TraceTooLarge:
		return "The body must not be larger than {most} bytes once it is unpacked"
	default:
		return ""
	}
}

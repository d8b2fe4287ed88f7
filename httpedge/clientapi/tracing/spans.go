package tracing

import (
	"cmp"
	"compress/flate"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"

	"parley/actors/core/failure"
	"parley/actors/core/quota"
	"parley/actors/core/tracing"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/wire"
	"parley/httpedge/otlp"
	"parley/proto/failurepb"
)

const protobufType = "application/x-protobuf"

// spansInput is a request of OTLP/HTTP. The handler reads the body.
type spansInput struct {
	Encoding      string            `header:"Content-Encoding" doc:"gzip, or none"`
	ResourceSpans []json.RawMessage `json:"resourceSpans" required:"true" doc:"As OpenTelemetry's exporters send them"`

	contentType string
}

// TakesRaw implements endpoint.RawBody: JSON, too, may be packed.
func (in *spansInput) TakesRaw(contentType string) bool {
	in.contentType = contentType
	return true
}

type spansOut struct {
	Success          bool           `json:"success"`
	SessionsIngested int            `json:"sessionsIngested"`
	EventsStored     int64          `json:"eventsStored" doc:"Those that were known included"`
	SpansProcessed   int            `json:"spansProcessed"`
	PartialSuccess   *partialResult `json:"partialSuccess,omitempty" doc:"When spans were left out"`

	protobuf bool
}

type partialResult struct {
	RejectedSpans int64  `json:"rejectedSpans"`
	ErrorMessage  string `json:"errorMessage"`
}

// ContentType implements endpoint.ContentTyper.
func (out *spansOut) ContentType() string {
	if out.protobuf {
		return protobufType
	}
	return "application/json"
}

// AppendJSON implements endpoint.Appender.
func (out *spansOut) AppendJSON(dst []byte) []byte {
	if out.protobuf {
		if out.PartialSuccess == nil {
			return dst
		}
		return append(dst, otlp.PartialSuccess(out.PartialSuccess.RejectedSpans, out.PartialSuccess.ErrorMessage)...)
	}
	dst = fmt.Appendf(dst, `{"success":%t,"sessionsIngested":%d,"eventsStored":%d,"spansProcessed":%d`, out.Success, out.SessionsIngested, out.EventsStored, out.SpansProcessed)
	if out.PartialSuccess != nil {
		dst = fmt.Appendf(dst, `,"partialSuccess":{"rejectedSpans":%d,"errorMessage":`, out.PartialSuccess.RejectedSpans)
		dst = append(wire.AppendString(dst, out.PartialSuccess.ErrorMessage), '}')
	}
	return append(dst, '}')
}

func (a *api) reportSpans(ctx context.Context, in *spansInput, upload *endpoint.Upload) (*spansOut, error) {
	caller, done, err := a.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if upload == nil {
		return nil, errors.New("spans came as no upload")
	}
	if upload.Length > int64(a.Config.TraceBody) {
		return nil, tooLarge(a.Config.TraceBody)
	}
	body, err := unpacked(upload.Body, in.Encoding, a.Config.TraceBody)
	if err != nil {
		return nil, err
	}
	media, _, _ := mime.ParseMediaType(in.contentType) // what is no type is read as JSON
	decode, out := otlp.JSON, &spansOut{Success: true, protobuf: media == protobufType}
	if out.protobuf {
		decode = otlp.Protobuf
	}
	spans, all, err := decode(body)
	if err != nil {
		return nil, failure.New(failurepb.Code_INVALID_REQUEST, failure.BadSpans).Param("problem", err.Error())
	}
	if all == 0 {
		return nil, failure.New(failurepb.Code_INVALID_REQUEST, failure.TraceNoSpans)
	}
	puts, left := tracing.Sessions(spans, a.eventID)
	rejected := int64(left + all - len(spans))
	stored, err := a.store(ctx, caller, puts...)
	full, _ := errors.AsType[*quota.Refusal](err)
	if err != nil && (full == nil || len(stored) == 0) {
		return nil, handler.QuotaFailure(err)
	}
	for _, put := range puts {
		reply := stored[put]
		if reply == nil { // it is new, and there is no room for it
			rejected += int64(len(put.GetEvents()))
			continue
		}
		out.EventsStored += reply.GetStored()
		rejected += reply.GetLeftOut()
	}
	if out.SessionsIngested, out.SpansProcessed = len(stored), all; rejected > 0 {
		out.PartialSuccess = &partialResult{rejected, fmt.Sprintf(
			"Spans were left out: those of no trace, and beyond %d of a request, %d of a session or %d sessions of a request", tracing.MaxSpans, tracing.MaxEvents, tracing.MaxSessions)}
		if full != nil {
			out.PartialSuccess.ErrorMessage += "; new sessions: " + full.Message
		}
	}
	return out, nil
}

// unpacked reads a body that may be packed, of at most so many bytes once it is not. A larger one is not read further.
func unpacked(body io.Reader, encoding string, most int) ([]byte, error) {
	switch strings.ToLower(cmp.Or(encoding, "identity")) {
	case "identity":
	case "gzip":
		reader, err := gzip.NewReader(body)
		if err != nil {
			return nil, unreadable(err)
		}
		body = reader
	default:
		return nil, failure.New(failurepb.Code_INVALID_REQUEST, failure.TraceEncoding)
	}
	held, err := io.ReadAll(io.LimitReader(body, int64(most)+1))
	switch {
	case err != nil:
		return nil, unreadable(err)
	case len(held) > most:
		return nil, tooLarge(most)
	}
	return held, nil
}

// unreadable is why a body cannot be read: it is not packed as it says, or, as it is, the connection's error.
func unreadable(err error) error {
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return failure.New(failurepb.Code_INVALID_REQUEST, failure.BadSpans).Param("problem", err.Error())
	}
	if _, is := errors.AsType[flate.CorruptInputError](err); is {
		return failure.New(failurepb.Code_INVALID_REQUEST, failure.BadSpans).Param("problem", err.Error())
	}
	return err
}

func tooLarge(most int) *failure.Failure {
	return failure.New(failurepb.Code_TOO_LARGE, failure.TraceTooLarge).Param("most", most)
}

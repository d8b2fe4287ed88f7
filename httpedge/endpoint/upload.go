package endpoint

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"reflect"
	"time"

	"github.com/valyala/fasthttp"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/failurepb"
)

// Upload is a body that a handler reads by itself, piece by piece.
type Upload struct {
	// Body reads from the connection. It ends with io.EOF only when the whole body has come; a client that is too slow
	// or goes away is an error that the surface can render. It does not outlive the handler.
	Body io.Reader
	// ContentType is the media type as sent, "" when there was none.
	ContentType string
	// Length is the declared length in bytes, -1 = not declared. No more than it can be read.
	Length int64
}

// RawBody is an input of an OnUpload route that decides itself which bodies are bytes. It is asked when the fields that
// are not in the body have been filled. JSON in a request without a query is never bytes.
type RawBody interface {
	TakesRaw(contentType string) bool
}

// OnUpload declares a route that takes its body as bytes, without a limit but the handler's own, or as JSON. It is JSON
// when the request says so or names no type (RawBody may say otherwise): then it fills the input as any other route's,
// within MaxBody, and the upload is nil.
func OnUpload[In, Out any](
	pattern, access string, handle func(context.Context, *In, *Upload) (*Out, error), options ...Option,
) Route {
	route := newRoute[In, Out](pattern, access, Uploads, handle, options)
	route.invoke = func(ctx context.Context, x *exchange) (output, error) {
		in := new(In)
		upload, err := route.input.decodeUpload(x, reflect.ValueOf(in).Elem(), in)
		if err != nil {
			return output{}, err
		}
		out, err := handle(ctx, in, upload)
		return newOutput(out), err
	}
	return route
}

// decodeUpload fills the input from all but the body, and from the body when it is JSON.
func (p *inputPlan) decodeUpload(x *exchange, value reflect.Value, in any) (*Upload, error) {
	if refused := p.decodeParams(x, value); refused != nil {
		return nil, refused
	}
	sent := string(x.rc.Request.Header.ContentType())
	raw := !isJSON(sent)
	if chooser, ok := in.(RawBody); ok {
		raw = chooser.TakesRaw(sent)
	}
	if !raw {
		return nil, p.decode(x, value, in)
	}
	if p.validates {
		if v, ok := in.(Validator); ok {
			if refused := v.Validate(); refused != nil {
				return nil, refused
			}
		}
	}
	if x.declined() { // JSON that the handler was to read
		return nil, x.tooLarge(x.mux.largestBody(x.route))
	}
	if refused := x.takeTransfer(); refused != nil {
		return nil, refused
	}
	body := x.openBody()
	body.patient = true
	return &Upload{Body: body, ContentType: sent, Length: body.length}, nil
}

// isJSON says whether a content type means a JSON body; none at all does.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/json"
}

// bodyReader reads a request's body from its connection. fasthttp has set a deadline for the whole request; a patient
// reader moves it as long as the client makes progress.
type bodyReader struct {
	x       *exchange
	stream  io.Reader
	length  int64 // declared, -1 = chunked
	read    int64
	patient bool
	moved   int64 // what had been read when the deadline was last moved
	ended   bool
	broken  error // what every further read says: no end that could be taken for the body's
}

// progress is how much must come or go before a deadline is moved: a client that trickles single bytes is slow.
const progress = 64 << 10

// Read implements io.Reader.
func (b *bodyReader) Read(p []byte) (int, error) {
	if b.ended {
		return 0, io.EOF
	}
	if b.broken != nil {
		return 0, b.broken
	}
	if b.patient && (b.moved == 0 || b.read-b.moved >= progress) {
		b.moved = max(b.read, 1)
		b.x.awaitBody()
	}
	n, err := b.stream.Read(p)
	b.read += int64(n)
	if err == nil {
		return n, nil
	}
	if errors.Is(err, io.EOF) && b.complete() {
		b.ended = true
		return n, io.EOF
	}
	b.broken = brokenRequest(err)
	return n, b.broken
}

// complete says whether the end of the stream is the end of the body. Where chunks end because the connection did,
// fasthttp says io.EOF as well; only a field of its reader tells. Without that field no body of chunks is taken for
// whole (a test notices).
func (b *bodyReader) complete() bool {
	if b.length >= 0 {
		return b.read >= b.length
	}
	stream := reflect.ValueOf(b.stream)
	if stream.Kind() != reflect.Pointer || stream.Elem().Kind() != reflect.Struct {
		return false
	}
	ended := stream.Elem().FieldByName("eof")
	return ended.Kind() == reflect.Bool && ended.Bool()
}

// awaitBody gives the client time for its next piece, within the time that the route has.
func (x *exchange) awaitBody() {
	patience := x.mux.config.ReadTimeout
	if patience <= 0 || x.rc.Request.BodyStream() == nil {
		return
	}
	until := time.Now().Add(patience)
	if !x.deadline.IsZero() && x.deadline.Before(until) {
		until = x.deadline
	}
	_ = x.rc.Conn().SetReadDeadline(until) // of a dead connection: the next read says so
}

// openBody returns the reader of the request's body, always the same one.
func (x *exchange) openBody() *bodyReader {
	if x.body == nil {
		x.body = &x.reader
		*x.body = bodyReader{x: x, stream: x.rc.Request.BodyStream(), length: int64(x.rc.Request.Header.ContentLength())}
		if x.body.stream == nil { // there is none, or a test brought it along
			held := x.rc.Request.Body()
			x.body.stream, x.body.length = bytes.NewReader(held), int64(len(held))
		}
	}
	return x.body
}

// wholeBody reads the request's body into memory, within the route's limit.
func (x *exchange) wholeBody() ([]byte, error) {
	if x.held != nil {
		return x.held, nil
	}
	usual, most := x.mux.config.MaxBodyBytes, x.mux.largestBody(x.route)
	if x.declined() {
		return nil, x.tooLarge(most)
	}
	if x.rc.Request.BodyStream() == nil {
		return x.rc.Request.Body(), nil
	}
	const firstPiece = 512
	body := x.openBody()
	size := body.length
	switch {
	case size > int64(most):
		return nil, x.tooLarge(most)
	case size > int64(usual):
		if refused := x.takeRoom(); refused != nil {
			return nil, refused
		}
	case size < 0:
		size = firstPiece
	}
	held := make([]byte, 0, size+1) // one more, so that the end is seen without growing
	for {
		n, err := body.Read(held[len(held):cap(held)])
		held = held[:len(held)+n]
		if errors.Is(err, io.EOF) {
			return held, nil
		}
		if err != nil {
			return nil, err
		}
		if len(held) > most {
			return nil, x.tooLarge(most)
		}
		if len(held) > usual {
			if refused := x.takeRoom(); refused != nil {
				return nil, refused
			}
		}
		if len(held) == cap(held) {
			held = append(held, 0)[:len(held)]
		}
	}
}

func (x *exchange) tooLarge(most int) *machine.Failure {
	x.rc.SetConnectionClose()
	return failure.New(failurepb.Code_TOO_LARGE, failure.BodyTooLarge).Param("most", most)
}

// takeRoom takes one of the server's places for bodies above the usual size, which are held in memory. Such a body may
// take its time, as long as it comes.
func (x *exchange) takeRoom() *machine.Failure {
	if x.leave != nil {
		return nil
	}
	select {
	case x.mux.room <- struct{}{}:
		x.leave = func() { <-x.mux.room }
		x.openBody().patient = true
		return nil
	default:
		return failure.New(failurepb.Code_UNAVAILABLE, failure.TooManyLargeRequests)
	}
}

// takeTransfer takes one of the server's places for files on their way, until the request is over: each holds pieces in
// memory, as long as its client likes.
func (x *exchange) takeTransfer() *machine.Failure {
	select {
	case x.mux.transfer <- struct{}{}:
		x.moves = true
		return nil
	default:
		return failure.New(failurepb.Code_UNAVAILABLE, failure.TooManyUploads)
	}
}

// settleBody looks after a body that was not read to its end: the connection cannot go on with it. What is little is taken, if
// it is there or about to come; else the connection ends with the answer.
func (x *exchange) settleBody() {
	const briefly = 500 * time.Millisecond
	if x.leave != nil {
		x.leave()
		x.leave = nil
	}
	if x.declined() {
		x.unread = true
		return
	}
	if x.rc.Request.BodyStream() == nil {
		return
	}
	body := x.openBody()
	body.patient = false
	little := body.length-body.read <= progress && !x.rc.Response.ConnectionClose()
	if !body.ended && body.broken == nil && little && x.rc.Conn().SetReadDeadline(time.Now().Add(briefly)) == nil {
		_, _ = io.CopyN(io.Discard, body, progress+1) // whatever ends it, the answer is next
	}
	x.unread = !body.ended
}

// headerUnread marks a request whose body is not going to be read. No client can send a header of that name.
const headerUnread = ":unread"

// Foresee looks at a header before anything of the body is read, or the client is told to send it: one that nobody would
// read, or that is too large, is not waited for. The answer follows at once, and ends the connection.
func (m *Mux) Foresee(header *fasthttp.RequestHeader) {
	const none = -2
	length := header.ContentLength()
	uri := header.RequestURI()
	if length == 0 || length == none || len(uri) == 0 || uri[0] != '/' {
		return
	}
	path, query, _ := bytes.Cut(uri, []byte("?"))
	probe, _ := m.probes.Get().(*fasthttp.RequestCtx)
	if probe == nil {
		probe = new(fasthttp.RequestCtx)
	}
	found := m.find(string(header.Method()), string(path), probe)
	probe.ResetUserValues()
	m.probes.Put(probe)
	if found != nil && (length <= m.largestBody(found.route) || found.route.mayBeRaw(string(header.ContentType()), len(query) > 0)) {
		return
	}
	header.Del(fasthttp.HeaderExpect)
	header.SetContentLength(0)
	header.SetCanonical([]byte(headerUnread), []byte("1"))
}

// mayBeRaw says that a body may be taken as bytes, which have no limit here.
func (r *Route) mayBeRaw(contentType string, query bool) bool {
	return r.Kind == Uploads && (query || !isJSON(contentType))
}

// declined says that the request's body is not read.
func (x *exchange) declined() bool { return len(x.rc.Request.Header.Peek(headerUnread)) > 0 }

// largestBody is how much of a route's requests may be held in memory.
func (m *Mux) largestBody(route *Route) int {
	if route != nil && route.MaxBody > 0 {
		return route.MaxBody
	}
	return m.config.MaxBodyBytes
}

// brokenRequest is what to answer when a request could not be read.
func brokenRequest(err error) error {
	var small *fasthttp.ErrSmallBuffer
	var timeout net.Error
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return failure.New(failurepb.Code_TOO_LARGE, failure.BodyTooLargeUnread)
	case errors.As(err, &small):
		return &Problem{
			Status: fasthttp.StatusRequestHeaderFieldsTooLarge, Code: codeHeaderTooLong,
			Message: "the request's header is too large",
		}
	case errors.As(err, &timeout) && timeout.Timeout():
		return &Problem{
			Status: fasthttp.StatusRequestTimeout, Code: codeTimeout,
			Message: "the request did not arrive in time",
		}
	default:
		return failure.New(failurepb.Code_VALIDATION, failure.MalformedRequest)
	}
}

package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"parley/actors/deliver"
	"parley/actors/machine/rawjson"
)

const (
	// maxErrorBody is how much of an error document is read.
	maxErrorBody = 64 << 10
	// settleWait is how long the rest of a response may take in all once the answer has ended: usage, end mark, end of the body.
	settleWait = 2 * time.Second
	// drainWait and drainBytes bound reading to the end of a body that is not needed any more, so that its connection can serve again.
	drainWait  = 50 * time.Millisecond
	drainBytes = 4 << 10
	// maxDepth and maxValues bound the JSON of one event: the official clients make some four kilobytes of a value of three
	// bytes. The last event of the Responses API repeats the tools that were offered.
	maxDepth  = 200
	maxValues = 20_000
	// maxEventHead is what an event may have beside its longest line.
	maxEventHead = 4 << 10
)

// exchange is one HTTP request of one attempt. It is the HTTP client that the official client is given, so that time and size
// limits hold below whatever that does, and so that a refusal becomes our error before it becomes one of the client's, which quote URLs.
type exchange struct {
	client  *http.Client
	out     *recorder
	secrets redactor
	idle    time.Duration
	config  *Config

	cancel context.CancelCauseFunc
	timer  *time.Timer // armed while the provider owes something
	alive  atomic.Bool // the first token, or a thought, has arrived

	failed   *attemptFault // why there is no stream to read
	answered bool          // there is a stream to read
	broken   error         // why it could not be read on
}

// open starts the first token's time. The caller closes it.
func (x *exchange) open(ctx context.Context, firstToken time.Duration) context.Context {
	ctx, x.cancel = context.WithCancelCause(ctx)
	x.timer = time.AfterFunc(firstToken, func() {
		if x.alive.Load() {
			x.cancel(errIdle)
			return
		}
		x.cancel(errFirstToken)
	})
	x.out.onAlive = func() {
		if !x.alive.Swap(true) {
			x.timer.Stop()
		}
	}
	return ctx
}

func (x *exchange) close() {
	x.timer.Stop()
	x.out.onAlive = nil
	x.cancel(context.Canceled)
}

// Do sends the request and lets only a stream of events through.
func (x *exchange) Do(request *http.Request) (*http.Response, error) {
	request.Header.Set("Accept-Encoding", "identity") // the guard's transport would ask for a packed stream
	response, err := x.client.Do(request)
	if err != nil {
		x.failed = x.unreachable(request.URL.Hostname(), err)
		return nil, x.failed
	}
	if x.failed = x.refusal(response); x.failed != nil {
		_ = response.Body.Close() // the refusal is what counts
		return nil, x.failed
	}
	x.answered = true
	response.Body = &watchedBody{
		exchange: x, body: response.Body, gauge: rawjson.Gauge{MaxDepth: maxDepth, MaxValues: maxValues, Events: true},
	}
	return response, nil
}

// unreachable is a request that got no response. The URL, which may hold secrets, is taken out of the cause.
func (x *exchange) unreachable(host string, err error) *attemptFault {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	cause := errors.New(x.secrets.clean(err.Error()))
	if errors.Is(err, deliver.ErrForbiddenAddress) {
		return forbidden(host, cause)
	}
	if errors.Is(err, errRedirect) {
		return fault(CodeProviderError, "the model provider answered with a redirect, which is not followed", false, cause)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fault(CodeCut, "the model provider closed the connection without an answer", true, cause)
	}
	return fault(CodeProviderError, "the model provider could not be reached", true, cause)
}

// refusal is the fault of a response that is no stream of events, or nil.
func (x *exchange) refusal(response *http.Response) *attemptFault {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")) // an unreadable type is no event stream
	packed := response.Header.Get("Content-Encoding")
	if response.StatusCode == http.StatusOK && kind == "text/event-stream" {
		if packed != "" && packed != "identity" {
			return fault(CodeProviderError, "the model provider compressed its stream though it was asked not to", false, nil)
		}
		return nil
	}
	document, err := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
	if err != nil && response.Request.Context().Err() != nil {
		return x.unreachable(response.Request.URL.Hostname(), err)
	}
	said := readComplaint(document, x.secrets)
	if response.StatusCode < http.StatusBadRequest {
		if said.message == "" {
			said.message = "it answered with a document and not with a stream of events"
		}
		return fault(CodeProviderError, "the model provider did not stream: "+said.message, false, nil)
	}
	said.status = response.StatusCode
	said.after = retryAfter(response.Header)
	if hint := response.Header.Get("X-Should-Retry"); hint == "true" || hint == "false" {
		said.retry = hint
	}
	return said.fault()
}

// verdict turns what the official client returned into the attempt's error. The client's own words come last, because they
// tell least: a time limit shows there as a closed connection, a refusal as a complaint about a URL.
func (x *exchange) verdict(ctx context.Context, err error) error {
	if err == nil && x.out.finished {
		return nil
	}
	if ctx.Err() != nil && !x.out.finished {
		return context.Cause(ctx)
	}
	if known, ok := errors.AsType[*attemptFault](err); ok {
		return known
	}
	switch {
	case x.failed != nil:
		return x.failed
	case tooLarge(x.broken):
		return x.broken
	case errors.Is(err, errAnswerSize), errors.Is(err, errToolName):
		return err
	case x.out.finished:
		return nil // the answer was complete; only its tail is missing, such as the usage
	case x.answered && (err == nil || x.broken != nil):
		if x.broken != nil {
			return fmt.Errorf("%w: %w", errCut, x.broken)
		}
		return errCut
	default:
		return err
	}
}

// watchedBody is a response body under the idle limit and the size limits.
type watchedBody struct {
	*exchange
	body    io.ReadCloser
	total   int64
	line    int // bytes of the line that is being read
	event   int // bytes since the last empty line
	last    byte
	gauge   rawjson.Gauge
	settled time.Time // when the rest must be there, zero before the answer has ended
	closed  bool
}

// Read counts only the time in which the provider is waited for: a slow listener is not its fault.
func (b *watchedBody) Read(p []byte) (int, error) {
	if b.alive.Load() {
		b.timer.Reset(b.patience())
		defer b.timer.Stop()
	}
	n, err := b.body.Read(p)
	if b.total += int64(n); b.total > b.config.MaxStreamBytes {
		n, err = 0, errStreamSize
	}
	if wrong := b.count(p[:n]); wrong != nil {
		n, err = 0, wrong
	} else if b.gauge.Take(p[:n]) != nil {
		n, err = 0, errEventShape
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.broken = err
	}
	return n, err
}

// patience is how long the provider is waited for.
func (b *watchedBody) patience() time.Duration {
	if !b.out.finished {
		return b.idle
	}
	if b.settled.IsZero() {
		b.settled = time.Now().Add(settleWait)
	}
	return min(b.idle, max(time.Until(b.settled), 0))
}

// count measures lines and events, and says which is too long.
func (b *watchedBody) count(piece []byte) error {
	for len(piece) > 0 {
		end := bytes.IndexByte(piece, '\n')
		whole := end >= 0
		if !whole {
			end = len(piece) - 1
		}
		b.line += end + 1
		b.event += end + 1
		switch {
		case b.line > b.config.MaxLineBytes:
			return errLineSize
		case b.event > b.config.MaxLineBytes+maxEventHead:
			return errEventSize
		}
		if end > 0 {
			b.last = piece[end-1]
		}
		switch {
		case whole && (b.line == 1 || b.line == 2 && b.last == '\r'):
			b.event = 0
			fallthrough
		case whole:
			b.line = 0
		}
		b.last = piece[end]
		piece = piece[end+1:]
	}
	return nil
}

// Close reads a finished answer's body to its end, shortly, because a connection whose body was left unread is lost for the next call.
func (b *watchedBody) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	if b.out.finished && b.broken == nil {
		b.timer.Reset(drainWait)
		_, _ = io.CopyN(io.Discard, b.body, drainBytes) // only the connection's fate depends on it
		b.timer.Stop()
	}
	return b.body.Close()
}

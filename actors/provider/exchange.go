package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"parley/actors/deliver"
	"parley/actors/stranger"
)

const (
	// maxErrorBody is how much of an error document is read.
	maxErrorBody = 64 << 10
	// settleWait is how long the rest of a response may take in all once the answer has ended: usage, end mark, end of the body.
	settleWait = 2 * time.Second
	// drainWait and drainBytes bound reading to the end of a body that is not needed any more, so that its connection can serve
	// again.
	drainWait  = 50 * time.Millisecond
	drainBytes = 4 << 10
)

// What of an answer's memory a byte takes, and a value of an event, which a decoder of typed clients makes some kilobytes of. An ordinary
// event is not counted.
const (
	byteCost       = 3
	valueCost      = 3 << 10
	ordinaryValues = 64
)

// Limits bound one attempt. A limit that is zero is none.
type Limits struct {
	First, Idle    time.Duration // until the first piece of the answer; between two reads after it
	MaxStreamBytes int64         // of the response
	MaxLineBytes   int           // of a line, and of an event, which is lines up to an empty one
	MaxDepth       int           // of the JSON of an event
	MaxValues      int           // in the JSON of an event
}

// Exchange is one HTTP request of one attempt. The limits hold below whoever reads the answer, and a refusal becomes a Failure before it is an
// error that quotes URLs.
type Exchange struct {
	Client  *http.Client
	Secrets Redactor
	Limits  Limits

	cancel context.CancelCauseFunc
	timer  *time.Timer // armed while the provider owes something
	alive  atomic.Bool // the first token, or a thought, has arrived

	finished bool             // the provider has ended the answer
	answer   *stranger.Answer // the memory for it, nil = it is not bounded
	failed   *Failure         // why there is no answer to read
	answered bool             // there is an answer to read
	broken   error            // why it could not be read on
}

// Open starts the time of the first piece. The caller closes the exchange, and uses the context for the request.
func (x *Exchange) Open(ctx context.Context) context.Context {
	ctx, x.cancel = context.WithCancelCause(ctx)
	x.timer = time.AfterFunc(x.Limits.First, func() {
		if x.alive.Load() {
			x.cancel(ErrIdle)
			return
		}
		x.cancel(ErrFirstToken)
	})
	return ctx
}

// Close ends the exchange.
func (x *Exchange) Close() {
	x.timer.Stop()
	x.cancel(context.Canceled)
}

// Alive says that the model is at work on the answer, be it in thoughts that are not shown.
func (x *Exchange) Alive() {
	if !x.alive.Swap(true) && x.timer != nil {
		x.timer.Stop()
	}
}

// Finish says that the provider has ended the answer.
func (x *Exchange) Finish() { x.finished = true }

// Do sends the request and lets only an answer through. The error is a *Failure, or of a context that has ended.
func (x *Exchange) Do(request *http.Request) (*http.Response, error) {
	request.Header["Accept-Encoding"] = identity // what packs a stream delays it, and unpacking needs a limit of its own
	x.answer = stranger.From(request.Context())
	x.answer.Reset() // this is the first attempt, or what the one before took is gone
	response, err := roundTrip(x.Client, request)
	if err != nil {
		if request.Context().Err() != nil && x.timer == nil {
			return nil, context.Cause(request.Context())
		}
		x.failed = unreachable(err, x.Secrets)
		return nil, x.failed
	}
	if x.failed = x.refusal(response); x.failed != nil {
		_ = response.Body.Close() // the refusal is what counts
		return nil, x.failed
	}
	x.answered = true
	if x.timer != nil {
		response.Body = newWatchedBody(x, response.Body)
	}
	return response, nil
}

// identity is the value of a header field that all requests share.
//
//nolint:gochecknoglobals // a constant
var identity = []string{"identity"}

// Traced is a context for a request that sets sent when the head of the request has been written to a connection.
func Traced(ctx context.Context, sent *atomic.Bool) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
}

// roundTrip sends a request as the client would, and follows no redirect. It spares what the client makes ready to follow one.
func roundTrip(client *http.Client, request *http.Request) (*http.Response, error) {
	transport := client.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	if user := request.URL.User; user != nil && request.Header.Get("Authorization") == "" {
		password, _ := user.Password()
		request.SetBasicAuth(user.Username(), password)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	switch response.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if response.Header.Get("Location") != "" {
			_ = response.Body.Close() // it says only where else to ask
			return nil, ErrRedirect
		}
	}
	return response, nil
}

// unreachable is a request that got no response. The URL, which may hold secrets, is taken out of the cause.
func unreachable(err error, secrets Redactor) *Failure {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	reason := &redacted{text: secrets.Clean(err.Error(), maxWords), err: err}
	switch {
	case IsTimeLimit(err):
		return &Failure{Class: Timeout, Reason: reason}
	case errors.Is(err, deliver.ErrForbiddenAddress):
		return &Failure{Class: ForbiddenAddress, Reason: reason}
	case errors.Is(err, ErrRedirect), errors.Is(err, deliver.ErrRedirect):
		return &Failure{Class: Redirected, Reason: reason}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &Failure{Class: Cut, Reason: reason}
	}
	return &Failure{Class: Unreachable, Reason: reason}
}

// refusal is the failure that a response stands for, nil if it is an answer.
func (x *Exchange) refusal(response *http.Response) *Failure {
	if response.StatusCode < http.StatusMultipleChoices {
		if packed := response.Header.Get("Content-Encoding"); packed != "" && packed != identity[0] {
			return &Failure{Class: Unreadable, Message: "it compressed its answer though it was asked not to"}
		}
		return nil
	}
	document, err := io.ReadAll(io.LimitReader(x.answer.Reader(response.Body, byteCost), maxErrorBody))
	if err != nil && response.Request.Context().Err() != nil {
		return unreachable(err, x.Secrets)
	}
	said := Complaint(response.StatusCode, document, x.Secrets)
	if response.StatusCode < http.StatusBadRequest {
		said.Class = Unreadable
		return said
	}
	said.After = retryAfter(response.Header)
	if hint := response.Header.Get("X-Should-Retry"); hint == "true" || hint == "false" {
		said.Retry = hint
	}
	return said
}

// Verdict turns what an adapter returned into the attempt's error. The words of who read the answer come last, because they
// tell least: a time limit shows there as a closed connection.
func (x *Exchange) Verdict(ctx context.Context, err error) error {
	if err == nil && x.finished {
		return nil
	}
	if ctx.Err() != nil && !x.finished {
		if cause := context.Cause(ctx); !IsTimeLimit(cause) {
			return cause
		}
		return Judge(context.Cause(ctx), x.Secrets)
	}
	if known, ok := errors.AsType[*Failure](err); ok && (known.Class != Cut || !x.finished) {
		return known
	}
	switch {
	case x.failed != nil:
		return x.failed
	case exceeds(x.broken):
		return Judge(x.broken, x.Secrets)
	case exceeds(err):
		return Judge(err, x.Secrets)
	case x.finished:
		return nil // the answer was complete; only its tail is missing, such as the usage
	case x.answered && (err == nil || x.broken != nil):
		if x.broken != nil {
			return Judge(fmt.Errorf("%w: %w", ErrCut, x.broken), x.Secrets)
		}
		return &Failure{Class: Cut, Reason: ErrCut}
	default:
		return Judge(err, x.Secrets)
	}
}

// ReadAll reads the body of an answer, at most limit bytes.
func (x *Exchange) ReadAll(ctx context.Context, response *http.Response, limit int64) ([]byte, error) {
	const smallest, step = 512, 512
	expected := min(max(response.ContentLength, smallest), limit) + step
	if err := x.answer.Take(expected * byteCost); err != nil {
		return nil, err
	}
	answer := make([]byte, 0, expected)
	for {
		n, err := response.Body.Read(answer[len(answer):cap(answer)])
		answer = answer[:len(answer)+n]
		switch {
		case int64(len(answer)) > limit:
			return nil, &Failure{Class: TooLarge, Reason: ErrAnswerSize}
		case errors.Is(err, io.EOF):
			return answer, nil
		case err != nil && ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, &Failure{Class: Cut, Reason: &redacted{text: x.Secrets.Clean(err.Error(), maxWords), err: err}}
		}
		if len(answer) == cap(answer) {
			if err := x.answer.Take(int64(len(answer)) * byteCost); err != nil {
				return nil, err
			}
			answer = append(answer, make([]byte, len(answer))...)[:len(answer)]
		}
	}
}

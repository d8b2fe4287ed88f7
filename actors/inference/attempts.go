package inference

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"
)

// maxErrorBody is how much of an error document is read.
const maxErrorBody = 64 << 10

// attempts makes a call until it succeeds or no further attempt is worth it. The error is an *Error, or the cause with which
// the caller ended the call.
func (c *Caller) attempts(ctx context.Context, t *target, kind string, try func(ctx context.Context) error) error {
	id := kind + "\x00" + t.breaker
	if !c.breakers.allow(id) {
		c.metrics.refused.Inc()
		return &Error{
			Status: http.StatusServiceUnavailable, Type: typeServer, Code: "provider_unavailable", RetryAfter: c.config.BreakerReset,
			Message: "The model provider has failed too often and is left alone for a while",
		}
	}
	found := unknown
	defer func() { c.breakers.report(id, found) }()
	most := c.config.MaxAttempts
	if own := t.model.GetMaxRetries(); own != 0 {
		most = min(max(int(own), 0), 10) + 1
	}
	for number := 1; ; number++ {
		err := try(ctx)
		if err == nil {
			found = well
			return nil
		}
		if left := gone(ctx); left != nil {
			return left
		}
		failed := broken(err, t.model)
		if !failed.unanswered {
			t.sent.Store(false) // a refusal settles what was sent
		}
		if !failed.again || number >= most || ctx.Err() != nil || !c.pause(ctx, failed, number) {
			switch {
			case failed.outage:
				found = failing
			case !failed.ours:
				found = well
			}
			return failed
		}
		c.metrics.retries.Inc()
		c.parts.Logger.LogAttrs(ctx, slog.LevelWarn, "model call is made again",
			slog.String("service", t.service), slog.String("model", t.key), slog.Int("attempt", number), slog.String("err", failed.Error()))
	}
}

// gone is the cause with which the caller ended the call, nil when it did not: time limits are ours.
func gone(ctx context.Context) error {
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(cause, errTimeout) || errors.Is(cause, errIdle) || errors.Is(cause, context.DeadlineExceeded) {
		return nil
	}
	return cause
}

// pause waits before the next attempt: what the provider asks for, or a time that doubles. It is false when the wait would be
// too long.
func (c *Caller) pause(ctx context.Context, failed *Error, number int) bool {
	wait := c.config.RetryMax
	if number < 30 && c.config.RetryDelay<<(number-1) > 0 {
		wait = min(wait, c.config.RetryDelay<<(number-1))
	}
	wait += time.Duration((c.jitter() - 0.5) / 2 * float64(wait))
	if failed.RetryAfter > c.config.RetryMax {
		return false
	}
	wait = max(wait, failed.RetryAfter)
	if deadline, has := ctx.Deadline(); has && time.Until(deadline) <= wait {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// post sends a body to a path of the model's service. The answer is a success, whose body the caller closes.
func (c *Caller) post(ctx context.Context, t *target, address string, body []byte) (*http.Response, error) {
	// The client writes head and body at once only for a body of a kind that it knows: the body itself cannot tell.
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { t.sent.Store(true) }})
	request, err := http.NewRequestWithContext(traced, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, invalid("model", "the model's base URL is malformed")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "parley")
	request.Header.Set("Accept-Encoding", "identity") // what packs a stream delays it
	if key := t.model.GetApiKey(); key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	for name, value := range t.model.GetHeaders() {
		request.Header.Set(name, value)
	}
	response, err := c.client.Do(request)
	if err != nil {
		return nil, unwrapped(ctx, err)
	}
	if response.StatusCode < http.StatusMultipleChoices {
		return response, nil
	}
	document, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody)) // as much as came
	_ = response.Body.Close()                                              // the refusal is what counts
	said := readSignal(response.StatusCode, document)
	said.after = retryAfter(response.Header)
	return nil, said.toError(t.model)
}

// unwrapped is why a request failed, without its URL, which may hold secrets.
func unwrapped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// fetch makes one whole exchange.
func (c *Caller) fetch(ctx context.Context, t *target, address string, body []byte) ([]byte, error) {
	response, err := c.post(ctx, t, address, body)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was read, or is of no use
	room := min(max(response.ContentLength, 512), c.config.MaxAnswerBytes)
	answer := bytes.NewBuffer(make([]byte, 0, room+bytes.MinRead))
	n, err := answer.ReadFrom(io.LimitReader(response.Body, c.config.MaxAnswerBytes+1))
	switch {
	case err != nil:
		return nil, unwrapped(ctx, err)
	case n > c.config.MaxAnswerBytes:
		return nil, errSize
	}
	return answer.Bytes(), nil
}

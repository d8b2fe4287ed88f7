package inference

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"

	"parley/actors/provider"
	"parley/actors/stranger"
)

// attempts makes a call until it succeeds or no further attempt is worth it. The error is an *Error, or the cause with which
// the caller ended the call.
func (c *Caller) attempts(ctx context.Context, t *target, kind string, try func(ctx context.Context) error) error {
	t.made.Circuit = provider.CircuitID(kind, t.projectID, t.model)
	t.made.Retries = provider.Retries(t.model, c.config.MaxAttempts-1)
	err := t.made.Run(ctx, func(ctx context.Context, _ int) error {
		err := try(ctx)
		if failed, ok := errors.AsType[*provider.Failure](err); ok {
			failed.Final = failed.Final || answers[failed.Class].final
			if !failed.Unanswered() {
				t.sent.Store(false) // a refusal settles what was sent
			}
		}
		return err
	})
	if err == nil {
		return nil
	}
	why := stranger.From(ctx).Err()
	if left := gone(ctx); left != nil && !errors.Is(left, why) {
		return left
	}
	if why != nil {
		return crowded(why)
	}
	return worded(err, t.model)
}

// gone is the cause with which the caller cancelled the call, nil when it did not. Our own time limits do not count.
func gone(ctx context.Context) error {
	cause := context.Cause(ctx)
	if cause == nil || provider.IsTimeLimit(cause) {
		return nil
	}
	return cause
}

// exchange is the HTTP exchange of one attempt.
func (c *Caller) exchange(t *target) *provider.Exchange {
	return &provider.Exchange{Client: c.client, Secrets: provider.RedactorOf(t.model)}
}

// Values of header fields that are the same in every request: they are shared and never changed.
//
//nolint:gochecknoglobals // constants
var (
	jsonType  = []string{"application/json"}
	userAgent = []string{"parley"}
)

// post builds the request of an attempt for an address that is parsed already.
func post(ctx context.Context, t *target, address *url.URL, body []byte) (*http.Request, error) {
	request, err := http.NewRequestWithContext(provider.Traced(ctx, &t.sent), http.MethodPost, "/", bytes.NewReader(body))
	if err != nil {
		return nil, invalid("model", "the model's base URL is malformed")
	}
	request.URL, request.Host = address, address.Host
	request.Header["Content-Type"], request.Header["User-Agent"] = jsonType, userAgent
	if key := t.model.GetApiKey(); key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	for name, value := range t.model.GetHeaders() {
		request.Header.Set(name, value)
	}
	return request, nil
}

// fetch makes one exchange and reads the whole answer.
func (c *Caller) fetch(ctx context.Context, t *target, address *url.URL, body []byte) ([]byte, error) {
	request, err := post(ctx, t, address, body)
	if err != nil {
		return nil, err
	}
	exchange := c.exchange(t)
	response, err := exchange.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was read, or is of no use
	return exchange.ReadAll(ctx, response, c.config.MaxAnswerBytes)
}

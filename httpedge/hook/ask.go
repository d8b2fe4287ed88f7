package hook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/core/failure"
)

// signatureHeader is the signature header of webhooks (document 1).
const signatureHeader = "X-Service-Signature"

// maxAnswer bounds an answer.
const maxAnswer = 64 << 10

// hookClient calls one hook.
type hookClient struct {
	name     string
	endpoint Endpoint
	client   *http.Client
	log      *slog.Logger
	places   chan struct{} // one for each call in progress
	down     atomic.Bool   // the last call had no answer

	yes, no, failed prometheus.Counter
}

func newAsker(name string, endpoint Endpoint, client *http.Client, log *slog.Logger, calls *prometheus.CounterVec) *hookClient {
	return &hookClient{
		name: name, endpoint: endpoint, client: client, log: log, places: make(chan struct{}, endpoint.MaxConcurrent),
		yes: calls.WithLabelValues(name, "yes"), no: calls.WithLabelValues(name, "no"),
		failed: calls.WithLabelValues(name, "failed"),
	}
}

// answer is the response body of all hooks.
type answer struct {
	Allowed    *bool   `json:"allowed"`
	UserID     *string `json:"userId"`
	Message    string  `json:"message"`
	RetryAfter float64 `json:"retryAfter"` // seconds

	status int
}

// ask makes one call. An error means that there was no answer, and has been logged.
func (a *hookClient) ask(ctx context.Context, question any) (*answer, error) {
	asked, cancel := context.WithTimeout(ctx, a.endpoint.Timeout)
	defer cancel()
	got, err := a.put(asked, question)
	switch {
	case err != nil:
		a.failed.Inc()
		if ctx.Err() == nil {
			a.setDown(err)
		}
		return nil, err
	case got.denied():
		a.no.Inc()
	default:
		a.yes.Inc()
	}
	a.setDown(nil)
	return got, nil
}

// denied reports whether the application said no.
func (a *answer) denied() bool { return a.status != http.StatusOK || a.Allowed != nil && !*a.Allowed }

func (a *hookClient) put(ctx context.Context, question any) (*answer, error) {
	select {
	case a.places <- struct{}{}:
		defer func() { <-a.places }()
	case <-ctx.Done():
		return nil, errors.New("too many questions under way")
	}
	body, err := json.Marshal(question)
	if err != nil {
		return nil, fmt.Errorf("write question: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.endpoint.URL, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	if a.endpoint.Secret != "" {
		request.Header.Set(signatureHeader, sign(a.endpoint.Secret, body, time.Now()))
	}
	response, err := a.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask: %w", withoutURL(err))
	}
	defer func() { _ = response.Body.Close() }() // only read
	return read(response)
}

// withoutURL removes the URL from an error of net/http before it is logged: its query may hold a secret.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

func read(response *http.Response) (*answer, error) {
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	got := &answer{status: response.StatusCode}
	switch response.StatusCode {
	case http.StatusOK:
		if len(body) > maxAnswer || json.Unmarshal(body, got) != nil {
			return nil, errors.New("answer is malformed")
		}
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		_ = json.Unmarshal(body, got) // the text is used if there is one
		if got.RetryAfter == 0 {
			got.RetryAfter, _ = strconv.ParseFloat(response.Header.Get("Retry-After"), 64)
		}
	default:
		return nil, fmt.Errorf("answered %d", response.StatusCode)
	}
	got.Message = failure.Shown(got.Message)
	return got, nil
}

// lenient reports whether a request passes when there is no answer.
func (a *hookClient) lenient() bool { return a.endpoint.OnError == Allow }

// setDown logs when the application stops or starts answering, rather than once per request.
func (a *hookClient) setDown(err error) {
	down := err != nil
	if a.down.Load() == down || !a.down.CompareAndSwap(!down, down) {
		return
	}
	if down {
		a.log.Error("hook does not answer", slog.String("hook", a.name), slog.Any("err", err))
		return
	}
	a.log.Info("hook answers again", slog.String("hook", a.name))
}

// sign returns the signature of a body (document 1, webhooks).
func sign(secret string, body []byte, at time.Time) string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(stamp))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return "t=" + stamp + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

package permission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/core/access"
	"parley/actors/core/failure"
	"parley/httpedge/endpoint"
)

const (
	evaluationPath = "/access/v1/evaluation"
	// maxAnswer bounds an answer of the engine, in bytes.
	maxAnswer = 64 << 10
)

// evaluator asks an external engine by the AuthZEN Authorization API 1.0, section 6.
type evaluator struct {
	url     string
	token   string
	timeout time.Duration
	client  *http.Client
	places  chan struct{} // one for each question under way
	logger  *slog.Logger
	down    atomic.Bool // the last question had no answer

	allowed, refused, failed prometheus.Counter
}

func newEvaluator(config Config, logger *slog.Logger, to prometheus.Registerer) *evaluator {
	if config.Timeout <= 0 {
		config.Timeout = time.Second
	}
	if config.MaxConcurrent <= 0 {
		config.MaxConcurrent = 256
	}
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "parley_permission_evaluations_total", Help: "Questions to the external permission engine, by its answer.",
	}, []string{"answer"})
	if to != nil {
		to.MustRegister(calls)
	}
	return &evaluator{
		url: strings.TrimSuffix(config.URL, "/") + evaluationPath, token: config.Token, timeout: config.Timeout,
		client: &http.Client{
			Transport: &http.Transport{
				MaxIdleConnsPerHost: config.MaxConcurrent, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxAnswer,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		places: make(chan struct{}, config.MaxConcurrent), logger: logger,
		allowed: calls.WithLabelValues("allowed"), refused: calls.WithLabelValues("refused"), failed: calls.WithLabelValues("failed"),
	}
}

// evaluation is a request of the API.
type evaluation struct {
	Subject  thing             `json:"subject"`
	Action   action            `json:"action"`
	Resource thing             `json:"resource"`
	Context  map[string]string `json:"context,omitempty"`
}

type thing struct {
	Type       string            `json:"type"`
	ID         string            `json:"id"`
	Properties map[string]string `json:"properties,omitempty"`
}

type action struct {
	Name string `json:"name"`
}

// said is the engine's answer.
type said struct {
	allowed bool
	reason  string // in its words; empty = it gave none that can be shown
}

// ask makes one call. An error means that there was no decision, and has been logged.
func (e *evaluator) ask(ctx context.Context, caller endpoint.Caller, service access.Service, level access.Level, route string) (said, error) {
	asked, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	answer, err := e.post(asked, question(caller, service, level, route))
	switch {
	case err != nil:
		e.failed.Inc()
		if ctx.Err() == nil {
			e.setDown(err)
		}
		return said{}, err
	case answer.allowed:
		e.allowed.Inc()
	default:
		e.refused.Inc()
	}
	e.setDown(nil)
	return answer, nil
}

// question asks whether the owner of a token, or the user of a session, has a level of a service in a project.
func question(caller endpoint.Caller, service access.Service, level access.Level, route string) *evaluation {
	asked := &evaluation{
		Subject: thing{Type: "user", ID: caller.UserID, Properties: map[string]string{
			"tenantId": caller.TenantID, "role": caller.Grant.Role(),
		}},
		Action: action{Name: level.String()},
		Resource: thing{Type: string(service), ID: caller.ProjectID, Properties: map[string]string{
			"tenantId": caller.TenantID, "projectId": caller.ProjectID,
		}},
	}
	if token := caller.Grant.Token.GetId(); token != "" {
		asked.Subject.Properties["tokenId"] = token
	}
	if route != "" {
		asked.Context = map[string]string{"route": route}
	}
	return asked
}

func (e *evaluator) post(ctx context.Context, asked *evaluation) (said, error) {
	select {
	case e.places <- struct{}{}:
		defer func() { <-e.places }()
	case <-ctx.Done():
		return said{}, errors.New("too many questions under way")
	}
	body, err := json.Marshal(asked)
	if err != nil {
		return said{}, fmt.Errorf("write question: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return said{}, fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	if e.token != "" {
		request.Header.Set("Authorization", "Bearer "+e.token)
	}
	response, err := e.client.Do(request)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // the URL may hold a secret
		}
		return said{}, fmt.Errorf("ask: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // only read
	return read(response)
}

// read takes a decision from an answer. Only 200 with a true or false decision is one.
func read(response *http.Response) (said, error) {
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return said{}, fmt.Errorf("read answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return said{}, fmt.Errorf("answered %d", response.StatusCode)
	}
	var answer struct {
		Decision *bool                      `json:"decision"`
		Context  map[string]json.RawMessage `json:"context"`
	}
	if len(body) > maxAnswer || json.Unmarshal(body, &answer) != nil || answer.Decision == nil {
		return said{}, errors.New("answer holds no decision")
	}
	return said{allowed: *answer.Decision, reason: reasonIn(answer.Context)}, nil
}

// reasonIn finds what a user may be told: reason_user as the specification's example has it (status to text), or as a text; else
// reason.
func reasonIn(about map[string]json.RawMessage) string {
	for _, name := range []string{"reason_user", "reason"} {
		var text string
		if json.Unmarshal(about[name], &text) == nil && failure.Shown(text) != "" {
			return failure.Shown(text)
		}
		var texts map[string]string
		if json.Unmarshal(about[name], &texts) != nil {
			continue
		}
		for _, key := range []string{"403", "en-403", "en"} {
			if text := failure.Shown(texts[key]); text != "" {
				return text
			}
		}
	}
	return ""
}

// setDown logs when the engine stops or starts to answer, rather than once per request.
func (e *evaluator) setDown(err error) {
	down := err != nil
	if e.down.Load() == down || !e.down.CompareAndSwap(!down, down) {
		return
	}
	if down {
		e.logger.Error("the external permission engine does not answer", slog.Any("err", err))
		return
	}
	e.logger.Info("the external permission engine answers again")
}

package model

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"parley/actors/provider"
	"parley/proto/agentpb"
)

// caller makes the calls of all adapters: it joins a request, its Stream and the provider executor.
type caller struct {
	config   Config
	executor *provider.Executor
}

func newCaller(config Config) *caller {
	return &caller{config: config, executor: provider.New(provider.Config{
		RetryBase: config.RetryBase, RetryMax: config.RetryMax, MaxRetryAfter: config.MaxRetryAfter, Circuits: config.Circuits,
		Metrics: "parley_model", Label: "provider", Jitter: config.Jitter, Logger: config.Logger, Registerer: config.Registerer,
	})}
}

// limits are the limits of one call: the agent's where it has its own.
type limits struct {
	firstToken, idle, total time.Duration
	retries                 int
}

func (c *caller) limits(model *agentpb.Model) limits {
	own := func(ms int64, otherwise time.Duration) time.Duration {
		if ms <= 0 {
			return otherwise
		}
		return milliseconds(ms)
	}
	return limits{
		firstToken: own(model.GetFirstTokenTimeoutMs(), c.config.FirstTokenTimeout),
		idle:       own(model.GetIdleTimeoutMs(), c.config.IdleTimeout),
		total:      own(model.GetTotalTimeoutMs(), c.config.TotalTimeout),
		retries:    provider.Retries(model, c.config.MaxRetries),
	}
}

// milliseconds turns a number of a configuration into a duration: not below zero, not above a day.
func milliseconds(ms int64) time.Duration {
	return time.Duration(min(max(ms, 0), (24*time.Hour).Milliseconds())) * time.Millisecond
}

// call is one Generate under way.
type call struct {
	provider string
	circuit  string // "" = none
	host     string // that is called, as an error shows it
	request  *Request
	limits   limits
	secrets  provider.Redactor
}

// attempt asks the provider once. It returns nil once the answer is complete in the recorder.
type attempt func(ctx context.Context, number int, out *recorder) error

// run makes attempts until one succeeds, none is worth it, or something was streamed.
func (c *caller) run(ctx context.Context, this *call, stream Stream, try attempt) (*Answer, error) {
	made := c.executor.Start(provider.Call{
		Name: this.provider, Circuit: this.circuit, Patient: true, Retries: this.limits.retries,
		Attrs: []slog.Attr{slog.String("run", this.request.RunID)},
	})
	out := &recorder{
		stream:   stream,
		limit:    c.config.MaxAnswerBytes,
		idPrefix: fmt.Sprintf("call_%s_%d", this.request.RunID, this.request.Step),
		onFirst:  made.Begun,
	}
	if overhears, ok := stream.(Overhearer); ok {
		out.hears.unsaid = overhears.Unsaid
	}
	if thinks, ok := stream.(Thinker); ok {
		out.hears.thought = thinks.Thought
	}
	bounded, release := context.WithTimeoutCause(ctx, this.limits.total, provider.ErrTotal)
	defer release()
	bounded, answer := c.config.Answers.Open(bounded)
	defer answer.Close()
	err := made.Run(bounded, func(ctx context.Context, number int) error { return try(ctx, number, out) })
	outcome := "ok"
	switch {
	case err == nil:
	case ctx.Err() != nil:
		outcome, err = "cancelled", context.Cause(ctx)
	case answer.Err() != nil:
		failure := crowded(answer.Err())
		failure.Retryable = failure.Retryable && !out.started
		outcome, err = failure.Code, failure
	default:
		failure := c.worded(err, this)
		failure.Retryable = failure.Retryable && !out.started
		outcome, err = failure.Code, failure
	}
	made.End(outcome)
	if out.usage.Disbelieved {
		c.config.Logger.Warn("a provider's usage cannot be: an estimate is booked", slog.String("provider", this.provider), slog.String("run", this.request.RunID))
	}
	if out.forgotten {
		c.config.Logger.Warn("a provider's thoughts are too long to be kept for its next answer", slog.String("provider", this.provider), slog.String("run", this.request.RunID))
	}
	return out.answer(), err
}

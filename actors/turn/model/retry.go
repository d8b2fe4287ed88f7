package model

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"parley/proto/agentpb"
)

// caller runs model calls: time limit of the whole, attempts, pauses between them, metrics. It is the same for all providers.
type caller struct {
	config  Config
	metrics *metrics
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
	retries := c.config.MaxRetries
	if model.GetMaxRetries() != 0 {
		retries = int(model.GetMaxRetries())
	}
	return limits{
		firstToken: own(model.GetFirstTokenTimeoutMs(), c.config.FirstTokenTimeout),
		idle:       own(model.GetIdleTimeoutMs(), c.config.IdleTimeout),
		total:      own(model.GetTotalTimeoutMs(), c.config.TotalTimeout),
		retries:    min(max(retries, 0), maxRetries),
	}
}

// maxRetries bounds what an agent may ask for.
const maxRetries = 10

// milliseconds turns a number of a configuration into a duration: not below zero, not above a day.
func milliseconds(ms int64) time.Duration {
	return time.Duration(min(max(ms, 0), (24*time.Hour).Milliseconds())) * time.Millisecond
}

// call is one Generate under way.
type call struct {
	provider string
	request  *Request
	limits   limits
	secrets  redactor
}

// attempt asks the provider once. It returns nil once the answer is complete in the recorder.
type attempt func(ctx context.Context, number int, out *recorder) error

// run makes attempts until one succeeds, none is worth it, or something was streamed.
func (c *caller) run(ctx context.Context, this *call, stream Stream, try attempt) (*Answer, error) {
	started := time.Now()
	c.metrics.running.WithLabelValues(this.provider).Inc()
	defer c.metrics.running.WithLabelValues(this.provider).Dec()
	out := &recorder{
		stream:   stream,
		limit:    c.config.MaxAnswerBytes,
		idPrefix: fmt.Sprintf("call_%s_%d", this.request.RunID, this.request.Step),
		onFirst: func() {
			c.metrics.firstToken.WithLabelValues(this.provider).Observe(time.Since(started).Seconds())
		},
	}
	if overhears, ok := stream.(Overhearer); ok {
		out.onUnsaid = overhears.Unsaid
	}
	bounded, release := context.WithTimeoutCause(ctx, this.limits.total, errTotalTime)
	defer release()

	err := c.attempts(bounded, this, out, try)
	outcome := "ok"
	switch {
	case err == nil:
	case ctx.Err() != nil:
		outcome, err = "cancelled", context.Cause(ctx)
	default:
		failure := asFault(err, this.secrets).failure
		failure.Retryable = failure.Retryable && !out.started
		outcome, err = failure.Code, failure
	}
	c.metrics.calls.WithLabelValues(this.provider, outcome).Inc()
	c.metrics.duration.WithLabelValues(this.provider).Observe(time.Since(started).Seconds())
	return out.answer(), err
}

func (c *caller) attempts(ctx context.Context, this *call, out *recorder, try attempt) error {
	for number := 0; ; number++ {
		err := try(ctx, number, out)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		failed := asFault(err, this.secrets)
		if out.started || !failed.again || number >= this.limits.retries {
			return failed
		}
		wait, ok := c.pause(failed.after, number)
		if !ok {
			failed.failure.Message += fmt.Sprintf(" (it asks to wait %s)", failed.after.Round(time.Second))
			return failed
		}
		if deadline, has := ctx.Deadline(); has && time.Until(deadline) <= wait {
			return failed
		}
		c.metrics.retries.WithLabelValues(this.provider).Inc()
		c.config.Logger.LogAttrs(ctx, slog.LevelWarn, "model call is tried again",
			slog.String("provider", this.provider), slog.String("run", this.request.RunID), slog.Int("attempt", number+1),
			slog.Duration("pause", wait), slog.String("err", failed.Error()))
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// pause is how long to wait before the next attempt: what the provider asks for, or half to all of a time that doubles with each
// attempt, so that calls which failed together do not return together. It is false when the provider asks for too much.
func (c *caller) pause(asked time.Duration, number int) (time.Duration, bool) {
	if asked > 0 {
		return asked, asked <= c.config.MaxRetryAfter
	}
	full := c.config.RetryMax
	if number < 32 && c.config.RetryBase<<number > 0 {
		full = min(full, c.config.RetryBase<<number)
	}
	return full - time.Duration(c.config.Jitter()*float64(full/2)), true
}

// sleep waits, or returns the cause when ctx ends first.
func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

package turn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"parley/proto/conversationpb"
)

// errUnstorable ends a turn with a step that can never be journalled.
var errUnstorable = errors.New("a step of the turn could not be stored")

// journal sends a step, or a request for a grant, to the conversation and waits for the reply. The same step is sent again
// until there is a reply; the rules reply to a repeated step as they did before. If ctx ends first it is unknown whether
// the step was stored.
func (l *modelLoop) journal(ctx context.Context, progress *conversationpb.Progress) (*conversationpb.Progressed, error) {
	progress.RunId, progress.Epoch = l.run.job.RunID, l.run.job.Epoch
	if progress.Step == 0 {
		progress.Step = l.steps + 1
	}
	if l.run.job.Progress == nil {
		return nil, fmt.Errorf("%w: there is no journal", errUnstorable)
	}
	var reply *conversationpb.Progressed
	err := l.runner.persist(ctx, func(ctx context.Context) (err error) {
		reply, err = l.run.job.Progress(ctx, progress)
		return err
	})
	if errors.Is(err, ErrRefused) {
		l.runner.config.Logger.LogAttrs(ctx, slog.LevelError, "step refused", about(l.run, err)...)
		return nil, errUnstorable
	}
	return reply, err
}

// persist retries until it succeeds, the error is final, or ctx ends.
func (r *Runner) persist(ctx context.Context, try func(ctx context.Context) error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		bounded, cancel := context.WithTimeout(ctx, r.config.ReportTimeout)
		err := try(bounded)
		cancel()
		switch {
		case err == nil, errors.Is(err, ErrFenced), errors.Is(err, ErrRefused):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		r.metrics.reports.Inc()
		timer := time.NewTimer(pause/2 + rand.N(pause/2)) // jitter: a full disk holds up many turns at once
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// report retries the report until it is stored, the error is final, or the run is abandoned. A report that the rules refuse
// is replaced by a bare one, so that the conversation does not stay open.
func (r *Runner) report(ctx context.Context, t *run, finish *conversationpb.Finish) {
	send := func(ctx context.Context) error { return t.job.Report(ctx, finish) }
	err := r.persist(ctx, send)
	if errors.Is(err, ErrRefused) {
		r.config.Logger.LogAttrs(ctx, slog.LevelError, "report refused, sending a bare one", about(t, err)...)
		usage := finish.GetUsage()
		finish = failedWith("internal_error", "The answer could not be stored.")
		finish.RunId, finish.Epoch, finish.Usage = t.job.RunID, t.job.Epoch, usage
		err = r.persist(ctx, send)
	}
	switch {
	case errors.Is(err, ErrRefused):
		r.config.Logger.LogAttrs(ctx, slog.LevelError, "report refused", about(t, err)...)
	case errors.Is(err, ErrFenced):
		r.config.Logger.LogAttrs(ctx, slog.LevelDebug, "report not wanted", about(t, err)...)
	}
}

// about returns the log attributes of a run.
func about(t *run, err error) []slog.Attr {
	return []slog.Attr{
		slog.String("run", t.job.RunID), slog.String("conversation", t.job.ConversationID), slog.Any("err", err),
	}
}

func failedWith(code, message string) *conversationpb.Finish {
	return &conversationpb.Finish{
		StopReason: conversationpb.StopReason_ERROR,
		Error:      &conversationpb.TurnError{Code: code, Message: message},
	}
}

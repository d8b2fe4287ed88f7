package actors

import (
	"context"
	"errors"
	"log/slog"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"parley/actors/deliver"
)

// callbackTime is how the bodies of callbacks write times.
const callbackTime = "2006-01-02T15:04:05.000Z"

// callbacks makes the attempts to call back for the entities of a kind.
type callbacks struct {
	drivers  *drivers
	places   chan struct{} // of attempts under way
	outcomes *prometheus.CounterVec
}

func newCallbacks(drivers *drivers, most int, outcomes *prometheus.CounterVec) *callbacks {
	return &callbacks{drivers: drivers, places: make(chan struct{}, most), outcomes: outcomes}
}

// attempt is one: how it is made, and the command that tells the entity what came of it.
type attempt struct {
	number uint32 // for the log
	send   func(ctx context.Context) (*deliver.Answer, error)
	report func(came posted) proto.Message
}

// posted is what came of an attempt.
type posted struct {
	delivered bool
	hopeless  bool   // no further attempt could be different
	failed    string // why it was not taken, safe to show
}

// try makes an attempt for an entity. Without a place it is not made: it counts as lost, and the next one is due soon.
func (c *callbacks) try(at Entity, one attempt) {
	if !c.drivers.spare(c.places, func(ctx context.Context) { c.make(ctx, at, one) }) {
		c.outcomes.WithLabelValues("crowded").Inc()
	}
}

func (c *callbacks) make(ctx context.Context, at Entity, one attempt) {
	answer, err := one.send(ctx)
	if ctx.Err() != nil {
		return // nobody knows: the next owner tries again
	}
	came, label := outcomeOf(answer, err)
	c.outcomes.WithLabelValues(label).Inc()
	if !came.delivered {
		status := 0
		if answer != nil {
			status = answer.Status
		}
		c.drivers.log.Info("a callback was not taken", slog.String("entity", at.ID), slog.Int("status", status),
			slog.Uint64("attempt", uint64(one.number)), slog.Any("err", err))
	}
	_, err = at.Ask(ctx, one.report(came))
	if err != nil && ctx.Err() == nil {
		c.drivers.log.Warn("what came of a callback is not stored", slog.String("entity", at.ID), slog.Any("err", err))
	}
}

// outcomeOf words what came of an attempt, and labels it. An error's own text may name hosts behind the address.
func outcomeOf(answer *deliver.Answer, err error) (came posted, label string) {
	switch {
	case err == nil && answer.OK():
		return posted{delivered: true}, "delivered"
	case err == nil:
		return posted{failed: "answered with status " + strconv.Itoa(answer.Status)}, "failed"
	case errors.Is(err, deliver.ErrForbiddenAddress):
		return posted{hopeless: true, failed: "leads to an address that is not allowed"}, "forbidden"
	case errors.Is(err, deliver.ErrRedirect):
		return posted{failed: "a redirect was not followed"}, "failed"
	case errors.Is(err, context.DeadlineExceeded):
		return posted{failed: "timed out"}, "failed"
	}
	return posted{failed: "could not be reached"}, "failed"
}

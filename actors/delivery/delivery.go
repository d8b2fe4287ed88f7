package delivery

import (
	"time"

	"google.golang.org/protobuf/proto"

	"parley/proto/deliverypb"
)

const (
	// firstPause is the pause after the first failed attempt; it doubles with each further one.
	firstPause = 2 * time.Second
	// maxRetryAfter bounds the pause that a target may ask for.
	maxRetryAfter = time.Hour
	// unsentPause is the pause before an attempt that was not made for want of room is due again.
	unsentPause = 10 * time.Second
)

// Backoff is how long to wait after a failed attempt, numbered from 1, of so many: 2, 4, 8, ... s. false = none is left.
func Backoff(attempt, attempts uint32) (pause time.Duration, more bool) {
	if attempt < 1 || attempt >= attempts {
		return 0, false
	}
	return firstPause << (attempt - 1), true
}

// Policy says how often and when a delivery is tried.
type Policy struct {
	// Attempts is how many are made at most.
	Attempts uint32
	// Waits are the pauses after the failed attempts, if they are not those of Backoff: Attempts is one more than there are.
	Waits []time.Duration
	// Timeout is after which time an attempt of which nothing is heard counts as lost. It must be above what an attempt may
	// take, waiting for room included.
	Timeout time.Duration
}

// Step is what becomes of a delivery. The owner stores Next, or removes the delivery, and then has Attempt made.
type Step struct {
	Attempt *deliverypb.Delivery // to be made now; nil = none
	Next    *deliverypb.Delivery // stored from now on; nil = the delivery is over
	// Delivered says of a delivery that is over that the target took it.
	Delivered bool
	Error     string // of the attempt that is reported
}

// New makes a delivery of which no attempt was made.
func New(id, event string, now int64) *deliverypb.Delivery {
	return &deliverypb.Delivery{Id: id, Event: event, At: now, Attempt: 1, NextAt: now}
}

// Begin begins the next attempt, if one is left.
func (p Policy) Begin(delivery *deliverypb.Delivery, now int64) Step {
	if delivery.GetAttempt() > p.Attempts {
		return Step{}
	}
	next := moved(delivery, delivery.GetAttempt()+1, now+p.Timeout.Milliseconds())
	next.Trying = true
	return Step{Attempt: delivery, Next: next}
}

// Report takes what came of an attempt. false: it is of another delivery, or of an attempt that counts as lost.
func (p Policy) Report(delivery *deliverypb.Delivery, report *deliverypb.Report, now int64) (Step, bool) {
	attempt := report.GetAttempt()
	if delivery == nil || delivery.GetId() != report.GetId() || delivery.GetAttempt() != attempt+1 {
		return Step{}, false
	}
	if report.GetUnsent() {
		return Step{Next: moved(delivery, attempt, now+unsentPause.Milliseconds()), Error: report.GetError()}, true
	}
	pause, more := p.pause(attempt)
	if report.GetOk() || report.GetHopeless() || !more {
		return Step{Delivered: report.GetOk(), Error: report.GetError()}, true
	}
	asked := min(report.GetRetryAfter(), maxRetryAfter.Milliseconds())
	next := moved(delivery, delivery.GetAttempt(), now+max(pause.Milliseconds(), asked))
	return Step{Next: next, Error: report.GetError()}, true
}

// Lost puts off an attempt that was under way when its owner was read from storage: by a node that is no more, or not its owner any more.
// Whether it came through is not known, and who waits for the message shall not wait until nobody would report on it. A report that comes
// still counts. false = none was under way.
func (p Policy) Lost(delivery *deliverypb.Delivery, now int64) (Step, bool) {
	if !delivery.GetTrying() {
		return Step{}, false
	}
	return p.Report(delivery, &deliverypb.Report{Id: delivery.GetId(), Attempt: delivery.GetAttempt() - 1, Error: "the node that made it has stopped"}, now)
}

// pause is how long to wait after a failed attempt. false = none is left.
func (p Policy) pause(attempt uint32) (pause time.Duration, more bool) {
	if p.Waits == nil {
		return Backoff(attempt, p.Attempts)
	}
	if attempt < 1 || uint64(attempt) > uint64(len(p.Waits)) {
		return 0, false
	}
	return p.Waits[attempt-1], true
}

func moved(delivery *deliverypb.Delivery, attempt uint32, nextAt int64) *deliverypb.Delivery {
	next := proto.CloneOf(delivery)
	next.Attempt, next.NextAt, next.Trying = attempt, nextAt, false
	return next
}

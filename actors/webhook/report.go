package webhook

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/core/subscription"
	"parley/actors/machine"
	"parley/proto/deliverypb"
	"parley/proto/failurepb"
	"parley/proto/webhookpb"
)

// report takes what came of attempts.
func (m *Machine) report(s *step, c *webhookpb.Report) *machine.Failure {
	if len(c.GetAttempts()) == 0 || len(c.GetAttempts()) > maxBatch {
		return invalid()
	}
	if c.GetReports() != s.Before.GetReports() { // one whose outcome was not known has been taken after all
		return failure.New(failurepb.Code_CONFLICT, failure.DeliveryChanged)
	}
	newest := max(c.GetRecord().GetGeneration(), s.Before.GetGeneration())
	if newest > s.Before.GetGeneration() { // what was known is of the endpoint as it was
		s.Emit(&webhookpb.Event{Body: &webhookpb.Event_Changed{Changed: c.GetRecord()}})
	}
	since := s.State().GetFailingSince()
	event := &webhookpb.Moved{FailingSince: since, Reported: true}
	reason := ""
	for _, attempt := range c.GetAttempts() {
		was := attempt.GetDelivery()
		if was.GetStatus() != webhookpb.Status_PENDING {
			return invalid()
		}
		event.Moves = append(event.Moves, &webhookpb.Move{
			Delivery: m.after(was, attempt.GetReport(), s.Now), Was: was.GetStatus(), WasAt: was.GetCall().GetNextAt(),
		})
		if attempt.GetGeneration() == newest { // else it says nothing of what the endpoint is now
			reason = m.judge(event, attempt.GetReport(), s.Now, reason)
		}
	}
	if reason != "" || event.GetFailingSince() != since {
		event.Wish = &webhookpb.Wish{
			Number: s.State().GetLastSeq() + 1, FailingSince: event.GetFailingSince(), DisabledReason: reason, Generation: newest,
		}
		if reason == "" {
			event.Wish.DisabledReason = s.State().GetWish().GetDisabledReason() // not yet carried out
		}
	}
	s.Emit(&webhookpb.Event{Body: &webhookpb.Event_Moved{Moved: event}})
	return nil
}

// after is a delivery after an attempt.
func (m *Machine) after(was *webhookpb.Delivery, report *deliverypb.Report, now int64) *webhookpb.Delivery {
	is := proto.CloneOf(was)
	if report.GetFault() == deliverypb.Fault_TARGET_DISABLED {
		is.Status, is.SettledAt, is.LastError = webhookpb.Status_FAILED, now, report.GetError()
		is.Call.NextAt = 0
		return is
	}
	policy := m.limits.policy()
	begun := policy.Begin(was.GetCall(), now).Next
	if begun == nil { // there are fewer attempts than before a restart
		begun = proto.CloneOf(was.GetCall())
		begun.Attempt++
	}
	report = proto.CloneOf(report)
	report.Id, report.Attempt = was.GetCall().GetId(), was.GetCall().GetAttempt()
	report.Hopeless = report.GetHopeless() || report.GetFault() != deliverypb.Fault_NONE
	step, _ := policy.Report(begun, report, now)
	is.Call = begun
	is.Tried, is.LastStatus, is.LastError, is.LastTook = true, report.GetStatus(), report.GetError(), report.GetTook()
	is.LastHead = report.GetHead()
	switch {
	case step.Next != nil:
		is.Call = step.Next
		return is
	case step.Delivered:
		is.Status, is.LastError = webhookpb.Status_DELIVERED, ""
	default:
		is.Status = webhookpb.Status_FAILED
		if !report.GetHopeless() {
			is.LastError = fmt.Sprintf(textGaveUp, subscription.Attempts(is))
		}
	}
	is.SettledAt, is.Call.NextAt = now, 0
	return is
}

// judge says what an attempt means for the endpoint: since when it fails, and for which reason it is disabled.
func (m *Machine) judge(event *webhookpb.Moved, report *deliverypb.Report, now int64, reason string) string {
	switch {
	case report.GetOk():
		event.FailingSince = 0
		return reason
	case report.GetFault() == deliverypb.Fault_TARGET_DISABLED:
		return reason
	case event.GetFailingSince() == 0:
		event.FailingSince = now
	}
	switch {
	case report.GetFault() == deliverypb.Fault_REDIRECTED:
		return subscription.Redirect
	case report.GetFault() == deliverypb.Fault_BLOCKED:
		return subscription.BlockedAddress
	case reason == "" && now-event.GetFailingSince() > m.limits.FailAfter.Milliseconds():
		return subscription.SustainedFailure
	}
	return reason
}

// moved applies changes of deliveries.
func moved(s *webhookpb.State, event *webhookpb.Moved) {
	for _, move := range event.GetMoves() {
		was, is := move.GetWas() == webhookpb.Status_PENDING, move.GetDelivery().GetStatus() == webhookpb.Status_PENDING
		switch {
		case was && !is:
			s.Pending -= min(s.GetPending(), 1)
			s.Settled++
		case !was && is:
			s.Settled -= min(s.GetSettled(), 1)
			s.Pending++
			s.Revision++
		}
	}
	if event.GetReported() {
		s.Reports++
	}
	s.FailingSince = event.GetFailingSince()
	if event.GetWish() != nil {
		s.Wish = event.GetWish()
	}
	s.Looking = s.GetLooking() || event.GetAgain()
}

// trim removes deliveries that are old.
func (m *Machine) trim(s *step, c *webhookpb.Trim) *machine.Failure {
	if c.GetRevision() != s.Before.GetRevision() {
		return failure.New(failurepb.Code_CONFLICT, failure.DeliveryChanged)
	}
	event := &webhookpb.Trimmed{Marks: c.GetMarks(), TrimAt: s.Now + m.limits.trimEvery()}
	if c.GetMore() {
		event.TrimAt = s.Now
	}
	s.Emit(&webhookpb.Event{Body: &webhookpb.Event_Trimmed{Trimmed: event}})
	return nil
}

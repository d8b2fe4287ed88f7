package webhook

import (
	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/failurepb"
	"parley/proto/webhookpb"
)

// MaxRedelivered bounds the deliveries of one RedeliverFailed: each is some kilobytes.
const MaxRedelivered = 100

// redeliver has a settled delivery made again from the beginning, under the id of the same event.
func (*Machine) redeliver(s *step, c *webhookpb.Redeliver) *machine.Failure {
	was := c.GetDelivery()
	switch {
	case c.GetRevision() != s.Before.GetRevision():
		return failure.New(failurepb.Code_CONFLICT, failure.DeliveryChanged)
	case was.GetStatus() == webhookpb.Status_PENDING:
		return failure.New(failurepb.Code_DELIVERY_PENDING, failure.DeliveryPending)
	case was.GetStatus() == webhookpb.Status_STATUS_UNSPECIFIED || was.GetCall() == nil:
		return invalid()
	}
	again(s, was)
	s.Decision.Reply = &webhookpb.Reply{Delivery: afresh(was, s.Now)}
	return nil
}

// redeliverFailed does the same for many, as far as the endpoint may have that many waiting. They are due at once and wait for places
// as what is new does, so that a receiver hears of them no faster.
func (m *Machine) redeliverFailed(s *step, c *webhookpb.RedeliverFailed) *machine.Failure {
	if c.GetRevision() != s.Before.GetRevision() {
		return failure.New(failurepb.Code_CONFLICT, failure.DeliveryChanged)
	}
	if len(c.GetDeliveries()) == 0 || len(c.GetDeliveries()) > MaxRedelivered {
		return invalid()
	}
	last := uint64(0)
	for _, was := range c.GetDeliveries() {
		if was.GetStatus() != webhookpb.Status_FAILED || was.GetCall() == nil || was.GetNumber() <= last {
			return invalid()
		}
		last = was.GetNumber()
	}
	room := m.limits.Pending - min(m.limits.Pending, s.Before.GetPending())
	taken := c.GetDeliveries()[:min(uint64(len(c.GetDeliveries())), room)]
	if len(taken) > 0 {
		again(s, taken...)
	}
	s.Decision.Reply = &webhookpb.Reply{Redelivered: uint32(len(taken))}
	return nil
}

// again has settled deliveries made again.
func again(s *step, all ...*webhookpb.Delivery) {
	event := &webhookpb.Moved{Again: true, FailingSince: s.Before.GetFailingSince()}
	for _, was := range all {
		event.Moves = append(event.Moves, &webhookpb.Move{Delivery: afresh(was, s.Now), Was: was.GetStatus()})
	}
	s.Emit(&webhookpb.Event{Body: &webhookpb.Event_Moved{Moved: event}})
	s.Effect(looks(s))
}

// afresh is a delivery as it was before its first attempt, due now.
func afresh(was *webhookpb.Delivery, now int64) *webhookpb.Delivery {
	is := proto.CloneOf(was)
	is.Status, is.SettledAt = webhookpb.Status_PENDING, 0
	is.Call.Attempt, is.Call.NextAt = 1, now
	is.Tried, is.LastStatus, is.LastError, is.LastTook, is.LastHead = false, 0, "", 0, ""
	return is
}

package webhook

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"parley/actors/core/failure"
	"parley/actors/core/subscription"
	"parley/actors/machine"
	"parley/proto/deliverypb"
	"parley/proto/failurepb"
	"parley/proto/webhookpb"
)

// accept stores what comes from a shard's outbox, and has it delivered.
func (m *Machine) accept(s *step, c *webhookpb.Accept) *machine.Failure {
	if !fits(s, c) {
		return invalid()
	}
	source := sourceOf(s.Before, c.GetShard())
	if c.GetEpoch() < source.GetEpoch() || c.GetEpoch() == source.GetEpoch() && c.GetBatch() <= source.GetBatch() {
		return failure.New(failurepb.Code_CONFLICT, failure.FormerOutboxKeeper)
	}
	next := &webhookpb.Source{Shard: c.GetShard(), Epoch: c.GetEpoch(), Batch: c.GetBatch()}
	if !c.GetFresh() {
		next.Seen = slices.Clone(source.GetSeen())
	}
	event := &webhookpb.Accepted{Id: s.Command.GetId(), Source: next, TrimAt: s.Before.GetTrimAt()}
	room := m.limits.Pending - min(m.limits.Pending, s.Before.GetPending())
	full := false
	for _, message := range c.GetMessages() {
		mark := markOf(message.GetId())
		if slices.Contains(next.GetSeen(), mark) {
			continue
		}
		next.Seen = append(next.Seen, mark)
		d := m.newDelivery(s, event, message)
		if room == 0 {
			full = true
			d.Status, d.SettledAt, d.LastError, d.Call.NextAt = webhookpb.Status_FAILED, s.Now, textFull, 0
		} else {
			room--
		}
	}
	next.Seen = next.GetSeen()[max(0, len(next.GetSeen())-maxRemembered):]
	if event.GetTrimAt() == 0 {
		event.TrimAt = s.Now + m.limits.trimEvery()
	}
	s.Emit(&webhookpb.Event{Body: &webhookpb.Event_Accepted{Accepted: event}})
	if full {
		m.failing(s)
	}
	s.Decision.Reply = &webhookpb.Reply{} // the outbox worker asks for no more, and what is remembered of all shards is long
	if fresh := pending(event.GetDeliveries()); len(fresh) > 0 || full {
		s.Effect(Look{Fresh: fresh, Reports: s.Before.GetReports(), Generation: s.Before.GetGeneration()})
	}
	return nil
}

// markOf is what is remembered of an event. Among the few thousand that a source remembers, two are alike once in 10^15 events.
func markOf(id string) uint64 {
	sum := sha256.Sum256([]byte(id))
	return binary.BigEndian.Uint64(sum[:])
}

// newDelivery adds a delivery of a message, due now.
func (*Machine) newDelivery(s *step, event *webhookpb.Accepted, message *webhookpb.Message) *webhookpb.Delivery {
	number := s.Before.GetLastNumber() + uint64(len(event.GetDeliveries())) + 1
	d := &webhookpb.Delivery{
		Id: subscription.DeliveryID(s.Command.GetId(), number), Number: number, Body: message.GetBody(), About: message.GetAbout(),
		Status: webhookpb.Status_PENDING, CreatedAt: s.Now,
		Call: &deliverypb.Delivery{
			Id: message.GetId(), Event: message.GetType(), At: s.Now, Attempt: 1,
			NextAt: max(s.Now, s.Before.GetAcceptedAt()), // in the order of their numbers, whatever the clocks of nodes say
		},
	}
	event.Deliveries = append(event.Deliveries, d)
	return d
}

// failing notes that the endpoint does not keep up.
func (*Machine) failing(s *step) {
	if s.State().GetFailingSince() != 0 {
		return
	}
	s.Emit(&webhookpb.Event{Body: &webhookpb.Event_Moved{Moved: &webhookpb.Moved{
		FailingSince: s.Now, Wish: &webhookpb.Wish{Number: s.State().GetLastSeq() + 1, FailingSince: s.Now}, Again: true,
	}}})
}

func pending(all []*webhookpb.Delivery) []*webhookpb.Delivery {
	return slices.DeleteFunc(slices.Clone(all), func(d *webhookpb.Delivery) bool { return d.GetStatus() != webhookpb.Status_PENDING })
}

func sourceOf(s *webhookpb.State, shard uint32) *webhookpb.Source {
	for _, source := range s.GetSources() {
		if source.GetShard() == shard {
			return source
		}
	}
	return nil
}

// fits refuses what no outbox worker sends.
func fits(s *step, c *webhookpb.Accept) bool {
	if s.Command.GetId() == "" || c.GetEpoch() == 0 || c.GetBatch() == 0 || len(c.GetMessages()) == 0 || len(c.GetMessages()) > maxBatch {
		return false
	}
	return !slices.ContainsFunc(c.GetMessages(), func(m *webhookpb.Message) bool {
		return m.GetId() == "" || len(m.GetId()) > maxName || len(m.GetType()) > maxName || len(m.GetAbout()) > maxName ||
			len(m.GetBody()) > maxBody || !utf8.Valid(m.GetBody())
	})
}

// record stores a delivery that was a test. It says nothing of the endpoint's health.
func (m *Machine) record(s *step, c *webhookpb.Record) *machine.Failure {
	given := c.GetDelivery()
	if s.Command.GetId() == "" || given.GetStatus() == webhookpb.Status_PENDING || given.GetStatus() == webhookpb.Status_STATUS_UNSPECIFIED || len(given.GetBody()) > maxBody {
		return invalid()
	}
	number := s.Before.GetLastNumber() + 1
	d := &webhookpb.Delivery{
		Id: subscription.DeliveryID(s.Command.GetId(), number), Number: number, Call: given.GetCall(), Body: given.GetBody(),
		Status: given.GetStatus(), CreatedAt: given.GetCreatedAt(), SettledAt: s.Now,
		Tried: true, LastStatus: given.GetLastStatus(), LastError: given.GetLastError(), LastTook: given.GetLastTook(), LastHead: given.GetLastHead(),
	}
	event := &webhookpb.Accepted{Id: s.Command.GetId(), Deliveries: []*webhookpb.Delivery{d}, TrimAt: s.Before.GetTrimAt()}
	if event.GetTrimAt() == 0 {
		event.TrimAt = s.Now + m.limits.trimEvery()
	}
	s.Emit(&webhookpb.Event{Body: &webhookpb.Event_Accepted{Accepted: event}})
	s.Decision.Reply = &webhookpb.Reply{Delivery: d}
	return nil
}

// accepted adds deliveries to the state, which may not exist yet.
func accepted(s *webhookpb.State, event *webhookpb.Accepted) *webhookpb.State {
	if s == nil {
		s = &webhookpb.State{Id: event.GetId()}
	}
	for _, d := range event.GetDeliveries() {
		s.LastNumber = max(s.GetLastNumber(), d.GetNumber())
		if d.GetStatus() != webhookpb.Status_PENDING {
			s.Settled++
			continue
		}
		s.Pending++
		s.AcceptedAt = max(s.GetAcceptedAt(), d.GetCall().GetNextAt())
		s.Looking = true
	}
	s.TrimAt = event.GetTrimAt()
	if source := event.GetSource(); source != nil {
		at := slices.IndexFunc(s.GetSources(), func(known *webhookpb.Source) bool { return known.GetShard() == source.GetShard() })
		if at < 0 {
			s.Sources = append(s.Sources, source)
		} else {
			s.Sources[at] = source
		}
	}
	return s
}

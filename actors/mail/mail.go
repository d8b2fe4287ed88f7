package mail

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/delivery"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/proto/deliverypb"
	"parley/proto/failurepb"
	"parley/proto/logpb"
	"parley/proto/mailpb"
)

// ListDue is the list of all mails by when their next attempt is due, or counts as lost.
const ListDue = "mail/due"

// Server is the target under which attempts have their share of the node's room: there is one mail server.
const Server = "mail"

// lostAfter is when an attempt of which nothing is heard counts as lost. It is above the time for which an attempt may wait for room
// and for the mail server.
const lostAfter = 3 * time.Minute

// Policy is when attempts are made: what somebody waits for is of no use an hour later.
func Policy() delivery.Policy {
	return delivery.Policy{
		Attempts: 7, Timeout: lostAfter,
		Waits: []time.Duration{5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute},
	}
}

// Post makes one attempt. It returns what came of it, and how it is counted.
type Post func(letter *mailpb.Letter, id string) delivery.Do

// New returns the kind of mails, whose attempts are made by the sender.
func New(sender delivery.Sender, post Post) kit.Entity {
	return kit.Entity{
		Machine: rules().Machine(),
		Unkept:  true,
		Command: (*mailpb.Command)(nil),
		Missing: missing,
		Creates: kit.Is(func(c *mailpb.Command) bool { return c.GetSend() != nil }),
		Perform: func(at kit.Ref, effect machine.Effect) proto.Message {
			if try, is := effect.(Try); is {
				sender.Send(at, delivery.Attempt{
					Delivery: try.Delivery, URL: Server, Tenant: try.Letter.GetTenantId(), Do: post(try.Letter, at.ID),
					Report: func(report *deliverypb.Report) proto.Message {
						return &mailpb.Command{Id: at.ID, Body: &mailpb.Command_Posted{Posted: report}}
					},
				})
			}
			return nil
		},
		Busy: kit.Is(trying),
		Due: kit.Due{List: ListDue, Ahead: lostAfter, Command: func(id string) proto.Message {
			return &mailpb.Command{Id: id, Body: &mailpb.Command_Due{Due: &mailpb.Due{}}}
		}},
		OnRelease: func(shard uint32, epoch uint64) { sender.Release(shard, epoch) },
		Drain:     func(context.Context) { sender.Stop() },
	}
}

// Try has an attempt made. Both are shared: read only.
type Try struct {
	Letter   *mailpb.Letter
	Delivery *deliverypb.Delivery // as it is tried now
}

// waiting is the phase of a mail that is neither sent nor given up.
const waiting kit.Phase = "waiting"

type (
	step  = kit.Step[*mailpb.State, *mailpb.Command, *mailpb.Event]
	row   = kit.Transition[*mailpb.State, *mailpb.Command, *mailpb.Event]
	table = kit.Rules[*mailpb.State, *mailpb.Command, *mailpb.Event]
)

func rules() table {
	send, posted, due, recovers := (*mailpb.Command).GetSend, (*mailpb.Command).GetPosted, (*mailpb.Command).GetDue, (*mailpb.Command).GetRecover
	return table{
		Prefix: "mail",
		Phases: []kit.Phase{waiting},
		Phase:  func(*mailpb.State) kit.Phase { return waiting },
		Transitions: []row{
			kit.On(send, write).From(kit.Absent).To(waiting),
			kit.On(send, nothing[*mailpb.Letter]).From(waiting),
			kit.On(posted, came).From(waiting).To(kit.Same, kit.Absent),
			kit.On(posted, nothing[*deliverypb.Report]).From(kit.Absent),
			kit.On(due, again).From(waiting).To(kit.Same, kit.Absent),
			kit.On(due, nothing[*mailpb.Due]).From(kit.Absent),
			kit.On(recovers, lost).From(waiting).To(kit.Same, kit.Absent),
		},
		Missing: missing,
		Apply:   apply,
		Reply:   func(*mailpb.State) proto.Message { return &mailpb.Reply{} },
		Recover: func(s *mailpb.State) *mailpb.Command {
			if !trying(s) {
				return nil
			}
			return &mailpb.Command{Id: s.GetId(), Body: &mailpb.Command_Recover{Recover: &mailpb.Recover{}}}
		},
		Project: func(before, after *mailpb.State, _ []proto.Message, into *logpb.Append) {
			id := cmp.Or(after.GetId(), before.GetId())
			machine.Relist(into, ListDue, id, before.GetDelivery().GetNextAt(), after.GetDelivery().GetNextAt())
		},
	}
}

func trying(s *mailpb.State) bool { return s.GetDelivery().GetTrying() }

func missing() *machine.Failure { return failure.New(failurepb.Code_NOT_FOUND, failure.EntityNotFound) }

func nothing[B any](s *step, _ B) *machine.Failure {
	s.Decision.Reply = &mailpb.Reply{}
	return nil
}

// write keeps a mail and has its first attempt made.
func write(s *step, letter *mailpb.Letter) *machine.Failure {
	if letter.GetTemplate() == mailpb.Template_NO_TEMPLATE || s.Command.GetId() == "" {
		return failure.New(failurepb.Code_VALIDATION, failure.BadMail)
	}
	first := Policy().Begin(delivery.New(s.Command.GetId(), "", s.Now), s.Now)
	s.Emit(&mailpb.Event{Body: &mailpb.Event_Written{Written: &mailpb.State{
		Id: s.Command.GetId(), Letter: letter, Delivery: first.Next,
	}}})
	s.Effect(Try{letter, first.Attempt})
	return nil
}

// came takes what came of an attempt.
func came(s *step, report *deliverypb.Report) *machine.Failure {
	if next, known := Policy().Report(s.Before.GetDelivery(), report, s.Now); known {
		move(s, next)
	}
	return nil
}

// again makes the next attempt once it is due.
func again(s *step, _ *mailpb.Due) *machine.Failure {
	if s.Before.GetDelivery().GetNextAt() <= s.Now {
		move(s, Policy().Begin(s.Before.GetDelivery(), s.Now))
	}
	return nil
}

// lost puts off an attempt of an owner that is no more, or of this one before it was read from storage again.
func lost(s *step, _ *mailpb.Recover) *machine.Failure {
	if next, is := Policy().Lost(s.Before.GetDelivery(), s.Now); is {
		move(s, next)
	}
	return nil
}

// move stores what becomes of the delivery. A mail that is sent or given up is gone.
func move(s *step, next delivery.Step) {
	if next.Next == nil {
		s.Remove()
		s.Decision.Reply = &mailpb.Reply{}
		return
	}
	s.Emit(&mailpb.Event{Body: &mailpb.Event_Tried{Tried: &deliverypb.Due{Delivery: next.Next, Error: next.Error}}})
	if next.Attempt != nil {
		s.Effect(Try{s.Before.GetLetter(), next.Attempt})
	}
}

// apply folds an event into the state.
func apply(s *mailpb.State, event *mailpb.Event) *mailpb.State {
	switch body := event.GetBody().(type) {
	case *mailpb.Event_Written:
		return proto.CloneOf(body.Written)
	case *mailpb.Event_Tried:
		s.Delivery, s.Error = body.Tried.GetDelivery(), body.Tried.GetError()
	}
	return s
}

package conversation

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/actors/core/failure"
	"parley/actors/delivery"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/deliverypb"
	"parley/proto/failurepb"
)

// Bounds of the addresses that are told of turns. They stand in every head that is written while a turn runs.
const (
	maxPushesOfTurn = 4
	maxPushes       = 8 // those of earlier turns that do not answer included
	maxPushID       = 128
	maxPushShown    = 2048
	maxPushSealed   = 6 << 10
	maxPushAttempts = 6
)

// setPush has an address told when the turn ends or pauses. It is stored whole or not at all, and replaces the one that has its id.
func (r *request) setPush(c *conversationpb.SetPush) *machine.Failure {
	if f := r.access(); f != nil {
		return f
	}
	if !goesOn(r.state, c.GetRunId()) {
		return failure.New(failurepb.Code_STALE_TURN, failure.TurnOver)
	}
	if f := r.push(c.GetRunId(), c.GetPush()); f != nil {
		return f
	}
	return r.reply(stateReply(r.State()))
}

// push adds an address to a turn that runs or waits by now; nil = none was asked for.
func (r *request) push(run string, set *conversationpb.Push) *machine.Failure {
	if set == nil {
		return nil
	}
	switch {
	case len(set.GetId()) > maxPushID || !utf8.ValidString(set.GetId()) || strings.ContainsFunc(set.GetId(), unicode.IsControl):
		return failure.New(failurepb.Code_VALIDATION, failure.BadName).Param("what", "the id of a push notification config").Param("most", maxPushID)
	case len(set.GetShownUrl()) > maxPushShown, len(set.GetSealed()) > maxPushSealed, len(set.GetForm()) > maxPushID, len(set.GetScheme()) > maxPushID,
		!utf8.ValidString(set.GetShownUrl() + set.GetForm() + set.GetScheme()):
		return failure.New(failurepb.Code_VALIDATION, failure.TooLargeOf).In("pushNotificationConfig").Param("most", maxPushSealed)
	}
	all, turns := 0, 0
	for _, known := range r.State().GetPushes() {
		if known.GetRunId() == run && known.GetId() == set.GetId() {
			continue
		}
		all++
		if known.GetRunId() == run {
			turns++
		}
	}
	if turns >= maxPushesOfTurn || all >= maxPushes {
		return failure.New(failurepb.Code_VALIDATION, failure.PushesFull).Param("most", maxPushesOfTurn).Param("all", maxPushes)
	}
	r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_PushSet{PushSet: &conversationpb.PushSet{Push: &conversationpb.Push{
		Id: set.GetId(), RunId: run, Number: turnOf(r.State()).GetUserMessage().GetNumber() + 1, Form: set.GetForm(),
		Sealed: set.GetSealed(), ShownUrl: set.GetShownUrl(), Scheme: set.GetScheme(),
	}}}})
	return nil
}

// removePush takes addresses back. Of what was being told to them nothing is tried again.
func (r *request) removePush(c *conversationpb.RemovePush) *machine.Failure {
	if f := r.access(); f != nil {
		return f
	}
	for _, push := range r.state.GetPushes() {
		if push.GetNumber() == c.GetNumber() && push.GetId() == c.GetId() {
			r.emit(push.GetRunId(), &conversationpb.Event{Body: &conversationpb.Event_PushRemoved{
				PushRemoved: &conversationpb.PushRemoved{Id: push.GetId()},
			}})
		}
	}
	return r.reply(stateReply(r.State()))
}

func (r *request) pushPolicy() delivery.Policy {
	return delivery.Policy{Attempts: maxPushAttempts, Timeout: r.limits.PushTimeout}
}

// tell begins to tell the addresses of a turn that it has ended or paused, with the append that stores that. What was not told
// before is not told any more. An attempt that is under way comes first: the other side hears one after the other.
func (r *request) tell(run string) {
	if len(r.Before.GetPushes()) == 0 { // nothing sets an address of a turn that ends in the same step
		return
	}
	for _, push := range r.State().GetPushes() {
		switch {
		case push.GetRunId() != run:
		case push.GetUnderWay():
			r.pushDue(push, &conversationpb.PushDue{Delivery: push.GetDelivery(), UnderWay: true, Again: true})
		default:
			r.tellAnew(push)
		}
	}
}

func (r *request) tellAnew(push *conversationpb.Push) {
	r.pushStep(push, r.pushPolicy().Begin(delivery.New(r.Env.NewID("evt"), "", r.Now), r.Now))
}

// pushStep stores how far an address is told, and has the attempt made.
func (r *request) pushStep(push *conversationpb.Push, step delivery.Step) {
	if step.Next == nil {
		r.emit(push.GetRunId(), &conversationpb.Event{Body: &conversationpb.Event_PushOver{PushOver: &conversationpb.PushOver{
			Id: push.GetId(), Delivered: step.Delivered, Error: step.Error,
		}}})
		return
	}
	r.pushDue(push, &conversationpb.PushDue{Delivery: step.Next, UnderWay: step.Attempt != nil, Error: step.Error})
	if step.Attempt != nil {
		r.Effect(TellPush{ConversationID: r.State().GetId(), TenantID: r.State().GetTenantId(), Push: push, Attempt: step.Attempt})
	}
}

func (r *request) pushDue(push *conversationpb.Push, due *conversationpb.PushDue) {
	due.Id = push.GetId()
	r.emit(push.GetRunId(), &conversationpb.Event{Body: &conversationpb.Event_PushDue{PushDue: due}})
}

// pushed takes what came of an attempt.
func (r *request) pushed(c *conversationpb.Pushed) *machine.Failure {
	for _, push := range r.state.GetPushes() {
		if push.GetRunId() != c.GetRunId() || push.GetId() != c.GetId() {
			continue
		}
		step, known := r.pushPolicy().Report(push.GetDelivery(), c.GetReport(), r.Now)
		switch {
		case !known:
		case push.GetAgain():
			r.tellAnew(push)
		default:
			r.pushStep(push, step)
		}
	}
	return nil
}

// pushesDue makes the attempts whose time has come: those that failed before, or of which nothing was heard.
func (r *request) pushesDue() {
	for _, push := range r.State().GetPushes() {
		switch at := push.GetDelivery().GetNextAt(); {
		case at == 0 || at > r.Now:
		case push.GetAgain():
			r.tellAnew(push)
		default:
			r.pushStep(push, r.pushPolicy().Begin(push.GetDelivery(), r.Now))
		}
	}
}

// Telling says that an attempt to tell an address of a turn is under way.
func Telling(s *conversationpb.State) bool {
	return slices.ContainsFunc(s.GetPushes(), func(push *conversationpb.Push) bool { return push.GetDelivery().GetTrying() })
}

// recoverPushes puts off the attempts of an owner that is no more.
func (r *request) recoverPushes(*conversationpb.Recover) *machine.Failure {
	for _, push := range r.state.GetPushes() {
		switch step, lost := r.pushPolicy().Lost(push.GetDelivery(), r.Now); {
		case !lost:
		case push.GetAgain():
			r.tellAnew(push)
		default:
			r.pushStep(push, step)
		}
	}
	return nil
}

// goesOn says that a run is that of a turn which runs or waits for a person.
func goesOn(s *conversationpb.State, run string) bool {
	if lease := s.GetLease(); lease != nil {
		return lease.GetRunId() == run
	}
	return s.GetStatus() == conversationpb.Status_WAITING && s.GetPaused().GetRunId() == run
}

// applyPush folds what happens to the addresses of turns. An address goes once the end of its turn is told, or given up.
func applyPush(next *conversationpb.State, event *conversationpb.Event) {
	run := event.GetRunId()
	switch body := event.GetBody().(type) {
	case *conversationpb.Event_PushSet:
		next.Pushes = changePush(next, run, body.PushSet.GetPush().GetId(), func(*conversationpb.Push) *conversationpb.Push { return nil })
		next.Pushes = append(next.Pushes, body.PushSet.GetPush())
	case *conversationpb.Event_PushRemoved:
		next.Pushes = changePush(next, run, body.PushRemoved.GetId(), func(*conversationpb.Push) *conversationpb.Push { return nil })
	case *conversationpb.Event_PushDue:
		due := body.PushDue
		next.Pushes = changePush(next, run, due.GetId(), func(push *conversationpb.Push) *conversationpb.Push {
			return withDelivery(push, due.GetDelivery(), due.GetUnderWay(), due.GetAgain())
		})
	case *conversationpb.Event_PushOver:
		next.Pushes = changePush(next, run, body.PushOver.GetId(), func(push *conversationpb.Push) *conversationpb.Push {
			if !goesOn(next, run) {
				return nil
			}
			return withDelivery(push, nil, false, false)
		})
	}
}

// changePush returns the addresses with another one, or without it, in the place of one of them.
func changePush(
	s *conversationpb.State, run, id string, change func(*conversationpb.Push) *conversationpb.Push,
) (changed []*conversationpb.Push) {
	for _, push := range s.GetPushes() {
		if push.GetRunId() == run && push.GetId() == id {
			push = change(push)
		}
		if push != nil {
			changed = append(changed, push)
		}
	}
	return changed
}

func withDelivery(push *conversationpb.Push, told *deliverypb.Delivery, underWay, again bool) *conversationpb.Push {
	next := &conversationpb.Push{
		Id: push.GetId(), RunId: push.GetRunId(), Number: push.GetNumber(), Form: push.GetForm(), Sealed: push.GetSealed(),
		ShownUrl: push.GetShownUrl(), Scheme: push.GetScheme(), Delivery: told, UnderWay: underWay, Again: again,
	}
	keepUnknown(push, next)
	return next
}

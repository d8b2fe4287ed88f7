package queue

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/proto/failurepb"
	"parley/proto/logpb"
	"parley/proto/runpb"
)

// Phases of a queue.
const open kit.Phase = "open" // somebody runs or waits

type (
	step  = kit.Step[*runpb.Queue, *runpb.QueueCommand, *runpb.QueueEvent]
	row   = kit.Transition[*runpb.Queue, *runpb.QueueCommand, *runpb.QueueEvent]
	table = kit.Rules[*runpb.Queue, *runpb.QueueCommand, *runpb.QueueEvent]
)

func (l Limits) rules() table {
	join, leave, due := (*runpb.QueueCommand).GetJoin, (*runpb.QueueCommand).GetLeave, (*runpb.QueueCommand).GetDue
	return table{
		Prefix: "queue",
		Phases: []kit.Phase{open},
		Phase:  func(*runpb.Queue) kit.Phase { return open },
		Transitions: []row{
			kit.On(join, l.join).From(kit.Absent, open).To(open),
			kit.On(leave, l.leave).From(open).To(open, kit.Absent),
			kit.On(leave, func(*step, *runpb.Leave) *machine.Failure { return nil }).From(kit.Absent),
			kit.On(due, func(s *step, _ *runpb.QueueDue) *machine.Failure { return l.serve(s) }).From(open).To(open, kit.Absent),
			kit.On(due, func(*step, *runpb.QueueDue) *machine.Failure { return nil }).From(kit.Absent),
		},
		Apply: apply,
		Copy: func(s *runpb.Queue) *runpb.Queue { // places are shared: nobody changes them
			return &runpb.Queue{
				Id: s.GetId(), LastSeq: s.GetLastSeq(), Places: slices.Clone(s.GetPlaces()), Waiting: slices.Clone(s.GetWaiting()),
			}
		},
		Project: func(before, after *runpb.Queue, _ []proto.Message, into *logpb.Append) {
			machine.Relist(into, ListDue, cmp.Or(after.GetId(), before.GetId()), firstLapse(before), firstLapse(after))
		},
		Reply: func(*runpb.Queue) proto.Message { return &runpb.QueueReply{} },
	}
}

func (l Limits) place(s *step, run string, since int64) *runpb.Place {
	return &runpb.Place{RunId: run, Since: since, ExpiresAt: s.Now + l.Lease.Milliseconds()}
}

// join takes a place, to run or to wait in, or keeps the one that the run has.
func (l Limits) join(s *step, c *runpb.Join) *machine.Failure {
	run := c.GetRunId()
	if run == "" || len(run) > maxRunID {
		return failure.New(failurepb.Code_VALIDATION, failure.BadText).In("runId").Param("what", "a run id").Param("most", maxRunID)
	}
	if !s.Exists() {
		s.Emit(&runpb.QueueEvent{Body: &runpb.QueueEvent_Opened{Opened: &runpb.QueueOpened{Id: s.Command.GetQueueId()}}})
	}
	l.lapse(s, run)
	switch now := s.State(); {
	case find(now.GetPlaces(), run) >= 0:
		l.renew(s, now.GetPlaces(), run)
	case c.GetAtOnce():
		s.Emit(&runpb.QueueEvent{Body: &runpb.QueueEvent_Joined{Joined: &runpb.Joined{Place: l.place(s, run, s.Now)}}})
	case find(now.GetWaiting(), run) >= 0:
		l.renew(s, now.GetWaiting(), run)
	default:
		if refused := l.enter(s, run); refused != nil {
			return refused
		}
	}
	l.grant(s) // what has lapsed
	after := s.State()
	reply := &runpb.QueueReply{Placed: find(after.GetPlaces(), run) >= 0}
	if !reply.Placed {
		reply.Ahead = uint32(find(after.GetWaiting(), run))
	}
	s.Decision.Reply = reply
	l.close(s)
	return nil
}

// enter gives a run that is new a place, or one to wait in.
func (l Limits) enter(s *step, run string) *machine.Failure {
	l.grant(s)
	now := s.State()
	free := len(now.GetPlaces()) < l.Concurrency
	if !free && len(now.GetWaiting()) >= l.MaxQueued {
		return failure.New(failurepb.Code_QUOTA_REACHED, failure.QueueFull).With("maxQueued", l.MaxQueued)
	}
	s.Emit(&runpb.QueueEvent{Body: &runpb.QueueEvent_Joined{Joined: &runpb.Joined{Place: l.place(s, run, s.Now), Waits: !free}}})
	return nil
}

// leave gives up what a run has.
func (l Limits) leave(s *step, c *runpb.Leave) *machine.Failure {
	if find(s.Before.GetPlaces(), c.GetRunId()) >= 0 || find(s.Before.GetWaiting(), c.GetRunId()) >= 0 {
		s.Emit(&runpb.QueueEvent{Body: &runpb.QueueEvent_Left{Left: &runpb.Left{RunIds: []string{c.GetRunId()}}}})
	}
	return l.serve(s)
}

// serve takes back what has lapsed and gives out what is free.
func (l Limits) serve(s *step) *machine.Failure {
	l.lapse(s, "")
	l.grant(s)
	l.close(s)
	return nil
}

// close removes a queue in which nobody runs or waits any more.
func (l Limits) close(s *step) {
	if after := s.State(); len(after.GetPlaces()) == 0 && len(after.GetWaiting()) == 0 {
		s.Remove()
	}
}

// lapse takes back what nobody has asked for again; not from who does just now, and not before whoever is there has had the
// time to ask this owner: after all of the cluster was down everything would seem lost, what runs would find its place
// taken, and who waits the order gone.
func (l Limits) lapse(s *step, but string) {
	if since := s.Env.EpochSince; !since.IsZero() && s.Now < since.Add(l.Lease/2).UnixMilli() {
		return
	}
	var gone []string
	now := s.State()
	for _, list := range [][]*runpb.Place{now.GetPlaces(), now.GetWaiting()} {
		for _, place := range list {
			if place.GetExpiresAt() <= s.Now && place.GetRunId() != but {
				gone = append(gone, place.GetRunId())
			}
		}
	}
	if len(gone) > 0 {
		s.Emit(&runpb.QueueEvent{Body: &runpb.QueueEvent_Left{Left: &runpb.Left{RunIds: gone}}})
	}
}

// renew keeps a place for longer, once half of its time is over: most who ask write nothing.
func (l Limits) renew(s *step, list []*runpb.Place, run string) {
	known := list[find(list, run)]
	if known.GetExpiresAt()-s.Now > l.Lease.Milliseconds()/2 {
		return
	}
	s.Emit(&runpb.QueueEvent{Body: &runpb.QueueEvent_Renewed{Renewed: &runpb.Renewed{Place: l.place(s, run, known.GetSince())}}})
}

// grant gives the places that are free to those who wait, in their order.
func (l Limits) grant(s *step) {
	now := s.State()
	free := l.Concurrency - len(now.GetPlaces())
	for _, next := range now.GetWaiting()[:max(0, min(free, len(now.GetWaiting())))] {
		s.Emit(&runpb.QueueEvent{Body: &runpb.QueueEvent_Granted{Granted: &runpb.Granted{Place: l.place(s, next.GetRunId(), s.Now)}}})
		s.Effect(Grant{RunID: next.GetRunId()})
	}
}

func find(list []*runpb.Place, run string) int {
	return slices.IndexFunc(list, func(place *runpb.Place) bool { return place.GetRunId() == run })
}

// apply folds an event into the state.
func apply(next *runpb.Queue, event *runpb.QueueEvent) *runpb.Queue {
	switch body := event.GetBody().(type) {
	case *runpb.QueueEvent_Opened:
		return &runpb.Queue{Id: body.Opened.GetId()}
	case *runpb.QueueEvent_Joined:
		place := body.Joined.GetPlace()
		if body.Joined.GetWaits() {
			next.Waiting = append(next.GetWaiting(), place)
			return next
		}
		next.Waiting = without(next.GetWaiting(), place.GetRunId())
		next.Places = append(next.GetPlaces(), place)
	case *runpb.QueueEvent_Renewed:
		for _, list := range [][]*runpb.Place{next.GetPlaces(), next.GetWaiting()} {
			if i := find(list, body.Renewed.GetPlace().GetRunId()); i >= 0 {
				list[i] = body.Renewed.GetPlace()
			}
		}
	case *runpb.QueueEvent_Left:
		next.Places = without(next.GetPlaces(), body.Left.GetRunIds()...)
		next.Waiting = without(next.GetWaiting(), body.Left.GetRunIds()...)
	case *runpb.QueueEvent_Granted:
		next.Waiting = without(next.GetWaiting(), body.Granted.GetPlace().GetRunId())
		next.Places = append(next.GetPlaces(), body.Granted.GetPlace())
	}
	return next
}

func without(list []*runpb.Place, runs ...string) []*runpb.Place {
	return slices.DeleteFunc(list, func(place *runpb.Place) bool { return slices.Contains(runs, place.GetRunId()) })
}

func firstLapse(s *runpb.Queue) (first int64) {
	for _, list := range [][]*runpb.Place{s.GetPlaces(), s.GetWaiting()} {
		for _, place := range list {
			first = machine.Sooner(first, place.GetExpiresAt())
		}
	}
	return first
}

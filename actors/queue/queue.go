package queue

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/failurepb"
	"parley/proto/logpb"
	"parley/proto/runpb"
)

// ListDue is the list of the queues by the time at which the first of what they gave lapses.
const ListDue = "queue/due"

const maxRunID = 256 // bytes

// Limits bounds a queue. They must be alike on all nodes.
type Limits struct {
	// Concurrency is how many runs of a project run at the same time. Default 32.
	Concurrency int
	// MaxQueued is how many wait. Each stands in the queue's head record (about 40 bytes), which is written with every
	// change. Default 1000.
	MaxQueued int
	// Lease is how long a place is kept without a word, and half of it how long an owner of the queue waits for a word
	// before it takes anything back. Default 10m.
	Lease time.Duration
}

// DefaultLimits returns the limits in force unless configured otherwise.
func DefaultLimits() Limits { return Limits{Concurrency: 32, MaxQueued: 1000, Lease: 10 * time.Minute} }

// Validate says which limit makes no sense.
func (l Limits) Validate() error {
	if l.Concurrency <= 0 || l.MaxQueued <= 0 || l.Lease <= 0 {
		return errors.New("queue limits concurrency, max queued and lease must be positive")
	}
	return nil
}

// Grant tells a run that waited that it may run.
type Grant struct {
	RunID string
}

// Machine is the rules of queues. It holds no state and is safe for concurrent use.
type Machine struct {
	limits Limits
}

var _ machine.Machine = (*Machine)(nil)

// New returns the rules under the given limits, which must be valid.
func New(limits Limits) *Machine { return &Machine{limits: limits} }

// Kind is the prefix of queue ids.
func (*Machine) Kind() string { return "queue" }

// NewState returns an empty runpb.Queue.
func (*Machine) NewState() proto.Message { return new(runpb.Queue) }

// Seq returns the number of the newest event.
func (*Machine) Seq(state proto.Message) uint64 {
	s, _ := state.(*runpb.Queue)
	return s.GetLastSeq()
}

// OnActivate asks for nothing: what a queue has said and was not heard, the runs ask for.
func (*Machine) OnActivate(proto.Message, machine.Env) proto.Message { return nil }

// Decide applies the rule of the command.
func (m *Machine) Decide(state, command proto.Message, env machine.Env) (machine.Decision, *machine.Failure) {
	s, _ := state.(*runpb.Queue)
	c, _ := command.(*runpb.QueueCommand)
	r := &request{Machine: m, state: s, now: env.Now.UnixMilli(), since: env.EpochSince}
	switch body := c.GetBody().(type) {
	case *runpb.QueueCommand_Join:
		if s == nil {
			r.emit(&runpb.QueueEvent{Body: &runpb.QueueEvent_Opened{Opened: &runpb.QueueOpened{Id: c.GetQueueId()}}})
		}
		return r.join(body.Join)
	case *runpb.QueueCommand_Leave:
		return r.leave(body.Leave), nil
	case *runpb.QueueCommand_Due:
		return r.serve(), nil
	}
	return machine.Decision{}, failure.New(failurepb.Code_VALIDATION, failure.UnknownCommand).Param("entity", "a queue")
}

// request is one command on its way through its rule.
type request struct {
	*Machine

	state  *runpb.Queue // nil = there is none
	now    int64        // Unix milliseconds
	since  time.Time    // when this owner of the queue began
	events []proto.Message
	grants []machine.Effect
}

// emit adds an event and gives it its number and time.
func (r *request) emit(event *runpb.QueueEvent) {
	if event.Seq = uint64(len(r.events)); r.state != nil {
		event.Seq += r.state.GetLastSeq() + 1
	}
	event.CreatedAt = r.now
	r.events = append(r.events, event)
}

func (r *request) after() *runpb.Queue { return evolve(r.state, r.events) }

func (r *request) place(run string, since int64) *runpb.Place {
	return &runpb.Place{RunId: run, Since: since, ExpiresAt: r.now + r.limits.Lease.Milliseconds()}
}

// join takes a place, to run or to wait in, or keeps the one that the run has.
func (r *request) join(c *runpb.Join) (machine.Decision, *machine.Failure) {
	run := c.GetRunId()
	if run == "" || len(run) > maxRunID {
		return machine.Decision{}, failure.New(failurepb.Code_VALIDATION, failure.BadText).In("runId").Param("what", "a run id").Param("most", maxRunID)
	}
	r.lapse(run)
	now := r.after()
	switch {
	case find(now.GetPlaces(), run) >= 0:
		r.renew(now.GetPlaces(), run)
	case c.GetAtOnce():
		r.emit(&runpb.QueueEvent{Body: &runpb.QueueEvent_Joined{Joined: &runpb.Joined{Place: r.place(run, r.now)}}})
	case find(now.GetWaiting(), run) >= 0:
		r.renew(now.GetWaiting(), run)
	default:
		r.grant()
		now = r.after()
		free := len(now.GetPlaces()) < r.limits.Concurrency
		if !free && len(now.GetWaiting()) >= r.limits.MaxQueued {
			return machine.Decision{}, failure.New(failurepb.Code_QUOTA_REACHED, failure.QueueFull).With("maxQueued", r.limits.MaxQueued)
		}
		r.emit(&runpb.QueueEvent{Body: &runpb.QueueEvent_Joined{Joined: &runpb.Joined{Place: r.place(run, r.now), Waits: !free}}})
	}
	r.grant() // what has lapsed
	decision := r.decide()
	after := r.after()
	reply := &runpb.QueueReply{Placed: find(after.GetPlaces(), run) >= 0}
	if !reply.Placed {
		reply.Ahead = uint32(find(after.GetWaiting(), run))
	}
	decision.Reply = reply
	return decision, nil
}

// leave gives up what a run has.
func (r *request) leave(c *runpb.Leave) machine.Decision {
	if find(r.state.GetPlaces(), c.GetRunId()) >= 0 || find(r.state.GetWaiting(), c.GetRunId()) >= 0 {
		r.emit(&runpb.QueueEvent{Body: &runpb.QueueEvent_Left{Left: &runpb.Left{RunIds: []string{c.GetRunId()}}}})
	}
	return r.serve()
}

// serve takes back what has lapsed and gives out what is free.
func (r *request) serve() machine.Decision {
	if r.state != nil {
		r.lapse("")
		r.grant()
	}
	return r.decide()
}

func (r *request) decide() machine.Decision {
	decision := machine.Decision{
		Create: r.state == nil && len(r.events) > 0, Events: r.events, Effects: r.grants, Reply: &runpb.QueueReply{},
	}
	if after := r.after(); r.state != nil && len(after.GetPlaces()) == 0 && len(after.GetWaiting()) == 0 {
		decision.Delete, decision.Events = true, nil
	}
	return decision
}

// lapse takes back what nobody has asked for again; not from who does just now, and not before whoever is there has had the
// time to ask this owner: after all of the cluster was down everything would seem lost, what runs would find its place
// taken, and who waits the order gone.
func (r *request) lapse(but string) {
	if !r.since.IsZero() && r.now < r.since.Add(r.limits.Lease/2).UnixMilli() {
		return
	}
	var gone []string
	for _, list := range [][]*runpb.Place{r.state.GetPlaces(), r.state.GetWaiting()} {
		for _, place := range list {
			if place.GetExpiresAt() <= r.now && place.GetRunId() != but && !r.left(place.GetRunId()) {
				gone = append(gone, place.GetRunId())
			}
		}
	}
	if len(gone) > 0 {
		r.emit(&runpb.QueueEvent{Body: &runpb.QueueEvent_Left{Left: &runpb.Left{RunIds: gone}}})
	}
}

// left says that the command has made a run leave already.
func (r *request) left(run string) bool {
	for _, message := range r.events {
		event, _ := message.(*runpb.QueueEvent)
		if slices.Contains(event.GetLeft().GetRunIds(), run) {
			return true
		}
	}
	return false
}

// renew keeps a place for longer, once half of its time is over: most who ask write nothing.
func (r *request) renew(list []*runpb.Place, run string) {
	known := list[find(list, run)]
	if known.GetExpiresAt()-r.now > r.limits.Lease.Milliseconds()/2 {
		return
	}
	r.emit(&runpb.QueueEvent{Body: &runpb.QueueEvent_Renewed{Renewed: &runpb.Renewed{Place: r.place(run, known.GetSince())}}})
}

// grant gives the places that are free to those who wait, in their order.
func (r *request) grant() {
	now := r.after()
	free := r.limits.Concurrency - len(now.GetPlaces())
	for _, next := range now.GetWaiting()[:max(0, min(free, len(now.GetWaiting())))] {
		r.emit(&runpb.QueueEvent{Body: &runpb.QueueEvent_Granted{
			Granted: &runpb.Granted{Place: r.place(next.GetRunId(), r.now)},
		}})
		r.grants = append(r.grants, Grant{RunID: next.GetRunId()})
	}
}

func find(list []*runpb.Place, run string) int {
	return slices.IndexFunc(list, func(place *runpb.Place) bool { return place.GetRunId() == run })
}

// Evolve folds events into the state.
func (*Machine) Evolve(state proto.Message, events []proto.Message) proto.Message {
	s, _ := state.(*runpb.Queue)
	return evolve(s, events)
}

// evolve copies the lists and shares the places, which nobody changes.
func evolve(s *runpb.Queue, events []proto.Message) *runpb.Queue {
	if len(events) == 0 {
		return s
	}
	next := &runpb.Queue{
		Id: s.GetId(), LastSeq: s.GetLastSeq(), Places: slices.Clone(s.GetPlaces()), Waiting: slices.Clone(s.GetWaiting()),
	}
	for _, message := range events {
		event, _ := message.(*runpb.QueueEvent)
		apply(next, event)
		next.LastSeq = event.GetSeq()
	}
	return next
}

func apply(next *runpb.Queue, event *runpb.QueueEvent) {
	switch body := event.GetBody().(type) {
	case *runpb.QueueEvent_Opened:
		next.Id = body.Opened.GetId()
	case *runpb.QueueEvent_Joined:
		place := body.Joined.GetPlace()
		if body.Joined.GetWaits() {
			next.Waiting = append(next.GetWaiting(), place)
			return
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
}

func without(list []*runpb.Place, runs ...string) []*runpb.Place {
	return slices.DeleteFunc(list, func(place *runpb.Place) bool { return slices.Contains(runs, place.GetRunId()) })
}

// Project moves the queue in the list of what is due.
func (*Machine) Project(before, after proto.Message, _ []proto.Message, into *logpb.Append) {
	was, _ := before.(*runpb.Queue)
	is, _ := after.(*runpb.Queue)
	machine.Relist(into, ListDue, cmp.Or(is.GetId(), was.GetId()), firstLapse(was), firstLapse(is))
}

func firstLapse(s *runpb.Queue) (first int64) {
	for _, list := range [][]*runpb.Place{s.GetPlaces(), s.GetWaiting()} {
		for _, place := range list {
			first = machine.Sooner(first, place.GetExpiresAt())
		}
	}
	return first
}

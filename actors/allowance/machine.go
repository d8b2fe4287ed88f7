package allowance

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/proto/allowancepb"
	"parley/proto/failurepb"
)

// Prefix is that of the ids of allowances.
const Prefix = "allow"

// ListDue is the list of all allowances by the time at which nothing of them counts any more.
const ListDue = "allow/due"

const (
	// maxCalls bounds those that run, those that wait, and those whose lease is over; maxCaps the limits of one.
	maxCalls = 4096
	maxCaps  = 2400
	// MaxRenewed bounds the calls of one renewal: all that run, and all that wait.
	MaxRenewed = 2 * maxCalls
	// remembered is for how long a call whose lease is over can still be settled, in milliseconds, unless more than maxCalls are.
	remembered = 10 * 60_000
	// keeps is for how long it is known which files were stored, in milliseconds: longer than it takes to count what there is.
	keeps = 60_000
)

// New returns the kind of allowances.
func New() kit.Entity {
	return entity(maxCalls)
}

func entity(b bound) kit.Entity {
	allowances := b.rules().Entity()
	allowances.Unkept, allowances.WhileStopping = true, true
	allowances.Tells = tells
	allowances.Queries = []kit.Query{kit.Peek(readUsed)}
	return allowances
}

func readUsed(state *allowancepb.State, _ *allowancepb.UsedQuery) (*allowancepb.UsedReply, error) {
	return &allowancepb.UsedReply{State: state}, nil
}

// bound is how many calls may run, wait, and be remembered, each.
type bound int

// open is the phase of an allowance of which something was used.
const open kit.Phase = "open"

type (
	step  = kit.Step[*allowancepb.State, *allowancepb.Command, *allowancepb.Event]
	row   = kit.Transition[*allowancepb.State, *allowancepb.Command, *allowancepb.Event]
	table = kit.Rules[*allowancepb.State, *allowancepb.Command, *allowancepb.Event]
)

func (b bound) rules() table {
	enters, settles, renews := (*allowancepb.Command).GetEnter, (*allowancepb.Command).GetSettle, (*allowancepb.Command).GetRenew
	return table{
		Prefix: Prefix,
		Phases: []kit.Phase{open},
		Phase:  func(*allowancepb.State) kit.Phase { return open },
		Transitions: []row{
			kit.On(enters, b.enter).From(kit.Absent).To(kit.Same, open),
			kit.On(enters, b.enter).From(open),
			kit.On(settles, func(*step, *allowancepb.Settled) *machine.Failure { return nil }).From(kit.Absent),
			kit.On(settles, b.settle).From(open),
			kit.On(renews, func(*step, *allowancepb.Renew) *machine.Failure { return nil }).From(kit.Absent),
			kit.On(renews, b.renew).From(open),
		},
		Missing: func() *machine.Failure { return failure.New(failurepb.Code_NOT_FOUND, failure.EntityNotFound) },
		Apply:   apply,
		Copy:    shallow,
		Reply:   func(*allowancepb.State) proto.Message { return &allowancepb.Reply{} },
		Lapse: kit.Lapse[*allowancepb.State, *allowancepb.Command]{
			List: ListDue, At: (*allowancepb.State).GetExpiresAt,
			Due: func(id string) *allowancepb.Command {
				return &allowancepb.Command{Id: id, Body: &allowancepb.Command_Due{Due: &allowancepb.Due{}}}
			},
		},
	}
}

// shallow copies a state whose parts are only replaced.
func shallow(s *allowancepb.State) *allowancepb.State {
	return &allowancepb.State{
		Id: s.GetId(), LastSeq: s.GetLastSeq(), ExpiresAt: s.GetExpiresAt(),
		Kept: slices.Clone(s.GetKept()), KeptFrom: s.GetKeptFrom(),
		Used: slices.Clone(s.GetUsed()), Running: slices.Clone(s.GetRunning()), Waiting: slices.Clone(s.GetWaiting()),
	}
}

func find(calls []*allowancepb.Call, id string) int {
	return slices.IndexFunc(calls, func(c *allowancepb.Call) bool { return c.GetId() == id })
}

// enter lets a call in, lets it wait, or refuses it.
func (b bound) enter(s *step, c *allowancepb.Enter) *machine.Failure {
	call := c.GetCall()
	if call.GetId() == "" || len(call.GetCaps()) == 0 || len(call.GetCaps()) > maxCaps || c.GetLeaseMs() <= 0 || call.GetNeed() > call.GetWant() ||
		min(call.GetNeed(), call.GetTokens(), call.GetFiles(), call.GetBytes(), call.GetSessions()) < 0 {
		return failure.New(failurepb.Code_VALIDATION, failure.BadAllowance)
	}
	if at := find(s.Before.GetRunning(), call.GetId()); at >= 0 {
		running := s.Before.GetRunning()[at]
		if !running.GetLapsed() || call.GetBytes() > running.GetBytes() {
			extend(s, running, call, s.Now+c.GetLeaseMs())
			return nil
		}
		// What it held may be another's by now. Who asks has not begun: it asks anew, and nothing of it was spent.
		s.Emit(&allowancepb.Event{Body: &allowancepb.Event_Settled{Settled: &allowancepb.Settled{Id: call.GetId(), Unkept: true}}})
	}
	if fills(call) && call.GetAsOf() < s.Before.GetKeptFrom() {
		s.Decision.Reply = &allowancepb.Reply{Again: true}
		return nil
	}
	freed := b.forget(s)
	call = proto.CloneOf(call)
	call.ExpiresAt, call.LeaseMs, call.Held, call.LetInAt = s.Now+c.GetLeaseMs(), c.GetLeaseMs(), 0, 0
	at := find(s.State().GetWaiting(), call.GetId())
	switch {
	case at >= 0 && call.GetHurried() == s.State().GetWaiting()[at].GetHurried():
		if heard(s, s.State().GetWaiting()[at], call.GetExpiresAt()) || freed {
			advance(s, call.GetId())
		}
		if s.Decision.Reply == nil {
			s.Await(call.GetId())
		}
		return nil
	case at < 0 && max(underWay(s.State(), s.Now), len(s.State().GetWaiting())) >= int(b):
		return failure.New(failurepb.Code_UNAVAILABLE, failure.TooManyWaiters)
	}
	if at < 0 {
		if reply := decide(s.State(), call, s.Now, true).reply(); reply.GetReached() != nil {
			s.Decision.Reply = reply // nothing of it is kept
			return nil
		}
	}
	if !s.Exists() {
		s.Emit(&allowancepb.Event{Body: &allowancepb.Event_Opened{Opened: &allowancepb.State{Id: s.Command.GetId()}}})
	}
	s.Emit(&allowancepb.Event{Body: &allowancepb.Event_LinedUp{LinedUp: call}})
	advance(s, call.GetId())
	if s.Decision.Reply == nil {
		s.Await(call.GetId())
	}
	return nil
}

// underWay is how many calls run: those whose lease is over are only remembered, and are in nobody's way.
func underWay(state *allowancepb.State, now int64) (calls int) {
	for _, call := range state.GetRunning() {
		if call.GetExpiresAt() > now {
			calls++
		}
	}
	return calls
}

// extend answers who asks again for a call that runs, and lets in what came of its file meanwhile.
func extend(s *step, call, more *allowancepb.Call, until int64) {
	switch {
	case more.GetBytes() <= call.GetBytes():
		heard(s, call, until)
		s.Decision.Reply = &allowancepb.Reply{LetIn: true, Held: call.GetHeld()}
		return
	case fills(more) && more.GetAsOf() < s.Before.GetKeptFrom():
		s.Decision.Reply = &allowancepb.Reply{Again: true}
		return
	}
	verdict := grow(s.Before, more, call, s.Now)
	if verdict.reached == nil {
		s.Emit(&allowancepb.Event{Body: &allowancepb.Event_Grown{Grown: &allowancepb.Grown{Id: call.GetId(), Bytes: more.GetBytes(), ExpiresAt: until}}})
		verdict.held = call.GetHeld()
	}
	s.Decision.Reply = verdict.reply()
}

// unheard says that a call was not heard of for half of its lease, of which its node renews it every third: the node may be dead.
func unheard(call *allowancepb.Call, now int64) bool {
	return call.GetExpiresAt()-now < call.GetLeaseMs()/2
}

// heard renews a call that asks again, if it was unheard of.
func heard(s *step, call *allowancepb.Call, until int64) bool {
	if !unheard(call, s.Now) {
		return false
	}
	s.Emit(&allowancepb.Event{Body: &allowancepb.Event_Renewed{Renewed: &allowancepb.Renewed{Ids: []string{call.GetId()}, ExpiresAt: until}}})
	return true
}

// settle ends a call, or takes it out of the line, and lets in who waited for what it held.
func (b bound) settle(s *step, c *allowancepb.Settled) *machine.Failure {
	state := s.Before
	if find(state.GetRunning(), c.GetId()) < 0 && find(state.GetWaiting(), c.GetId()) < 0 {
		return nil // it was settled
	}
	s.Emit(&allowancepb.Event{Body: &allowancepb.Event_Settled{Settled: &allowancepb.Settled{
		Id: c.GetId(), Cost: max(c.GetCost(), 0), Tokens: max(c.GetTokens(), 0), Unkept: c.GetUnkept(),
	}}})
	b.forget(s)
	advance(s, "")
	return nil
}

// renew says that calls still run, or wait.
func (b bound) renew(s *step, c *allowancepb.Renew) *machine.Failure {
	if c.GetLeaseMs() <= 0 || len(c.GetIds()) > MaxRenewed {
		return failure.New(failurepb.Code_VALIDATION, failure.BadAllowance)
	}
	s.Emit(&allowancepb.Event{Body: &allowancepb.Event_Renewed{Renewed: &allowancepb.Renewed{Ids: c.GetIds(), ExpiresAt: s.Now + c.GetLeaseMs()}}})
	b.forget(s)
	advance(s, "")
	return nil
}

// forget counts what calls need that are not heard of any more, and removes those that were not for so long that they will not be settled,
// those whose lease was over first where there are too many to be remembered, and those in line whose lease is over. It says whether some
// of what was held is free again.
func (b bound) forget(s *step) bool {
	if s.Before == nil {
		return false
	}
	var ids, lapsed []string
	var over []*allowancepb.Call
	for _, call := range s.State().GetRunning() {
		if call.GetExpiresAt() > s.Now {
			continue
		}
		if !call.GetLapsed() {
			lapsed = append(lapsed, call.GetId())
		}
		if call.GetExpiresAt()+remembered <= s.Now {
			ids = append(ids, call.GetId())
		} else {
			over = append(over, call)
		}
	}
	if beyond := len(over) - int(b); beyond > 0 {
		slices.SortStableFunc(over, func(a, b *allowancepb.Call) int { return cmp.Compare(a.GetExpiresAt(), b.GetExpiresAt()) })
		for _, call := range over[:beyond] {
			ids = append(ids, call.GetId())
		}
	}
	for _, call := range s.State().GetWaiting() {
		if call.GetExpiresAt() <= s.Now {
			ids = append(ids, call.GetId())
		}
	}
	if lapsed != nil {
		s.Emit(&allowancepb.Event{Body: &allowancepb.Event_Lapsed{Lapsed: &allowancepb.Lapsed{Ids: lapsed}}})
	}
	if ids != nil {
		s.Emit(&allowancepb.Event{Body: &allowancepb.Event_Forgotten{Forgotten: &allowancepb.Forgotten{Ids: ids}}})
	}
	return lapsed != nil
}

// advance goes along the line: it lets in whom there is enough for, refuses for whom there is nothing left, and passes over the others
// and those that share a limit with them. Who is unheard of keeps its place, and is in nobody's way: it may be a call of a dead node.
// asker's answer is the command's.
func advance(s *step, asker string) {
	line := s.State().GetWaiting()
	blocked := map[string]bool{}
	for _, call := range line {
		if unheard(call, s.Now) {
			continue
		}
		verdict := decide(s.State(), call, s.Now, !sharesLimit(call, blocked))
		if verdict.waits {
			for _, limit := range call.GetCaps() {
				if !limit.GetCounts() && limit.GetMeasure() == allowancepb.Measure_COST {
					blocked[limit.GetPolicy()] = true
				}
			}
			continue
		}
		if verdict.reached == nil {
			in := proto.CloneOf(call)
			in.Held, in.LetInAt = verdict.held, s.Now
			s.Emit(&allowancepb.Event{Body: &allowancepb.Event_LetIn{LetIn: in}})
		} else {
			s.Emit(&allowancepb.Event{Body: &allowancepb.Event_Settled{Settled: &allowancepb.Settled{Id: call.GetId()}}})
		}
		if call.GetId() == asker {
			s.Decision.Reply = verdict.reply()
		}
		s.Settle(call.GetId(), verdict.reply())
	}
}

func sharesLimit(call *allowancepb.Call, blocked map[string]bool) bool {
	return slices.ContainsFunc(call.GetCaps(), func(c *allowancepb.Cap) bool {
		return !c.GetCounts() && c.GetMeasure() == allowancepb.Measure_COST && blocked[c.GetPolicy()]
	})
}

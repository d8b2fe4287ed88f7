package allowance

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/money"
	"parley/actors/core/quota"
	"parley/proto/allowancepb"
)

// lasts is until when something of a time counts: the end of its month.
func lasts(at int64) int64 {
	year, month, _ := time.UnixMilli(at).UTC().Date()
	return time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
}

// remembers is until when calls may be settled of which an event says that they run, beyond the end of a month, too.
func remembers(event *allowancepb.Event) int64 {
	if until := max(event.GetLetIn().GetExpiresAt(), event.GetRenewed().GetExpiresAt(), event.GetGrown().GetExpiresAt()); until > 0 {
		return until + remembered
	}
	return 0
}

// apply folds an event into the state. Parts of the state are replaced, not changed: copies share them.
func apply(s *allowancepb.State, event *allowancepb.Event) *allowancepb.State {
	now := event.GetCreatedAt()
	switch body := event.GetBody().(type) {
	case *allowancepb.Event_Opened:
		if s == nil {
			s = proto.CloneOf(body.Opened)
		}
	case *allowancepb.Event_LinedUp:
		if at := find(s.GetWaiting(), body.LinedUp.GetId()); at >= 0 {
			s.Waiting[at] = body.LinedUp
			break
		}
		s.Waiting = append(s.Waiting, body.LinedUp)
	case *allowancepb.Event_LetIn:
		call := body.LetIn
		s.Waiting = without(s.GetWaiting(), call.GetId())
		s.Running = append(s.GetRunning(), call)
		count(s, call, allowancepb.Measure_REQUESTS, 1, now)
		count(s, call, allowancepb.Measure_TOKENS, call.GetTokens(), now)
		count(s, call, allowancepb.Measure_FILES, call.GetFiles(), now)
		count(s, call, allowancepb.Measure_STORAGE, call.GetBytes(), now)
	case *allowancepb.Event_Grown:
		grown(s, body.Grown, now)
	case *allowancepb.Event_Settled:
		s.Waiting = without(s.GetWaiting(), body.Settled.GetId())
		at := find(s.GetRunning(), body.Settled.GetId())
		if at < 0 {
			break
		}
		call := s.GetRunning()[at]
		s.Running = slices.Delete(s.GetRunning(), at, at+1)
		count(s, call, allowancepb.Measure_COST, body.Settled.GetCost()-call.GetBooked(), now)
		count(s, call, allowancepb.Measure_TOKENS, body.Settled.GetTokens()-call.GetTokens(), now)
		if !body.Settled.GetUnkept() {
			kept(s, call, event)
		} else {
			count(s, call, allowancepb.Measure_FILES, -call.GetFiles(), now)
			count(s, call, allowancepb.Measure_STORAGE, -call.GetBytes(), now)
		}
	case *allowancepb.Event_Renewed:
		isNamed := among(body.Renewed.GetIds())
		for _, calls := range [][]*allowancepb.Call{s.GetRunning(), s.GetWaiting()} {
			prolong(calls, isNamed, body.Renewed.GetExpiresAt())
		}
	case *allowancepb.Event_Lapsed:
		lapsed(s, among(body.Lapsed.GetIds()), now)
	case *allowancepb.Event_Forgotten:
		isNamed := among(body.Forgotten.GetIds())
		s.Waiting, s.Running = slices.DeleteFunc(s.GetWaiting(), isNamed), slices.DeleteFunc(s.GetRunning(), isNamed)
	}
	if s != nil {
		s.ExpiresAt = max(s.GetExpiresAt(), lasts(now), remembers(event))
	}
	return s
}

func without(calls []*allowancepb.Call, id string) []*allowancepb.Call {
	if at := find(calls, id); at >= 0 {
		return slices.Delete(calls, at, at+1)
	}
	return calls
}

// among says of calls whether they are named: there may be thousands of both.
func among(ids []string) func(*allowancepb.Call) bool {
	named := make(map[string]bool, len(ids))
	for _, id := range ids {
		named[id] = true
	}
	return func(call *allowancepb.Call) bool { return named[call.GetId()] }
}

func prolong(calls []*allowancepb.Call, isNamed func(*allowancepb.Call) bool, until int64) {
	for i, call := range calls {
		if call.GetExpiresAt() < until && isNamed(call) {
			longer := proto.CloneOf(call)
			longer.ExpiresAt = until
			calls[i] = longer
		}
	}
}

// lapsed counts what calls need as their cost.
func lapsed(s *allowancepb.State, isNamed func(*allowancepb.Call) bool, now int64) {
	for i, before := range s.GetRunning() {
		if !isNamed(before) {
			continue
		}
		call := proto.CloneOf(before)
		count(s, call, allowancepb.Measure_COST, call.GetNeed()-call.GetBooked(), now)
		call.Booked, call.Lapsed = call.GetNeed(), true
		s.Running[i] = call
	}
}

// kept remembers for a while that a call's files are among what there is.
func kept(s *allowancepb.State, call *allowancepb.Call, event *allowancepb.Event) {
	if !fills(call) {
		return
	}
	s.Kept = append(s.GetKept(), &allowancepb.Kept{Seq: event.GetSeq(), At: event.GetCreatedAt(), Call: call})
	old := 0
	for old < len(s.GetKept()) && (s.GetKept()[old].GetAt() <= event.GetCreatedAt()-keeps || len(s.GetKept())-old > maxCalls) {
		s.KeptFrom = s.GetKept()[old].GetSeq()
		old++
	}
	s.Kept = s.GetKept()[old:]
}

// grown counts what came of a call's file, and has the call count from now on.
func grown(s *allowancepb.State, more *allowancepb.Grown, now int64) {
	at := find(s.GetRunning(), more.GetId())
	if at < 0 {
		return
	}
	before := s.GetRunning()[at]
	call := proto.CloneOf(before)
	call.Bytes, call.LetInAt, call.ExpiresAt = more.GetBytes(), now, max(before.GetExpiresAt(), more.GetExpiresAt())
	call.Lapsed = false // it was decided on anew
	s.Running[at] = call
	for _, limit := range call.GetCaps() {
		add(s, limit, adds(limit, call, before, now), now)
	}
	prune(s, now)
}

// count adds an amount to all that a call's limits count of a measure. A negative one corrects an estimate, if its window is not over.
func count(s *allowancepb.State, call *allowancepb.Call, measure allowancepb.Measure, amount, now int64) {
	if amount == 0 {
		return
	}
	for _, limit := range call.GetCaps() {
		if limit.GetMeasure() != measure || amount < 0 && quota.Window(limit.GetUnit(), call.GetLetInAt()) != quota.Window(limit.GetUnit(), now) {
			continue
		}
		add(s, limit, amount, now)
	}
	prune(s, now)
}

// add adds an amount to what is used under a limit.
func add(s *allowancepb.State, limit *allowancepb.Cap, amount, now int64) {
	if amount == 0 || limit.GetUnit() == allowancepb.Unit_FOREVER || limit.GetUnit() == allowancepb.Unit_MOMENT {
		// what is kept is counted where it is, and what is on its way by what runs
		return
	}
	start := quota.Window(limit.GetUnit(), now)
	at := slices.IndexFunc(s.GetUsed(), func(u *allowancepb.Used) bool {
		return u.GetPolicy() == limit.GetPolicy() && u.GetMeasure() == limit.GetMeasure() && u.GetUnit() == limit.GetUnit()
	})
	counted := &allowancepb.Used{Policy: limit.GetPolicy(), Measure: limit.GetMeasure(), Unit: limit.GetUnit(), Start: start, Amount: max(amount, 0)}
	if at < 0 {
		s.Used = append(s.Used, counted)
		return
	}
	if before := s.GetUsed()[at]; before.GetStart() == start {
		counted.Amount = max(money.Add(before.GetAmount(), amount), 0)
		if amount < 0 {
			counted.Amount = max(before.GetAmount()+amount, 0)
		}
	}
	s.Used[at] = counted
}

// prune drops what belongs to windows that are over: policies come and go.
func prune(s *allowancepb.State, now int64) {
	s.Used = slices.DeleteFunc(s.GetUsed(), func(u *allowancepb.Used) bool { return u.GetStart() != quota.Window(u.GetUnit(), now) })
}

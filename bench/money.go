package bench

import (
	"fmt"

	"parley/bench/standin"
)

// moneyBook checks the costs in a conversation's log against its budget, and against what the model charged.
//
// A turn costs exactly what its calls cost, if none was lost or cut. A call that was lost with its node costs exactly
// what was reserved for it, even if it never reached the model. A call that was cut costs what the node metered.
type moneyBook struct {
	limit, spent int64 // nano-dollars, as of the newest event
	overshoot    int64 // most that was ever spent above the limit
	turns        map[string]*turnMoney
	order        []string // runs
	account      string   // account of the newest message
	recovered    int
	open         int   // calls that were lost or cut
	charged      int64 // by the model
	twice        int64 // more than can be explained
	kept         int64 // most that one lost or cut call was charged beyond its actual cost
	faults       []string
}

// turnMoney is one run in the log.
type turnMoney struct {
	of        string // account with the model
	told      int64  // settled, according to the log
	reserved  int64  // for the call in progress
	lost      int64  // settled without a model's answer, with a recovery
	losses    int    // the number of such settlements
	recovered int
}

func newMoneyBook(limit int64) *moneyBook {
	return &moneyBook{limit: limit, turns: map[string]*turnMoney{}}
}

func (b *moneyBook) fault(format string, args ...any) {
	b.faults = append(b.faults, fmt.Sprintf(format, args...))
}

func (b *moneyBook) event(e *logged) {
	switch e.Type {
	case "user.message":
		b.account = caseOf(e.Data.Content)
	case "session.status_running":
		if b.turns[e.RunID] == nil {
			b.turns[e.RunID] = &turnMoney{of: b.account}
			b.order = append(b.order, e.RunID)
		}
	case "session.recovered":
		b.recovered++
		if turn := b.turns[e.RunID]; turn != nil {
			turn.recovered++
		}
	case "session.updated":
		if e.Data.Budget != nil {
			b.limit = nanoOf(e.Data.Budget.MaxCostUSD)
		}
	case "session.usage":
		b.usage(e)
	case "budget.reserved":
		b.know(e)
		if turn := b.turns[e.RunID]; turn != nil {
			turn.reserved = nanoOf(e.Data.ReservedUSD)
		}
	case "budget.reached":
		b.know(e)
	}
}

// know records the sum in an event: only a settlement changes it.
func (b *moneyBook) know(e *logged) {
	if sum := nanoOf(e.Data.SpentUSD); sum != b.spent {
		b.fault("event %d: %d nano-dollars were spent that nothing explains", e.Seq, sum-b.spent)
		b.sum(sum)
	}
}

// usage records the settlement of a call. A lost call has no tokens, follows the recovery of its turn, and is settled
// at what was reserved for it.
func (b *moneyBook) usage(e *logged) {
	turn := b.turns[e.RunID]
	if turn == nil || e.Data.Usage == nil {
		b.fault("event %d settles a run that never began", e.Seq)
		return
	}
	cost, sum := nanoOf(e.Data.Usage.CostUSD), nanoOf(e.Data.SpentUSD)
	b.sum(b.spent + cost)
	b.know(e)
	switch {
	case e.Data.Usage.Tokens > 0:
		turn.told += cost
	case turn.losses < turn.recovered && cost == turn.reserved:
		turn.losses++
		turn.lost += cost
	default:
		b.fault("event %d settles a call without tokens at %d nano-dollars; %d were reserved", e.Seq, cost, turn.reserved)
	}
	turn.reserved = 0
	b.sum(sum)
}

func (b *moneyBook) sum(spent int64) {
	b.spent = spent
	b.overshoot = max(b.overshoot, spent-b.limit)
}

// close makes the final checks, with all calls of the model and the conversation's reported spending.
func (b *moneyBook) close(calls []standin.Call, spent int64) {
	if spent != b.spent {
		b.fault("at the end %d nano-dollars were spent that nothing explains", spent-b.spent)
	}
	byCase := map[string][]standin.Call{}
	for _, call := range calls {
		byCase[call.Case] = append(byCase[call.Case], call)
		b.charged += costOf(call)
		if !call.Ended {
			b.open++
		}
	}
	for _, run := range b.order {
		b.turn(run, b.turns[run], byCase[b.turns[run].of])
		delete(byCase, b.turns[run].of)
	}
	for name, left := range byCase {
		b.fault("the model was called %d times for %q, which the log does not know", len(left), name)
	}
	if b.overshoot > meterStep {
		b.fault("%d nano-dollars were spent above the limit, more than a metering step", b.overshoot)
	}
}

// turn checks one run.
func (b *moneyBook) turn(name string, turn *turnMoney, calls []standin.Call) {
	charged, room, open := int64(0), int64(0), 0
	for _, call := range calls {
		charged += costOf(call)
		if !call.Ended {
			open++
			room += inputNano*call.Prompt/2 + 2*meterStep // it was cut: the node's own estimate applies
		}
	}
	open += turn.losses
	if open > 0 {
		b.kept = max(b.kept, (turn.told+turn.lost-charged)/int64(open))
	}
	less := charged - turn.told - turn.lost
	switch twice := turn.told - charged; {
	case twice > room:
		b.twice += twice
		b.fault("run %s (%s) was settled at %d nano-dollars of %d: %+v", name, turn.of, turn.told, charged, calls)
	case less > 0 && (open == 0 || less > meterStep):
		b.fault("run %s (%s) was charged %d nano-dollars too little: %+v", name, turn.of, less, calls)
	}
}

func costOf(call standin.Call) int64 { return inputNano*call.Prompt + outputNano*call.Output }

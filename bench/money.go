package bench

import (
	"fmt"

	"parley/bench/standin"
)

// moneyBook holds what a conversation's log says of money against its budget, and against what the model charged.
//
// What a turn is charged is exactly what its calls came to, as long as none was lost and none cut. A call that was lost
// with its node is charged what was reserved for it, because nobody knows what it came to: never less than it did, and
// no more than its prompt and two metering steps beyond. A call that was cut is charged what the node metered.
type moneyBook struct {
	limit, spent int64 // nano-dollars, as of the newest event
	overshoot    int64 // most that was ever spent above the limit
	turns        map[string]*turnMoney
	order        []string // runs
	said         string   // account of the newest message
	recovered    int
	open         int   // calls that were lost or cut
	charged      int64 // by the model
	twice        int64 // more than anything explains
	kept         int64 // most that one lost or cut call was charged beyond what it came to
	faults       []string
}

// turnMoney is one run in the log.
type turnMoney struct {
	of        string // account with the model
	told      int64  // settled, as the log tells
	lost      int64  // charged with a recovery: the log tells it with the next sum
	losses    int    // how often that was
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
		b.said = caseOf(e.Data.Content)
	case "session.status_running":
		if b.turns[e.RunID] == nil {
			b.turns[e.RunID] = &turnMoney{of: b.said}
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
	case "budget.reserved", "budget.reached":
		b.know(e)
	}
}

// know takes in the sum that an event tells. It has risen since the last one by what was reserved for lost calls.
func (b *moneyBook) know(e *logged) {
	if sum := nanoOf(e.Data.SpentUSD); sum != b.spent {
		b.lose(sum-b.spent, fmt.Sprintf("event %d", e.Seq))
	}
}

// usage takes in what a call was settled at. The sum may have risen since by what was reserved for lost calls.
func (b *moneyBook) usage(e *logged) {
	turn := b.turns[e.RunID]
	if turn == nil || e.Data.Usage == nil {
		b.fault("event %d settles a run that never began", e.Seq)
		return
	}
	cost, sum := nanoOf(e.Data.Usage.CostUSD), nanoOf(e.Data.SpentUSD)
	if lost := sum - cost - b.spent; lost != 0 {
		b.lose(lost, fmt.Sprintf("event %d", e.Seq))
	}
	turn.told += cost
	b.sum(sum)
}

// lose books a rise of the sum that no settlement explains: it must be of a turn that lost its node.
func (b *moneyBook) lose(amount int64, where string) {
	for i := len(b.order) - 1; i >= 0; i-- {
		if turn := b.turns[b.order[i]]; turn.losses < turn.recovered && amount > 0 {
			turn.losses++
			turn.lost += amount
			b.sum(b.spent + amount)
			return
		}
	}
	b.fault("%s: %d nano-dollars were spent that nothing explains", where, amount)
}

func (b *moneyBook) sum(spent int64) {
	b.spent = spent
	b.overshoot = max(b.overshoot, spent-b.limit)
}

// close judges, with all calls of the model and what the conversation says it has spent.
func (b *moneyBook) close(calls []standin.Call, spent int64) {
	if spent != b.spent {
		b.lose(spent-b.spent, "at the end")
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

// turn judges one run.
func (b *moneyBook) turn(name string, turn *turnMoney, calls []standin.Call) {
	charged, room, open := int64(0), int64(0), 0
	for _, call := range calls {
		charged += costOf(call)
		if !call.Ended || turn.recovered > 0 {
			open++
			room += inputNano*call.Prompt/2 + 2*meterStep
		}
	}
	more := turn.told + turn.lost - charged
	if open > 0 {
		b.kept = max(b.kept, more/int64(open))
	}
	switch {
	case more > room:
		b.twice += more - room
		b.fault("run %s (%s) was charged %d nano-dollars of %d: %+v", name, turn.of, turn.told+turn.lost, charged, calls)
	case more < 0 && (open == 0 || -more > meterStep):
		b.fault("run %s (%s) was charged %d nano-dollars too little: %+v", name, turn.of, -more, calls)
	}
}

func costOf(call standin.Call) int64 { return inputNano*call.Prompt + outputNano*call.Output }

package allowance_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley/actors/allowance"
	"parley/actors/core/quota"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/actors/machine/machinetest"
	"parley/proto/allowancepb"
)

func prepare(message proto.Message) {
	command, _ := message.(*allowancepb.Command)
	if command.Id == "" {
		command.Id = "allow_1"
	}
}

func suite() machinetest.Suite { return of(allowance.New()) }

func of(entity kit.Entity) machinetest.Suite {
	return machinetest.Suite{
		Machine: entity.Machine,
		Command: func() proto.Message { return new(allowancepb.Command) },
		Event:   func() proto.Message { return new(allowancepb.Event) },
		Prepare: prepare,
	}
}

func TestScripts(t *testing.T) { suite().Scripts(t, "testdata/usual") }

// TestBounds: two may run, two may wait, and two whose lease is over are remembered.
func TestBounds(t *testing.T) { of(allowance.Bounded(2)).Scripts(t, "testdata/bounds") }

func TestTable(t *testing.T) { suite().Table(t, "states.md") }

// world is an allowance with its calls, driven by a random walk.
type world struct {
	t     *rapid.T
	rules machine.Machine
	state proto.Message
	now   int64
	most  int64 // of the day

	calls   map[string]*allowancepb.Call
	running map[string]int64 // what each holds; its node may be dead
	waiting map[string]bool
	dead    map[string]bool  // or cut off: their calls are not heard of
	expires map[string]int64 // unless they are
	lapsed  map[string]bool  // calls that count what they need until they are settled
	spent   int64
	beyond  int64 // what calls of nodes that were cut off cost more than that
}

const lease = 30_000

// pass lets time pass: calls that were not heard of hold nothing any more.
func (w *world) pass(ms int64) {
	w.now += ms
	for id := range w.calls {
		if w.expires[id] > w.now {
			continue
		}
		if _, runs := w.running[id]; runs {
			w.lapsed[id] = true
			w.spent += w.calls[id].GetNeed()
		}
		delete(w.running, id)
		delete(w.waiting, id)
		if w.expires[id]+10*60_000 <= w.now {
			delete(w.lapsed, id) // it cannot be settled any more
		}
	}
	w.renew()
}

// renew says that the calls of all other nodes still run, or wait, if that is not lost on the way.
func (w *world) renew() {
	ids := append(w.alive(false), w.alive(true)...)
	if rapid.IntRange(0, 3).Draw(w.t, "renewed") == 0 {
		ids = nil
	}
	for _, id := range ids {
		w.expires[id] = w.now + lease
	}
	w.do(&allowancepb.Command{Body: &allowancepb.Command_Renew{Renew: &allowancepb.Renew{Ids: ids, LeaseMs: lease}}})
}

func (w *world) alive(waiting bool) (ids []string) {
	for i := range len(w.calls) {
		id := fmt.Sprint("c", i)
		_, runs := w.running[id]
		if !w.dead[id] && (waiting && w.waiting[id] || !waiting && runs) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (w *world) do(command *allowancepb.Command) *allowancepb.Reply {
	command.Id = "allow_1"
	decision, refused := w.rules.Decide(w.state, command, machine.Env{Now: time.UnixMilli(w.now)})
	require.Nil(w.t, refused)
	w.state = w.rules.Evolve(w.state, decision.Events)
	for _, answer := range decision.Settle {
		reply, ok := answer.Reply.(*allowancepb.Reply)
		require.True(w.t, ok)
		w.decided(answer.Key, reply)
	}
	reply, _ := decision.Reply.(*allowancepb.Reply)
	return reply
}

// decided is what a call was told.
func (w *world) decided(id string, reply *allowancepb.Reply) {
	delete(w.waiting, id)
	if reply.GetReached() != nil {
		left := w.most - w.spent
		require.True(w.t, left <= 0 || w.calls[id].GetNeed() > left, "%s is refused while there is money", id)
		return
	}
	require.True(w.t, reply.GetLetIn())
	require.GreaterOrEqual(w.t, reply.GetHeld(), w.calls[id].GetNeed())
	require.LessOrEqual(w.t, reply.GetHeld(), w.calls[id].GetWant())
	require.True(w.t, w.heard(id), "%s is let in, and may be of a dead node", id)
	w.running[id] = reply.GetHeld()
}

// heard says that a call asked, or was renewed, within half a lease.
func (w *world) heard(id string) bool { return w.expires[id]-w.now >= lease/2 }

func (w *world) held() (sum int64) {
	for _, amount := range w.running {
		sum += amount
	}
	return sum
}

// wake has a node ask again for a call that it has not begun.
func (w *world) wake(id string) {
	if delete(w.dead, id); w.lapsed[id] {
		w.spent -= w.calls[id].GetNeed() // it was not made
		delete(w.lapsed, id)
	}
	w.enter(id)
}

// enter has a call ask, for the first time or again.
func (w *world) enter(id string) {
	if _, runs := w.running[id]; !runs && !w.waiting[id] || !w.heard(id) {
		w.expires[id] = w.now + lease
	}
	reply := w.do(&allowancepb.Command{Body: &allowancepb.Command_Enter{Enter: &allowancepb.Enter{Call: w.calls[id], LeaseMs: lease}}})
	if reply == nil {
		w.waiting[id] = true
	} else if _, runs := w.running[id]; !runs {
		w.decided(id, reply)
	}
}

// TestMoney: whatever calls do, die of and repeat, what they hold and have spent is within the limit, what calls of dead nodes need
// included; nobody is refused while there is enough left, whoever waits does so for somebody, and nobody is let in who was not heard of for
// half a lease. What calls of nodes that were only cut off did cost takes the place of what they need.
func TestMoney(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{
			t: t, rules: allowance.New().Machine, now: 1_000_000, most: rapid.Int64Range(1, 500).Draw(t, "most"),
			calls: map[string]*allowancepb.Call{}, running: map[string]int64{}, waiting: map[string]bool{}, dead: map[string]bool{},
			expires: map[string]int64{}, lapsed: map[string]bool{},
		}
		limits := []*allowancepb.Cap{{Policy: "qp_1", Measure: allowancepb.Measure_COST, Unit: allowancepb.Unit_DAY, Most: w.most}}
		pick := func(of []string) string { return rapid.SampledFrom(of).Draw(t, "call") }
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.pass(rapid.Int64Range(0, 2000).Draw(t, "pause"))
			switch rapid.IntRange(0, 8).Draw(t, "what") {
			case 0, 1, 2:
				id := fmt.Sprint("c", len(w.calls))
				need := rapid.Int64Range(0, 50).Draw(t, "need")
				w.calls[id] = &allowancepb.Call{Id: id, Need: need, Want: need + rapid.Int64Range(0, 200).Draw(t, "more"), Caps: limits}
				w.enter(id)
			case 3:
				if ids := w.alive(false); len(ids) > 0 {
					id := pick(ids)
					cost := rapid.Int64Range(0, w.running[id]).Draw(t, "cost")
					delete(w.running, id)
					w.spent += cost
					for range rapid.IntRange(1, 2).Draw(t, "times") {
						w.do(&allowancepb.Command{Body: &allowancepb.Command_Settle{Settle: &allowancepb.Settled{Id: id, Cost: cost}}})
					}
				}
			case 4:
				if ids := w.alive(true); len(ids) > 0 {
					id := pick(ids)
					w.calls[id] = proto.CloneOf(w.calls[id])
					w.calls[id].Hurried = rapid.Bool().Draw(t, "hurried")
					w.enter(id)
				}
			case 5: // a node dies: what it holds is free after its lease
				if ids := append(w.alive(false), w.alive(true)...); len(ids) > 0 {
					w.dead[pick(ids)] = true
				}
			case 6:
				w.pass(rapid.Int64Range(0, lease).Draw(t, "long"))
			case 7: // a node that was cut off is back
				if ids := slices.Sorted(maps.Keys(w.lapsed)); len(ids) > 0 {
					id := pick(ids)
					cost := rapid.Int64Range(0, w.calls[id].GetWant()).Draw(t, "cost")
					delete(w.lapsed, id)
					w.spent += cost - w.calls[id].GetNeed()
					w.beyond += max(cost-w.calls[id].GetNeed(), 0)
					w.do(&allowancepb.Command{Body: &allowancepb.Command_Settle{Settle: &allowancepb.Settled{Id: id, Cost: cost}}})
				}
			case 8: // a node asks again, and may have been paused before it had its answer
				if ids := slices.Sorted(maps.Keys(w.calls)); len(ids) > 0 {
					w.wake(pick(ids))
				}
			}
			w.renew()
			require.LessOrEqual(t, w.spent+w.held(), w.most+w.beyond)
			state, _ := w.state.(*allowancepb.State)
			require.Equal(t, w.spent, quota.Used(state, limits[0], w.now))
			if slices.ContainsFunc(slices.Collect(maps.Keys(w.waiting)), w.heard) {
				require.NotEmpty(t, w.running, "somebody waits for nobody")
			}
		}
	})
}

// TestAlerts: a threshold is told once in a window, with the settlement that goes beyond it, to the tenant's webhooks: of the policy's
// project, whether its limit is in force or only counts.
func TestAlerts(t *testing.T) {
	entity := allowance.New()
	at := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	caps := []*allowancepb.Cap{
		{Policy: "qp_all", Measure: allowancepb.Measure_COST, Unit: allowancepb.Unit_DAY, Most: 10_000_000_000, Counts: true, Alerts: []float64{0.5, 0.8}},
		{Policy: "qp_mine", ProjectId: "p", Measure: allowancepb.Measure_COST, Unit: allowancepb.Unit_MONTH, Most: 5_000_000_000, Alerts: []float64{100}},
	}
	var state proto.Message
	var told []string
	do := func(now time.Time, command *allowancepb.Command) {
		command.Id = "allow_1"
		decision, refused := entity.Machine.Decide(state, command, machine.Env{Now: now})
		require.Nil(t, refused)
		before := state
		if state = entity.Machine.Evolve(before, decision.Events); len(decision.Events) == 0 {
			return
		}
		for _, notice := range entity.Tells(before, state, decision.Events) {
			data, err := json.Marshal(notice.Data)
			require.NoError(t, err)
			told = append(told, strings.Join([]string{notice.TenantID, notice.ProjectID, notice.Type, notice.About, string(data)}, " "))
		}
	}
	spend := func(now time.Time, id string, cost int64) []string {
		told = nil
		do(now, &allowancepb.Command{Body: &allowancepb.Command_Enter{Enter: &allowancepb.Enter{
			Call: &allowancepb.Call{Id: id, Want: cost, TenantId: "t", Caps: caps}, LeaseMs: 30_000,
		}}})
		require.Empty(t, told)
		for range 2 { // it is said again
			do(now, &allowancepb.Command{Body: &allowancepb.Command_Settle{Settle: &allowancepb.Settled{Id: id, Cost: cost}}})
		}
		return told
	}
	require.Empty(t, spend(at, "a", 1_000_000_000))
	require.Equal(t, []string{
		`t  budget.alert qp_all {"policyId":"qp_all","window":"perDay","threshold":0.5,"spentUsd":5,"limitUsd":10}`,
		`t p budget.alert qp_mine {"policyId":"qp_mine","window":"perMonth","threshold":100,"spentUsd":5,"limitUsd":5}`,
	}, spend(at, "b", 4_000_000_000))
	caps = caps[:1]
	require.Empty(t, spend(at, "c", 2_000_000_000))
	require.Equal(t, []string{`t  budget.alert qp_all {"policyId":"qp_all","window":"perDay","threshold":0.8,"spentUsd":8.5,"limitUsd":10}`}, spend(at, "d", 1_500_000_000))
	require.Len(t, spend(at.AddDate(0, 0, 1), "e", 9_000_000_000), 2, "a new day, both at once")
}

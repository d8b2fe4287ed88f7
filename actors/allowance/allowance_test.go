package allowance_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley/actors/allowance"
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

func suite() machinetest.Suite {
	return machinetest.Suite{
		Machine: allowance.New().Machine,
		Command: func() proto.Message { return new(allowancepb.Command) },
		Event:   func() proto.Message { return new(allowancepb.Event) },
		Prepare: prepare,
	}
}

func TestScripts(t *testing.T) { suite().Scripts(t, "testdata") }

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
	dead    map[string]bool
	spent   int64
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
	w.running[id] = reply.GetHeld()
}

func (w *world) held() (sum int64) {
	for _, amount := range w.running {
		sum += amount
	}
	return sum
}

// TestMoney: whatever calls do, die of and repeat, what they hold and have spent is within the limit, nobody is refused while there
// is enough left, and whoever waits does so for somebody.
func TestMoney(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const lease = 30_000
		w := &world{
			t: t, rules: allowance.New().Machine, now: 1_000_000, most: rapid.Int64Range(1, 500).Draw(t, "most"),
			calls: map[string]*allowancepb.Call{}, running: map[string]int64{}, waiting: map[string]bool{}, dead: map[string]bool{},
		}
		limits := []*allowancepb.Cap{{Policy: "qp_1", Measure: allowancepb.Measure_COST, Unit: allowancepb.Unit_DAY, Most: w.most}}
		enter := func(id string) {
			reply := w.do(&allowancepb.Command{Body: &allowancepb.Command_Enter{Enter: &allowancepb.Enter{Call: w.calls[id], LeaseMs: lease}}})
			if reply == nil {
				w.waiting[id] = true
				return
			}
			if _, runs := w.running[id]; !runs {
				w.decided(id, reply)
			}
		}
		pick := func(of []string) string { return rapid.SampledFrom(of).Draw(t, "call") }
		alive := func(waiting bool) (ids []string) {
			for i := range len(w.calls) {
				id := fmt.Sprint("c", i)
				_, runs := w.running[id]
				if !w.dead[id] && (waiting && w.waiting[id] || !waiting && runs) {
					ids = append(ids, id)
				}
			}
			return ids
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.now += rapid.Int64Range(0, 2000).Draw(t, "pause")
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0, 1, 2:
				id := fmt.Sprint("c", len(w.calls))
				need := rapid.Int64Range(0, 50).Draw(t, "need")
				w.calls[id] = &allowancepb.Call{Id: id, Need: need, Want: need + rapid.Int64Range(0, 200).Draw(t, "more"), Caps: limits}
				enter(id)
			case 3:
				if ids := alive(false); len(ids) > 0 {
					id := pick(ids)
					cost := rapid.Int64Range(0, w.running[id]).Draw(t, "cost")
					delete(w.running, id)
					w.spent += cost
					for range rapid.IntRange(1, 2).Draw(t, "times") {
						w.do(&allowancepb.Command{Body: &allowancepb.Command_Settle{Settle: &allowancepb.Settled{Id: id, Cost: cost}}})
					}
				}
			case 4:
				if ids := alive(true); len(ids) > 0 {
					id := pick(ids)
					w.calls[id] = proto.CloneOf(w.calls[id])
					w.calls[id].Hurried = rapid.Bool().Draw(t, "hurried")
					enter(id)
				}
			case 5: // a node dies: what it holds is free after its lease
				if ids := append(alive(false), alive(true)...); len(ids) > 0 {
					w.dead[pick(ids)] = true
				}
			case 6:
				if len(w.dead) > 0 {
					w.now += lease
					for id := range w.dead {
						delete(w.running, id)
						delete(w.waiting, id)
					}
				}
			}
			ids := append(alive(false), alive(true)...)
			w.do(&allowancepb.Command{Body: &allowancepb.Command_Renew{Renew: &allowancepb.Renew{Ids: ids, LeaseMs: lease}}})
			require.LessOrEqual(t, w.spent+w.held(), w.most)
			if len(w.waiting) > 0 {
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

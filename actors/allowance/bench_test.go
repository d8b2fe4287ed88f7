package allowance_test

import (
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/allowance"
	"parley/actors/machine"
	"parley/proto/allowancepb"
)

// BenchmarkCall is what the rules take to let one call in and to settle it, while a thousand others run.
func BenchmarkCall(b *testing.B) {
	rules := allowance.New().Machine
	limits := []*allowancepb.Cap{
		{Policy: "qp_000000000000000000001", Measure: allowancepb.Measure_COST, Unit: allowancepb.Unit_DAY, Most: 1 << 60},
		{Policy: "qp_000000000000000000001", Measure: allowancepb.Measure_COST, Unit: allowancepb.Unit_MONTH, Most: 1 << 60},
	}
	var state proto.Message
	do := func(command *allowancepb.Command) {
		command.Id = "allow_1"
		decision, refused := rules.Decide(state, command, machine.Env{Now: time.UnixMilli(1)})
		if refused != nil {
			b.Fatal(refused)
		}
		state = rules.Evolve(state, decision.Events)
	}
	enter := func(i int) {
		do(&allowancepb.Command{Body: &allowancepb.Command_Enter{Enter: &allowancepb.Enter{LeaseMs: 30_000, Call: &allowancepb.Call{
			Id: "spend_000000000000000" + strconv.Itoa(i), Want: 2, Need: 1, Caps: limits,
		}}}})
	}
	for i := range 1000 {
		enter(i)
	}
	b.ReportAllocs()
	for i := 1000; b.Loop(); i++ {
		enter(i)
		do(&allowancepb.Command{Body: &allowancepb.Command_Settle{Settle: &allowancepb.Settled{Id: "spend_000000000000000" + strconv.Itoa(i), Cost: 1}}})
	}
}

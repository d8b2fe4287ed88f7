package turn

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"parley/actors/core/quota"
	"parley/actors/provider"
	"parley/actors/turn/model"
	"parley/proto/conversationpb"
)

// gate is a door that lets calls in with what a test says.
type gate struct {
	holds   func(call *quota.Call) (held int64, err error)
	entered *quota.Call
	settled [][2]int64 // cost and tokens
}

type ticket struct {
	gate *gate
	held int64
}

// Guards implements quota.Door.
func (*gate) Guards(string) bool { return true }

// Enter implements quota.Door.
func (g *gate) Enter(_ context.Context, call *quota.Call) (quota.Pass, error) {
	g.entered = call
	held, err := g.holds(call)
	if err != nil {
		return nil, err
	}
	return &ticket{g, held}, nil
}

// Held implements quota.Pass.
func (p *ticket) Held() (int64, bool) { return p.held, true }

// Settle implements quota.Pass.
func (p *ticket) Settle(cost, tokens int64) {
	p.gate.settled = append(p.gate.settled, [2]int64{cost, tokens})
}

// capNoted answers shortly, and notes what the answer may be at most.
func capNoted(capped *int) *script {
	answers := words("a short answer")
	return &script{generate: func(ctx context.Context, request *model.Request, stream model.Stream) (*model.Answer, error) {
		*capped = request.MaxOutputTokens
		return answers.generate(ctx, request, stream)
	}}
}

// TestBudgetsOfTheProject: a model call is let in before it is made, says no more than it may, and is settled with what it came to.
func TestBudgetsOfTheProject(t *testing.T) {
	at := func(door quota.Door) func(*Config) { return func(c *Config) { c.Door = door } }
	synctest.Test(t, func(t *testing.T) {
		door := &gate{holds: func(call *quota.Call) (int64, error) { return call.Need, nil }}
		var capped int
		d := newDesk(t, capNoted(&capped), at(door))
		job := d.job()
		job.TenantID, job.ProjectID, job.ByUser, job.ByToken = "t", "p", "ann", "tok"
		require.NoError(t, d.Start(job))
		require.Equal(t, "a short answer", (<-d.reports).GetContent())
		require.Equal(t, provider.WorthOutput, capped, "what it got pays for no more")
		require.Equal(t, [][2]int64{{10_000 + 3*2_000, 13}}, door.settled)
		require.Equal(t, []string{"t", "p", "ann", "tok", quota.LLM}, []string{
			door.entered.TenantID, door.entered.ProjectID, door.entered.UserID, door.entered.TokenID, door.entered.Domain,
		})
		require.Less(t, door.entered.Need, door.entered.Want)
	})
	synctest.Test(t, func(t *testing.T) { // a policy caps what neither the call nor its model does
		door := &gate{holds: func(call *quota.Call) (int64, error) {
			call.Cap = 9
			return call.Want, nil
		}}
		var capped int
		d := newDesk(t, capNoted(&capped), at(door))
		d.run(t)
		require.Equal(t, 9, capped)
	})
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, words("never said"), at(&gate{holds: func(*quota.Call) (int64, error) {
			return 0, &quota.Refusal{Message: "Budget exceeded for perDay (5/5 cents)", Spent: true}
		}}))
		finish := d.run(t)
		require.Equal(t, conversationpb.StopReason_ERROR, finish.GetStopReason())
		require.Equal(t, "Budget exceeded for perDay (5/5 cents)", finish.GetError().GetMessage())
		require.Empty(t, finish.GetContent())
	})
	synctest.Test(t, func(t *testing.T) { // a turn that is stopped pays for its prompt and for what it said
		door := &gate{holds: func(call *quota.Call) (int64, error) { return call.Want, nil }}
		d := newDesk(t, stuck(), at(door))
		require.NoError(t, d.Start(d.job()))
		synctest.Wait()
		d.Stop("run_1")
		<-d.reports
		require.Len(t, door.settled, 1)
		require.Greater(t, door.settled[0][1], door.entered.InputTokens)
	})
}

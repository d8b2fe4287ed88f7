package spending_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/allowance"
	"parley/actors/core/collection/collectiontest"
	"parley/actors/core/entity"
	"parley/actors/core/quota"
	"parley/actors/machine"
	"parley/cmd/parley/node/spending"
	"parley/proto/allowancepb"
	"parley/proto/directorypb"
)

// allowances is a shard with the real rules. Its replies may be lost, as those of a node that dies.
type allowances struct {
	rules machine.Machine
	loses func() bool

	mu      sync.Mutex
	state   proto.Message
	waiters map[string][]chan proto.Message
}

var errLost = errors.New("the outcome is not known")

// Ask implements entity.Client.
func (a *allowances) Ask(ctx context.Context, _ string, command proto.Message) (proto.Message, error) {
	if a.loses() {
		return nil, errLost // before
	}
	a.mu.Lock()
	decision, refused := a.rules.Decide(a.state, command, machine.Env{Now: time.Now()})
	if refused != nil {
		a.mu.Unlock()
		return nil, refused
	}
	a.state = a.rules.Evolve(a.state, decision.Events)
	for _, answer := range decision.Settle {
		for _, waiter := range a.waiters[answer.Key] {
			waiter <- answer.Reply
		}
		delete(a.waiters, answer.Key)
	}
	waiter := make(chan proto.Message, 1)
	if decision.Wait != "" {
		a.waiters[decision.Wait] = append(a.waiters[decision.Wait], waiter)
	} else {
		waiter <- decision.Reply
	}
	a.mu.Unlock()
	select {
	case reply := <-waiter:
		if a.loses() {
			return nil, errLost // after
		}
		return reply, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Read implements entity.Client.
func (*allowances) Read(context.Context, proto.Message) (proto.Message, error) { return nil, errLost }

// used is what was spent under the policy.
func (a *allowances) used() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	state, _ := a.state.(*allowancepb.State)
	return quota.Used(state, &allowancepb.Cap{Policy: "qp_1", Measure: allowancepb.Measure_COST, Unit: allowancepb.Unit_DAY}, time.Now().UnixMilli())
}

func newAllowances(loses func() bool) *allowances {
	return &allowances{rules: allowance.New().Machine, loses: loses, waiters: map[string][]chan proto.Message{}}
}

// node is a way to the shard that is cut once the node is dead.
type node struct {
	*allowances
	dead atomic.Bool
}

// Ask implements entity.Client.
func (n *node) Ask(ctx context.Context, id string, command proto.Message) (proto.Message, error) {
	if n.dead.Load() {
		return nil, errLost
	}
	return n.allowances.Ask(ctx, id, command)
}

func policies(limits string) func(string) []*quota.Policy {
	all := quota.Read([]*directorypb.QuotaPolicy{{Id: "qp_1", TenantId: "t", Scope: quota.Tenant, Domain: quota.LLM, Enabled: true, Limits: []byte(limits)}})
	return func(tenant string) []*quota.Policy {
		if tenant != "t" {
			return nil
		}
		return all
	}
}

var ids struct {
	sync.Mutex
	n int
} // a counter

func newDoor(at entity.Client, of func(string) []*quota.Policy) *spending.Door {
	return spending.New(spending.Config{
		Entities: at, Policies: of, Logger: slog.New(slog.DiscardHandler), IDFrom: func(kind, text string) string { return kind + "_" + text },
		NewID: func(kind string) string {
			ids.Lock()
			defer ids.Unlock()
			ids.n++
			return fmt.Sprint(kind, "_", ids.n)
		},
	})
}

// TestParallelCalls: a thousand calls through three nodes, of which one dies, while replies are lost: what they cost together is
// within the limit, what was answered is counted, and nobody is refused while there is money.
func TestParallelCalls(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a seeded test
				draw := func(n int64) int64 {
					mu.Lock()
					defer mu.Unlock()
					return random.Int64N(n)
				}
				const most, need, want = 250_000_000, 300_000, 900_000 // of 0.25 dollars, so that not all can be let in
				at := newAllowances(func() bool { return draw(10) == 0 })
				of := policies(`{"budget":{"dailySpendLimit":0.25}}`)
				third := &node{allowances: at}
				doors := []*spending.Door{newDoor(at, of), newDoor(at, of), newDoor(third, of)}
				time.AfterFunc(2500*time.Millisecond, func() { third.dead.Store(true) })
				var answered, spent, lost, refused int64 // spent: those of the dead one, too, that may or may not be counted; lost: what those need of which the dead one did not say what they cost
				var calls sync.WaitGroup
				for i := range 1000 {
					calls.Go(func() {
						time.Sleep(time.Duration(draw(3000)) * time.Millisecond)
						pass, err := doors[i%3].Enter(t.Context(), &quota.Call{TenantID: "t", Domain: quota.LLM, Need: need, Want: want})
						if err != nil {
							mu.Lock()
							defer mu.Unlock()
							if third.dead.Load() && i%3 == 2 {
								lost += need // its client is not answered, and it may have been let in
								return
							}
							refused++
							left := most - at.used()
							require.Less(t, left, int64(need), "refused while there is money: %v", err)
							return
						}
						held, binds := pass.Held()
						require.True(t, binds)
						time.Sleep(time.Duration(draw(2000)) * time.Millisecond)
						cost := draw(held + 1)
						if !third.dead.Load() || i%3 != 2 {
							pass.Settle(cost, 10)
						}
						mu.Lock()
						defer mu.Unlock()
						if spent += cost; third.dead.Load() && i%3 == 2 {
							lost += need
						} else {
							answered += cost
						}
					})
				}
				calls.Wait()
				for _, door := range doors {
					door.Stop(t.Context())
				}
				require.LessOrEqual(t, at.used(), int64(most))
				require.LessOrEqual(t, answered, at.used())
				require.LessOrEqual(t, at.used(), spent+lost)
				if refused > 0 {
					require.Less(t, most-at.used(), int64(need))
				}
			})
		})
	}
}

// TestRefusals: in the order of the checks, with their words (document 3, section 4).
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := newAllowances(func() bool { return false })
		door := newDoor(at, policies(`{"perRequest":{"maxInputTokens":50,"maxOutputTokens":60,"maxTotalTokens":100},"rateLimit":{"requests":{"perMinute":3},"tokens":{"perHour":100}},"budget":{"dailySpendLimit":0.02,"monthlySpendLimit":-1}}`))
		defer func() { door.Stop(t.Context()) }()
		enter := func(call quota.Call) (quota.Pass, string) {
			call.TenantID, call.Domain = "t", quota.LLM
			pass, err := door.Enter(t.Context(), &call)
			if err != nil {
				return nil, err.Error()
			}
			return pass, ""
		}
		for text, call := range map[string]quota.Call{
			"Input tokens (51) exceeds limit (50)": {InputTokens: 51}, "Output tokens (61) exceeds limit (60)": {OutputTokens: 61},
			"Total tokens (101) exceeds limit (100)": {InputTokens: 50, OutputTokens: 51},
		} {
			_, got := enter(call)
			require.Equal(t, text, got)
		}
		capping := newDoor(at, policies(`{"perRequest":{"maxInputTokens":50,"maxOutputTokens":60,"maxTotalTokens":70}}`))
		defer func() { capping.Stop(t.Context()) }()
		for want, call := range map[int64]quota.Call{60: {InputTokens: 10}, 20: {InputTokens: 50}, 0: {InputTokens: 10, OutputTokens: 7}} {
			call.TenantID, call.Domain = "t", quota.LLM
			pass, err := capping.Enter(t.Context(), &call)
			require.NoError(t, err)
			require.Nil(t, pass, "nothing counts it")
			require.Equal(t, want, call.Cap, "a call that names no cap has what is left of the limit")
		}
		full := newDoor(at, policies(`{"perRequest":{"maxTotalTokens":10}}`))
		defer func() { full.Stop(t.Context()) }()
		_, noRoom := full.Enter(t.Context(), &quota.Call{TenantID: "t", Domain: quota.LLM, InputTokens: 10})
		require.EqualError(t, noRoom, "Total tokens (11) exceeds limit (10)")
		pass, got := enter(quota.Call{InputTokens: 40, Need: 1, Want: 15_000_000})
		require.Empty(t, got)
		pass.Settle(19_000_000, 90)
		_, got = enter(quota.Call{InputTokens: 11})
		require.Equal(t, "Rate limit exceeded for tokens perHour (101/100)", got)
		_, got = enter(quota.Call{InputTokens: 1, Need: 1_000_001, Want: 1_000_001})
		require.Equal(t, "Budget exceeded for perDay (1/2 cents)", got)
		for range 2 {
			pass, got = enter(quota.Call{InputTokens: 1})
			require.Empty(t, got)
			pass.Settle(0, 0)
		}
		_, got = enter(quota.Call{InputTokens: 1})
		require.Equal(t, "Rate limit exceeded for requests perMinute (4/3)", got)
		time.Sleep(time.Minute)
		pass, got = enter(quota.Call{InputTokens: 1})
		require.Empty(t, got)
		held, _ := pass.Held()
		require.EqualValues(t, 0, held)
		pass.Settle(1, 1)

		none, err := door.Enter(t.Context(), &quota.Call{TenantID: "other", Domain: quota.LLM})
		require.NoError(t, err)
		require.Nil(t, none)
		none, err = door.Enter(t.Context(), &quota.Call{TenantID: "t", Domain: quota.Embedding})
		require.NoError(t, err)
		require.Nil(t, none)
	})
}

// TestRatesOfAToken: calls of one API token through three nodes at the same time are let in exactly as often as its rate says, and take no
// more tokens than that, while the calls of another token are not counted.
func TestRatesOfAToken(t *testing.T) {
	for name, c := range map[string]struct {
		limits        string
		least, letsIn int
	}{
		"requests": {`{"rateLimit":{"requests":{"perMinute":50}}}`, 50, 50},
		"tokens":   {`{"rateLimit":{"tokens":{"perMinute":1000}}}`, 50, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at := newAllowances(func() bool { return false })
				all := quota.Read([]*directorypb.QuotaPolicy{{
					Id: "qp_1", TenantId: "t", Scope: quota.Token, ScopeId: "busy", Domain: quota.LLM, Enabled: true, Limits: []byte(c.limits),
				}})
				of := func(string) []*quota.Policy { return all }
				doors := []*spending.Door{newDoor(at, of), newDoor(at, of), newDoor(at, of)}
				defer func() {
					for _, door := range doors {
						door.Stop(context.WithoutCancel(t.Context()))
					}
				}()
				var mu sync.Mutex
				in, took := 0, int64(0)
				var calls sync.WaitGroup
				for i := range 300 {
					calls.Go(func() {
						time.Sleep(time.Duration(i%100) * time.Millisecond)
						pass, err := doors[i%3].Enter(t.Context(), &quota.Call{TenantID: "t", TokenID: "busy", Domain: quota.LLM, InputTokens: 5, OutputTokens: 15})
						if err != nil {
							var refused *quota.Refusal
							require.ErrorAs(t, err, &refused)
							require.Positive(t, refused.RetryAfter)
							require.LessOrEqual(t, refused.RetryAfter, time.Minute)
							return
						}
						time.Sleep(20 * time.Millisecond)
						used := int64(1 + i%20)
						pass.Settle(0, used)
						mu.Lock()
						defer mu.Unlock()
						in, took = in+1, took+used
					})
				}
				calls.Wait()
				require.GreaterOrEqual(t, in, c.least)
				require.LessOrEqual(t, in, c.letsIn)
				if name == "tokens" {
					require.LessOrEqual(t, took, int64(1000))
					require.Greater(t, in, 50, "what calls did not take is given back")
				}
				none, err := doors[0].Enter(t.Context(), &quota.Call{TenantID: "t", TokenID: "other", Domain: quota.LLM})
				require.NoError(t, err)
				require.Nil(t, none)
				time.Sleep(time.Minute)
				pass, err := doors[1].Enter(t.Context(), &quota.Call{TenantID: "t", TokenID: "busy", Domain: quota.LLM, InputTokens: 5})
				require.NoError(t, err, "a new minute")
				pass.Settle(0, 0)
				pass, err = doors[0].Enter(t.Context(), &quota.Call{TenantID: "t", TokenID: "busy", Domain: quota.LLM, InputTokens: 5, OutputTokens: 5000})
				require.NoError(t, err, "it names more than is allowed, and may say less")
				pass.Settle(0, 5)
			})
		})
	}
}

// TestNobodyToAsk: calls are not let in when it cannot be found out whether they may.
func TestNobodyToAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door := newDoor(newAllowances(func() bool { return true }), policies(`{"budget":{"dailySpendLimit":1}}`))
		_, err := door.Enter(t.Context(), &quota.Call{TenantID: "t", Domain: quota.LLM})
		var refused *quota.Refusal
		require.ErrorAs(t, err, &refused)
		require.Equal(t, []any{"Rate limit enforcement unavailable", true}, []any{refused.Message, refused.Broken})
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("the client left")
		cancel(gone)
		_, err = door.Enter(ctx, &quota.Call{TenantID: "t", Domain: quota.LLM})
		require.ErrorIs(t, err, gone)
		time.Sleep(time.Minute)
		door.Stop(t.Context())
	})
}

// TestNoPolicyCostsNothing: a tenant without policies is not even worth an allocation.
func TestNoPolicyCostsNothing(t *testing.T) {
	known := spending.NewPolicies(&collectiontest.Records{})
	door := newDoor(newAllowances(func() bool { return false }), known.Of)
	defer door.Stop(t.Context())
	door.Guards("t")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if door.Guards("t") {
			t.Error("it has none")
		}
	}))
}

// TestFreeCalls: a spent budget and a rate of tokens refuse no call that costs nothing, a rate of requests and the size of a request do.
func TestFreeCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := newAllowances(func() bool { return false })
		door := newDoor(at, func(string) []*quota.Policy {
			return quota.Read([]*directorypb.QuotaPolicy{{
				Id: "all", TenantId: "t", Domain: quota.LLM, Scope: quota.Tenant, Enabled: true,
				Limits: []byte(`{"rateLimit":{"requests":{"perMinute":1},"tokens":{"perMinute":0}},"budget":{"dailySpendLimit":0},"perRequest":{"maxInputTokens":10}}`),
			}})
		})
		defer func() { door.Stop(t.Context()) }()
		free := func(input int64) error {
			pass, err := door.Enter(t.Context(), &quota.Call{TenantID: "t", Domain: quota.LLM, Free: true, InputTokens: input})
			if err == nil {
				pass.Settle(0, 0)
			}
			return err
		}
		require.ErrorContains(t, free(11), "exceeds limit")
		require.NoError(t, free(10))
		require.ErrorContains(t, free(10), "Rate limit exceeded")
	})
}

// TestReportsCostNothing: a spent budget of all calls refuses no reports, a rate does.
func TestReportsCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := newAllowances(func() bool { return false })
		door := newDoor(at, func(string) []*quota.Policy {
			return quota.Read([]*directorypb.QuotaPolicy{{
				Id: "global", TenantId: "t", Domain: quota.Global, Scope: quota.Tenant, Enabled: true, Limits: []byte(`{"rateLimit":{"requests":{"perMinute":1}},"budget":{"dailySpendLimit":0}}`),
			}})
		})
		defer func() { door.Stop(t.Context()) }()
		_, err := door.Enter(t.Context(), &quota.Call{TenantID: "t", Domain: quota.LLM, Need: 1, Want: 1})
		require.ErrorContains(t, err, "Budget exceeded")
		time.Sleep(time.Minute)
		pass, err := door.Enter(t.Context(), &quota.Call{TenantID: "t", Domain: quota.Tracing})
		require.NoError(t, err)
		pass.Settle(0, 0)
		_, err = door.Enter(t.Context(), &quota.Call{TenantID: "t", Domain: quota.Tracing})
		require.ErrorContains(t, err, "Rate limit exceeded")
	})
}

package inference_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/quota"
)

// till is a door that lets calls in with what a test says.
type till struct {
	holds   func(call *quota.Call) (held int64, binds bool, err error) // nil = nothing is guarded
	entered []*quota.Call
	settled [][2]int64 // cost and tokens
}

type ticket struct {
	till  *till
	held  int64
	binds bool
}

// Guards implements quota.Door.
func (t *till) Guards(string) bool { return t.holds != nil }

// Enter implements quota.Door.
func (t *till) Enter(_ context.Context, call *quota.Call) (quota.Pass, error) {
	t.entered = append(t.entered, call)
	held, binds, err := t.holds(call)
	if err != nil {
		return nil, err
	}
	return &ticket{t, held, binds}, nil
}

// Held implements quota.Pass.
func (p *ticket) Held() (int64, bool) { return p.held, p.binds }

// Settle implements quota.Pass.
func (p *ticket) Settle(cost, tokens int64) {
	p.till.settled = append(p.till.settled, [2]int64{cost, tokens})
}

const toldUsage = `{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`

// capsAt is a policy that caps the output, and a budget that has so much left, if any.
func capsAt(output, left int64) func(*quota.Call) (int64, bool, error) {
	return func(call *quota.Call) (int64, bool, error) {
		call.Cap = output
		return left, left > 0, nil
	}
}

// TestBudgetBoundsACall: a call asks for all it may cost, says no more than it got, and is settled once with what it did cost.
func TestBudgetBoundsACall(t *testing.T) {
	k := newKit(t, says(200, toldUsage))
	body := func(more string) string {
		return `{"model":"chat","messages":[{"role":"user","content":"hello"}]` + more + `}`
	}
	all := func(call *quota.Call) (int64, bool, error) { return call.Want, true, nil }
	for _, c := range []struct {
		name, more string
		holds      func(*quota.Call) (int64, bool, error)
		sent       any // the cap that the provider gets
	}{
		{"no budget", ``, func(*quota.Call) (int64, bool, error) { return 0, false, nil }, nil},
		{"a policy's cap", ``, capsAt(9, 0), 9.0},
		{"a policy's cap and money for less", ``, capsAt(4000, 40_000), 15.0},
		{"a policy's cap and money for more", ``, capsAt(9, 40_000_000), 9.0},
		{"all of it", `,"max_tokens":50`, all, 50.0},
		{"no cap", ``, all, 4096.0},
		{"less than it wants", `,"max_tokens":50`, func(call *quota.Call) (int64, bool, error) { return call.Need, true, nil }, 16.0},
		{"several answers", `,"max_tokens":50,"n":3`, func(call *quota.Call) (int64, bool, error) { return call.Need + 12_000, true, nil }, 18.0},
	} {
		k.till = till{holds: c.holds}
		_, err := k.caller.Chat(t.Context(), k.call(body(c.more)))
		require.NoError(t, err, c.name)
		asked := k.provider.requests()
		require.Equal(t, c.sent, asked[len(asked)-1].body["max_tokens"], c.name)
		require.Equal(t, [][2]int64{{3*1000 + 2*2000, 5}}, k.till.settled, c.name)
		require.Equal(t, []any{"t", "p", "u", "tok", "chat", "main", quota.LLM}, []any{
			k.till.entered[0].TenantID, k.till.entered[0].ProjectID, k.till.entered[0].UserID, k.till.entered[0].TokenID, k.till.entered[0].Model,
			k.till.entered[0].Provider, k.till.entered[0].Domain,
		})
	}
	k.provider.answer = streams(`{"choices":[{"index":0,"delta":{"content":"hi"}}]}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
		`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, `[DONE]`)
	k.till = till{holds: all}
	_, err := k.stream(body(`,"stream":true`))
	require.NoError(t, err)
	require.Equal(t, [][2]int64{{7000, 5}}, k.till.settled)

	k.provider.answer = says(400, `{"error":{"message":"no"}}`)
	k.till = till{holds: all}
	_, err = k.caller.Chat(t.Context(), k.call(body("")))
	require.Error(t, err)
	require.Equal(t, [][2]int64{{0, 0}}, k.till.settled, "a refused call costs nothing, and gives back what it held")

	k.provider.answer = says(200, `{"data":[{"index":0,"embedding":[1]}],"usage":{"prompt_tokens":4,"total_tokens":4}}`)
	k.till = till{holds: all}
	_, err = k.caller.Embed(t.Context(), k.call(`{"model":"embed","input":"hello"}`))
	require.NoError(t, err)
	require.Equal(t, quota.Embedding, k.till.entered[0].Domain)
	require.Equal(t, [][2]int64{{4000, 4}}, k.till.settled)
}

// TestBudgetRefusesACall: before its provider hears of it.
func TestBudgetRefusesACall(t *testing.T) {
	k := newKit(t, says(200, toldUsage))
	left := errors.New("the client left")
	for _, c := range []struct {
		err        error
		status     int
		code, text string
	}{
		{&quota.Refusal{Message: "Budget exceeded for perDay (5/5 cents)", Spent: true, RetryAfter: time.Minute}, 429, "insufficient_quota", "Budget exceeded for perDay (5/5 cents)"},
		{&quota.Refusal{Message: "Rate limit exceeded for requests perMinute (3/2)"}, 429, "rate_limit_exceeded", "Rate limit exceeded for requests perMinute (3/2)"},
		{&quota.Refusal{Message: "x", Broken: true}, 500, "quota_check_failed", "Quota check failed"},
	} {
		k.till = till{holds: func(*quota.Call) (int64, bool, error) { return 0, false, c.err }}
		for _, stream := range []bool{false, true} {
			_, err := k.caller.Chat(t.Context(), k.call(`{"model":"chat","messages":[]}`))
			if stream {
				_, err = k.stream(`{"model":"chat","messages":[]}`)
			}
			failed := asError(t, err)
			require.Equal(t, []any{c.status, c.code, c.text}, []any{failed.Status, failed.Code, failed.Message})
			require.Equal(t, map[int]string{429: "rate_limit_error", 500: "server_error"}[c.status], failed.Type)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(left)
	k.till = till{holds: func(*quota.Call) (int64, bool, error) { return 0, false, left }}
	_, err := k.caller.Chat(ctx, k.call(`{"model":"chat","messages":[]}`))
	require.ErrorIs(t, err, left)
	require.Empty(t, k.provider.requests())
	require.Empty(t, k.booked)
}

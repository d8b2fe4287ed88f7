package inference_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/quota"
	"parley/actors/inference"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/directorypb"
)

func question() *inference.Question {
	return &inference.Question{System: "Judge.", Text: "data \"x\"\n", MaxTokens: 512, Time: 15 * time.Second}
}

func (k *kit) questions(key string) (string, error) {
	k.t.Helper()
	call := k.call(`{"model":"` + key + `","messages":[{"role":"user","content":"not this"}]}`)
	return k.caller.Ask(context.Background(), call, question())
}

// TestAsk: a question of the server's is a call like any other: paid for, booked, routed, and refused as one.
func TestAsk(t *testing.T) {
	k := newKit(t, says(200, toldUsage))
	k.till.holds = func(call *quota.Call) (int64, bool, error) { return call.Want, true, nil }
	said, err := k.questions("chat")
	require.NoError(t, err)
	require.Equal(t, "hi", said)
	body := k.provider.requests()[0].body
	require.Equal(t, []any{
		map[string]any{"role": "system", "content": "Judge."}, map[string]any{"role": "user", "content": "data \"x\"\n"},
	}, body["messages"])
	require.NotContains(t, k.provider.requests()[0].raw, "not this")
	require.Equal(t, [][2]int64{{3*1000 + 2*2000, 5}}, k.till.settled)
	usage := k.usage()
	require.Equal(t, []any{"t", "p", "u", "tok", "chat", inference.ServiceChat, int64(7000)},
		[]any{usage.TenantID, usage.ProjectID, usage.UserID, usage.TokenID, usage.Model, usage.Service, usage.CostNanoUSD})

	k.till.holds = func(*quota.Call) (int64, bool, error) { return 0, false, &quota.Refusal{Spent: true, Message: "spent"} }
	_, err = k.questions("chat")
	require.Equal(t, "insufficient_quota", asError(t, err).Code)
	require.Len(t, k.provider.requests(), 1, "what is not paid for is not asked")
	for key, code := range map[string]string{"none": "model_not_found", "embed": "invalid_request"} {
		_, err = k.questions(key)
		require.Equal(t, code, asError(t, err).Code)
	}
	k.till.holds = nil
	k.dynamic(`{"strategy":"priority","targets":[{"modelKey":"scripted"}]}`)
	said, err = k.questions("any")
	require.NoError(t, err)
	require.Equal(t, "one two three", said)
	k.provider.answer = says(200, `{"choices":[]}`)
	_, err = k.questions("chat")
	require.Error(t, err)
}

// TestAskEndsInTime: whoever waits for an answer does not wait for long.
func TestAskEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &agentpb.Model{Provider: agentpb.Provider_SCRIPTED, Script: &agentpb.Script{Text: "late", FirstTokenDelayMs: 3_600_000}}
		providers := model.New(model.Config{})
		defer providers.Close()
		var booked []inference.Usage
		caller := inference.New(inference.DefaultConfig(), inference.Parts{
			Catalog: catalog{"slow": {slow, &directorypb.Model{Key: "slow", Category: "llm"}}}, Providers: providers,
			Book: func(u inference.Usage) { booked = append(booked, u) },
		})
		began := time.Now()
		_, err := caller.Ask(t.Context(), &inference.Call{TenantID: "t", ProjectID: "p", Model: "slow"}, question())
		require.Equal(t, "provider_timeout", asError(t, err).Code)
		require.Equal(t, 15*time.Second, time.Since(began))
		require.Len(t, booked, 1)
		require.True(t, booked[0].Failed)
	})
}

package inference_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
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

// keeps lets a model keep its answers.
func (k *kit) keeps(key string, most int64) {
	record := k.catalog[key].record
	record.Id, record.UpdatedAt, record.Cache = "mdl_"+key, 1, &directorypb.ModelCache{Enabled: true, TtlSeconds: 60, Most: most}
}

// asks makes a call that may be answered from the cache.
func (k *kit) asks(body string, change ...func(*inference.Call)) (answer string, hit bool) {
	k.t.Helper()
	call := k.call(body)
	call.Cache = &inference.Cache{}
	for _, set := range change {
		set(call)
	}
	raw, err := k.caller.Chat(context.Background(), call)
	require.NoError(k.t, err)
	require.True(k.t, json.Valid(raw), "%s", raw)
	return string(raw), call.Cache != nil && call.Cache.Hit
}

const (
	toldCall = `{"system_fingerprint":"fp","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",` +
		`"function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`
	asksChat = `{"model":"chat","messages":[{"role":"user","content":"hi there"}],"temperature":0.5,"tools":[{"type":"function","function":{"name":"f"}}],"user":"ada"}`
)

// TestKeptAnswer: the same request is answered without its provider and without money, as a call of its own.
func TestKeptAnswer(t *testing.T) {
	k := newKit(t, says(200, toldCall))
	k.till.holds = func(call *quota.Call) (int64, bool, error) { return call.Want, true, nil }
	k.keeps("chat", 10)
	first, hit := k.asks(asksChat)
	require.False(t, hit)
	again, hit := k.asks(`{ "user":"bob", "tools":[ {"type":"function","function":{"name":"f"}} ],"metadata":{"a":"b"},"seed":null,
		"temperature":0.5, "messages" : [{"role":"user","content":"hi there"}],"model":"chat","stream":false}`, func(c *inference.Call) { c.RequestID = "req-2" })
	require.True(t, hit)
	require.Len(t, k.provider.requests(), 1)

	var one, two struct {
		ID, Model   string
		Created     int64
		Fingerprint string `json:"system_fingerprint"`
		Choices     json.RawMessage
		Usage       map[string]int64
		RequestID   string `json:"request_id"`
	}
	require.NoError(t, json.Unmarshal([]byte(first), &one))
	require.NoError(t, json.Unmarshal([]byte(again), &two))
	require.Equal(t, []any{one.Model, one.Fingerprint, string(one.Choices), "req-2"}, []any{two.Model, two.Fingerprint, string(two.Choices), two.RequestID})
	require.NotEqual(t, one.ID, two.ID)
	require.InDelta(t, time.Now().Unix(), two.Created, 60)
	require.Equal(t, map[string]int64{"prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": 0, "total_tokens": 0}, two.Usage)

	require.Len(t, k.booked, 2)
	require.Equal(t, inference.Usage{
		TenantID: "t", ProjectID: "p", UserID: "u", TokenID: "tok", Model: "chat", Service: "chat", CacheHit: true, Priced: true,
	}, k.booked[1])
	require.Equal(t, [][2]int64{{3*1000 + 2*2000, 5}, {0, 0}}, k.till.settled)
	require.Equal(t, []any{true, int64(0), int64(0)}, []any{k.till.entered[1].Free, k.till.entered[1].Want, k.till.entered[1].Need})
	require.Positive(t, k.till.entered[1].InputTokens, "its size is bounded, too")
	k.till.holds = func(*quota.Call) (int64, bool, error) { return 0, false, &quota.Refusal{Message: "too fast"} }
	call := k.call(asksChat)
	call.Cache = &inference.Cache{}
	_, err := k.caller.Chat(t.Context(), call)
	require.Equal(t, 429, asError(t, err).Status, "rates count it")
	require.False(t, call.Cache.Hit)
}

// TestKeptApart: whatever an answer may follow from keeps it apart.
func TestKeptApart(t *testing.T) {
	k := newKit(t, says(200, toldUsage))
	k.keeps("chat", 1000)
	k.asks(asksChat)
	_, hit := k.asks(asksChat)
	require.True(t, hit)
	for _, pair := range [][2]string{
		{"hi there", "hi  there"},
		{"0.5", "0.6"},
		{`"name":"f"`, `"name":"g"`},
		{`"user":"ada"`, `"seed":1`},
		{`"user":"ada"`, `"response_format":{"type":"json_object"}`},
		{`"user":"ada"`, `"max_tokens":7`},
		{`"user":"ada"`, `"tool_choice":"none"`},
		{`"user":"ada"`, `"extra_body":{"top_k":1}`},
		{`"role":"user"`, `"role":"system"`},
	} {
		_, hit = k.asks(strings.Replace(asksChat, pair[0], pair[1], 1))
		require.False(t, hit, pair[1])
	}
	misses := func(why string, change ...func(*inference.Call)) {
		t.Helper()
		before := len(k.provider.requests())
		_, again := k.asks(asksChat, change...)
		require.False(t, again, why)
		require.Len(t, k.provider.requests(), before+1, why)
	}
	misses("another tenant", func(c *inference.Call) { c.TenantID = "t2" })
	misses("no-store", func(c *inference.Call) { c.Cache = nil })
	k.provider.answer = says(200, strings.Replace(toldUsage, "hi", "anew", 1))
	misses("no-cache", func(c *inference.Call) { c.Cache.Fresh = true })
	answer, hit := k.asks(asksChat)
	require.True(t, hit)
	require.Contains(t, answer, "anew", "the newer answer is kept")

	chat := k.catalog["chat"]
	chat.record.UpdatedAt++
	misses("the record has changed")
	chat.model.BaseUrl += "/"
	misses("its provider has changed")
	chat.record.Id = "mdl_made_again"
	misses("it was deleted and made again")
	chat.record.Cache.Enabled = false
	misses("it keeps none any more")
	_, hit = k.asks(strings.Replace(asksChat, `"chat"`, `"old"`, 1))
	require.False(t, hit)
	_, hit = k.asks(strings.Replace(asksChat, `"chat"`, `"old"`, 1))
	require.False(t, hit, "one that never kept any")
}

// TestNotKept: what failed, what a budget has cut, and streams.
func TestNotKept(t *testing.T) {
	k := newKit(t, says(400, `{"error":{"message":"no"}}`))
	k.keeps("chat", 10)
	call := k.call(asksChat)
	call.Cache = &inference.Cache{}
	_, err := k.caller.Chat(t.Context(), call)
	require.Error(t, err)
	cut := strings.Replace(toldUsage, `"stop"`, `"length"`, 1)
	k.provider.answer = says(200, cut)
	k.till.holds = func(call *quota.Call) (int64, bool, error) { return call.Need, true, nil }
	_, hit := k.asks(asksChat)
	require.False(t, hit)
	k.till.holds = nil
	_, hit = k.asks(asksChat)
	require.False(t, hit, "a budget had cut it")
	_, hit = k.asks(asksChat)
	require.True(t, hit, "its caller's own limit had")

	before := len(k.provider.requests())
	k.provider.answer = streams(`{"choices":[{"index":0,"delta":{"content":"streamed"}}]}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, `[DONE]`)
	chunks, err := k.stream(strings.Replace(asksChat, `{`, `{"stream":true,`, 1))
	require.NoError(t, err)
	require.Contains(t, chunks, "streamed")
	require.Len(t, k.provider.requests(), before+1)
	answer, hit := k.asks(asksChat)
	require.True(t, hit)
	require.NotContains(t, answer, "streamed")
}

// TestDynamicModelsGiveWhatIsKept of the model that they choose, whichever name it was asked by.
func TestDynamicModelsGiveWhatIsKept(t *testing.T) {
	k := fleet(t, nil)
	k.dynamic(`{"strategy":"priority","targets":[{"modelKey":"a"},{"modelKey":"b"}]}`)
	k.keeps("a", 10)
	_, hit := k.asks(strings.Replace(asksAny, `"any"`, `"a"`, 1))
	require.False(t, hit)
	answer, hit := k.asks(asksAny)
	require.True(t, hit)
	require.Contains(t, answer, `"model":"a"`)
	require.Equal(t, []any{"a", "any", true}, []any{k.booked[1].Model, k.booked[1].Routing, k.booked[1].CacheHit})
}

// scriptedCaller calls one scripted model, of any project, without any network.
func scriptedCaller(t *testing.T, most int64, cache *directorypb.ModelCache, book func(inference.Usage)) *inference.Caller {
	t.Helper()
	config := inference.DefaultConfig()
	config.MaxCacheBytes = most
	providers := model.New(model.Config{})
	t.Cleanup(providers.Close)
	return inference.New(config, inference.Parts{Catalog: scriptedOnly{cache}, Providers: providers, Client: &http.Client{}, Book: book})
}

type scriptedOnly struct{ cache *directorypb.ModelCache }

func (s scriptedOnly) Model(project, key string) (*agentpb.Model, *directorypb.Model, bool) {
	return &agentpb.Model{Provider: agentpb.Provider_SCRIPTED, Script: &agentpb.Script{Text: "one two three"}},
		&directorypb.Model{Id: "mdl_" + key, ProjectId: project, Key: key, Category: "llm", Cache: s.cache}, true
}

func hits(t *testing.T, caller *inference.Caller, k *kit, body, project string) bool {
	t.Helper()
	call := k.call(body)
	call.ProjectID, call.Cache = project, &inference.Cache{}
	_, err := caller.Chat(context.Background(), call)
	require.NoError(t, err)
	return call.Cache.Hit
}

// TestKeptForAWhile: an answer is given again until its time is over, and only in its project.
func TestKeptForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller := scriptedCaller(t, 1<<20, &directorypb.ModelCache{Enabled: true, TtlSeconds: 60, Most: 10}, nil)
		k := &kit{t: t}
		require.False(t, hits(t, caller, k, asksChat, "p"))
		time.Sleep(59 * time.Second)
		require.True(t, hits(t, caller, k, asksChat, "p"))
		require.False(t, hits(t, caller, k, asksChat, "p2"), "another project")
		time.Sleep(time.Second)
		require.False(t, hits(t, caller, k, asksChat, "p"), "a hit makes it no younger")
		require.True(t, hits(t, caller, k, asksChat, "p"))
	})
}

// TestKeptAnswersAreBounded: by bytes in all and by a number for each model; those that were asked for last stay.
func TestKeptAnswersAreBounded(t *testing.T) {
	const most = 1 << 20
	caller := scriptedCaller(t, most, &directorypb.ModelCache{Enabled: true, TtlSeconds: 60, Most: 100_000}, nil)
	k := &kit{t: t}
	body := func(i int) string { return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%d"}]}`, i) }
	require.False(t, hits(t, caller, k, body(0), "p"))
	for i := 1; i < 10_000; i++ {
		require.False(t, hits(t, caller, k, body(i), "p"))
		require.LessOrEqual(t, caller.KeptBytes(), int64(most))
		if i%1000 == 0 {
			require.True(t, hits(t, caller, k, body(0), "p"))
		}
	}
	require.Greater(t, caller.KeptBytes(), int64(most*9/10))
	require.True(t, hits(t, caller, k, body(9_999), "p"))
	require.False(t, hits(t, caller, k, body(1), "p"))

	caller = scriptedCaller(t, most, &directorypb.ModelCache{Enabled: true, TtlSeconds: 60, Most: 2}, nil)
	for _, i := range []int{1, 2, 1, 3} {
		hits(t, caller, k, body(i), "p")
	}
	require.Equal(t, []bool{true, true, false}, []bool{hits(t, caller, k, body(3), "p"), hits(t, caller, k, body(1), "p"), hits(t, caller, k, body(2), "p")})

	caller = scriptedCaller(t, 0, &directorypb.ModelCache{Enabled: true, TtlSeconds: 60, Most: 2}, nil)
	require.Equal(t, []bool{false, false}, []bool{hits(t, caller, k, body(1), "p"), hits(t, caller, k, body(1), "p")})
	caller = scriptedCaller(t, 4096, &directorypb.ModelCache{Enabled: true, TtlSeconds: 60, Most: 2}, nil)
	require.Equal(t, []bool{false, false}, []bool{hits(t, caller, k, body(1), "p"), hits(t, caller, k, body(1), "p")}, "too large for its share")
	require.Zero(t, caller.KeptBytes())
}

// TestKeptAtOnce: callers at the same time are all answered, the same request among them.
func TestKeptAtOnce(t *testing.T) {
	var mu sync.Mutex
	var booked, kept int
	caller := scriptedCaller(t, 16<<10, &directorypb.ModelCache{Enabled: true, TtlSeconds: 60, Most: 5}, func(u inference.Usage) {
		mu.Lock()
		defer mu.Unlock()
		booked++
		if u.CacheHit {
			kept++
		}
	})
	var group sync.WaitGroup
	k := &kit{t: t}
	for i := range 32 {
		group.Go(func() {
			for j := range 20 {
				hits(t, caller, k, fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%d"}]}`, (i+j)%8), "p")
			}
		})
	}
	group.Wait()
	require.Equal(t, 640, booked)
	require.Positive(t, kept)
	require.LessOrEqual(t, caller.KeptBytes(), int64(16<<10))
}

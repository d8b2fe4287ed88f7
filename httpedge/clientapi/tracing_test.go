package clientapi_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"parley/actors/conversation"
	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/actors/core/quota"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/actors/trace"
	"parley/cmd/parley/node/spending"
	"parley/httpedge/clientapi"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/conversationpb"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
	"parley/proto/logpb"
	"parley/proto/nodepb"
	"parley/proto/tracepb"
)

// traced runs the real rules of traces in memory. It implements kit.Lists.
type traced struct {
	mu      sync.Mutex
	now     time.Time
	heads   map[string]proto.Message
	lists   map[string]map[string]int64 // scores of members
	counts  map[string]int64
	queries map[protoreflect.FullName]kit.Query
	items   map[string][]*logpb.Item
	talks   map[string]*nodepb.TurnsReply // conversations
	broken  error
}

// conversations are those of a project's list, by their age in ms.
func conversations() trace.Conversations {
	return trace.Conversations{At: func(score int64) int64 { return score }, List: func(q *tracepb.ThreadsQuery) string {
		if q.GetAnybody() {
			return "talks/" + q.GetProjectId()
		}
		return "talks/" + q.GetProjectId() + "/" + q.GetUserId()
	}}
}

func (w *traced) do(kind kit.Entity, id string, command proto.Message) (proto.Message, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return nil, w.broken
	}
	w.now = w.now.Add(time.Second)
	before := w.heads[id]
	decision, refused := kind.Machine.Decide(before, command, machine.Env{Now: w.now})
	if refused != nil {
		return nil, refused
	}
	after, into := kind.Machine.Evolve(before, decision.Events), &logpb.Append{}
	if decision.Delete {
		after = nil
	}
	kind.Machine.Project(before, after, decision.Events, into)
	for _, row := range into.GetListings() {
		if w.lists[row.GetList()] == nil {
			w.lists[row.GetList()] = map[string]int64{}
		}
		if w.lists[row.GetList()][row.GetMember()] = row.GetScore(); row.GetDelete() {
			delete(w.lists[row.GetList()], row.GetMember())
		}
	}
	w.items[id] = append(w.items[id], into.GetItems()...)
	for _, n := range into.GetCounts() {
		w.counts[n.GetName()] += n.GetDelta()
	}
	if w.heads[id] = after; decision.Delete {
		delete(w.heads, id)
	}
	return decision.Reply, nil
}

func (w *traced) read(ctx context.Context, query proto.Message) (proto.Message, error) {
	q := w.queries[query.ProtoReflect().Descriptor().FullName()]
	if q.FromLists != nil {
		return q.FromLists(ctx, w, query)
	}
	w.mu.Lock()
	head, found := w.heads[q.ID(query)]
	w.mu.Unlock()
	if !found {
		return nil, trace.New(conversations()).Missing()
	}
	encoded, err := proto.Marshal(head)
	if err != nil {
		return nil, err
	}
	if q.FromView != nil {
		return q.FromView(itemsOf{w.items[q.ID(query)]}, kit.Head{State: encoded}, query)
	}
	return q.FromHead(encoded, query)
}

// itemsOf are the rows of an entity, by their keys.
type itemsOf struct{ items []*logpb.Item }

// Head implements kit.View.
func (itemsOf) Head(string) (kit.Head, bool, error) { return kit.Head{}, false, nil }

// Item implements kit.View.
func (itemsOf) Item(string, uint8, []byte) ([]byte, bool, error) { return nil, false, nil }

// Events implements kit.View.
func (itemsOf) Events(string, uint64, func(uint64, []byte) bool) error { return nil }

// Items implements kit.View.
func (v itemsOf) Items(_ string, query kit.ItemQuery, visit func(key, value []byte) bool) error {
	for _, item := range v.items {
		if bytes.Compare(item.GetKey(), query.From) >= 0 && !visit(item.GetKey(), item.GetValue()) {
			break
		}
	}
	return nil
}

// Counts implements kit.Lists.
func (w *traced) Counts(_ context.Context, names ...string) (all []int64, _ error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		all = append(all, w.counts[name])
	}
	return all, nil
}

// Page implements kit.Lists.
func (w *traced) Page(_ context.Context, query kit.ListQuery) (rows []kit.Row, _ error) {
	for _, member := range slices.Sorted(maps.Keys(w.lists[query.List])) {
		rows = append(rows, kit.Row{Score: w.lists[query.List][member], Member: member})
	}
	return kit.Cut(kit.Merge(rows, query.Descending), query.Offset, query.Limit), nil
}

// Heads implements kit.Lists.
func (w *traced) Heads(_ context.Context, page []kit.Row) (heads [][]byte, _ error) {
	for _, row := range page {
		head, err := proto.Marshal(w.heads[row.Member])
		if err != nil {
			return nil, err
		}
		heads = append(heads, head)
	}
	return heads, nil
}

// Usage implements kit.Lists.
func (*traced) Usage(context.Context, *nodepb.UsageQuery) (*nodepb.UsageReply, error) {
	return nil, nil
} //nolint:nilnil // not asked

// Spread implements kit.Lists.
func (w *traced) Spread(_ context.Context, query *nodepb.SpreadQuery) (map[int64]int64, error) {
	return map[int64]int64{0: int64(len(w.lists[query.GetList()]))}, nil
}

// strictDoor refuses what it is told to.
type strictDoor struct {
	quota.Door

	refusal *quota.Refusal
	calls   []*quota.Call
}

// Guards implements quota.Door.
func (*strictDoor) Guards(string) bool { return true }

// Enter implements quota.Door.
func (d *strictDoor) Enter(_ context.Context, call *quota.Call) (quota.Pass, error) {
	d.calls = append(d.calls, call)
	if d.refusal != nil {
		return nil, d.refusal
	}
	return nil, nil //nolint:nilnil // nothing counts the call
}

type traceKit struct {
	*userKit

	world *traced
	door  *strictDoor
	ready bool
}

func serveTraces(t *testing.T) *traceKit {
	t.Helper()
	k := &traceKit{door: &strictDoor{}, ready: true, world: &traced{
		now: time.UnixMilli(1_700_000_000_000), heads: map[string]proto.Message{}, lists: map[string]map[string]int64{}, counts: map[string]int64{},
		queries: map[protoreflect.FullName]kit.Query{}, items: map[string][]*logpb.Item{},
	}}
	for _, q := range trace.New(conversations()).Queries {
		k.world.queries[q.Message] = q
	}
	k.userKit = serveClient(t, func(p *userKit, parts *clientapi.Parts) map[string]endpoint.Surface {
		entities := endpointtest.Entities{}
		endpointtest.On(entities, func(_ context.Context, c *tracepb.Command) (*tracepb.Reply, error) {
			return replyOf[*tracepb.Reply](k.world.do(trace.New(conversations()), c.GetId(), c))
		})
		endpointtest.On(entities, func(_ context.Context, c *tracepb.ThreadCommand) (*tracepb.ThreadReply, error) {
			return replyOf[*tracepb.ThreadReply](k.world.do(trace.NewThreads(), c.GetId(), c))
		})
		onRead[*tracepb.SessionReply, *tracepb.SessionQuery](entities, k.world)
		onRead[*tracepb.EventsReply, *tracepb.EventsQuery](entities, k.world)
		onRead[*tracepb.ThreadsReply, *tracepb.ThreadsQuery](entities, k.world)
		onRead[*tracepb.ThreadFound, *tracepb.ThreadQuery](entities, k.world)
		endpointtest.On(entities, func(_ context.Context, query *nodepb.TurnsQuery) (*nodepb.TurnsReply, error) {
			if talk := k.world.talks[query.GetId()]; talk != nil {
				return talk, nil
			}
			return nil, conversation.Missing()
		})
		parts.Entities, parts.IDs, parts.Door, parts.CanTrace = entities, new(endpointtest.IDs), k.door, func() bool { return k.ready }
		onRead[*tracepb.KeptReply, *tracepb.KeptQuery](entities, k.world)
		parts.Policies = spending.NewPolicies(p.records).Of
		sessions := &ledger{}
		sessions.open(t, entities, parts.Policies)
		parts.FileDoor = sessions
		return nil
	})
	return k
}

func replyOf[R proto.Message](message proto.Message, err error) (R, error) {
	reply, _ := message.(R)
	return reply, err
}

func onRead[R, Q proto.Message](entities endpointtest.Entities, world *traced) {
	endpointtest.On(entities, func(ctx context.Context, query Q) (R, error) { return replyOf[R](world.read(ctx, query)) })
}

// TestTracing: a session in pieces and as a whole, its thread, and what others see of it (document 3, section 12).
func TestTracing(t *testing.T) {
	k := serveTraces(t)
	token, other := k.mint("owner of default", "default", nil), k.mint("owner of other", "other", nil)
	const stream = "/tracing/sessions/stream/s1/"

	status, got := k.ask(token, "POST", stream+"start", `{"threadId":"talk","agent":{"name":"helper"},"startedAt":"2026-01-02T03:04:05Z"}`)
	require.Equal(t, []any{200, answer{"success": true, "sessionId": "s1", "status": "in_progress"}}, []any{status, got})
	event := `{"event":{"id":"e1","type":"llm_call","model":"m1","usage":{"input_tokens":10,"output_tokens":5}}}`
	for range 2 {
		status, got = k.ask(token, "POST", stream+"events", event)
		require.Equal(t, []any{200, answer{"success": true, "sessionId": "s1", "eventId": "e1", "totalEvents": 1.0}}, []any{status, got})
	}
	_, got = k.ask(token, "POST", stream+"events", `{"event":{"type":"tool_call","toolName":"search","actor":{"scope":"tool"}}}`)
	require.NotEmpty(t, got["eventId"])
	require.InDelta(t, 2, got["totalEvents"], 0)
	status, got = k.ask(token, "POST", stream+"end", `{"endedAt":"2026-01-02T03:04:07Z","summary":{"totalInputTokens":8,"totalOutputTokens":50,"totalCachedInputTokens":3}}`)
	require.Equal(t, []any{200, answer{"success": true, "sessionId": "s1", "status": "success", "durationMs": 2000.0, "totalEvents": 2.0}}, []any{status, got})

	status, got = k.ask(token, "POST", "/tracing/sessions",
		`{"sessionId":"s2","threadId":"talk","agent":{"name":"other"},"errors":[{"message":"no"}],"startedAt":"2026-01-02T03:05:00Z","durationMs":70,"summary":{"totalDurationMs":90},
		  "events":[{"id":"a","model":"m2","inputTokens":1},{"id":"a","inputTokens":1},{"id":"b"}]}`)
	require.Equal(t, []any{200, answer{"success": true, "sessionId": "s2", "eventsStored": 3.0}}, []any{status, got})
	k.ask(token, "POST", "/tracing/sessions", `{"sessionId":"alone","status":"done"}`)

	status, got = k.ask(token, "GET", "/tracing/threads", "")
	require.Equal(t, 200, status)
	require.InDelta(t, 2, got["total"], 0)
	threads, _ := got["threads"].([]any)
	require.Len(t, threads, 2)
	alone, _ := threads[0].(map[string]any)
	require.Equal(t, []any{"alone", 1.0, "done", []any{}}, []any{alone["threadId"], alone["sessionsCount"], alone["latestStatus"], alone["modelsUsed"]})
	talk := map[string]any{
		"threadId": "talk", "sessionsCount": 2.0, "agents": []any{"helper", "other"}, "statuses": []any{"error", "success"}, "latestStatus": "error",
		"startedAt": "2026-01-02T03:04:05.000Z", "endedAt": "2026-01-02T03:04:07.000Z", "totalEvents": 4.0, "totalInputTokens": 11.0, "totalOutputTokens": 50.0,
		"totalDurationMs": 2070.0, "modelsUsed": []any{"m1", "m2"},
	}
	require.Equal(t, talk, threads[1])
	_, got = k.ask(token, "GET", "/tracing/threads?limit=1&skip=1", "")
	require.Equal(t, answer{"threads": []any{talk}, "total": 2.0}, got)

	_, got = k.ask(token, "GET", "/tracing/threads/talk", "")
	require.Equal(t, []any{"error", 3.0, []any{"search"}}, []any{got["status"], got["totalCachedInputTokens"], got["toolsUsed"]})
	sessions, _ := got["sessions"].([]any)
	require.Len(t, sessions, 2)
	for at, want := range [][]any{{"s2", 70.0, 90.0}, {"s1", 2000.0, 2000.0}} {
		session, _ := sessions[at].(map[string]any)
		summary, _ := session["summary"].(map[string]any)
		require.Equal(t, want, []any{session["sessionId"], session["durationMs"], summary["totalDurationMs"]})
	}
	status, got = k.ask(token, "GET", "/tracing/threads/alone", "")
	require.Equal(t, []any{200, 1.0}, []any{status, got["sessionsCount"]})

	// Started again it keeps what it has.
	k.ask(token, "POST", stream+"start", `{"threadId":"another"}`)
	_, got = k.ask(token, "POST", stream+"events", event)
	require.InDelta(t, 2, got["totalEvents"], 0)
	_, got = k.ask(token, "GET", "/tracing/threads/talk", "")
	require.Equal(t, []any{51.0 - 1, nil}, []any{got["totalOutputTokens"], got["endedAt"]}, "one runs")
	k.refused(token, "GET /tracing/threads/another", "", 404, "Thread not found") // the first thread stays

	for _, path := range []string{"talk", "alone", "nothing"} {
		k.refused(other, "GET /tracing/threads/"+path, "", 404, "Thread not found")
	}
	k.refused(other, "POST "+stream+"events", event, 404, "Session not found")
	k.refused(other, "POST "+stream+"end", `{}`, 404, "Session not found")
	_, got = k.ask(other, "GET", "/tracing/threads", "")
	require.Equal(t, answer{"threads": []any{}, "total": 0.0}, got)
}

// TestTracingRefusals: what is refused, in the words of document 3, section 12.
func TestTracingRefusals(t *testing.T) {
	k := serveTraces(t)
	token := k.mint("owner of default", "default", nil)
	k.refused(token, "POST /tracing/sessions", `{"events":[]}`, 400, "sessionId is required")
	k.refused(token, "POST /tracing/sessions/stream/s/events", `{}`, 400, "event is required")
	k.refused(token, "POST /tracing/sessions", `{"sessionId":"a\u0000"}`, 400, "sessionId must not hold control characters")
	k.refused(token, "POST /tracing/sessions", `{"sessionId":"`+strings.Repeat("s", 257)+`"}`, 400, "sessionId must be at most 256 bytes long")
	k.ask(token, "POST", "/tracing/sessions/stream/s/start", `{}`)

	var events strings.Builder
	for i := range 10_001 {
		events.WriteString(cmp.Or(map[bool]string{true: ","}[i > 0], "") + fmt.Sprintf(`{"id":"%d"}`, i))
	}
	status, got := k.ask(token, "POST", "/tracing/sessions", `{"sessionId":"big","events":[`+events.String()+`]}`)
	require.Equal(t, []any{429, "A session has at most 10000 events"}, []any{status, got["error"]})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	status, _ = k.ask(token, "POST", "/tracing/sessions", `{"sessionId":"big","events":[`+strings.Repeat("{},", 3<<20)+`{}]}`)
	runtime.ReadMemStats(&after)
	require.Equal(t, 429, status, "three million events")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(128<<20), "they are not decoded")
	status, _ = k.ask(token, "POST", "/tracing/sessions", `{"sessionId":"`+strings.Repeat("s", 10<<20)+`"}`)
	require.Equal(t, 413, status)

	scoped := k.mint("owner of default", "default", map[string]string{"tracing": "read"})
	k.refused(scoped, "POST /tracing/sessions", `{"sessionId":"x"}`, 403, "Forbidden: tracing requires write permission")
	status, _ = k.ask(scoped, "GET", "/tracing/threads", "")
	require.Equal(t, 200, status)

	k.door.refusal = &quota.Refusal{Message: "Rate limit exceeded for requests perMinute (3/2)", RetryAfter: 7 * time.Second}
	status, header, got := k.askHeaders(token, "POST", "/tracing/sessions", `{"sessionId":"x"}`)
	require.Equal(t, []any{429, "Rate limit exceeded for requests perMinute (3/2)", "7"}, []any{status, got["error"], header.Get("Retry-After")})
	require.Equal(t, []string{"tracing", "default"}, []string{k.door.calls[0].Domain, k.door.calls[0].TenantID})
	k.door.refusal, k.world.broken = nil, failure.New(failurepb.Code_STORAGE_FULL, failure.TemporarilyUnavailable)
	status, _ = k.ask(token, "POST", "/tracing/sessions", `{"sessionId":"x"}`)
	require.Equal(t, 507, status, "nothing that was not stored is answered with 200")
	k.ready = false
	k.refused(token, "GET /tracing/threads", "", 503, "A node of the cluster is of an older release, which keeps no traces")
}

// TestTraceEvents: the events of a session as they were reported, page by page.
func TestTraceEvents(t *testing.T) {
	k := serveTraces(t)
	token, other := k.mint("owner of default", "default", nil), k.mint("owner of other", "other", nil)
	status, got := k.ask(token, "POST", "/tracing/sessions", `{"sessionId":"s","threadId":"talk","rootSpanId":"r","config":{"a":1},"errors":["no"],"events":[
		{"id":"a","type":"llm_call","label":"chat","sequence":7,"timestamp":"2026-01-02T03:04:05Z","model":"m1","inputTokens":3,"durationMs":20,"spanId":"x","parentSpanId":"r",
		 "actor":{"name":"n","role":"r","scope":"tool"},"sections":[{"label":"In","content":"<b>"}],"toolDetails":{"input":1},"metadata":{"k":"v"}},
		{"id":"b","status":"error","error":"broke"},{"id":"c"}]}`)
	require.Equal(t, 200, status, got)
	status, got = k.ask(token, "GET", "/tracing/sessions/s?limit=2", "")
	require.Equal(t, []any{200, "talk", "r", map[string]any{"a": 1.0}, []any{"no"}, false, true, 3.0},
		[]any{status, got["threadId"], got["rootSpanId"], got["config"], got["errors"], got["own"], got["hasMore"], got["totalEvents"]})
	events, _ := got["events"].([]any)
	require.Len(t, events, 2)
	require.Equal(t, map[string]any{
		"number": 1.0, "id": "a", "type": "llm_call", "label": "chat", "sequence": 7.0, "timestamp": "2026-01-02T03:04:05.000Z", "status": "", "error": "",
		"modelNames": []any{"m1"}, "traceId": nil, "spanId": "x", "parentSpanId": "r", "toolName": "", "toolExecutionId": "", "inputTokens": 3.0, "outputTokens": 0.0,
		"cachedInputTokens": 0.0, "totalTokens": 3.0, "durationMs": 20.0, "bytesIn": 0.0, "bytesOut": 0.0, "actor": map[string]any{"name": "n", "role": "r", "scope": "tool"},
		"sections": []any{map[string]any{"label": "In", "content": "<b>"}}, "toolDetails": map[string]any{"input": 1.0}, "metadata": map[string]any{"k": "v"},
	}, events[0])
	_, got = k.ask(token, "GET", "/tracing/sessions/s?limit=2&after=2", "")
	last, _ := got["events"].([]any)[0].(map[string]any)
	require.Equal(t, []any{"c", 3.0, nil, false}, []any{last["id"], last["number"], last["timestamp"], got["hasMore"]})
	_, got = k.ask(token, "GET", "/tracing/sessions/s?after=3", "")
	require.Equal(t, []any{[]any{}, false}, []any{got["events"], got["hasMore"]})
	k.refused(other, "GET /tracing/sessions/s", "", 404, "Session not found")

	large := strings.Repeat(fmt.Sprintf(`{"sections":%q},`, strings.Repeat("x", 60<<10)), 40)
	status, got = k.ask(token, "POST", "/tracing/sessions", `{"sessionId":"large","events":[`+strings.TrimSuffix(large, ",")+`]}`)
	require.Equal(t, 200, status, got)
	_, got = k.ask(token, "GET", "/tracing/sessions/large", "")
	require.Equal(t, []any{true, 17}, []any{got["hasMore"], len(got["events"].([]any))}, "a page is of 1 MiB at most") //nolint:errcheck,forcetypeassert // a test
}

// talk is a conversation of ann's with two ended turns, the newer one failed.
func talk(user string) *nodepb.TurnsReply {
	usage := &conversationpb.Usage{InputTokens: 30, OutputTokens: 7, CachedInputTokens: 10, ModelCalls: 2, Model: "large"}
	return &nodepb.TurnsReply{
		State: &conversationpb.State{Id: "conv_1", TenantId: "default", ProjectId: "default", UserId: user, AgentName: "Helper", Source: conversationpb.SourceSession},
		Total: 2,
		Turns: []*nodepb.EndedTurn{
			{Run: &conversationpb.Run{Id: "run_2", StartedAt: 5000, EndedAt: 5500, Error: &conversationpb.TurnError{Code: "provider_error"}}},
			{Run: &conversationpb.Run{Id: "run_1", StartedAt: 1000, EndedAt: 3000, Usage: usage}, Tools: []string{"search"}, ToolCalls: 3},
		},
	}
}

// TestOwnRunsAreTraces: a conversation is a thread of which each run is a session, and stands among those that were reported (document 3, 7.10).
func TestOwnRunsAreTraces(t *testing.T) {
	k := serveTraces(t)
	owner, other := k.mint("owner of default", "default", nil), k.mint("owner of other", "other", nil)
	k.put(identity.Users, "ann", &directorypb.User{Id: "ann", TenantId: "default", ProjectIds: []string{"default"}, Role: "user"})
	k.put(identity.Users, "bob", &directorypb.User{Id: "bob", TenantId: "default", ProjectIds: []string{"default"}, Role: "user"})
	ann, bob := k.mint("ann", "default", nil), k.mint("bob", "default", nil)
	k.world.talks = map[string]*nodepb.TurnsReply{"conv_1": talk("ann"), "conv_2": {State: &conversationpb.State{
		Id: "conv_2", TenantId: "default", ProjectId: "default", UserId: "ann", Source: conversationpb.SourceSession,
	}}}
	newer := k.world.now.Add(time.Hour).UnixMilli()
	k.world.lists["talks/default"] = map[string]int64{"conv_1": newer, "conv_2": newer + 1, "conv_gone": newer + 2}
	k.world.lists["talks/default/ann"] = map[string]int64{"conv_1": newer, "conv_2": newer + 1}
	status, got := k.ask(owner, "POST", "/tracing/sessions", `{"sessionId":"s1","threadId":"reported"}`)
	require.Equal(t, 200, status, got)

	row := answer{
		"threadId": "conv_1", "sessionsCount": 2.0, "agents": []any{"Helper"}, "statuses": []any{"error", "success"}, "latestStatus": "error",
		"startedAt": "1970-01-01T00:00:01.000Z", "endedAt": "1970-01-01T00:00:05.500Z", "totalEvents": 5.0, "totalInputTokens": 30.0, "totalOutputTokens": 7.0,
		"totalDurationMs": 2500.0, "modelsUsed": []any{"large"},
	}
	names := func(token, query string) (all []any) {
		_, listed := k.ask(token, "GET", "/tracing/threads"+query, "")
		for _, one := range listed["threads"].([]any) { //nolint:errcheck,forcetypeassert // a test
			all = append(all, one.(map[string]any)["threadId"]) //nolint:errcheck,forcetypeassert // a test
		}
		return all
	}
	_, got = k.ask(owner, "GET", "/tracing/threads", "")
	require.Equal(t, []any{row, 4.0}, []any{got["threads"].([]any)[0], got["total"]}) //nolint:errcheck,forcetypeassert // a test
	require.Equal(t, []any{"conv_1", "reported"}, names(owner, ""), "nothing ran in the others, or they are gone")
	require.Equal(t, []any{"reported"}, names(owner, "?limit=1&skip=3"))
	require.Equal(t, []any{"conv_1", "reported"}, names(ann, ""))
	require.Equal(t, []any{"reported"}, names(bob, ""), "others' conversations are not bob's")
	require.Empty(t, names(other, ""))

	_, got = k.ask(ann, "GET", "/tracing/threads/conv_1", "")
	require.Equal(t, []any{"error", 10.0, []any{"search"}}, []any{got["status"], got["totalCachedInputTokens"], got["toolsUsed"]})
	first := got["sessions"].([]any)[1].(map[string]any) //nolint:errcheck,forcetypeassert // a test
	require.Equal(t, []any{"run_1", "conv_1", "success", 2000.0, 5.0, map[string]any{"name": "Helper", "version": "", "model": "large"}},
		[]any{first["sessionId"], first["threadId"], first["status"], first["durationMs"], first["totalEvents"], first["agent"]})
	require.Equal(t, map[string]any{"llm_call": 2.0, "tool_call": 3.0}, first["summary"].(map[string]any)["eventCounts"]) //nolint:errcheck,forcetypeassert // a test
	for _, token := range []string{bob, other} {
		k.refused(token, "GET /tracing/threads/conv_1", "", 404, "Thread not found")
	}
	k.refused(ann, "GET /tracing/threads/conv_2", "", 404, "Thread not found")

	_, got = k.ask(ann, "POST", "/tracing/sessions", `{"sessionId":"s2","threadId":"conv_1"}`)
	require.Equal(t, true, got["success"])
	_, got = k.ask(ann, "GET", "/tracing/threads/conv_1", "")
	require.Equal(t, 3.0, got["sessionsCount"], "what its client reports of a conversation is in the same thread") //nolint:testifylint // exactly

	k.world.talks["conv_1"].State.Lease = &conversationpb.Lease{RunId: "run_3", StartedAt: 9000}
	_, got = k.ask(ann, "GET", "/tracing/threads/conv_1", "")
	require.Equal(t, []any{4.0, nil, "in_progress"}, []any{got["sessionsCount"], got["endedAt"], got["sessions"].([]any)[0].(map[string]any)["status"]}) //nolint:errcheck,forcetypeassert // a test
	k.world.talks["conv_1"].State.Lease, k.world.talks["conv_1"].State.Paused = nil, &conversationpb.Lease{RunId: "run_2", StartedAt: 5000}
	_, got = k.ask(ann, "GET", "/tracing/threads/conv_1", "")
	require.Equal(t, 3.0, got["sessionsCount"], "a turn that its budget cut has ended, and may go on") //nolint:testifylint // exactly
}

package convapi_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/failure"
	"parley/httpedge/convapi"
	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/runpb"
)

func TestAgents(t *testing.T) {
	k := serve(t)
	list := k.do("GET", "/agents", "")
	require.Equal(t, 200, list.status)
	require.Equal(t, "assistant", list.at(t, "agents", 0, "id"))
	require.Equal(t, "plain", list.at(t, "agents", 2, "id"))

	r := k.do("GET", "/agents/assistant", "")
	require.Equal(t, 200, r.status)
	require.Equal(t, true, r.at(t, "capabilities", "askUser"))
	require.Equal(t, []any{"image/png"}, r.at(t, "capabilities", "attachments", "allowedMimeTypes"))
	require.Equal(t, "Hi", r.at(t, "metadata", "welcomeText"))
	require.Equal(t, true, r.at(t, "metadata", "enableFileUpload"), "computed keys win")
	require.Equal(t, []any{"image/png"}, r.at(t, "metadata", "allowedFileTypes"))
	require.Equal(t, true, r.at(t, "metadata", "experience", "history", "bulkDelete"))
	require.Equal(t, []any{"md"}, r.at(t, "metadata", "experience", "export", "formats"))
	require.Equal(t, true, r.at(t, "priced"))

	plain := k.do("GET", "/agents/plain", "")
	require.NotContains(t, plain.body, "priced")
	require.Equal(t, false, plain.at(t, "metadata", "enableFileUpload"))
	require.Equal(t, true, plain.at(t, "metadata", "experience", "history", "rename"))
	k.refused(404, "NOT_FOUND", "GET", "/agents/nobody", "")
}

func TestCreateConversation(t *testing.T) {
	k := serve(t)
	k.runtime.OnAsk = func(_ context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
		create := command.GetCreate()
		return stateReply(&conversationpb.State{
			Id: command.GetConversationId(), AgentId: create.GetAgent().GetId(), AgentName: create.GetAgent().GetName(),
			UserId: command.GetCaller().GetUserId(), Title: create.GetTitle(), Metadata: create.GetMetadata(),
			Budget: create.GetBudget(), CreatedAt: 1_700_000_000_000, UpdatedAt: 1_700_000_000_000,
		}), nil
	}
	r := k.do("POST", "/conversations", `{"agentId":"assistant","userId":"ann","title":"Plans",
		"metadata":{ "a" : [1, 2] }, "budget":{"maxCostUsd":0.25,"onReach":"stop"}, "unknown":{"x":1}}`)
	require.Equal(t, 201, r.status, "%s", r.raw)
	require.Equal(t, "assistant", r.at(t, "conversation", "agentId"))
	require.Equal(t, "ann", r.at(t, "conversation", "userId"))
	require.InDelta(t, 0.25, r.at(t, "conversation", "budget", "maxCostUsd"), 0)
	require.Equal(t, "2023-11-14T22:13:20.000Z", r.at(t, "conversation", "createdAt"))
	require.Equal(t, "idle", r.at(t, "conversation", "runtime", "status"))
	require.NotContains(t, r.at(t, "conversation", "runtime"), "stopReason", "absent values are left out")

	command := k.last()
	require.NotContains(t, string(command.GetCreate().GetMetadata()), " ", "stored on one line")
	require.JSONEq(t, `{"a":[1,2]}`, string(command.GetCreate().GetMetadata()))
	require.True(t, strings.HasPrefix(command.GetConversationId(), "conv_"))
	require.NotEmpty(t, command.GetCommandId())
	require.Equal(t, "t", command.GetCaller().GetTenantId())

	bare := k.do("POST", "/conversations", `{"agentId":"assistant","title":null,"metadata":null,"budget":null}`)
	require.Equal(t, 201, bare.status)
	require.Contains(t, bare.at(t, "conversation"), "budget", "budget is null, not absent")
	require.NotContains(t, bare.at(t, "conversation"), "title")
	require.NotContains(t, bare.at(t, "conversation"), "userId")
}

func TestCreateConversationRefuses(t *testing.T) {
	k := serve(t)
	k.refuse(errors.New("must not be asked"))
	cases := map[string]struct {
		status int
		code   string
		body   string
	}{
		"no_body":            {400, "VALIDATION_ERROR", ""},
		"no_agent":           {400, "VALIDATION_ERROR", `{}`},
		"not_json":           {400, "VALIDATION_ERROR", `{"agentId":`},
		"trailing_text":      {400, "VALIDATION_ERROR", `{"agentId":"assistant"} x`},
		"array":              {400, "VALIDATION_ERROR", `[]`},
		"text":               {400, "VALIDATION_ERROR", `"assistant"`},
		"agent_is_a_number":  {400, "VALIDATION_ERROR", `{"agentId":7}`},
		"title_is_an_object": {400, "VALIDATION_ERROR", `{"agentId":"assistant","title":{}}`},
		"metadata_is_a_list": {400, "VALIDATION_ERROR", `{"agentId":"assistant","metadata":[1]}`},
		"bad_utf8":           {400, "VALIDATION_ERROR", "{\"agentId\":\"assistant\",\"title\":\"\xff\"}"},
		"nan":                {400, "VALIDATION_ERROR", `{"agentId":"assistant","budget":{"maxCostUsd":NaN}}`},
		"too_deep":           {400, "VALIDATION_ERROR", `{"metadata":` + strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 71)},
		"number_of_no_use":   {400, "VALIDATION_ERROR", `{"agentId":"assistant","metadata":{"a":[-1e400]}}`},
		"endless_digits":     {400, "VALIDATION_ERROR", `{"agentId":"assistant","metadata":{"a":` + strings.Repeat("9", 310) + `}}`},
		"unknown_agent":      {404, "NOT_FOUND", `{"agentId":"nobody"}`},
		"budget_is_text":     {400, "invalid_budget", `{"agentId":"assistant","budget":"lots"}`},
		"budget_negative":    {400, "invalid_budget", `{"agentId":"assistant","budget":{"maxCostUsd":-1}}`},
		"budget_huge":        {400, "invalid_budget", `{"agentId":"assistant","budget":{"maxCostUsd":1e999}}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inner := *k
			inner.t = t
			inner.refused(c.status, c.code, "POST", "/conversations", c.body)
		})
	}
	require.Empty(t, k.runtime.Commands())
	r := k.refused(400, "VALIDATION_ERROR", "POST", "/conversations", `{"agentId":7}`)
	require.Equal(t, "agentId must be a string", r.at(t, "error"))
}

func TestIdentityWinsOverUserID(t *testing.T) {
	k := serve(t, withAuth)
	k.reply(stateReply(endpointtest.Talk(conv1, "ann", 0).State))
	r := k.do("POST", "/conversations", `{"agentId":"assistant","userId":"bob"}`, "Authorization", "Bearer ann")
	require.Equal(t, 201, r.status)
	require.Equal(t, "ann", k.last().GetCaller().GetUserId())
	require.True(t, k.last().GetCaller().GetIdentified())

	k.store.Put(endpointtest.Talk(conv1, "ann", 0))
	k.store.Put(endpointtest.Talk(conv2, "bob", 0))
	list := k.do("GET", "/conversations?userId=bob", "", "Authorization", "Bearer ann")
	require.InDelta(t, 1, list.at(t, "total"), 0)
	require.Equal(t, conv1, list.at(t, "conversations", 0, "id"))
}

func TestOneUserNeverSeesAnothers(t *testing.T) {
	k := serve(t, withAuth)
	k.store.Put(endpointtest.Talk(conv1, "ann", 4))
	k.refuse(fail(failurepb.Code_FORBIDDEN, "Access denied")) // as the rules answer
	bob := []string{"Authorization", "Bearer bob"}
	for _, request := range [][3]string{
		{"GET", "/conversations/" + conv1, ""},
		{"GET", "/conversations/" + conv1 + "?before=msg_unknown", ""},
		{"PATCH", "/conversations/" + conv1, `{"title":"x"}`},
		{"DELETE", "/conversations/" + conv1, ""},
		{"GET", "/conversations/" + conv1 + "/messages", ""},
		{"POST", "/conversations/" + conv1 + "/messages", `{"message":"hi"}`},
		{"POST", "/conversations/" + conv1 + "/messages", `{"message":"hi","fileIds":["file_1"]}`},
		{"POST", "/conversations/" + conv1 + "/cancel", ""},
		{"GET", "/conversations/" + conv1 + "/events", ""},
		{"GET", "/conversations/" + conv1 + "/events/stream", ""},
		{"POST", "/conversations/" + conv1 + "/messages/msg_000000000000000000002/regenerate", ""},
		{"POST", "/conversations/" + conv1 + "/messages/msg_000000000000000000001/edit", `{"content":"x"}`},
		{"POST", "/conversations/" + conv1 + "/messages/msg_unknown/edit", `{"content":"x","stream":true}`},
		{"POST", "/conversations/" + conv1 + "/messages/msg_000000000000000000002/feedback", `{"rating":"up"}`},
		{"POST", "/conversations/" + conv1 + "/actions/act_1", `{"resolution":{"type":"client_tool","output":1}}`},
		{"POST", "/conversations/" + conv1 + "/continue", ""},
		{"GET", "/conversations/" + conv1 + "/remembered-tools", ""},
		{"DELETE", "/conversations/" + conv1 + "/remembered-tools/search", ""},
	} {
		r := k.refused(403, "FORBIDDEN", request[0], request[1], request[2], bob...)
		require.Equal(t, "Access denied", r.at(t, "error"))
	}
	r := k.refused(401, "AUTH_REQUIRED", "GET", "/conversations/"+conv1, "")
	require.Equal(t, "Bearer", r.header.Get("WWW-Authenticate"))
}

func TestListConversations(t *testing.T) {
	k := serve(t)
	for i, id := range []string{conv1, conv2, "conv_000000000000000000003"} {
		talk := endpointtest.Talk(id, "ann", 0)
		talk.State.CreatedAt += int64(i)
		talk.State.UpdatedAt -= int64(i)
		talk.State.Pinned = i == 0
		k.store.Put(talk)
	}
	ids := func(query string) []string {
		r := k.do("GET", "/conversations?userId=ann"+query, "")
		require.Equal(t, 200, r.status, "%s", r.raw)
		var found []string
		list, ok := r.at(t, "conversations").([]any)
		require.True(t, ok)
		for i := range list {
			id, ok := r.at(t, "conversations", i, "id").(string)
			require.True(t, ok)
			found = append(found, id[len(id)-1:])
		}
		return found
	}
	require.Equal(t, []string{"1", "3", "2"}, ids(""), "pinned first, then newest")
	require.Equal(t, []string{"3", "2", "1"}, ids("&pinned=none"))
	require.Equal(t, []string{"1", "2", "3"}, ids("&pinned=none&order=asc"))
	require.Equal(t, []string{"1", "2", "3"}, ids("&pinned=none&orderBy=updatedAt"))
	require.Equal(t, []string{"3", "2"}, ids("&limit=2&offset=1"))
	require.Empty(t, ids("&agentId=strict"))

	r := k.do("GET", "/conversations?userId=ann&limit=2", "")
	require.Equal(t, true, r.at(t, "hasMore"))
	require.InDelta(t, 3, r.at(t, "total"), 0)
	for _, bad := range []string{"limit=0", "limit=-3", "limit=x", "limit=1e3", "offset=-1", "offset=x"} {
		r = k.do("GET", "/conversations?userId=ann&"+bad, "")
		require.Equal(t, 200, r.status)
		require.InDelta(t, 20, r.at(t, "limit"), 0, bad)
		require.InDelta(t, 0, r.at(t, "offset"), 0, bad)
	}
	for _, huge := range []string{"101", "2147483648", "9223372036854775807", "99999999999999999999"} {
		r = k.do("GET", "/conversations?userId=ann&limit="+huge+"&offset=0", "")
		require.Equal(t, 200, r.status)
		require.InDelta(t, 100, r.at(t, "limit"), 0, huge)
		if huge != "101" {
			r = k.do("GET", "/conversations?userId=ann&offset="+huge, "")
			require.Equal(t, 200, r.status)
			require.InDelta(t, math.MaxInt32, r.at(t, "offset"), 0, huge)
		}
	}
	require.InDelta(t, 100, k.do("GET", "/conversations?userId=ann&limit=5000", "").at(t, "limit"), 0)
	k.refused(400, "VALIDATION_ERROR", "GET", "/conversations?userId=ann&order=up", "")
	k.refused(400, "VALIDATION_ERROR", "GET", "/conversations?userId=%ff", "")
	k.refused(401, "identity_required", "GET", "/conversations", "")

	open := serve(t, withConfig(func(c *convapi.Config) { c.AllowAnonymousList = true }))
	open.store.Put(endpointtest.Talk(conv1, "ann", 0))
	open.store.Put(endpointtest.Talk(conv2, "", 0))
	r = open.do("GET", "/conversations", "")
	require.Equal(t, 200, r.status)
	require.InDelta(t, 1, r.at(t, "total"), 0, "only those without an owner")
}

func TestGetConversation(t *testing.T) {
	k := serve(t)
	talk := endpointtest.Talk(conv1, "ann", 10)
	talk.State.Pending = []*conversationpb.PendingAction{{Id: "act_1", Kind: "tool_approval", ExpiresAt: 1_700_000_000_000}}
	talk.State.Status = conversationpb.Status_WAITING
	k.store.Put(talk)

	r := k.do("GET", "/conversations/"+conv1, "")
	require.Equal(t, 200, r.status)
	require.Equal(t, "message 1", r.at(t, "messages", 0, "content"), "oldest first")
	require.Equal(t, conv1, r.at(t, "messages", 0, "conversationId"))
	require.NotContains(t, r.at(t, "messages", 0), "status")
	require.Equal(t, "completed", r.at(t, "messages", 1, "status"))
	require.Equal(t, "end_turn", r.at(t, "messages", 1, "metadata", "stopReason"))
	require.Equal(t, map[string]any{"limit": 100.0, "order": "asc", "hasMoreBefore": false, "hasMoreAfter": false},
		r.at(t, "messagesPage"))
	require.Equal(t, "act_1", r.at(t, "pendingActions", 0, "id"))
	require.Equal(t, []any{"act_1"}, r.at(t, "conversation", "runtime", "pendingActionIds"))
	require.Equal(t, "waiting", r.at(t, "conversation", "runtime", "status"))

	newest := k.do("GET", "/conversations/"+conv1+"?limit=3", "")
	require.Equal(t, "message 8", newest.at(t, "messages", 0, "content"), "the newest page")
	require.Equal(t, true, newest.at(t, "messagesPage", "hasMoreBefore"))
	id := talk.Messages[7].GetId()
	before := k.do("GET", "/conversations/"+conv1+"?limit=2&before="+id, "")
	require.Equal(t, "message 6", before.at(t, "messages", 0, "content"))
	after := k.do("GET", "/conversations/"+conv1+"?limit=2&order=desc&after="+id, "")
	require.Equal(t, "message 10", after.at(t, "messages", 0, "content"))
	require.Equal(t, "desc", after.at(t, "messagesPage", "order"))

	k.refused(400, "VALIDATION_ERROR", "GET", "/conversations/"+conv1+"?before=a&after=b", "")
	k.refused(404, "NOT_FOUND", "GET", "/conversations/"+conv1+"?before=msg_unknown", "")
	k.refused(404, "NOT_FOUND", "GET", "/conversations/"+conv1+"?after=%2e%2e%2f", "")
	k.refused(404, "NOT_FOUND", "GET", "/conversations/"+gone, "")
	k.refused(404, "NOT_FOUND", "GET", "/conversations/..%2f..%2fetc", "")
	k.refused(400, "VALIDATION_ERROR", "GET", "/conversations/%00", "")
	k.refused(400, "VALIDATION_ERROR", "GET", "/conversations/"+conv1+"%0a", "")
	k.refused(400, "VALIDATION_ERROR", "GET", "/conversations/%ff", "")
	k.refused(404, "NOT_FOUND", "GET", "/conversations/"+strings.Repeat("x", 1000), "")
	k.refused(414, "path_too_long", "GET", "/conversations/"+strings.Repeat("x", 3000), "")
}

func TestUpdateConversation(t *testing.T) {
	k := serve(t)
	talk := endpointtest.Talk(conv1, "ann", 0)
	k.store.Put(talk)
	k.reply(stateReply(talk.State))
	at := "/conversations/" + conv1

	r := k.do("PATCH", at, `{"title":" New ","pinned":true,"metadata":{"b": 2},"budget":{"maxCostUsd":2}}`)
	require.Equal(t, 200, r.status, "%s", r.raw)
	require.Equal(t, conv1, r.at(t, "id"), "the bare record")
	patch := k.last().GetUpdate().GetPatch()
	require.Equal(t, " New ", patch.GetTitle(), "trimming is the rules' business")
	require.True(t, patch.GetPinned())
	require.Equal(t, []byte(`{"b":2}`), patch.GetMetadata())
	require.EqualValues(t, 2_000_000_000, patch.GetBudget().GetMaxCostNanoUsd())
	require.Equal(t, "assistant", k.last().GetUpdate().GetAgent().GetId())

	k.do("PATCH", at, `{"title":null,"budget":null}`)
	patch = k.last().GetUpdate().GetPatch()
	require.NotNil(t, patch.Title)
	require.Empty(t, patch.GetTitle())
	require.True(t, patch.GetRemoveBudget())
	require.Nil(t, patch.Pinned)
	require.Nil(t, patch.Metadata)

	asked := len(k.runtime.Commands())
	k.refused(400, "VALIDATION_ERROR", "PATCH", at, `{"title":5}`)
	require.Equal(t, "title must be a string", k.do("PATCH", at, `{"title":5}`).at(t, "error"))
	k.refused(400, "VALIDATION_ERROR", "PATCH", at, `{"pinned":"yes"}`)
	k.refused(400, "VALIDATION_ERROR", "PATCH", at, `{"pinned":null}`)
	k.refused(400, "VALIDATION_ERROR", "PATCH", at, `{"metadata":null}`)
	k.refused(400, "VALIDATION_ERROR", "PATCH", at, `{"metadata":"x"}`)
	k.refused(400, "invalid_budget", "PATCH", at, `{"budget":{}}`)
	k.refused(404, "NOT_FOUND", "PATCH", "/conversations/"+gone, `{}`)
	require.Len(t, k.runtime.Commands(), asked)
}

func TestDeleteConversation(t *testing.T) {
	k := serve(t)
	k.reply(&conversationpb.Reply{Body: &conversationpb.Reply_Deleted{Deleted: &conversationpb.Deleted{}}})
	r := k.do("DELETE", "/conversations/"+conv1, "")
	require.Equal(t, 204, r.status)
	require.Empty(t, r.raw)
	require.Empty(t, r.header.Get("Content-Type"))
	require.False(t, k.last().GetDelete().GetOnlyIdle())
	k.refuse(failure.New(failurepb.Code_NOT_FOUND, failure.ConversationNotFound))
	k.refused(404, "NOT_FOUND", "DELETE", "/conversations/"+gone, "")
}

func TestBulkDelete(t *testing.T) {
	k := serve(t, withAuth)
	idle, busy, strict, broken := endpointtest.Talk(conv1, "ann", 0), endpointtest.Talk(conv2, "ann", 0),
		endpointtest.Talk("conv_000000000000000000003", "ann", 0), endpointtest.Talk("conv_000000000000000000004", "ann", 0)
	strict.State.AgentId = "strict"
	bobs := endpointtest.Talk("conv_000000000000000000005", "bob", 0)
	for _, talk := range []*endpointtest.Conversation{idle, busy, strict, broken, bobs} {
		k.store.Put(talk)
	}
	k.runtime.OnAsk = func(_ context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
		switch command.GetConversationId() {
		case conv2:
			return nil, fail(failurepb.Code_CONVERSATION_BUSY, "a turn is running")
		case broken.State.GetId():
			return nil, errors.New("disk on fire")
		}
		return &conversationpb.Reply{Body: &conversationpb.Reply_Deleted{Deleted: &conversationpb.Deleted{}}}, nil
	}
	ids := []string{conv1, conv2, conv1, strict.State.GetId(), broken.State.GetId(), bobs.State.GetId(), gone, "../x"}
	ann := []string{"Authorization", "Bearer ann"}
	r := k.do("POST", "/conversations/bulk-delete", `{"ids":["`+strings.Join(ids, `","`)+`"]}`, ann...)
	require.Equal(t, 200, r.status, "%s", r.raw)
	require.InDelta(t, 1, r.at(t, "deleted"), 0)
	var statuses []any
	for i := range 7 {
		statuses = append(statuses, r.at(t, "results", i, "status"))
	}
	require.Equal(t, []any{"deleted", "busy", "error", "error", "not_found", "not_found", "not_found"}, statuses)
	require.NotContains(t, string(r.raw), "fire", "faults stay in the log")
	require.True(t, k.runtime.Commands()[0].GetDelete().GetOnlyIdle())

	many := `{"ids":["` + strings.Repeat(`a","`, 100) + `b"]}`
	require.Equal(t, 200, k.do("POST", "/conversations/bulk-delete", many, ann...).status, "duplicates count once")
	for _, body := range []string{`{}`, `{"ids":[]}`, `{"ids":null}`, `{"ids":"x"}`, `{"ids":[1]}`, `{"ids":[["x"]]}`, `{"ids":["a",null]}`, `{"ids":["","a"]}`} {
		k.refused(400, "VALIDATION_ERROR", "POST", "/conversations/bulk-delete", body, ann...)
	}
	small := serve(t, withConfig(func(c *convapi.Config) { c.MaxBulkDelete = 2 }))
	small.refused(400, "VALIDATION_ERROR", "POST", "/conversations/bulk-delete", `{"ids":["a","b","c"]}`)
}

func TestCancel(t *testing.T) {
	k := serve(t)
	state := endpointtest.Talk(conv1, "ann", 2).State
	at := "/conversations/" + conv1 + "/cancel"
	answer := func(c *conversationpb.Cancelled) *response {
		c.State = state
		k.reply(&conversationpb.Reply{Body: &conversationpb.Reply_Cancelled{Cancelled: c}})
		return k.do("POST", at, "")
	}
	nothing := answer(&conversationpb.Cancelled{Settled: true})
	require.Equal(t, 200, nothing.status)
	require.JSONEq(t, `{"cancelled":false,"settled":true,"runtime":{"status":"idle","lastEventSeq":2,"pendingActionIds":[]}}`,
		string(nothing.raw))
	require.EqualValues(t, 2000, k.last().GetCancel().GetSettleWaitMs())

	settled := answer(&conversationpb.Cancelled{Cancelled: true, Settled: true, RunId: "run_1", CancelledActionIds: []string{"act_1"}})
	require.Equal(t, 200, settled.status)
	require.Equal(t, "cancelled", settled.at(t, "stopReason"))
	require.Equal(t, []any{"act_1"}, settled.at(t, "cancelledActionIds"))

	winding := answer(&conversationpb.Cancelled{Cancelled: true, RunId: "run_1"})
	require.Equal(t, http.StatusAccepted, winding.status)
	require.Equal(t, false, winding.at(t, "settled"))
	require.NotContains(t, winding.body, "stopReason", "not known yet")
}

// oneRun is a run that ends when it is cancelled, after it was waited for.
type oneRun struct {
	state  *runpb.State
	over   runpb.Status // what it ends in
	refuse error
}

func (r *oneRun) ask(_ context.Context, command *runpb.Command) (*runpb.Reply, error) {
	if command.GetAwait() != nil {
		r.state.Status, r.state.EndedAt = r.over, 1
	}
	return &runpb.Reply{Run: r.state}, r.refuse
}

// A run that is still in line would begin its turn yet: cancelling the conversation cancels it.
func TestCancelOfAQueuedRun(t *testing.T) {
	run := &oneRun{}
	k := serve(t)
	endpointtest.On(k.entities, run.ask)
	state := endpointtest.Talk(conv1, "ann", 2).State
	state.BackgroundRun = "run_9"
	k.store.Put(endpointtest.Talk(conv1, "ann", 2))
	cancel := func(now, over runpb.Status, refuse error) *response {
		run.state, run.over, run.refuse = &runpb.State{Id: "run_9", Status: now}, over, refuse
		k.reply(&conversationpb.Reply{Body: &conversationpb.Reply_Cancelled{Cancelled: &conversationpb.Cancelled{Settled: true, State: state}}})
		return k.do("POST", "/conversations/"+conv1+"/cancel", "")
	}
	told := cancel(runpb.Status_QUEUED, runpb.Status_CANCELED, nil)
	require.Equal(t, 200, told.status, told.body)
	require.Equal(t, []any{true, true, "run_9", "cancelled"},
		[]any{told.at(t, "cancelled"), told.at(t, "settled"), told.at(t, "runId"), told.at(t, "stopReason")})
	told = cancel(runpb.Status_RUNNING, runpb.Status_SUCCEEDED, nil)
	require.Equal(t, false, told.at(t, "cancelled"), "it was faster")
	told = cancel(runpb.Status_QUEUED, runpb.Status_CANCELED, failure.Verbatim(failurepb.Code_RUN_NOT_FOUND, "Run not found"))
	require.Equal(t, []any{false, true}, []any{told.at(t, "cancelled"), told.at(t, "settled")})
}

func TestFailuresOfTheRuntime(t *testing.T) {
	k := serve(t)
	k.invents = true
	at := "/conversations/" + conv1 + "/cancel"
	k.refuse(fail(failurepb.Code_UNAVAILABLE, "no leader"))
	require.Equal(t, "1", k.refused(503, "unavailable", "POST", at, "").header.Get("Retry-After"))
	k.refuse(fail(failurepb.Code_STORAGE_FULL, "the disk is full"))
	require.Equal(t, "10", k.refused(503, "storage_full", "POST", at, "").header.Get("Retry-After"))
	k.refuse(fail(failurepb.Code_STORAGE_FAILED, "the disk failed"))
	k.refused(503, "storage_failed", "POST", at, "")
	k.refuse(notNow{})
	k.refused(503, "unavailable", "POST", at, "")
	k.refuse(errors.New("secret detail"))
	r := k.refused(500, "SERVER_ERROR", "POST", at, "")
	require.NotContains(t, string(r.raw), "secret")
	k.refuse(failure.Verbatim(failurepb.Code_CONVERSATION_BUSY, "a turn is running").With("activeRunId", "run_9"))
	r = k.refused(409, "conversation_busy", "POST", at, "")
	require.Equal(t, "run_9", r.at(t, "details", "activeRunId"))
	k.reply(&conversationpb.Reply{Body: &conversationpb.Reply_Refused{Refused: &conversationpb.Refused{
		Code: failurepb.Code_BUDGET_REACHED, Message: "used up", Details: []byte(`{"spentUsd":1.5}`),
	}}})
	r = k.refused(402, "budget_reached", "POST", at, "")
	require.InDelta(t, 1.5, r.at(t, "details", "spentUsd"), 0)
	k.runtime.OnAsk = func(context.Context, *conversationpb.Command) (*conversationpb.Reply, error) { panic("boom") }
	r = k.refused(500, "SERVER_ERROR", "POST", at, "")
	require.NotContains(t, string(r.raw), "boom")
	require.Equal(t, 200, k.do("GET", "/agents", "").status, "the server lives on")
}

type notNow struct{}

func (notNow) Error() string     { return "owner moved" }
func (notNow) Unavailable() bool { return true }

func TestUnknownRoutes(t *testing.T) {
	k := serve(t)
	for _, route := range []string{
		"GET /nothing", "GET /agents/", "GET /conversations/", "GET /AGENTS", "GET //agents", "GET /conversations/x/nothing",
		"POST /conversations/x/actions", "POST /conversations/x/messages/y/rate",
		"POST /conversations/x/continue/", "GET /filez",
	} {
		method, path, _ := strings.Cut(route, " ")
		r := k.refused(404, "NOT_FOUND", method, path, "")
		text, ok := r.at(t, "error").(string)
		require.True(t, ok)
		require.Contains(t, text, method)
		require.Contains(t, text, path)
	}
	r := k.refused(405, "method_not_allowed", "PUT", "/conversations/"+conv1, `{}`)
	require.Equal(t, "DELETE, GET, HEAD, PATCH", r.header.Get("Allow"))
	k.refused(405, "method_not_allowed", "DELETE", "/agents", "")
	k.refused(405, "method_not_allowed", "OPTIONS", "/agents", "")
	head := k.do("HEAD", "/agents", "")
	require.Equal(t, 200, head.status)
	require.Empty(t, head.raw)
}

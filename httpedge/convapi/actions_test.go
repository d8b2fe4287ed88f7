package convapi_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/httpedge/convapi"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// waitingTalk is a conversation whose turn waits for a person.
func waitingTalk(actions ...*conversationpb.PendingAction) *endpointtest.Conversation {
	talk := endpointtest.Talk(conv1, "ann", 2)
	talk.State.Status, talk.State.StopReason = conversationpb.Status_WAITING, conversationpb.StopReason_REQUIRES_ACTION
	talk.State.Pending = actions
	talk.State.RememberedTools = []string{"search", "crm/list"}
	answer := talk.Messages[1]
	answer.Status, answer.StopReason, answer.Pending = "requires_action", conversationpb.StopReason_REQUIRES_ACTION, actions
	return talk
}

func question(id string) *conversationpb.PendingAction {
	return &conversationpb.PendingAction{
		Id: id, Kind: "user_question", ToolName: "ask_user", ToolCallId: "call_q", Args: []byte(`{"questions":[{"question":"Red?"}]}`),
		Details: []byte(`{"questions":[{"question":"Red?","required":true}],"allowFreeText":true}`),
	}
}

func TestPendingActionsInReads(t *testing.T) {
	k := serve(t)
	k.store.Put(waitingTalk(approval("act_1"), question("act_2")))
	r := k.do("GET", "/conversations/"+conv1, "")
	require.Equal(t, 200, r.status)
	require.Equal(t, "waiting", r.at(t, "conversation", "runtime", "status"))
	require.Equal(t, []any{"act_1", "act_2"}, r.at(t, "conversation", "runtime", "pendingActionIds"))
	for _, at := range [][]any{{"pendingActions"}, {"messages", 1, "metadata", "pendingActions"}} {
		require.Equal(t, "tool_approval", r.at(t, append(at, 0, "kind")...))
		require.Equal(t, "pending", r.at(t, append(at, 0, "status")...))
		require.NotContains(t, r.at(t, append(at, 0)...), "questions")
		require.Equal(t, []any{map[string]any{"question": "Red?", "required": true}}, r.at(t, append(at, 1, "questions")...))
	}
	require.Equal(t, "requires_action", r.at(t, "messages", 1, "status"))
	require.Equal(t, "requires_action", r.at(t, "messages", 1, "metadata", "stopReason"))
}

func TestResolveForms(t *testing.T) {
	k := serve(t)
	action := approval("act_1")
	action.Schema = []byte(`{"properties":{"to":{"enum":["bob"]}}}`)
	k.store.Put(waitingTalk(action))
	k.reply(turnReply(turn(conversationpb.StopReason_END_TURN)))
	resolve := func(resolution string) *conversationpb.Resolve {
		r := k.do("POST", "/conversations/"+conv1+"/actions/act_1", `{"resolution":`+resolution+`}`)
		require.Equal(t, 200, r.status, "%s", r.raw)
		require.Equal(t, "message 2", r.at(t, "response", "content"))
		require.Equal(t, "end_turn", r.at(t, "stopReason"))
		require.Equal(t, "run_1", r.at(t, "runId"))
		require.NotContains(t, r.body, "message")
		command := k.last().GetResolve()
		require.Equal(t, "act_1", command.GetActionId())
		require.True(t, command.GetWait())
		require.Equal(t, "assistant", command.GetAgent().GetId())
		return command
	}
	allow := resolve(`{"type":"tool_approval","decision":"allow","rememberForSession":true,"approvedArgs":{ "to": "eve" },"comment":"ok"}`)
	require.True(t, allow.GetApproval().GetAllow())
	require.True(t, allow.GetApproval().GetRemember())
	require.Len(t, allow.GetApproval().GetApprovedArgs(), len(`{"to":"eve"}`), "on one line")
	require.Equal(t, "'/to': value must be 'bob'", allow.GetApproval().GetVerdict().GetProblem(), "the rules refuse it")
	bob := resolve(`{"type":"tool_approval","decision":"allow","approvedArgs":{"to":"bob"}}`)
	require.NotNil(t, bob.GetApproval().GetVerdict())
	require.Empty(t, bob.GetApproval().GetVerdict().GetProblem())
	deny := resolve(`{"type":"tool_approval","decision":"deny","approvedArgs":null}`)
	require.False(t, deny.GetApproval().GetAllow())
	require.Empty(t, deny.GetApproval().GetApprovedArgs())
	answers := resolve(`{"type":"user_question","answers":{"Red?":{"values":["yes"]},"Why?":"so"}}`)
	require.JSONEq(t, `{"Red?":{"values":["yes"]},"Why?":"so"}`, string(answers.GetAnswers().GetAnswers()))
	require.True(t, resolve(`{"type":"user_question","cancelled":true}`).GetAnswers().GetCancelled())
	require.Equal(t, `[1,{"a":2}]`, string(resolve(`{"type":"client_tool","output":[1, {"a":2}]}`).GetClient().GetOutput()))
	require.Equal(t, `null`, string(resolve(`{"type":"client_tool","output":null}`).GetClient().GetOutput()))
	require.Equal(t, "no camera", resolve(`{"type":"client_tool","error":"no camera"}`).GetClient().GetError())
}

func TestResolveRefuses(t *testing.T) {
	k := serve(t)
	k.store.Put(waitingTalk(approval("act_1")))
	at := "/conversations/" + conv1 + "/actions/act_1"
	for _, body := range []string{
		``, `{}`, `{"resolution":null}`, `{"resolution":"allow"}`, `{"resolution":{}}`, `{"resolution":{"type":"other"}}`,
		`{"resolution":{"type":"tool_approval"}}`, `{"resolution":{"type":"tool_approval","decision":"maybe"}}`,
		`{"resolution":{"type":"tool_approval","decision":true}}`, `{"resolution":{"type":"user_question"}}`,
		`{"resolution":{"type":"user_question","answers":["x"]}}`, `{"resolution":{"type":"client_tool"}}`,
		`{"resolution":{"type":"client_tool","error":5}}`,
	} {
		k.refused(400, "VALIDATION_ERROR", "POST", at, body)
	}
	k.refused(400, "invalid_approved_args", "POST", at, `{"resolution":{"type":"tool_approval","decision":"allow","approvedArgs":[1]}}`)
	require.Empty(t, k.runtime.Commands())
	const allow = `{"resolution":{"type":"tool_approval","decision":"allow"}}`
	for code, want := range map[failurepb.Code]struct {
		status int
		code   string
	}{
		failurepb.Code_ACTION_NOT_PENDING:         {409, "action_not_pending"},
		failurepb.Code_ACTION_EXPIRED:             {410, "action_expired"},
		failurepb.Code_INVALID_APPROVED_ARGS:      {400, "invalid_approved_args"},
		failurepb.Code_INVALID_CLIENT_TOOL_RESULT: {400, "invalid_client_tool_result"},
	} {
		k.refuse(fail(code, "no"))
		k.refused(want.status, want.code, "POST", at, allow)
		k.refused(want.status, want.code, "POST", at, allow[:len(allow)-1]+`,"stream":true}`)
	}
	k.refused(404, "NOT_FOUND", "POST", "/conversations/"+gone+"/actions/act_1", allow)
}

// TestResolveWithUnknownFields: what a decision says and nobody understands is not left out.
func TestResolveWithUnknownFields(t *testing.T) {
	k := serve(t)
	k.store.Put(waitingTalk(approval("act_1")))
	for body, name := range map[string]string{
		`{"type":"tool_approval","decision":"allow","args":{"to":"bob"}}`:           "args",
		`{"type":"tool_approval","decision":"allow","approved_args":{"to":"bob"}}`:  "approved_args",
		`{"z":1,"type":"tool_approval","decision":"allow","a\u0000":null}`:          "a",
		`{"type":"client_tool","output":null,"is_error":true}`:                      "is_error",
		`{"type":"user_question","cancelled":true,"answers":null,"answer":"later"}`: "answer",
	} {
		r := k.refused(400, "VALIDATION_ERROR", "POST", "/conversations/"+conv1+"/actions/act_1", `{"resolution":`+body+`}`)
		require.Equal(t, `resolution has no field "`+name+`"`, r.at(t, "error"))
	}
	require.Empty(t, k.runtime.Commands())
	k.reply(turnReply(turn(conversationpb.StopReason_END_TURN)))
	r := k.do("POST", "/conversations/"+conv1+"/actions/act_1", `{"resolution":{"TYPE":"tool_approval","decision":"allow","approvedargs":{"to":"bob"}}}`)
	require.Equal(t, 200, r.status, "%s", r.raw)
	require.JSONEq(t, `{"to":"bob"}`, string(k.last().GetResolve().GetApproval().GetApprovedArgs()))
}

func TestResolveWhileOthersArePending(t *testing.T) {
	k := serve(t)
	k.store.Put(waitingTalk(approval("act_1"), approval("act_2")))
	waits := turn(conversationpb.StopReason_REQUIRES_ACTION)
	waits.Pending = []*conversationpb.PendingAction{approval("act_2")}
	k.reply(turnReply(waits))
	r := k.do("POST", "/conversations/"+conv1+"/actions/act_1", `{"resolution":{"type":"tool_approval","decision":"deny"}}`)
	require.Equal(t, 200, r.status)
	require.Equal(t, "requires_action", r.at(t, "status"))
	require.Equal(t, "act_2", r.at(t, "pendingActions", 0, "id"))
}

// TestResolveWait: who cannot wait any longer is told that the turn runs, by the same command asked again.
func TestResolveWait(t *testing.T) {
	for path, body := range map[string]string{
		"/actions/act_1": `{"resolution":{"type":"tool_approval","decision":"allow"}}`, "/continue": ``,
	} {
		t.Run(path, func(t *testing.T) {
			k := serve(t, withConfig(func(c *convapi.Config) { c.ResolveWait = 50 * time.Millisecond }))
			k.store.Put(waitingTalk(approval("act_1")))
			k.runtime.OnAsk = func(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
				if command.GetResolve().GetWait() || command.GetContinue().GetWait() {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return &conversationpb.Reply{Body: &conversationpb.Reply_Accepted{Accepted: &conversationpb.Accepted{
					RunId: "run_1", UserMessage: &conversationpb.Message{CreatedAt: 1_700_000_000_000},
				}}}, nil
			}
			r := k.do("POST", "/conversations/"+conv1+path, body)
			require.Equal(t, 202, r.status, "%s", r.raw)
			require.JSONEq(t, `{"runId":"run_1","status":"running","response":{"id":"msg_1","conversationId":"`+conv1+`","role":"assistant",
				"content":"","status":"running","metadata":{"status":"running"},"createdAt":"2023-11-14T22:13:20.000Z",
				"updatedAt":"2023-11-14T22:13:20.000Z"}}`, string(r.raw))
			commands := k.runtime.Commands()
			require.Len(t, commands, 2)
			require.Equal(t, commands[0].GetCommandId(), commands[1].GetCommandId())
			require.True(t, commands[1].GetRepeated())
		})
	}
}

func TestContinue(t *testing.T) {
	k := serve(t)
	k.store.Put(endpointtest.Talk(conv1, "ann", 2))
	cut := turn(conversationpb.StopReason_BUDGET_REACHED)
	cut.Budget, cut.SpentNanoUsd = &conversationpb.Budget{MaxCostNanoUsd: 2_000_000_000, OnReach: "pause"}, 2_000_000_000
	k.reply(turnReply(cut))
	at := "/conversations/" + conv1 + "/continue"
	r := k.do("POST", at, "")
	require.Equal(t, 200, r.status, "%s", r.raw)
	require.Equal(t, "incomplete", r.at(t, "status"))
	require.Equal(t, "budget_reached", r.at(t, "stopReason"))
	require.InDelta(t, 2, r.at(t, "spentUsd"), 0)
	require.InDelta(t, 2, r.at(t, "budget", "maxCostUsd"), 0)
	require.True(t, k.last().GetContinue().GetWait())
	k.refuse(fail(failurepb.Code_NOTHING_TO_CONTINUE, "nothing"))
	k.refused(409, "nothing_to_continue", "POST", at, `{"stream":true}`)
	k.refuse(fail(failurepb.Code_BUDGET_REACHED, "used up"))
	k.refused(402, "budget_reached", "POST", at, "")
}

func TestRememberedTools(t *testing.T) {
	k := serve(t)
	k.store.Put(waitingTalk())
	k.store.Put(endpointtest.Talk(conv2, "ann", 0))
	at := "/conversations/" + conv1 + "/remembered-tools"
	require.JSONEq(t, `{"tools":["search","crm/list"]}`, string(k.do("GET", at, "").raw))
	require.JSONEq(t, `{"tools":[]}`, string(k.do("GET", "/conversations/"+conv2+"/remembered-tools", "").raw))
	k.reply(&conversationpb.Reply{Body: &conversationpb.Reply_Tools{Tools: &conversationpb.Tools{Tools: []string{"search"}}}})
	for path, tool := range map[string]string{"/crm/list": "crm/list", "/a%20b%2Fc": "a b/c"} {
		r := k.do("DELETE", at+path, "")
		require.Equal(t, 200, r.status, "%s", r.raw)
		require.JSONEq(t, `{"tools":["search"]}`, string(r.raw))
		require.Equal(t, tool, k.last().GetForget().GetTool())
	}
	k.refuse(fail(failurepb.Code_NOT_FOUND, "not remembered"))
	k.refused(404, "NOT_FOUND", "DELETE", at+"/other", "")
}

// judge is an Authorizer that notes what it is asked.
type judge struct {
	refusal error
	raises  []*endpoint.BudgetRaise
	decided []*endpoint.ActionDecision
}

func (j *judge) AuthorizeBudget(_ context.Context, raise *endpoint.BudgetRaise) error {
	j.raises = append(j.raises, raise)
	return j.refusal
}

func (j *judge) AuthorizeResolve(_ context.Context, decision *endpoint.ActionDecision) error {
	j.decided = append(j.decided, decision)
	return j.refusal
}

func TestAuthorizeResolve(t *testing.T) {
	j := &judge{}
	k := serve(t, withAuth, func(k *kit) { k.authorizer = j })
	k.store.Put(waitingTalk(approval("act_1")))
	k.reply(turnReply(turn(conversationpb.StopReason_END_TURN)))
	const body = `{"resolution":{"type":"tool_approval","decision":"allow"}}`
	at, ann := "/conversations/"+conv1+"/actions/", []string{"Authorization", "Bearer ann"}
	k.refused(403, "FORBIDDEN", "POST", at+"act_1", body, "Authorization", "Bearer bob")
	require.Empty(t, j.decided, "who has no access is not asked about")
	require.Equal(t, 200, k.do("POST", at+"act_1", body, ann...).status)
	require.Equal(t, "send_mail", j.decided[0].Action.GetToolName())
	require.Equal(t, "ann", j.decided[0].OwnerID)
	require.True(t, j.decided[0].Resolution.GetApproval().GetAllow())
	asked := len(k.runtime.Commands())
	j.refusal = fail(failurepb.Code_ACTION_FORBIDDEN, "not you")
	k.refused(403, "action_forbidden", "POST", at+"act_1", body, ann...)
	k.refused(403, "action_forbidden", "POST", at+"act_9", body, ann...)
	require.Nil(t, j.decided[2].Action)
	require.Len(t, k.runtime.Commands(), asked, "nothing was sent")
}

func TestAuthorizeBudget(t *testing.T) {
	j := &judge{refusal: fail(failurepb.Code_BUDGET_FORBIDDEN, "too much")}
	k := serve(t, func(k *kit) { k.authorizer = j })
	limited, free := endpointtest.Talk(conv1, "", 0), endpointtest.Talk(conv2, "", 0)
	limited.State.Budget = &conversationpb.Budget{MaxCostNanoUsd: 1_000_000_000, OnReach: "pause"}
	k.store.Put(limited)
	k.store.Put(free)
	k.reply(stateReply(limited.State))
	for _, body := range []string{`{"budget":{"maxCostUsd":1.5}}`, `{"title":"x","budget":null}`} {
		k.refused(403, "budget_forbidden", "PATCH", "/conversations/"+conv1, body)
	}
	require.Empty(t, k.runtime.Commands())
	require.Nil(t, j.raises[1].To)
	require.EqualValues(t, 1_000_000_000, j.raises[0].From.GetMaxCostNanoUsd())
	for _, request := range [][2]string{
		{conv1, `{"budget":{"maxCostUsd":1}}`},
		{conv1, `{"budget":{"maxCostUsd":0.5}}`},
		{conv1, `{"title":"x"}`},
		{conv2, `{"budget":{"maxCostUsd":5}}`},
		{conv2, `{"budget":null}`},
	} {
		require.Equal(t, 200, k.do("PATCH", "/conversations/"+request[0], request[1]).status, "%s: no raise", request)
	}
	k.refused(403, "budget_forbidden", "POST", "/conversations", `{"agentId":"metered","budget":{"maxCostUsd":3}}`)
	require.Equal(t, 201, k.do("POST", "/conversations", `{"agentId":"metered","budget":{"maxCostUsd":2}}`).status)
	require.Equal(t, 201, k.do("POST", "/conversations", `{"agentId":"assistant","budget":{"maxCostUsd":3}}`).status)
}

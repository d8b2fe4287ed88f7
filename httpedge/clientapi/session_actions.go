package clientapi

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"time"

	"parley/actors/machine"
	"parley/httpedge/endpoint/wire"
	"parley/httpedge/turns"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/runpb"
)

type resolveSessionActionIn struct {
	ID             string          `path:"id"`
	ActionID       string          `path:"actionId"`
	Resolution     resolutionInput `json:"resolution" required:"true"`
	RuntimeContext runtimeContext  `json:"runtime_context" doc:"For the rest of the turn"`
}

// Validate implements endpoint.Validator.
func (in *resolveSessionActionIn) Validate() *machine.Failure {
	if in.Resolution.failure == nil && in.Resolution.resolve == nil {
		return invalid("resolution is required")
	}
	return in.Resolution.failure
}

// resolveSessionAction decides a pending action; the turn goes on once none is pending any more. A turn of a background run
// is not waited for: the run is answered.
func (a *API) resolveSessionAction(ctx context.Context, in *resolveSessionActionIn) (*resolvedAction, error) {
	state, err := a.session(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	run := state.GetBackgroundRun()
	resolve := in.Resolution.resolve
	resolve.ActionId, resolve.Agent, resolve.Wait = in.ActionID, pricing(a.knownAgent(state)), run == ""
	if err = a.mayResolve(ctx, state, resolve); err != nil {
		return nil, err
	}
	command := a.command(ctx, in.ID, "resolve")
	if command.RuntimeContext, err = a.sealContext(ctx, in.ID, in.RuntimeContext); err != nil {
		return nil, err
	}
	command.Body = &conversationpb.Command_Resolve{Resolve: resolve}
	reply, err := a.asker().AskResumed(ctx, command, a.config.TurnTimeout)
	if err != nil {
		return nil, sessionFailure(err)
	}
	turn := reply.GetTurn()
	if turn == nil {
		return a.resumedRun(ctx, state, reply.GetAccepted().GetRunId())
	}
	response, err := a.responseOf(ctx, in.ID, state.GetAgentId(), turn)
	if err != nil {
		return nil, err
	}
	response.version = max(state.GetPaused().GetAgentVersion(), 0)
	return &resolvedAction{response: response}, nil
}

// resumedRun is what is answered for a turn that goes on.
func (a *API) resumedRun(ctx context.Context, state *conversationpb.State, turn string) (*resolvedAction, error) {
	goesOn := &resolvedAction{session: state.GetId(), turn: turn}
	if id := state.GetBackgroundRun(); id != "" {
		reply, err := a.run(ctx, id)
		if err == nil {
			goesOn.run = newRunRecord(reply)
		} else if !isCode(err, failurepb.Code_RUN_NOT_FOUND) {
			return nil, err
		}
	}
	return goesOn, nil
}

// resolvedAction is the result of the turn that went on, or that it goes on: as a run, where it is one's.
type resolvedAction struct {
	response      *responseRecord
	run           *runRecord
	session, turn string
}

// HTTPStatus implements endpoint.Statuser.
func (r *resolvedAction) HTTPStatus() int {
	if r.response == nil {
		return statusAccepted
	}
	return statusOK
}

// AppendJSON implements endpoint.Appender.
func (r *resolvedAction) AppendJSON(dst []byte) []byte {
	switch {
	case r.response != nil:
		return r.response.AppendJSON(dst)
	case r.run != nil:
		return r.run.AppendJSON(dst)
	}
	dst = append(dst, `{"id":"`+responsePrefix...)
	dst = append(dst, r.session...)
	dst = append(dst, `","object":"response","status":"in_progress"`...)
	dst = wire.AppendMember(dst, `,"session_id":`, r.session)
	return append(wire.AppendMember(dst, `,"turn_id":`, r.turn), '}')
}

// Described implements openapi.Described.
func (r *resolvedAction) Described() (value any, nullable bool) { return responseSchema{}, false }

// cancelSession stops the session's turn or gives up what a person should decide; a background run that holds the session is
// cancelled with it, also one that is still queued: before the turn, so that it begins no other one. To cancel again is safe, so a
// request that is cut off between the two is repeated.
func (a *API) cancelSession(ctx context.Context, in *sessionIn) (*cancelledSession, error) {
	state, err := a.session(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	out := &cancelledSession{}
	holder := &turns.RunCancel{
		Entities: a.Entities, Until: time.Now().Add(a.config.CancelWait),
		Command: func(step string) *runpb.Command { return a.runCommand(ctx, state.GetBackgroundRun(), step) },
	}
	if state.GetBackgroundRun() != "" {
		if out.run, err = holder.Cancel(ctx); err != nil {
			return nil, runFailure(err)
		}
	}
	command := a.command(ctx, in.ID, "cancel")
	command.Body = &conversationpb.Command_Cancel{Cancel: &conversationpb.Cancel{SettleWaitMs: a.config.CancelWait.Milliseconds()}}
	reply, err := a.ask(ctx, command)
	if err != nil {
		return nil, err
	}
	out.told = reply.GetCancelled()
	if out.run != nil && !out.run.Over() { // what it has told the session meanwhile is part of the answer
		out.run = holder.Wait(ctx, out.run)
		if out.state, err = a.session(ctx, in.ID); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// cancelledSession is what became of a cancel.
type cancelledSession struct {
	told  *conversationpb.Cancelled
	run   *runpb.State          // that held the session; nil = none did
	state *conversationpb.State // as it is by now; nil = as it was told
}

// settled says that nothing goes on any more, neither a turn nor a run.
func (c *cancelledSession) settled() bool {
	return c.told.GetSettled() && (c.run == nil || c.run.Over())
}

// HTTPStatus implements endpoint.Statuser.
func (c *cancelledSession) HTTPStatus() int {
	if c.settled() {
		return statusOK
	}
	return statusAccepted
}

// AppendJSON implements endpoint.Appender.
func (c *cancelledSession) AppendJSON(dst []byte) []byte {
	told := c.told
	dst = append(dst, `{"cancelled":`...)
	dst = strconv.AppendBool(dst, told.GetCancelled() || turns.Cancelled(c.run))
	dst = append(dst, `,"settled":`...)
	dst = strconv.AppendBool(dst, c.settled())
	dst = wire.AppendOptional(dst, `,"turn_id":`, told.GetRunId())
	if turns.Cancelled(c.run) {
		dst = wire.AppendMember(dst, `,"run_id":`, c.run.GetId())
	}
	dst = append(dst, `,"cancelled_action_ids":`...)
	dst = wire.AppendStrings(dst, told.GetCancelledActionIds())
	dst = append(dst, `,"session":`...)
	return append((&sessionRecord{cmp.Or(c.state, told.GetState())}).AppendJSON(dst), '}')
}

// Described implements openapi.Described.
func (c *cancelledSession) Described() (value any, nullable bool) {
	return cancelledSessionSchema{}, false
}

// resolutionInput is a decision in one of its three forms (document 2, POST /conversations/:id/actions/:actionId, in
// snake_case).
type resolutionInput struct {
	resolve *conversationpb.Resolve
	failure *machine.Failure
}

type resolutionSchema struct {
	Type               string          `json:"type" enum:"tool_approval,user_question,client_tool"`
	Decision           string          `json:"decision" enum:"allow,deny" doc:"tool_approval"`
	RememberForSession bool            `json:"remember_for_session" doc:"tool_approval: the tool needs no approval any more in this session"`
	ApprovedArgs       json.RawMessage `json:"approved_args" doc:"tool_approval: run the tool with these arguments instead"`
	Comment            string          `json:"comment" doc:"tool_approval: shown to the model with a denial"`
	Answers            json.RawMessage `json:"answers" doc:"user_question: question to answer"`
	Cancelled          bool            `json:"cancelled" doc:"user_question: the person will not answer"`
	Output             json.RawMessage `json:"output" any:"true" doc:"client_tool: any JSON value"`
	Error              string          `json:"error" doc:"client_tool: why the tool failed"`
}

// Described implements openapi.Described.
func (r resolutionInput) Described() (value any, nullable bool) { return resolutionSchema{}, false }

// UnmarshalJSON implements json.Unmarshaler.
func (r *resolutionInput) UnmarshalJSON(raw []byte) error {
	if isNull(raw) {
		return nil
	}
	var in resolutionSchema
	if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	r.resolve, r.failure = turns.Resolution(in).Read()
	return nil
}

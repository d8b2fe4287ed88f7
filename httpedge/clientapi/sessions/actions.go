package sessions

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"parley/actors/core/failure"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint/wire"
	"parley/httpedge/turns"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/runpb"
)

type resolveSessionActionIn struct {
	ID             string                 `path:"id"`
	ActionID       string                 `path:"actionId"`
	Resolution     resolutionInput        `json:"resolution" required:"true"`
	RuntimeContext handler.RuntimeContext `json:"runtime_context" doc:"For the rest of the turn"`
}

// Validate implements endpoint.Validator.
func (in *resolveSessionActionIn) Validate() *failure.Failure {
	if in.Resolution.failure == nil && in.Resolution.resolve == nil {
		return handler.Invalid(failure.Required).In("resolution")
	}
	return in.Resolution.failure
}

// resolveSessionAction decides a pending action; the turn goes on once none is pending any more. A turn of a background run
// is not waited for: the run is answered.
func (a *api) resolveSessionAction(ctx context.Context, in *resolveSessionActionIn) (*resolvedAction, error) {
	state, err := a.Session(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	run := state.GetBackgroundRun()
	resolve := in.Resolution.resolve
	resolve.ActionId, resolve.Agent, resolve.Wait = in.ActionID, handler.Pricing(a.KnownAgent(state)), run == ""
	if err = a.MayResolve(ctx, state, resolve); err != nil {
		return nil, err
	}
	if a.Schemas != nil {
		if err = turns.Judge(ctx, a.Schemas.Args, state.GetPending(), resolve); err != nil {
			return nil, err
		}
	}
	command := a.Command(ctx, in.ID, "resolve")
	if command.RuntimeContext, err = a.SealContext(ctx, in.ID, in.RuntimeContext); err != nil {
		return nil, err
	}
	command.Body = &conversationpb.Command_Resolve{Resolve: resolve}
	reply, err := a.Asker().AskResumed(ctx, command, a.Config.TurnTimeout)
	if err != nil {
		return nil, handler.SessionFailure(err)
	}
	turn := reply.GetTurn()
	if turn == nil {
		return a.resumedRun(ctx, state, reply.GetAccepted().GetRunId())
	}
	response, err := a.ResponseOf(ctx, in.ID, state.GetAgentId(), turn)
	if err != nil {
		return nil, err
	}
	response.Version = max(state.GetPaused().GetAgentVersion(), 0)
	return &resolvedAction{response: response}, nil
}

// resumedRun is what is answered for a turn that goes on.
func (a *api) resumedRun(ctx context.Context, state *conversationpb.State, turn string) (*resolvedAction, error) {
	goesOn := &resolvedAction{session: state.GetId(), turn: turn}
	if id := state.GetBackgroundRun(); id != "" {
		reply, err := a.Run(ctx, id)
		if err == nil {
			goesOn.run = render.NewRun(reply)
		} else if !handler.IsCode(err, failurepb.Code_RUN_NOT_FOUND) {
			return nil, err
		}
	}
	return goesOn, nil
}

// resolvedAction is the result of the turn that went on, or that it goes on: as a run, where it is one's.
type resolvedAction struct {
	response      *render.Response
	run           *render.Run
	session, turn string
}

// HTTPStatus implements endpoint.Statuser.
func (r *resolvedAction) HTTPStatus() int {
	if r.response == nil {
		return http.StatusAccepted
	}
	return http.StatusOK
}

// AppendJSON implements endpoint.Appender.
func (r *resolvedAction) AppendJSON(dst []byte) []byte {
	switch {
	case r.response != nil:
		return r.response.AppendJSON(dst)
	case r.run != nil:
		return r.run.AppendJSON(dst)
	}
	dst = append(dst, `{"id":"`+render.ResponsePrefix...)
	dst = append(dst, r.session...)
	dst = append(dst, `","object":"response","status":"in_progress"`...)
	dst = wire.AppendMember(dst, `,"session_id":`, r.session)
	return append(wire.AppendMember(dst, `,"turn_id":`, r.turn), '}')
}

// Described implements openapi.Described.
func (r *resolvedAction) Described() (value any, nullable bool) {
	return render.ResponseSchema{}, false
}

type cancelSessionIn struct {
	ID    string `path:"id"`
	RunID string `query:"run_id" doc:"Of the turn that is meant, which may be queued; empty: the one that runs. Others stay in the queue, and the next one begins"`
}

// cancelSession stops the session's turn or gives up what a person should decide; a background run that holds the session is
// cancelled with it, also one that is still queued: before the turn, so that it begins no other one. To cancel again is safe, so a
// request that is cut off between the two is repeated.
func (a *api) cancelSession(ctx context.Context, in *cancelSessionIn) (*cancelledSession, error) {
	state, err := a.Session(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	out := &cancelledSession{}
	holder := &turns.RunCancel{
		Entities: a.Entities, Until: time.Now().Add(a.Config.CancelWait),
		Command: func(step string) *runpb.Command { return a.RunCommand(ctx, state.GetBackgroundRun(), step) },
	}
	if state.GetBackgroundRun() != "" && in.RunID == "" {
		if out.run, err = holder.Cancel(ctx); err != nil {
			return nil, handler.RunFailure(err)
		}
	}
	command := a.Command(ctx, in.ID, "cancel")
	command.Body = &conversationpb.Command_Cancel{Cancel: &conversationpb.Cancel{SettleWaitMs: a.Config.CancelWait.Milliseconds(), RunId: in.RunID}}
	reply, err := a.Ask(ctx, command)
	if err != nil {
		return nil, err
	}
	out.told = reply.GetCancelled()
	if out.run != nil && !out.run.Over() { // what it has told the session meanwhile is part of the answer
		out.run = holder.Wait(ctx, out.run)
		if out.state, err = a.Session(ctx, in.ID); err != nil {
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
		return http.StatusOK
	}
	return http.StatusAccepted
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
	failure *failure.Failure
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
	if handler.IsNull(raw) {
		return nil
	}
	var in resolutionSchema
	if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	if r.failure = turns.KnownFields("resolution", raw, in); r.failure == nil {
		r.resolve, r.failure = turns.Resolution(in).Read()
	}
	return nil
}

package responses

import (
	"context"
	"net/http"

	"parley/actors/core/expected"
	"parley/actors/core/failure"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/httpedge/eventlog"
	"parley/httpedge/sse"
	"parley/httpedge/turns"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// createResponse runs the draft of an agent, unless a version is pinned, by the official Responses API. Function tools of the
// request are client tools of the turn: it pauses for them, and goes on with their outputs where these name the session
// (previous_response_id, conversation, session_id). Without that a session is made of all items of the input.
func (a *api) createResponse(ctx context.Context, in *createResponseIn, stream endpoint.Stream) (*createdWhole, error) {
	r := &responding{order: &in.responseOrder, message: &messageInput{}, version: in.Version.Number, pairs: in.Metadata.Pairs}
	if r.version == 0 {
		r.version = draftVersion
	}
	agent, err := a.ActiveAgent(ctx, in.Model.Text)
	if err != nil {
		return nil, err
	}
	if refused := a.checkSettings(in, agent); refused != nil {
		return nil, refused
	}
	items, err := a.resolveItems(ctx, &in.Input)
	if err != nil {
		return nil, err
	}
	waiting, err := a.waiting(ctx, r, agent, items)
	if err != nil {
		return nil, err
	}
	if waiting != nil {
		return a.answerCalls(ctx, in, waiting, stream)
	}
	var refused *failure.Failure
	if r.history, refused = readItems(items); refused != nil {
		return nil, refused
	}
	if loose := r.history.outputs; len(loose) > 0 {
		return nil, notWaiting(loose[0])
	}
	if r.history.newest != nil {
		r.message = r.history.newest
	}
	in.instruct(r.history.system)
	r.options = in.options
	if err = a.prepare(ctx, r); err != nil {
		return nil, err
	}
	if in.Background && len(r.history.said)+len(r.history.given) > 0 {
		return nil, handler.Invalid(failure.BackgroundWithItems)
	}
	whole := newWhole(r, in)
	whole.prior = textOf(r.history.given)
	if in.Stream {
		return nil, a.streamResponse(ctx, r, whole, stream)
	}
	turn, run, err := a.respond(ctx, r)
	if err != nil || run != nil || r.queued != nil {
		return &createdWhole{run: run, queued: r.waits()}, err
	}
	return a.completed(ctx, whole, turn)
}

// checkSettings refuses settings that the agent does not support.
func (a *api) checkSettings(in *createResponseIn, agent *agentpb.Agent) *failure.Failure {
	if refused := in.fits(agent); refused != nil {
		return refused
	}
	if a.Schemas == nil {
		return nil
	}
	if err := a.Schemas.Tools(in.options.GetTools()); err != nil {
		return handler.Invalid(failure.ToolRefused).In("tools").Param("problem", err)
	}
	if err := a.Schemas.Format(in.options.GetFormat().GetSchema()); err != nil {
		return handler.Invalid(failure.FormatRefused).In("text.format.schema").Param("problem", err)
	}
	return nil
}

func notWaiting(output looseOutput) *failure.Failure {
	return failure.New(failurepb.Code_ACTION_NOT_PENDING, failure.OutputNotAwaited).
		Param("call", shortened(output.GetId())).At(itemAt(output.at))
}

// completed is the response to a turn that was waited for.
func (a *api) completed(ctx context.Context, whole *wholeResponse, turn *conversationpb.TurnResult) (*createdWhole, error) {
	if err := a.Asker().Complete(ctx, whole.session, turn); err != nil {
		return nil, handler.SessionFailure(err)
	}
	whole.turn, whole.number = turn, turn.GetResponse().GetNumber()
	if whole.number == 0 {
		whole.number = turn.GetUserMessage().GetNumber() + 1
	}
	if at := turn.GetResponse().GetCreatedAt(); at > 0 {
		whole.created = at
	}
	return &createdWhole{response: whole}, nil
}

// streamResponse has the message answered in a stream.
func (a *api) streamResponse(ctx context.Context, r *responding, whole *wholeResponse, stream endpoint.Stream) error {
	if err := stream.Admit(); err != nil {
		return err
	}
	state, err := a.continued(ctx, r)
	if err != nil {
		return err
	}
	command, err := a.sending(ctx, r, false)
	if err != nil {
		return err
	}
	defer r.let.Over(false) // unless it was said before
	if command.GetOpening().GetCreate() != nil {
		ctx = expected.Context(ctx)
	}
	return a.follow(ctx, r.id, stream, func() (*responseView, uint64, error) {
		reply, err := a.Ask(ctx, command)
		r.let.Over(!turns.Refused(err))
		if err != nil {
			return nil, 0, a.refused(ctx, r, err)
		}
		accepted := reply.GetAccepted()
		view := &responseView{wholeResponse: whole, run: accepted.GetRunId(), spent: state.GetSpentNanoUsd()}
		view.resume()
		return view, accepted.GetSeq(), nil
	})
}

// follow streams a turn that a command begins or lets go on: it is followed before the command is sent, so that nothing must be
// read back. Refusals are JSON with their status; the turn does not hang on the connection.
func (a *api) follow(
	ctx context.Context, id string, stream endpoint.Stream, ask func() (view *responseView, after uint64, err error),
) error {
	lease, err := a.Hub.Acquire(ctx, id)
	if err != nil {
		return handler.SessionFailure(err)
	}
	return eventlog.Open(lease, stream, func() (sse.Options, error) {
		view, after, err := ask()
		if err != nil {
			return sse.Options{}, err
		}
		return sse.Options{After: after, Opening: view.opening(), View: view, InOrder: true}, nil
	})
}

// createdWhole is a response, or the run that it comes from.
type createdWhole struct {
	response *wholeResponse
	run      *render.Run
	queued   *queuedResponse
}

// HTTPStatus implements endpoint.Statuser.
func (c *createdWhole) HTTPStatus() int {
	if c.run != nil || c.queued != nil {
		return http.StatusAccepted
	}
	return http.StatusOK
}

// AppendJSON implements endpoint.Appender.
func (c *createdWhole) AppendJSON(dst []byte) []byte {
	if c.run != nil {
		return c.run.AppendJSON(dst)
	}
	if c.queued != nil {
		return c.queued.AppendJSON(dst)
	}
	return c.response.AppendJSON(dst)
}

// Described implements openapi.Described.
func (c *createdWhole) Described() (value any, nullable bool) { return wholeResponseSchema{}, false }

package clientapi

import (
	"context"

	"parley/actors/core/expected"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/httpedge/eventlog"
	"parley/httpedge/sse"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// createResponse runs the draft of an agent, unless a version is pinned, by the official Responses API. Function tools of the
// request are client tools of the turn: it pauses for them, and goes on with their outputs where these name the session
// (previous_response_id, conversation, session_id). Without that a session is made of all items of the input.
func (a *API) createResponse(ctx context.Context, in *createResponseIn, stream endpoint.Stream) (*createdWhole, error) {
	r := &responding{order: &in.responseOrder, message: &messageInput{}, version: in.Version.Number, pairs: in.Metadata.pairs}
	if r.version == 0 {
		r.version = draftVersion
	}
	agent, err := a.activeAgent(ctx, in.Model.Text)
	if err != nil {
		return nil, err
	}
	if failure := a.checkSettings(in, agent); failure != nil {
		return nil, failure
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
	var failure *machine.Failure
	if r.history, failure = readItems(items); failure != nil {
		return nil, failure
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
		return nil, invalid("background cannot go with earlier items of the input")
	}
	whole := newWhole(r, in)
	whole.prior = textOf(r.history.given)
	if in.Stream {
		return nil, a.streamResponse(ctx, r, whole, stream)
	}
	turn, run, err := a.respond(ctx, r)
	if err != nil || run != nil {
		return &createdWhole{run: run}, err
	}
	return a.completed(ctx, whole, turn)
}

// checkSettings refuses settings that the agent cannot be given.
func (a *API) checkSettings(in *createResponseIn, agent *agentpb.Agent) *machine.Failure {
	if failure := in.fits(agent); failure != nil {
		return failure
	}
	if a.CheckTools == nil || len(in.options.GetTools()) == 0 {
		return nil
	}
	if err := a.CheckTools(in.options.GetTools()); err != nil {
		return invalid("tools: %s", err)
	}
	return nil
}

func notWaiting(output looseOutput) *machine.Failure {
	return machine.Fail(failurepb.Code_ACTION_NOT_PENDING,
		"input[%d]: no function call %s waits for an output: there is none in the input or the session, or it has its output", output.at, shortened(output.GetId()))
}

// completed is the response to a turn that was waited for.
func (a *API) completed(ctx context.Context, whole *wholeResponse, turn *conversationpb.TurnResult) (*createdWhole, error) {
	if err := a.asker().Complete(ctx, whole.session, turn); err != nil {
		return nil, sessionFailure(err)
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
func (a *API) streamResponse(ctx context.Context, r *responding, whole *wholeResponse, stream endpoint.Stream) error {
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
	command, takeBack, err := a.asker().Stepwise(ctx, command)
	if err != nil {
		return a.refused(ctx, r, sessionFailure(err))
	}
	if command.GetOpening().GetCreate() != nil {
		ctx = expected.Context(ctx)
	}
	return a.follow(ctx, r.id, stream, func() (*responseView, uint64, error) {
		reply, err := a.ask(ctx, command)
		takeBack(err)
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
func (a *API) follow(
	ctx context.Context, id string, stream endpoint.Stream, ask func() (view *responseView, after uint64, err error),
) error {
	lease, err := a.Hub.Acquire(ctx, id)
	if err != nil {
		return sessionFailure(err)
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
	run      *runRecord
}

// HTTPStatus implements endpoint.Statuser.
func (c *createdWhole) HTTPStatus() int {
	if c.run != nil {
		return statusAccepted
	}
	return statusOK
}

// AppendJSON implements endpoint.Appender.
func (c *createdWhole) AppendJSON(dst []byte) []byte {
	if c.run != nil {
		return c.run.AppendJSON(dst)
	}
	return c.response.AppendJSON(dst)
}

// Described implements openapi.Described.
func (c *createdWhole) Described() (value any, nullable bool) { return wholeResponseSchema{}, false }

package responses

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/wire"
	"parley/httpedge/turns"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

// waitingCalls are outputs of function calls for which the turn of a session waits.
type waitingCalls struct {
	r       *responding
	state   *conversationpb.State
	outputs []*conversationpb.ToolCall
	system  []string
}

// waiting finds in the items outputs of function calls that the named session waits for, nil when there are none. What stands
// before them the session has already: clients that send all of a run's steps send it again. Nothing but system items
// may follow.
func (a *api) waiting(ctx context.Context, r *responding, agent *agentpb.Agent, items []responseItem) (*waitingCalls, error) {
	outputs := slices.ContainsFunc(items, func(item responseItem) bool { return item.Type == itemOutput })
	id, missing, refused := r.order.named()
	if refused != nil || id == "" || !outputs || !turns.Plausible(id) {
		return nil, nil //nolint:nilerr,nilnil // prepare refuses it in its order
	}
	r.agent, r.id, r.missing = agent, id, missing
	state, err := a.continued(ctx, r)
	if err != nil {
		return nil, err
	}
	found := &waitingCalls{r: r, state: state}
	last, loose, refused := found.take(items)
	switch {
	case refused != nil:
		return nil, refused
	case last < 0 && len(loose) > 0 && state.GetLease() != nil:
		return nil, failure.New(failurepb.Code_CONVERSATION_BUSY, failure.TurnRunning)
	case last < 0:
		return nil, nil //nolint:nilnil // it is a message, or refused as such
	case len(loose) > 0:
		return nil, notWaiting(loose[0])
	}
	for i := range items {
		switch item := &items[i]; {
		case item.isSystem():
			message := &messageInput{}
			message.read(item.Content.RawMessage)
			found.system = append(found.system, message.Text)
		case i > last && item.Type != itemReasoning:
			return nil, nested(i, handler.Invalid(failure.OutputsNotLast))
		}
	}
	return found, nil
}

// take finds the outputs that the session waits for, with the index of the last one (-1 = none), and the loose ones: outputs of
// calls that are neither pending nor in the items.
func (w *waitingCalls) take(items []responseItem) (last int, loose []looseOutput, refused *failure.Failure) {
	called := map[string]bool{}
	last = -1
	for i, item := range items {
		switch {
		case item.Type == itemCall:
			called[item.CallID] = true
		case item.Type != itemOutput:
		case isWaiting(w.state, item.CallID):
			text, unfit := outputText(item.Output.RawMessage)
			if unfit != nil {
				return 0, nil, nested(i, unfit)
			}
			w.outputs = append(w.outputs, &conversationpb.ToolCall{Id: item.CallID, Result: text})
			last = i
		case !called[item.CallID]:
			loose = append(loose, looseOutput{&conversationpb.ToolCall{Id: item.CallID}, i})
		}
	}
	return last, loose, nil
}

func isWaiting(state *conversationpb.State, call string) bool {
	return slices.ContainsFunc(state.GetPending(), func(action *conversationpb.PendingAction) bool {
		return action.GetToolCallId() == call && action.GetKind() == conversationpb.KindClient
	})
}

// answerCalls sends the outputs and returns the rest of the turn, or the calls that are still pending.
func (a *api) answerCalls(ctx context.Context, in *createResponseIn, w *waitingCalls, stream endpoint.Stream) (*createdWhole, error) {
	in.instruct(w.system)
	switch {
	case in.Background:
		return nil, handler.Invalid(failure.BackgroundWithOutputs)
	case w.state.GetBackgroundRun() != "":
		return nil, failure.New(failurepb.Code_AGENT_RUN_CONFLICT, failure.RunHoldsActions)
	}
	if err := a.mayAnswer(ctx, w); err != nil {
		return nil, err
	}
	command := a.Command(ctx, w.r.id, "answer")
	var err error
	if command.RuntimeContext, err = a.SealContext(ctx, w.r.id, in.RuntimeContext); err != nil {
		return nil, err
	}
	answer := &conversationpb.Answer{
		Outputs: w.outputs, Agent: handler.Pricing(w.r.agent), OfAgent: w.r.agent.GetId(), Options: in.options, Wait: !in.Stream,
	}
	command.Body = &conversationpb.Command_Answer{Answer: answer}
	paused := w.state.GetPaused()
	w.r.version = paused.GetAgentVersion()
	whole := newWhole(w.r, in)
	whole.number, whole.prior, whole.paid = paused.GetAnswer().GetNumber(), paused.GetAnswer().GetContent(), paused.GetUsage()
	if !in.Stream {
		reply, failed := a.AskUntilSettled(ctx, command)
		if failed != nil {
			return nil, w.r.notFound(failed)
		}
		if failed = blocked(reply.GetTurn()); failed != nil {
			return nil, failed
		}
		return a.completed(ctx, whole, reply.GetTurn())
	}
	if err = stream.Admit(); err != nil {
		return nil, err
	}
	return nil, a.follow(ctx, w.r.id, stream, func() (*responseView, uint64, error) {
		reply, err := a.Ask(ctx, command)
		if err != nil {
			return nil, 0, w.r.notFound(err)
		}
		view := &responseView{wholeResponse: whole, run: paused.GetRunId(), spent: w.state.GetSpentNanoUsd()}
		if turn := reply.GetTurn(); len(turn.GetPending()) > 0 {
			view.waits = turn
		}
		view.resume()
		return view, w.state.GetLastSeq(), nil // from the end of the calls on, whichever way the turn goes from there
	})
}

// mayAnswer asks the authorizer for each output, as for any resolution of an action.
func (a *api) mayAnswer(ctx context.Context, w *waitingCalls) error {
	for _, output := range w.outputs {
		for _, action := range w.state.GetPending() {
			if action.GetToolCallId() != output.GetId() {
				continue
			}
			err := a.MayResolve(ctx, w.state, &conversationpb.Resolve{
				ActionId: action.GetId(), Agent: handler.Pricing(w.r.agent),
				Resolution: &conversationpb.Resolve_Client{Client: &conversationpb.ClientResult{Output: quoted(output.GetResult())}},
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// resolveItems replaces references by the items of sessions that they refer to.
func (a *api) resolveItems(ctx context.Context, in *itemsInput) ([]responseItem, error) {
	if in.failure != nil {
		return nil, in.failure
	}
	const mostRead = 500 // messages
	read := map[itemPlace]*conversationpb.Message{}
	items := slices.Clone(in.items)
	for i := range items {
		if items[i].Type != itemReference {
			continue
		}
		missing := notFoundItem(i, items[i].ID)
		place, ok := parseItemID(items[i].ID)
		if !ok || !turns.Plausible(place.session) {
			return nil, missing
		}
		at := itemPlace{session: place.session, number: place.number}
		message, known := read[at]
		if !known {
			if len(read) == mostRead {
				return nil, nested(i, handler.Invalid(failure.TooManyReferences).Param("most", mostRead))
			}
			var err error
			if message, err = a.messageAt(ctx, at); err != nil {
				return nil, err
			}
			read[at] = message
		}
		referred := referredItem(message, place)
		if referred == nil {
			return nil, missing
		}
		items[i] = *referred
	}
	return items, nil
}

// messageAt is a message of a session of the caller's, nil when there is none at that place.
func (a *api) messageAt(ctx context.Context, place itemPlace) (*conversationpb.Message, error) {
	page, err := entity.Read[*nodepb.MessagesReply](ctx, a.Entities, &nodepb.MessagesQuery{
		Id: place.session, Offset: int64(place.number) - 1, Limit: 1,
	})
	switch err = handler.SessionFailure(err); {
	case handler.IsCode(err, failurepb.Code_SESSION_NOT_FOUND):
		return nil, nil //nolint:nilnil // the item is not there, then
	case err != nil:
		return nil, err
	case !handler.Visible(ctx, page.State):
		return nil, nil //nolint:nilnil // nor to this caller
	}
	for _, message := range page.Messages {
		if message.GetNumber() == place.number && message.GetRole() == conversationpb.Role_ASSISTANT {
			return message, nil
		}
	}
	return nil, nil //nolint:nilnil // see above
}

// referredItem is the item that stands at a place of an answer, nil when there is none.
func referredItem(message *conversationpb.Message, place itemPlace) *responseItem {
	at := place.at
	if place.kind == "msg" {
		content := message.GetContent()
		if message == nil || at > len(content) || !utf8.ValidString(content[at:]) {
			return nil
		}
		text := strings.TrimLeft(content[at:], "\n")
		return &responseItem{Type: itemMessage, Role: "assistant", Content: contentInput{RawMessage: quoted(text)}}
	}
	calls := message.GetToolCalls()
	if at >= len(calls) {
		return nil
	}
	return &responseItem{Type: itemCall, CallID: calls[at].GetId(), Name: calls[at].GetName(), Arguments: calls[at].GetArguments()}
}

func notFoundItem(at int, id string) *failure.Failure {
	return failure.New(failurepb.Code_NOT_FOUND, failure.ItemNotFound).Param("item", shortened(id)).At(itemAt(at))
}

// quoted is a text as JSON.
func quoted(text string) []byte { return wire.AppendString(nil, text) }

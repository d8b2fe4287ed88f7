package reads

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/core/failure"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// turnTimeout bounds a read of a turn's result for a task.
const turnTimeout = 10 * time.Second

// Turn reads the result of an ended turn with its answer, or the partial answer of one that waits for a person.
func (r *Reader) Turn(ctx context.Context, conversationID, runID string) (*conversationpb.TurnResult, error) {
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	view, head, err := r.view(ctx, conversationID)
	if err != nil {
		return nil, err
	}
	defer func() { _ = view.Close() }() // closing a snapshot loses nothing
	state, err := decodeState(head.Value)
	if err != nil {
		return nil, err
	}
	turn := &conversationpb.TurnResult{
		RunId: runID, Budget: state.GetBudget(), SpentNanoUsd: state.GetSpentNanoUsd(), Title: state.GetTitle(),
	}
	row, ended, err := view.Item(conversationID, conversation.TableRuns, []byte(runID))
	run := &conversationpb.Run{}
	if err = errors.Join(err, proto.Unmarshal(row, run)); err != nil {
		return nil, readFault("read run", err)
	}
	if !ended {
		paused := state.GetPaused()
		if paused.GetRunId() != runID {
			return nil, failure.New(failurepb.Code_NOT_FOUND, failure.TurnNotFound)
		}
		turn.StopReason, turn.Pending, turn.Response = state.GetStopReason(), state.GetPending(), paused.GetAnswer()
		turn.Usage = paused.GetUsage()
		return turn, nil
	}
	turn.StopReason, turn.Usage, turn.Error = run.GetStopReason(), run.GetUsage(), run.GetError()
	if run.GetAnswer() == 0 {
		return turn, nil
	}
	row, found, err := view.Item(conversationID, conversation.TableMessages, conversation.MessageKey(run.GetAnswer()))
	answer := &conversationpb.Message{}
	if err = errors.Join(err, proto.Unmarshal(row, answer)); err != nil {
		return nil, readFault("read message", err)
	}
	if found && answer.GetRunId() == runID { // else it has been replaced
		turn.Response = answer
	}
	return turn, nil
}

package actors

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/machine"
	"parley/actors/turn"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// Conversations is the kind of conversations: its effects start and stop turns on the runner, its events go to the
// feeds. The runner must publish to the same feeds.
func Conversations(rules machine.Machine, runner *turn.Runner, feeds *Feeds) Kind {
	c := &conversations{runner: runner}
	return Kind{
		Machine: rules,
		Perform: c.perform,
		OnCommit: func(commit Commit) {
			feeds.publish(commit, eventsOf(commit.Events))
		},
		OnLoad: func(at Entity, state proto.Message) {
			if s, ok := state.(*conversationpb.State); ok {
				feeds.reload(at.ID, s)
			}
		},
		OnRelease: runner.Release,
		Starts: func(command proto.Message) bool {
			c, ok := command.(*conversationpb.Command)
			return ok && c.GetSend() != nil
		},
		Finish: runner.Wait,
		Creates: func(command proto.Message) bool {
			c, ok := command.(*conversationpb.Command)
			return ok && c.GetCreate() != nil
		},
		Busy: func(state proto.Message) bool {
			s, ok := state.(*conversationpb.State)
			return ok && s.GetLease() != nil
		},
		Running: conversation.ListRunning,
		Drain:   runner.Drain,
	}
}

type conversations struct {
	runner *turn.Runner
}

func (c *conversations) perform(at Entity, effect machine.Effect) proto.Message {
	switch e := effect.(type) {
	case conversation.StartTurn:
		return c.start(at, e)
	case conversation.ResumeTurn:
		if !c.runner.Active(e.RunID, e.Epoch) {
			return c.start(at, e.StartTurn)
		}
	case conversation.StopTurn:
		c.runner.Stop(e.RunID)
	}
	return nil
}

// start hands a turn to the runner. One that finds no room ends at once; one that finds the node stopping is left to
// the next owner.
func (c *conversations) start(at Entity, e conversation.StartTurn) proto.Message {
	err := c.runner.Start(turn.Job{
		Place:         turn.Place{Shard: at.Shard, Epoch: at.Epoch, ConversationID: e.ConversationID},
		RunID:         e.RunID,
		AgentID:       e.AgentID,
		UserMessage:   e.UserMessage,
		HistoryBefore: e.HistoryBefore,
		Report: func(ctx context.Context, finish *conversationpb.Finish) error {
			return report(ctx, at, finish)
		},
	})
	if errors.Is(err, turn.ErrOverloaded) {
		return finishCommand(at.ID, &conversationpb.Finish{
			RunId: e.RunID, Epoch: e.Epoch, StopReason: conversationpb.StopReason_ERROR,
			Error: &conversationpb.TurnError{Code: "overloaded", Message: "Too many turns are running on this server."},
		})
	}
	return nil
}

// report sends a turn's last word to its conversation and tells the runner what to make of the answer.
func report(ctx context.Context, at Entity, finish *conversationpb.Finish) error {
	_, err := at.Ask(ctx, finishCommand(at.ID, finish))
	var failure *machine.Failure
	switch {
	case err == nil:
		return nil
	case isNotOwner(err):
		return fmt.Errorf("%w: %w", turn.ErrFenced, err)
	case !errors.As(err, &failure) || worthRetry(err):
		return err
	case failure.Code == failurepb.Code_STALE_TURN, failure.Code == failurepb.Code_NOT_FOUND:
		return fmt.Errorf("%w: %w", turn.ErrFenced, err)
	}
	return fmt.Errorf("%w: %w", turn.ErrRefused, err)
}

func finishCommand(id string, finish *conversationpb.Finish) *conversationpb.Command {
	return &conversationpb.Command{
		ConversationId: id,
		Body:           &conversationpb.Command_Finish{Finish: finish},
	}
}

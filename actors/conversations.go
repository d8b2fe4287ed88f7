package actors

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/core/follow"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/actors/turn"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// FeedbackListener is notified of ratings of answers. TellFeedback is called once a rating is durable, at most once for
// each, and must not block.
type FeedbackListener interface {
	TellFeedback(feedback conversation.TellFeedback)
}

// Conversations is the kind of conversations: its effects start and stop turns on the runner, its events go to the
// live streams. The runner must publish to the same live streams. The listener may be nil.
func Conversations(rules machine.Machine, runner *turn.Runner, streams *LiveStreams, listener FeedbackListener) Kind {
	c := &conversations{runner: runner, listener: listener}
	kind := Kind{
		Machine: rules, Command: (*conversationpb.Command)(nil), Missing: conversation.Missing, Queries: conversation.Queries(),
		Tells:   conversation.Tells,
		Perform: c.perform,
		OnCommit: func(commit Commit) {
			streams.publish(commit, eventsOf(commit.Events))
		},
		OnLoad: func(at Entity, state proto.Message) {
			if s, ok := state.(*conversationpb.State); ok {
				streams.reload(at.ID, s)
			}
		},
		OnRelease: runner.Release,
		Starts:    kit.Is(startsTurn),
		Finish:    runner.Wait,
		Underway:  runner.Running,
		Creates: kit.Is(func(c *conversationpb.Command) bool {
			return c.GetCreate() != nil || c.GetOpening().GetCreate() != nil
		}),
		Busy: kit.Is(func(s *conversationpb.State) bool { return s.GetLease() != nil || conversation.Telling(s) }),
		Lost: func(at Entity, state proto.Message) bool {
			s, _ := state.(*conversationpb.State)
			return s.GetLease() != nil && !runner.Active(s.GetLease().GetRunId(), at.Epoch)
		},
		Running: conversation.ListRunning,
		Due:     Due{List: conversation.ListDue, Command: dueCommand},
		Drain:   runner.Drain,
	}
	streams.List(&kind)
	return kind
}

type conversations struct {
	runner   *turn.Runner
	listener FeedbackListener
}

// startsTurn says that a command may begin a turn, or go on with one.
func startsTurn(c *conversationpb.Command) bool {
	switch c.GetBody().(type) {
	case *conversationpb.Command_Send, *conversationpb.Command_Resolve, *conversationpb.Command_Answer, *conversationpb.Command_Continue,
		*conversationpb.Command_Regenerate, *conversationpb.Command_Edit, *conversationpb.Command_Due:
		return true
	}
	return false
}

func dueCommand(id string) proto.Message {
	return &conversationpb.Command{ConversationId: id, Body: &conversationpb.Command_Due{Due: &conversationpb.Due{}}}
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
	case conversation.MeterTurn:
		c.runner.Meter(e.RunID)
	case conversation.TellFeedback:
		if c.listener != nil {
			c.listener.TellFeedback(e)
		}
	}
	return nil
}

// start passes a turn to the runner. If the runner is full the turn ends at once with an error; if the node is stopping,
// the turn is left to the next owner.
func (c *conversations) start(at Entity, e conversation.StartTurn) proto.Message {
	err := c.runner.Start(turn.Job{
		Place:          turn.Place{Shard: at.Shard, Epoch: at.Epoch, ConversationID: e.ConversationID},
		RunID:          e.RunID,
		AgentID:        e.AgentID,
		AgentVersion:   e.AgentVersion,
		UserMessage:    e.UserMessage,
		TenantID:       e.TenantID,
		ProjectID:      e.ProjectID,
		UserID:         e.UserID,
		ByUser:         e.ByUser,
		ByToken:        e.ByToken,
		Mode:           e.Mode,
		Attempt:        e.Attempt,
		HistoryBefore:  e.HistoryBefore,
		Steps:          e.Steps,
		ResumedAt:      e.ResumedAt,
		Calls:          e.Calls,
		Usage:          e.Usage,
		Answer:         e.Answer,
		Budget:         e.Budget != nil,
		Untitled:       e.Untitled,
		RuntimeContext: e.RuntimeContext,
		TurnContext:    e.TurnContext,
		Report: func(ctx context.Context, finish *conversationpb.Finish) error {
			_, err := fromTurn(ctx, at, finishCommand(at.ID, finish))
			return err
		},
		Progress: func(ctx context.Context, progress *conversationpb.Progress) (*conversationpb.Progressed, error) {
			reply, err := fromTurn(ctx, at, &conversationpb.Command{
				ConversationId: at.ID, Body: &conversationpb.Command_Progress{Progress: progress},
			})
			return reply.GetProgressed(), err
		},
		SetTitle: func(ctx context.Context, title *conversationpb.SetTitle) error {
			_, err := fromTurn(ctx, at, &conversationpb.Command{
				ConversationId: at.ID, Body: &conversationpb.Command_SetTitle{SetTitle: title},
				Caller: &conversationpb.Caller{UserId: e.ByUser, TokenId: e.ByToken},
			})
			return err
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

// fromTurn sends a turn's command to its conversation and translates errors into those of package turn.
func fromTurn(ctx context.Context, at Entity, command *conversationpb.Command) (*conversationpb.Reply, error) {
	answer, err := at.Ask(ctx, command)
	reply, _ := answer.(*conversationpb.Reply)
	var failure *machine.Failure
	switch {
	case err == nil:
		return reply, nil
	case follow.IsNotOwner(err):
		return nil, fmt.Errorf("%w: %w", turn.ErrFenced, err)
	case !errors.As(err, &failure) || worthRetry(err):
		return nil, err
	case failure.Code == failurepb.Code_STALE_TURN, failure.Code == failurepb.Code_NOT_FOUND:
		return nil, fmt.Errorf("%w: %w", turn.ErrFenced, err)
	}
	return nil, fmt.Errorf("%w: %w", turn.ErrRefused, err)
}

func finishCommand(id string, finish *conversationpb.Finish) *conversationpb.Command {
	return &conversationpb.Command{
		ConversationId: id,
		Body:           &conversationpb.Command_Finish{Finish: finish},
	}
}

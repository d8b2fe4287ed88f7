package turns

import (
	"context"
	"errors"
	"time"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/actors/core/follow"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

// Asker sends commands to conversations. It may be copied.
type Asker struct {
	Runtime  endpoint.Runtime
	Entities entity.Client
}

// Ask sends a command, once, and returns a failure from another node as an error.
func (a Asker) Ask(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
	reply, err := a.Runtime.Ask(ctx, command)
	if err != nil {
		return nil, err
	}
	if refused := reply.GetRefused(); refused != nil {
		return nil, Refusal(refused)
	}
	return reply, nil
}

// AskUntilSettled retries a waiting command whose owner disappeared while it waited (moved, restarted, passivated). The
// command's id makes the retry safe: a turn that has started is waited for, not started again. An owner that was never
// reached fails soon; a turn that was already waited for gets more time.
func (a Asker) AskUntilSettled(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
	const (
		soon     = 3 * time.Second
		underWay = 6 * time.Second // a call that took so long had reached its owner
		worthIt  = 15 * time.Second
	)
	pause := 20 * time.Millisecond
	giveUp := time.Now().Add(soon)
	for {
		began := time.Now()
		reply, err := a.Ask(ctx, command)
		if err == nil || !Gone(err) {
			return reply, err
		}
		switch now := time.Now(); {
		case now.Sub(began) > underWay:
			giveUp = now.Add(worthIt)
			pause = 20 * time.Millisecond
		case now.After(giveUp):
			return reply, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
			pause = min(3*pause, time.Second)
		}
		command = command.Again()
	}
}

// AskResumed sends a command that resumes a turn and waits for the turn, at most for the given time and until shortly before the
// request's deadline. A turn that takes longer continues, and the reply is Accepted.
func (a Asker) AskResumed(ctx context.Context, command *conversationpb.Command, wait time.Duration) (*conversationpb.Reply, error) {
	const toAnswer = 5 * time.Second
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		wait = min(wait, max(left-toAnswer, left/2))
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	reply, err := a.AskUntilSettled(waiting, command)
	over := waiting.Err() != nil
	cancel()
	if err != nil && over && ctx.Err() == nil {
		return a.Ask(ctx, withoutWait(command.Again())) // the retry finds out whether it was accepted
	}
	return reply, err
}

func withoutWait(command *conversationpb.Command) *conversationpb.Command {
	if resolve := command.GetResolve(); resolve != nil {
		resolve.Wait = false
	}
	if proceed := command.GetContinue(); proceed != nil {
		proceed.Wait = false
	}
	return command
}

// Complete reads the parts of a turn's result that the owner did not have in memory.
func (a Asker) Complete(ctx context.Context, id string, turn *conversationpb.TurnResult) error {
	if !turn.GetPartial() {
		return nil
	}
	const newest = 20
	page, err := entity.Read[*nodepb.MessagesReply](ctx, a.Entities, &nodepb.MessagesQuery{
		Id: id, Offset: -1, Limit: newest, Descending: true,
	})
	if err != nil {
		return err
	}
	asked := turn.GetUserMessage().GetId()
	for _, message := range page.Messages {
		if message.GetRole() == conversationpb.Role_USER {
			if message.GetId() == asked || asked == "" && message.GetRunId() == turn.GetRunId() {
				turn.UserMessage = message
			}
			continue
		}
		if message.GetRunId() != turn.GetRunId() {
			continue
		}
		turn.Response, turn.Usage = message, message.GetUsage()
		if turn.GetStopReason() == conversationpb.StopReason_STOP_UNSPECIFIED {
			turn.StopReason = message.GetStopReason()
		}
	}
	if turn.GetStopReason() == conversationpb.StopReason_STOP_UNSPECIFIED {
		// No longer the last turn, and it left no answer: the reason is only in the event log.
		turn.StopReason = conversationpb.StopReason_ERROR
		turn.Error = &conversationpb.TurnError{Code: "interrupted", Message: "The turn ended without an answer."}
	}
	return nil
}

// Refusal decodes a failure from another node.
func Refusal(refused *conversationpb.Refused) *machine.Failure {
	f, _ := failure.Decode(refused) // details that are not an object are dropped
	return f
}

// Gone says that the owner could not be reached, as opposed to a failure from its rules.
func Gone(err error) bool {
	var refusal *machine.Failure
	if errors.As(err, &refusal) {
		return refusal.Code == failurepb.Code_UNAVAILABLE && !Changed(err)
	}
	return follow.IsUnavailable(err)
}

// Refused says that the rules refused: nothing was done. A missing answer does not count as one.
func Refused(err error) bool {
	var refusal *machine.Failure
	return errors.As(err, &refusal) && !Gone(err)
}

// Changed says that the command's message is out of date and must be read again: nothing was done.
func Changed(err error) bool {
	refusal, is := errors.AsType[*failure.Failure](err)
	return is && refusal.Reason == failure.ConversationChanged
}

// Plausible says whether a text has the form of an id, so that anything else is rejected at once.
func Plausible(id string) bool {
	const maxLen = 64
	if id == "" || len(id) > maxLen {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

package turns

import (
	"context"
	"errors"
	"time"

	"parley/actors/core/failure"
	"parley/actors/core/feature"
	"parley/actors/core/follow"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// Asker asks conversations. Its copies are as good as it.
type Asker struct {
	Runtime endpoint.Runtime
	Reader  endpoint.Reader
	// Features is what the nodes of the cluster have in common; nil = all that this release has.
	Features *feature.Gate
}

// Ask sends a command, once, and unwraps a refusal that another node answered with.
func (a Asker) Ask(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
	command, takeBack, err := a.Stepwise(ctx, command)
	if err != nil {
		return nil, err
	}
	reply, err := a.ask(ctx, command)
	takeBack(err)
	return reply, err
}

func (a Asker) ask(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
	reply, err := a.Runtime.Ask(ctx, command)
	if err != nil {
		return nil, err
	}
	if refused := reply.GetRefused(); refused != nil {
		return nil, Refusal(refused)
	}
	return reply, nil
}

// AskUntilSettled repeats a waiting command whose owner went away while it waited (moved, restarted, passivated). The
// command's id makes the repeat safe: a turn that has begun is waited for, not begun again. Who cannot be answered at
// all is told so soon; a turn that had been waited for is worth a longer wait.
func (a Asker) AskUntilSettled(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
	command, takeBack, err := a.Stepwise(ctx, command)
	if err != nil {
		return nil, err
	}
	reply, err := a.askUntilSettled(ctx, command)
	takeBack(err)
	return reply, err
}

func (a Asker) askUntilSettled(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
	const (
		soon     = 3 * time.Second
		underWay = 6 * time.Second // an answer that took so long was waited for, not looked for
		worthIt  = 15 * time.Second
	)
	pause := 20 * time.Millisecond
	giveUp := time.Now().Add(soon)
	for {
		began := time.Now()
		reply, err := a.ask(ctx, command)
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

// AskResumed sends a command that resumes a turn and waits for the turn, for as long as the wait but not to the very end of
// the request. A turn that takes longer goes on, and the reply is Accepted.
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
		return a.Ask(ctx, withoutWait(command.Again())) // whether it was accepted is what its repeat tells
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

// Complete reads what is missing in the result of a turn of which the owner only knew the head.
func (a Asker) Complete(ctx context.Context, id string, turn *conversationpb.TurnResult) error {
	if !turn.GetPartial() {
		return nil
	}
	const newest = 20
	page, err := a.Reader.Messages(ctx, endpoint.MessageQuery{
		ConversationID: id, Offset: -1, Limit: newest, Descending: true,
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
		// Not the last turn any more, and it left no answer: why is only in its event log.
		turn.StopReason = conversationpb.StopReason_ERROR
		turn.Error = &conversationpb.TurnError{Code: "interrupted", Message: "The turn ended without an answer."}
	}
	return nil
}

// Refusal is a refusal that crossed nodes.
func Refusal(refused *conversationpb.Refused) *machine.Failure {
	f, _ := failure.Decode(refused) // details that are no object are none
	return f
}

// Gone says that an owner could not be asked, not that it refused.
func Gone(err error) bool {
	var refusal *machine.Failure
	if errors.As(err, &refusal) {
		return refusal.Code == failurepb.Code_UNAVAILABLE && !Changed(err)
	}
	return follow.IsUnavailable(err)
}

// Refused says that the rules refused: nothing was done. An answer that is missing says nothing.
func Refused(err error) bool {
	var refusal *machine.Failure
	return errors.As(err, &refusal) && !Gone(err)
}

// Changed says that the rules want the message of a command read again: nothing was done.
func Changed(err error) bool {
	refusal, is := errors.AsType[*failure.Failure](err)
	return is && refusal.Reason == failure.ConversationChanged
}

// Plausible says whether a text could be an id at all, so that nothing else goes any further.
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

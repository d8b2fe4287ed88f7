package turn

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// separator parts the texts of two model calls in one answer.
const separator = "\n\n"

// talk is a turn's conversation with the model: one call, or several when the model asks for tools. It is the stream
// of each call.
type talk struct {
	runner   *Runner
	run      *run
	agent    *agentpb.Agent
	provider model.Provider

	length int // bytes written
	inCall int // bytes written in this model call
	cut    context.CancelCauseFunc
	usage  usage
	calls  []*conversationpb.ToolCall
}

// ending is why the talk ended.
type ending struct {
	reason conversationpb.StopReason
	err    error
}

// Text hears a piece of the answer.
func (k *talk) Text(piece string) {
	if piece == "" {
		return
	}
	if !utf8.ValidString(piece) {
		piece = strings.ToValidUTF8(piece, "\uFFFD")
	}
	if k.inCall == 0 && k.length > 0 {
		piece = separator + piece
	}
	if k.length == 0 {
		k.runner.metrics.first.Observe(time.Since(k.run.started).Seconds())
	}
	if room := k.runner.config.MaxText - k.length; len(piece) > room {
		piece = strings.ToValidUTF8(piece[:max(room, 0)], "")
		k.cut(errTooLong)
	}
	k.length += len(piece)
	k.inCall += len(piece)
	k.run.output.Write(piece)
}

// ToolCall hears a tool call; the answer brings it again, with the others.
func (k *talk) ToolCall(model.ToolCall) {}

// hold calls the model until it has said all it wanted.
func (k *talk) hold(ctx context.Context) ending {
	ctx, k.cut = context.WithCancelCause(ctx)
	defer k.cut(nil)
	request := &model.Request{Agent: k.agent, RunID: k.run.job.RunID}
	var err error
	if request.Messages, err = k.runner.window(ctx, k.run.job, k.agent, k.provider.NeedsHistory()); err != nil {
		return ending{err: err}
	}
	rounds := int(k.agent.GetMaxTurns())
	if rounds <= 0 {
		rounds = k.runner.config.MaxRounds
	}
	for {
		k.inCall = 0
		answer, err := k.provider.Generate(ctx, request, k)
		k.usage.add(answer)
		if ctx.Err() != nil {
			return ending{err: context.Cause(ctx)}
		}
		if err != nil {
			return ending{err: err}
		}
		if answer == nil {
			return ending{err: errors.New("the provider gave no answer")}
		}
		if k.inCall == 0 {
			k.Text(answer.Text)
		}
		if len(answer.ToolCalls) == 0 {
			return ending{reason: reasonOf(answer.Stop)}
		}
		k.refuseTools(request, answer)
		if request.Step++; request.Step >= rounds {
			return ending{reason: conversationpb.StopReason_MAX_TURNS}
		}
	}
}

// refuseTools answers every tool call with an error, in the record of the turn and in the next request.
func (k *talk) refuseTools(request *model.Request, answer *model.Answer) {
	const refusal = "error: there is no such tool"
	messages := append(request.Messages[:len(request.Messages):len(request.Messages)],
		model.Message{Role: model.Assistant, Content: answer.Text, ToolCalls: answer.ToolCalls})
	for _, call := range answer.ToolCalls {
		messages = append(messages, model.Message{Role: model.ToolRole, ToolID: call.ID, Content: refusal})
		k.calls = append(k.calls, &conversationpb.ToolCall{
			Id: call.ID, Name: call.Name, Arguments: call.Arguments, Error: "there is no such tool",
		})
	}
	request.Messages = messages
}

// finish is the report, but for the text.
func (k *talk) finish(ctx context.Context, end ending) *conversationpb.Finish {
	finish := k.outcome(ctx, end)
	finish.Usage = k.usage.priced(k.agent.GetModel().GetPrice())
	finish.ToolCalls = k.calls
	return finish
}

func (k *talk) outcome(ctx context.Context, end ending) *conversationpb.Finish {
	var refused *model.Error
	switch {
	case errors.Is(context.Cause(ctx), errStopped):
		return &conversationpb.Finish{StopReason: conversationpb.StopReason_CANCELLED}
	case errors.Is(end.err, errTooLong):
		return &conversationpb.Finish{StopReason: conversationpb.StopReason_LIMIT}
	case errors.Is(end.err, errTimeout):
		return failedWith("provider_timeout", "The turn took too long.")
	case errors.As(end.err, &refused):
		k.log(end.err)
		return failedWith(refused.Code, refused.Message)
	case end.err != nil:
		k.log(end.err)
		return failedWith("provider_error", "The model could not be called.")
	case end.reason == conversationpb.StopReason_ERROR:
		return failedWith("content_filtered", "The model's provider withheld the answer.")
	}
	return &conversationpb.Finish{StopReason: end.reason}
}

// log tells the log what the caller must not see.
func (k *talk) log(err error) {
	var refused *model.Error
	if errors.As(err, &refused) && refused.Err != nil {
		err = errors.Join(err, refused.Err)
	}
	k.runner.config.Logger.Warn("model call ended in an error", slog.String("run", k.run.job.RunID),
		slog.String("conversation", k.run.job.ConversationID), slog.String("agent", k.agent.GetId()), slog.Any("err", err))
}

func reasonOf(stop model.Stop) conversationpb.StopReason {
	switch stop {
	case model.StopLength:
		return conversationpb.StopReason_LIMIT
	case model.StopFilter:
		return conversationpb.StopReason_ERROR
	default:
		return conversationpb.StopReason_END_TURN
	}
}

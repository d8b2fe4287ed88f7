package inference

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"parley/actors/dialect/chat"
	"parley/actors/machine/rawjson"
	"parley/actors/provider"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
)

// generateChat asks a provider that does not speak the wire form.
func (c *Caller) generateChat(ctx context.Context, call *Call, t *target) (*completion, error) {
	whole := &thoughts{}
	generated, err := c.generate(ctx, call, t, provider.Whole, whole)
	if err != nil && generated == nil {
		return nil, err
	}
	delta := generated.delta()
	delta.Thought = textOf(whole.said.String())
	said := &completion{choices: []chat.Delta{delta}, used: usageOf(generated.answer)}
	said.used.guess(call, len(generated.answer.Text)+whole.said.Len())
	if err == nil && generated.answer.Stop == model.StopLength && generated.answer.Text == "" && len(generated.answer.ToolCalls) == 0 {
		err = cutShort()
	}
	return said, err
}

// fromModel translates an error of package model, which has made its retries already.
func fromModel(err error) error {
	failed, ok := errors.AsType[*model.Error](err)
	if !ok {
		return err
	}
	if cause, ok := errors.AsType[*provider.Failure](failed.Err); ok {
		once := *cause
		once.Final = true
		return &once
	}
	once := &provider.Failure{Class: provider.ServerError, Status: http.StatusBadGateway, Message: failed.Message, Final: true, Reason: failed}
	switch failed.Code {
	case model.CodeProviderTimeout:
		once.Class, once.Status = provider.Timeout, 0
	case model.CodeRateLimited:
		once.Class = provider.RateLimited
	case model.CodeOverloaded:
		once.Class, once.Status = provider.Overloaded, http.StatusServiceUnavailable
	case model.CodeInvalidRequest:
		once.Class = provider.Invalid
	case model.CodeAuthentication:
		once.Class = provider.Credentials
	case model.CodeCut:
		once.Class = provider.Cut
	}
	return once
}

// thoughts is a stream for calls whose answer is not streamed. It keeps what is not in the answer.
type thoughts struct{ said strings.Builder }

// Text implements model.Stream.
func (*thoughts) Text(string) {}

// ToolCall implements model.Stream.
func (*thoughts) ToolCall(model.ToolCall) {}

// Thought implements model.Thinker.
func (t *thoughts) Thought(piece string) { t.said.WriteString(piece) }

// generated is an answer of package model.
type generated struct{ answer *model.Answer }

// generate makes the call. With an error there is an answer only if the provider wrote something, or told of its usage.
func (c *Caller) generate(ctx context.Context, call *Call, t *target, kind string, stream model.Stream) (*generated, error) {
	adapter, ok := c.parts.Providers[t.model.GetProvider()]
	if !ok {
		return nil, &Error{
			Status: http.StatusInternalServerError, Type: typeServer, Code: "inference_error",
			Message: "The model's provider cannot be called here",
		}
	}
	request, refused := readChat(call, t)
	if refused != nil {
		return nil, refused
	}
	t.sent.Store(t.model.GetProvider() == agentpb.Provider_SCRIPTED) // the others say when
	ctx = provider.Traced(ctx, &t.sent)
	var answer *model.Answer
	err := c.attempts(ctx, t, kind, func(ctx context.Context) error {
		var err error
		answer, err = adapter.Generate(ctx, request, stream)
		if err != nil {
			return fromModel(err)
		}
		return nil
	})
	if answer == nil || (err != nil && answer.Text == "" && answer.Usage == (model.Usage{})) {
		return nil, err
	}
	return &generated{answer: answer}, err
}

func usageOf(answer *model.Answer) consumed {
	usage := answer.Usage
	used := consumed{Usage: chat.Usage{
		Input: usage.InputTokens, Output: usage.OutputTokens, Cached: usage.CachedInputTokens,
		Total: usage.InputTokens + usage.OutputTokens, Known: usage.Known, Disbelieved: usage.Disbelieved,
	}}
	if usage.CachedInputTokens > 0 {
		used.InputDetails = append(strconv.AppendInt([]byte(`{"cached_tokens":`), usage.CachedInputTokens, 10), '}')
	}
	if usage.ReasoningTokens > 0 {
		used.OutputDetails = append(strconv.AppendInt([]byte(`{"reasoning_tokens":`), usage.ReasoningTokens, 10), '}')
	}
	return used
}

func finishOf(stop model.Stop) chat.Finish {
	switch stop {
	case model.StopTools:
		return chat.ToolCalls
	case model.StopLength:
		return chat.Length
	case model.StopFilter:
		return chat.Filter
	case model.StopEnd:
	}
	return chat.Stop
}

// delta is the whole answer.
func (s *generated) delta() chat.Delta {
	whole := chat.Delta{
		Text: textOf(s.answer.Text), Finish: finishOf(s.answer.Stop),
		Rest: rawjson.Fields{{Name: "annotations", Value: []byte("[]")}},
	}
	for i, call := range s.answer.ToolCalls {
		whole.Calls = append(whole.Calls, callOf(i, call))
	}
	return whole
}

func textOf(text string) rawjson.Text {
	if text == "" {
		return nil
	}
	return rawjson.AppendString(nil, text)
}

func callOf(number int, call model.ToolCall) chat.Call {
	return chat.Call{Number: number, First: true, ID: call.ID, Name: call.Name, Arguments: textOf(call.Arguments)}
}

// generateStream streams the answer of a provider that is not OpenAI-compatible.
func (c *Caller) generateStream(ctx context.Context, call *Call, t *target, out *chunks) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(context.Canceled)
	chunkStream := &chunkStream{out: out, cancel: cancel}
	generated, err := c.generate(ctx, call, t, provider.Streamed, chunkStream)
	if generated != nil {
		out.used = usageOf(generated.answer)
	}
	if chunkStream.failed != nil {
		return chunkStream.failed
	}
	if err != nil {
		return err
	}
	out.used.guess(call, out.answerBytes)
	out.open(nil, 0)
	if err := out.part(&chat.Delta{Finish: finishOf(generated.answer.Stop)}, true); err != nil {
		return err
	}
	return out.close()
}

// chunkStream turns the output of package model into chunks.
type chunkStream struct {
	out    *chunks
	cancel context.CancelCauseFunc
	calls  int
	failed error
}

// Text implements model.Stream.
func (t *chunkStream) Text(piece string) {
	t.write(&chat.Delta{Text: textOf(piece)})
}

// ToolCall implements model.Stream.
func (t *chunkStream) ToolCall(call model.ToolCall) {
	t.write(&chat.Delta{Calls: []chat.Call{callOf(t.calls, call)}})
	t.calls++
}

// Thought implements model.Thinker.
func (t *chunkStream) Thought(piece string) {
	t.write(&chat.Delta{Thought: textOf(piece)})
}

// Unsaid implements model.Overhearer: it counts for a call that is cut.
func (t *chunkStream) Unsaid(piece string) { t.out.answerBytes += len(piece) }

func (t *chunkStream) write(delta *chat.Delta) {
	if t.failed != nil {
		return
	}
	t.out.open(nil, 0)
	if t.failed = t.out.part(delta, false); t.failed != nil {
		t.cancel(t.failed)
	}
}

package inference

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"parley/actors/machine/rawjson"
	"parley/actors/turn/model"
)

// drainWait bounds reading to the end of a stream that has ended, so that its connection can serve again.
const drainWait = 50 * time.Millisecond

// ChatStream makes a chat completion and passes it on as it comes. An error before the first chunk was emitted is of the call
// as a whole: nothing was passed on. The error is an *Error, the cause with which ctx ended, or what emit returned.
func (c *Caller) ChatStream(ctx context.Context, call *Call, emit Emit) error {
	leave, t, refused := c.open(call, ServiceChat, "llm", "")
	if refused != nil {
		return refused
	}
	defer leave()
	ctx, release := context.WithTimeoutCause(ctx, c.config.StreamTimeout, errStreamTime)
	defer release()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(context.Canceled)
	var left error // what emit returned: the caller is gone
	out := newChunks(call, func(chunk []byte, more bool) error {
		if left = emit(chunk, more); left != nil {
			cancel(left)
		}
		return left
	})
	started := time.Now()
	err := c.stream(ctx, cancel, call, t, out)
	outcome := outcomeOf(ctx, err)
	if left != nil {
		err, outcome = left, outcomeCancelled
	}
	if err == nil || out.begun {
		out.used.guess(call, out.spoken)
	}
	out.used.charge(call, t, outcome, err)
	c.book(call, t, &out.used, outcome, started)
	return err
}

func (c *Caller) stream(ctx context.Context, cancel context.CancelCauseFunc, call *Call, t *target, out *chunks) error {
	switch {
	case !t.relayed():
		return c.speakStream(ctx, call, t, out)
	case t.settings.noStreamedTool && hasTools(call):
		return c.pretend(ctx, call, t, out)
	default:
		return c.relayStream(ctx, cancel, call, t, out)
	}
}

func hasTools(call *Call) bool {
	tools, err := rawjson.Array(call.Body.Get("tools"), maxChoices)
	return err == nil && len(tools) > 0
}

// relayStream passes a provider's stream on.
func (c *Caller) relayStream(ctx context.Context, cancel context.CancelCauseFunc, call *Call, t *target, out *chunks) error {
	address, err := model.OpenAIURL(t.model, "/chat/completions")
	if err != nil {
		return fromModel(err, t.model)
	}
	body, refused := chatBody(t, call, true)
	if refused != nil {
		return refused
	}
	// Until the first chunk is here the limit is of all attempts together, from then on of each wait.
	timer := time.AfterFunc(c.config.RequestTimeout, func() { cancel(errTimeout) })
	defer timer.Stop()
	var source *events
	var first []byte
	err = c.attempts(ctx, t, "chat-stream", func(ctx context.Context) error {
		response, failed := c.post(ctx, t, address, body) //nolint:bodyclose // source closes it
		if failed != nil {
			return failed
		}
		source = newEvents(response.Body, c.config.MaxChunkBytes, c.config.MaxStreamBytes)
		if first, failed = source.first(); failed != nil {
			_ = source.body.Close() // why there is no stream is what counts
			return unwrapped(ctx, failed)
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer func() {
		timer.Reset(drainWait)
		source.close()
	}()
	timer.Stop()
	source.idle = func() func() bool {
		timer.Reset(c.config.RequestTimeout)
		return timer.Stop
	}
	err = copyChunks(source, first, out)
	if err == nil {
		out.used.guess(call, out.spoken)
		return out.close()
	}
	if left := gone(ctx); left != nil {
		return left
	}
	return broken(unwrapped(ctx, err), t.model)
}

func copyChunks(source *events, chunk []byte, out *chunks) error {
	for string(chunk) != endMark {
		if err := out.relay(chunk, source.more()); err != nil {
			return err
		}
		var err error
		if chunk, err = source.next(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// first waits for the first chunk. A stream that begins with an error, or with nothing, is none.
func (e *events) first() ([]byte, error) {
	chunk, err := e.next()
	if errors.Is(err, io.EOF) {
		if e.got { // an answer of another kind
			return nil, documentError(e.document)
		}
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	if string(chunk) == endMark {
		return chunk, nil
	}
	if !json.Valid(chunk) {
		return nil, errShape
	}
	fields, err := rawjson.Object(chunk)
	if err != nil {
		return nil, errShape
	}
	if fields.Get("error") != nil {
		return nil, readSignal(0, chunk)
	}
	return chunk, nil
}

// documentError is what a provider says that answered with a document where a stream was asked for.
func documentError(document []byte) error {
	if json.Valid(document) {
		if fields, err := rawjson.Object(document); err == nil && fields.Get("error") != nil {
			return readSignal(0, document)
		}
	}
	return errShape
}

// pretend streams an answer that was made whole: some models cannot stream tool calls.
func (c *Caller) pretend(ctx context.Context, call *Call, t *target, out *chunks) error {
	bounded, release := c.guard(ctx)
	defer release()
	said, err := c.relayChat(bounded, call, t)
	if said != nil {
		out.used = said.used
	}
	if err != nil {
		return err
	}
	var parts []struct {
		Index    int             `json:"index"`
		Message  json.RawMessage `json:"message"`
		Logprobs json.RawMessage `json:"logprobs"`
		Finish   string          `json:"finish_reason"`
	}
	if json.Unmarshal(said.choices, &parts) != nil {
		return broken(errShape, t.model)
	}
	out.open(said.fingerprint, said.created)
	for _, part := range parts {
		if err := out.part(part.Index, part.Message, part.Logprobs, part.Finish, true); err != nil {
			return broken(err, t.model)
		}
	}
	return out.close()
}

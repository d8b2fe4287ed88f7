package inference

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"parley/actors/machine/rawjson"
	"parley/actors/provider"
	"parley/actors/stranger"
	"parley/actors/turn/model"
)

// endMark is the last event of a stream.
const endMark = "[DONE]"

// ChatStream makes a chat completion and streams it. After an error before the first chunk nothing was emitted, and the whole call
// has failed. The error is an *Error, the cause with which ctx ended, or what emit returned.
func (c *Caller) ChatStream(ctx context.Context, call *Call, emit Emit) error {
	leave, t, refused := c.open(call, ServiceChat, "llm", "")
	if refused != nil {
		return refused
	}
	defer leave()
	ctx, release := context.WithTimeoutCause(ctx, c.config.StreamTimeout, provider.ErrTotal)
	defer release()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(context.Canceled)
	var left error // what emit returned: the caller is gone
	out := newChunks(call, t, func(chunk []byte, more bool) error {
		t.made.Begun()
		if left = emit(chunk, more); left != nil {
			cancel(left)
		}
		return left
	})
	opened, held := c.parts.Answers.Open(stranger.Of(ctx, call.TenantID))
	defer held.Close()
	err := c.stream(opened, call, t, out)
	outcome := outcomeOf(ctx, err)
	if left != nil {
		err, outcome = left, outcomeCancelled
	}
	if err == nil || out.begun {
		out.used.guess(call, out.answerBytes)
	}
	out.used.charge(call, t, outcome, err)
	c.book(call, t, &out.used, outcome)
	return err
}

func (c *Caller) stream(ctx context.Context, call *Call, t *target, out *chunks) error {
	switch {
	case !t.relayed():
		return c.generateStream(ctx, call, t, out)
	case t.settings.noStreamedTool && hasTools(call):
		return c.pretend(ctx, call, t, out)
	default:
		return c.relayStream(ctx, call, t, out)
	}
}

func hasTools(call *Call) bool {
	tools, err := rawjson.Array(call.Body.Get("tools"), maxChoices)
	return err == nil && len(tools) > 0
}

// relayStream relays a provider's stream.
func (c *Caller) relayStream(ctx context.Context, call *Call, t *target, out *chunks) error {
	address, err := model.OpenAIURL(t.model, "/chat/completions")
	if err != nil {
		return badAddress(err)
	}
	body, refused := chatBody(t, call, true)
	if refused != nil {
		return refused
	}
	// Until the first chunk arrives, the limit bounds all attempts together; after it, each wait for a chunk.
	due := time.Now().Add(c.config.RequestTimeout)
	err = c.attempts(ctx, t, provider.Streamed, func(ctx context.Context) error {
		exchange := c.exchange(t)
		exchange.Limits = provider.Limits{
			First: time.Until(due), Idle: c.config.RequestTimeout,
			MaxStreamBytes: c.config.MaxStreamBytes, MaxLineBytes: c.config.MaxChunkBytes,
		}
		ctx = exchange.Open(ctx)
		defer exchange.Close()
		request, failed := post(ctx, t, address, body)
		if failed != nil {
			return failed
		}
		response, failed := exchange.Do(request)
		if failed == nil {
			failed = copyChunks(exchange, provider.NewEvents(response.Body), out)
			_ = response.Body.Close() // an error only prevents reuse of the connection
		}
		return exchange.Verdict(ctx, failed)
	})
	if err != nil {
		return err
	}
	out.used.guess(call, out.answerBytes)
	return out.close()
}

// copyChunks relays the chunks until the stream ends.
func copyChunks(exchange *provider.Exchange, source *provider.Events, out *chunks) error {
	for {
		chunk, err := source.Next()
		switch {
		case errors.Is(err, io.EOF) && !out.begun && (source.Text || source.Document != nil):
			return documentError(source.Document, out)
		case errors.Is(err, io.EOF) && !out.begun:
			return &provider.Failure{Class: provider.Cut, Reason: io.ErrUnexpectedEOF}
		case errors.Is(err, io.EOF), err == nil && string(chunk) == endMark:
			exchange.Finish()
			return nil
		case err != nil:
			return err
		}
		exchange.Alive()
		if err := out.relay(chunk, source.More()); err != nil {
			return err
		}
	}
}

// documentError is the error of a provider that answered with a JSON document instead of a stream.
func documentError(document []byte, out *chunks) error {
	if json.Valid(document) {
		if fields, err := rawjson.Object(document); err == nil && fields.Get("error") != nil {
			return provider.Complaint(0, document, provider.RedactorOf(out.callee))
		}
	}
	return unreadable()
}

// pretend streams an answer that came in one piece: some models cannot stream tool calls.
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
		return worded(unreadable(), t.model)
	}
	out.open(said.fingerprint, said.created)
	for _, part := range parts {
		if err := out.part(part.Index, part.Message, part.Logprobs, part.Finish, true); err != nil {
			return worded(err, t.model)
		}
	}
	return out.close()
}

package inference

import (
	"context"
	"io"
	"slices"
	"time"

	"parley/actors/dialect/chat"
	"parley/actors/machine/rawjson"
	"parley/actors/provider"
	"parley/actors/stranger"
	"parley/actors/turn/model"
)

// ChatStream makes a chat completion and streams it. After an error before the first chunk nothing was emitted, and the whole call
// has failed. The error is an *Error, the cause with which ctx ended, or what emit returned.
func (c *Caller) ChatStream(ctx context.Context, call *Call, emit Emit) error {
	leave, refused := c.enter()
	if refused != nil {
		return refused
	}
	defer leave()
	r, refused := c.route(ctx, call, c.streams())
	if refused != nil {
		return refused
	}
	for at := range r.tried {
		begun, err := c.tryStream(ctx, r, at, emit)
		if err == nil || begun || r.last(at) || !handsOn(ctx, err) {
			return err
		}
	}
	return nil // not reached: the last one has returned
}

// streamed streams the answer of one model.
func (c *Caller) streamed(ctx context.Context, call *Call, t *target, emit Emit) error {
	if err := c.pay(ctx, call, t); err != nil {
		t.made.End(outcomeError)
		return err
	}
	ctx, release := context.WithTimeoutCause(ctx, c.config.StreamTimeout, provider.ErrTotal)
	defer release()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(context.Canceled)
	var left error // what emit returned: the caller is gone
	out := newChunks(call, func(chunk []byte, more bool) error {
		t.made.Begun()
		if left = emit(chunk, more); left != nil {
			cancel(left)
		}
		return left
	})
	defer t.settle(&out.used)                   // whatever breaks
	out.ending = func() { t.settle(&out.used) } // before the client hears that it is over
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
	return slices.ContainsFunc([]string{"tools", "functions"}, func(name string) bool {
		tools, err := rawjson.Array(call.Body.Get(name), maxChoices)
		return err == nil && len(tools) > 0
	})
}

// relayStream relays a provider's stream.
func (c *Caller) relayStream(ctx context.Context, call *Call, t *target, out *chunks) error {
	address, err := model.OpenAIURL(t.model, "/chat/completions")
	if err != nil {
		return badAddress(err)
	}
	// Until the first chunk arrives, the limit bounds all attempts together; after it, each wait for a chunk.
	due := time.Now().Add(c.config.RequestTimeout)
	err = c.relay(ctx, call, t, true, func(ctx context.Context, body []byte) error {
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
			failed = copyChunks(exchange, response.Body, t.reader(call), out)
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

// reader reads the answer to a call.
func (t *target) reader(call *Call) *chat.Reader {
	return chat.NewReader(provider.RedactorOf(t.model), int(max(number(t.asked(call).Get("n")), 1)))
}

// copyChunks relays the chunks until the answer ends.
func copyChunks(exchange *provider.Exchange, body io.Reader, reader *chat.Reader, out *chunks) error {
	if !out.begun {
		out.choices = nil // of an attempt that failed
	}
	err := reader.Stream(body, func(deltas []chat.Delta, more bool) error {
		exchange.Alive()
		if err := out.hear(reader, deltas, more); err != nil {
			return err
		}
		if len(deltas) > 0 && deltas[len(deltas)-1].Finish != "" && reader.Complete() {
			exchange.Finish()
		}
		return nil
	})
	if err == nil {
		exchange.Finish()
	}
	return err
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
	out.open(said.fingerprint, said.created)
	for i := range said.choices {
		if err := out.part(&said.choices[i], true); err != nil {
			return err
		}
	}
	return out.close()
}

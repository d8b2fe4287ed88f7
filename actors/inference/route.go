package inference

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"parley/actors/core/routing"
	"parley/actors/machine/rawjson"
	"parley/actors/provider"
)

// manner is what is asked of models, and how.
type manner struct {
	service    string
	kind       string // of circuits
	categories []string
	do         func(context.Context, *Call, *target, *consumed) ([]byte, error) // unstreamed
}

// route is the models that a call is made to, in order: the one that it names, or those that a dynamic one tries. No model is tried
// after a part of an answer was passed on.
type route struct {
	tried []*Call
	by    string    // key of the dynamic model, "" = none
	ends  time.Time // of all attempts together, as Config.RequestTimeout says
}

// route finds what a call is made to (document 3, 10.6). Candidates whose circuit is open come last: they would be refused.
func (c *Caller) route(ctx context.Context, call *Call, how *manner) (*route, *Error) {
	_, record, _ := c.parts.Catalog.Model(call.ProjectID, call.Model)
	dynamic := routing.Of(record.GetProviderKey(), record.GetSettings())
	if dynamic == nil {
		return &route{tried: []*Call{call}}, nil
	}
	if !slices.Contains(how.categories, record.GetCategory()) {
		return nil, wrongCategory(call.Model, record.GetCategory(), how.service)
	}
	r := &route{by: call.Model, ends: time.Now().Add(c.config.RequestTimeout)}
	signals := signalsOf(call)
	keys := routing.Order(dynamic, &routing.Env{
		Signals: signals, Draw: rand.Float64,
		Find: func(key string) (routing.Found, bool) {
			callee, found, _ := c.parts.Catalog.Model(call.ProjectID, key)
			inner := routing.Of(found.GetProviderKey(), found.GetSettings())
			fits := cmp.Or(found.GetCategory(), "llm") == cmp.Or(record.GetCategory(), "llm")
			return routing.Found{Category: found.GetCategory(), Dynamic: inner}, fits && (callee != nil || inner != nil)
		},
		Cost: func(key string) (int64, bool) { return c.estimate(call, key, how) },
		Pace: func(key string) (time.Duration, bool) { return c.paces.of(paceKey(call.ProjectID, key, how.kind)) },
		Decide: func(decider *routing.Decider) string {
			word, err := c.decide(ctx, call, decider, signals.Text)
			if err != nil {
				c.parts.Logger.Warn("a dynamic model's decider gave no word: its default is taken") // the call itself is logged by its retries
			}
			return word
		},
	})
	if ctx.Err() != nil || len(keys) == 0 {
		return nil, &Error{
			Status: http.StatusServiceUnavailable, Type: typeServer, Code: "provider_unavailable", Param: "model",
			Message: "None of the models that `" + shorten(call.Model) + "` chooses among can be called",
		}
	}
	var open []*Call
	for _, key := range keys {
		one := *call
		one.Model, one.Routing = key, call.Model
		callee, _, _ := c.parts.Catalog.Model(call.ProjectID, key)
		if c.parts.Circuits.Open(provider.CircuitID(how.kind, call.ProjectID, callee)) {
			open = append(open, &one)
			continue
		}
		r.tried = append(r.tried, &one)
	}
	r.tried = append(r.tried, open...)
	return r, nil
}

// last says whether no other model is tried after one.
func (r *route) last(at int) bool { return at+1 >= len(r.tried) }

// left is how long one of several candidates may take: half of the time that is left, the last one all of it.
func (r *route) left(at int) time.Duration {
	left := max(time.Until(r.ends), 0)
	if !r.last(at) {
		left /= 2
	}
	return left
}

// handsOn says whether another model is tried after an error. It is not when the caller has left, when what was asked is
// against a policy of the provider, when the answer used up the tokens that the caller allowed, and when budgets cannot be asked.
func handsOn(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	if refused, is := errors.AsType[*provider.Failure](err); is && refused.Class == provider.ContentPolicy {
		return false
	}
	failed, is := errors.AsType[*Error](err)
	if !is {
		return provider.IsTimeLimit(err)
	}
	return failed.Type != typeOutputLimit && failed.Code != "quota_check_failed"
}

// unstreamed makes an unstreamed call to the models of its route until one has answered.
func (c *Caller) unstreamed(ctx context.Context, call *Call, how *manner) ([]byte, error) {
	leave, refused := c.enter()
	if refused != nil {
		return nil, refused
	}
	defer leave()
	r, refused := c.route(ctx, call, how)
	if refused != nil {
		return nil, refused
	}
	for at := range r.tried {
		answer, err := c.tryWhole(ctx, r, at, how)
		if err == nil || r.last(at) || !handsOn(ctx, err) {
			return answer, err
		}
	}
	return nil, nil // not reached: the last one has returned
}

func (c *Caller) tryWhole(ctx context.Context, r *route, at int, how *manner) ([]byte, error) {
	call := r.tried[at]
	t, refused := c.lookup(call, how.service, how.categories...)
	if refused != nil {
		return nil, refused
	}
	if said := c.recall(call, t); said != nil {
		return c.again(ctx, call, t, said)
	}
	c.start(call, t)
	if r.by != "" {
		var release context.CancelFunc
		ctx, release = context.WithTimeoutCause(ctx, r.left(at), provider.ErrTotal)
		defer release()
		t.dearest = c.dearest(r.tried[at+1:], how)
	}
	began := time.Now()
	answer, err := c.whole(ctx, call, t, how.do)
	if err == nil {
		c.paces.note(paceKey(call.ProjectID, call.Model, how.kind), time.Since(began), time.Now())
	}
	return answer, err
}

// tryStream is tryWhole for a streamed answer. begun says that a part of it was passed on.
func (c *Caller) tryStream(ctx context.Context, r *route, at int, emit Emit) (begun bool, err error) {
	call, how := r.tried[at], c.streams()
	t, refused := c.find(call, how.service, how.categories...)
	if refused != nil {
		return false, refused
	}
	limit := func() bool { return true }
	if !r.last(at) {
		t.dearest = c.dearest(r.tried[at+1:], how)
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(context.Canceled)
		timer := time.AfterFunc(r.left(at), func() { cancel(provider.ErrTotal) })
		defer timer.Stop()
		limit = timer.Stop
	}
	started := time.Now()
	err = c.streamed(ctx, call, t, func(chunk []byte, more bool) error {
		if !begun {
			if !limit() {
				return provider.ErrTotal // the next one has been given its turn
			}
			begun = true
			c.paces.note(paceKey(call.ProjectID, call.Model, how.kind), time.Since(started), time.Now())
		}
		return emit(chunk, more)
	})
	return begun, err
}

func (c *Caller) streams() *manner {
	return &manner{service: ServiceChat, kind: provider.Streamed, categories: []string{"llm", ""}}
}

// dearest is the most that one of several models may cost for a call: that much is held for whichever runs.
func (c *Caller) dearest(calls []*Call, how *manner) (most int64) {
	if c.parts.Door == nil || len(calls) == 0 || !c.parts.Door.Guards(calls[0].TenantID) {
		return 0
	}
	for _, call := range calls {
		if t, refused := c.lookup(call, how.service, how.categories...); refused == nil {
			if outlay, _, err := t.outlay(call); err == nil {
				most = max(most, outlay.Want())
			}
		}
	}
	return most
}

// estimate is what a call would cost with a model, false = it has no price.
func (c *Caller) estimate(call *Call, key string, how *manner) (int64, bool) {
	one := *call
	one.Model = key
	t, refused := c.lookup(&one, how.service, how.categories...)
	if refused != nil || t.model.GetPrice() == nil {
		return 0, false
	}
	outlay, _, err := t.outlay(&one)
	if err != nil {
		return 0, false
	}
	return provider.Cost(outlay.Price, outlay.Input, 0, outlay.Choices*outlay.Output), true
}

// Bounds of asking a decider.
const (
	decideTime   = 15 * time.Second
	decideTokens = 64
	decideText   = 8 << 10 // of the last user message
	maxMessages  = 100_000
)

// decide asks a decider for the label of a request, whose user said text last. It is a call like any other: it is paid for, booked and bounded.
func (c *Caller) decide(ctx context.Context, call *Call, decider *routing.Decider, text string) (string, error) {
	prompt := decider.PromptOverride
	if prompt == "" {
		prompt = "Classify the request of the user. Answer with exactly one of these labels, and nothing else:"
	}
	for _, label := range decider.Labels {
		prompt += "\n- " + label.Label
		if label.Description != "" {
			prompt += ": " + label.Description
		}
	}
	for len(text) > decideText || !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text[:min(len(text), decideText)], "")
	}
	asked := *call
	asked.Model, asked.Routing = decider.ModelKey, call.Model
	t, refused := c.find(&asked, ServiceChat, "llm", "")
	if refused != nil {
		return "", refused
	}
	return c.question(ctx, &asked, &Question{System: prompt, Text: text, MaxTokens: decideTokens, Time: decideTime}, func(ctx context.Context, call *Call) ([]byte, error) {
		return c.whole(ctx, call, t, c.chat)
	})
}

// signalsOf is what rules look at of a request.
func signalsOf(call *Call) *routing.Signals {
	messages, _ := rawjson.Array(call.Body.Get("messages"), maxMessages) // none of what is no list
	format, _ := rawjson.Object(call.Body.Get("response_format"))
	size := textBytes(call.Body.Get("messages")) + textBytes(call.Body.Get("input")) + textBytes(call.Body.Get("tools"))
	s := &routing.Signals{
		InputTokensEst: int64(size+3) / 4, MessageCount: int64(len(messages)), HasTools: hasTools(call),
		HasResponseFormat: format != nil && format.Text("type") != "text",
	}
	for i := len(messages) - 1; i >= 0; i-- {
		fields, err := rawjson.Object(messages[i])
		if err != nil {
			continue
		}
		text, images := contentOf(fields.Get("content"))
		s.HasImages = s.HasImages || images
		if s.Text == "" && fields.Text("role") == "user" {
			s.Text, s.LastUserLength = text, int64(utf8.RuneCountInString(text))
		}
	}
	return s
}

// contentOf is the text of a message, and whether there are images in it.
func contentOf(raw []byte) (text string, images bool) {
	if len(raw) > 0 && raw[0] == '"' {
		return (rawjson.Fields{{Name: "content", Value: raw}}).Text("content"), false
	}
	parts, _ := rawjson.Array(raw, maxMessages) // none of what is no list
	var said strings.Builder
	for _, part := range parts {
		fields, err := rawjson.Object(part)
		if err != nil {
			continue
		}
		switch fields.Text("type") {
		case "text", "input_text":
			said.WriteString(fields.Text("text"))
		case "image_url", "input_image", "image":
			images = true
		}
	}
	return said.String(), images
}

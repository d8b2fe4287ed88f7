package inference

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"parley/actors/dialect/chat"
	"parley/actors/machine/rawjson"
	"parley/actors/provider"
	"parley/actors/stranger"
	"parley/actors/turn/model"
)

// maxChoices bounds n and the tool calls of an answer.
const maxChoices = 128

// Chat makes a chat completion and returns its JSON. The error is an *Error, or the cause with which ctx ended.
func (c *Caller) Chat(ctx context.Context, call *Call) ([]byte, error) {
	return c.unstreamed(ctx, call, &manner{ServiceChat, provider.Whole, []string{"llm", ""}, c.chat})
}

// whole makes an unstreamed call within its time limit and records its usage.
func (c *Caller) whole(
	ctx context.Context, call *Call, t *target, do func(context.Context, *Call, *target, *consumed) ([]byte, error),
) ([]byte, error) {
	if err := c.pay(ctx, call, t); err != nil {
		t.made.End(outcomeError)
		return nil, err
	}
	ctx, release := c.guard(ctx)
	defer release()
	used := &consumed{}
	defer t.settle(used) // whatever breaks
	opened, held := c.parts.Answers.Open(stranger.Of(ctx, call.TenantID))
	defer held.Close()
	answer, err := do(opened, call, t, used)
	outcome := outcomeOf(ctx, err)
	used.charge(call, t, outcome, err)
	c.book(call, t, used, outcome)
	return answer, err
}

func outcomeOf(ctx context.Context, err error) string {
	switch {
	case err == nil:
		return outcomeOK
	case gone(ctx) != nil:
		return outcomeCancelled
	}
	return outcomeError
}

func (c *Caller) chat(ctx context.Context, call *Call, t *target, used *consumed) ([]byte, error) {
	var said *completion
	var err error
	if t.relayed() {
		said, err = c.relayChat(ctx, call, t)
	} else {
		said, err = c.generateChat(ctx, call, t)
	}
	if said != nil {
		*used = said.used
	}
	if err != nil {
		return nil, err
	}
	answer, rendered := said.append(call)
	c.keep(t, said, rendered)
	return answer, nil
}

// again gives an answer that was kept. It costs nothing, but counts as a request.
func (c *Caller) again(ctx context.Context, call *Call, t *target, rendered []byte) ([]byte, error) {
	if err := c.admit(ctx, call, t); err != nil {
		return nil, err
	}
	call.Cache.Hit = true
	c.tell(call, Usage{
		TenantID: call.TenantID, ProjectID: call.ProjectID, UserID: call.UserID, TokenID: call.TokenID,
		Model: t.key, Routing: call.Routing, Service: t.service, CacheHit: true, Priced: true,
	})
	dst := appendHead(make([]byte, 0, len(rendered)+512), call, 0)
	return appendTail(append(dst, rendered...), call, &consumed{}), nil
}

// completion is a whole answer.
type completion struct {
	fingerprint []byte // JSON; nil = none
	created     int64
	choices     []chat.Delta
	used        consumed
}

// relayChat asks an OpenAI-compatible provider.
func (c *Caller) relayChat(ctx context.Context, call *Call, t *target) (*completion, error) {
	address, err := model.OpenAIURL(t.model, "/chat/completions")
	if err != nil {
		return nil, badAddress(err)
	}
	said := &completion{}
	err = c.relay(ctx, call, t, false, func(ctx context.Context, body []byte) error {
		answer, failed := c.fetch(ctx, t, address, body)
		if failed != nil {
			return failed
		}
		return said.read(chat.NewReader(provider.RedactorOf(t.model), 1), answer)
	})
	if err != nil {
		return said, err
	}
	said.used.guess(call, said.size())
	if said.cut() {
		return said, cutShort()
	}
	return said, nil
}

// read reads a provider's answer.
func (s *completion) read(reader *chat.Reader, answer []byte) (err error) {
	s.choices, err = reader.Document(answer)
	s.fingerprint, s.created = reader.Fingerprint, reader.Created
	s.used = consumed{Usage: reader.Usage}
	return err
}

func (s *completion) size() (size int) {
	for i := range s.choices {
		size += sizeOf(&s.choices[i])
	}
	return size
}

// cut says whether an answer reached its length limit before it had any content.
func (s *completion) cut() bool {
	for _, choice := range s.choices {
		if choice.Finish != chat.Length || choice.Text != nil || choice.Refusal != nil || choice.Calls != nil {
			return false
		}
	}
	return true
}

// short says whether an answer reached a length limit.
func (s *completion) short() bool {
	return slices.ContainsFunc(s.choices, func(choice chat.Delta) bool { return choice.Finish == chat.Length })
}

// append renders the answer (document 3, 10.2). said is the part of it that is the model's, and not of the call.
func (s *completion) append(call *Call) (answer, said []byte) {
	dst := appendHead(make([]byte, 0, s.size()+512), call, s.created)
	begin := len(dst)
	dst = append(dst, `"system_fingerprint":`...)
	dst = appendOrNull(dst, s.fingerprint)
	dst = append(dst, `,"choices":[`...)
	for i := range s.choices {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendChoice(dst, &s.choices[i])
	}
	dst = append(dst, ']')
	end := len(dst)
	dst = appendTail(dst, call, &s.used)
	return dst, dst[begin:end]
}

// appendHead begins an answer: with what each call has of its own.
func appendHead(dst []byte, call *Call, created int64) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendID(dst)
	dst = append(dst, `,"object":"chat.completion","created":`...)
	dst = strconv.AppendInt(dst, createdAt(created), 10)
	dst = append(dst, `,"model":`...)
	dst = rawjson.AppendString(dst, call.Model)
	return append(dst, ',')
}

// appendTail ends an answer.
func appendTail(dst []byte, call *Call, used *consumed) []byte {
	dst = append(dst, `,"usage":`...)
	dst = used.append(dst)
	dst = append(dst, `,"request_id":`...)
	dst = rawjson.AppendString(dst, call.RequestID)
	return append(dst, '}')
}

func appendOrNull(dst, raw []byte) []byte {
	if raw == nil {
		return append(dst, "null"...)
	}
	return append(dst, raw...)
}

// appendID appends the id of an answer. We make it, since each provider has a form of its own.
func appendID(dst []byte) []byte {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails, it ends the process instead
	dst = append(dst, `"chatcmpl-`...)
	dst = hex.AppendEncode(dst, random[:])
	return append(dst, '"')
}

func createdAt(given int64) int64 {
	if given > 0 {
		return given
	}
	return time.Now().Unix()
}

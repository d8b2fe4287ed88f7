package inference

import (
	"bytes"
	"errors"
	"log/slog"
	"strconv"

	"parley/actors/dialect/chat"
	"parley/actors/provider"
)

// consumed is what a call used up.
type consumed struct {
	chat.Usage
	sound sound
}

// readUsage reads the usage object of a provider.
func readUsage(raw []byte) (used consumed) {
	used.Take(raw)
	return used
}

// append renders the usage of an answer (document 3, 10.2).
func (u *consumed) append(dst []byte) []byte {
	dst = append(dst, `{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, u.Input, 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, u.Output, 10)
	dst = append(dst, `,"cached_tokens":`...)
	dst = strconv.AppendInt(dst, u.Cached, 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, max(u.Total, u.Input+u.Output), 10)
	if u.InputDetails != nil {
		dst = append(append(dst, `,"prompt_tokens_details":`...), u.InputDetails...)
	}
	if u.OutputDetails != nil {
		dst = append(append(dst, `,"completion_tokens_details":`...), u.OutputDetails...)
	}
	return append(dst, '}')
}

// guess fills in what the provider did not say, from the sizes of request and answer.
func (u *consumed) guess(call *Call, answerBytes int) {
	if u.Known {
		return
	}
	if u.Input == 0 { // else it told of this much before it failed
		u.Input = tokens(textBytes(call.Body.Get("messages")) + textBytes(call.Body.Get("input")))
	}
	u.Output = max(u.Output, tokens(answerBytes))
	u.Total = u.Input + u.Output
}

// charge estimates a call that ended without an answer: a provider that has what was asked may charge for it, unless it refused.
func (u *consumed) charge(call *Call, t *target, outcome string, err error) {
	failed, ok := errors.AsType[*provider.Failure](err)
	unsettled := outcome == outcomeCancelled || ok && failed.Unanswered()
	if !unsettled || u.Input+u.Output > 0 || u.sound != (sound{}) || !t.sent.Load() {
		return
	}
	if t.sounds != (sound{}) {
		u.sound = t.sounds
		return
	}
	u.guess(call, 0)
}

// tokens is about how many tokens so many bytes take, rather too many.
func tokens(size int) int64 { return int64(2*size+6) / 7 }

// textBytes is the size of a JSON text without the data URLs in it.
func textBytes(raw []byte) int {
	size := len(raw)
	for {
		at := bytes.Index(raw, []byte(`"data:`))
		if at < 0 {
			return size
		}
		raw = raw[at+1:]
		end := bytes.IndexByte(raw, '"')
		if end < 0 {
			return size
		}
		size -= end
		raw = raw[end:]
	}
}

// How a call ended.
const (
	outcomeOK        = "ok"
	outcomeError     = "error"
	outcomeCancelled = "cancelled"
)

// book closes the books on a call.
func (c *Caller) book(call *Call, t *target, used *consumed, outcome string) {
	if used.Disbelieved {
		c.parts.Logger.Warn("a provider's usage cannot be: an estimate is booked", slog.String("model", t.key), slog.String("service", t.service))
	}
	t.made.End(outcome)
	t.settle(used)
	price := t.model.GetPrice()
	usage := Usage{
		TenantID: call.TenantID, ProjectID: call.ProjectID, UserID: call.UserID, TokenID: call.TokenID,
		Model: t.key, Routing: call.Routing, Service: t.service, Failed: outcome == outcomeError,
		InputTokens: used.Input, OutputTokens: used.Output, CachedInputTokens: used.Cached,
		CostNanoUSD: provider.Cost(price, used.Input, used.Cached, used.Output),
		Priced:      price != nil && (used.Known || used.Input+used.Output == 0),
	}
	if t.hasSound() {
		used.addSound(&usage, t)
	}
	c.tell(call, usage)
}

// tell tells of what a call consumed.
func (c *Caller) tell(call *Call, usage Usage) {
	c.parts.Book(usage)
	if call.Booked != nil {
		call.Booked(usage)
	}
}

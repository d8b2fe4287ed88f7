package inference

import (
	"bytes"
	"errors"
	"log/slog"
	"strconv"

	"parley/actors/machine/rawjson"
	"parley/actors/provider"
)

// consumed is what a call used up.
type consumed struct {
	input, output, cached, total int64
	known                        bool // the provider said so
	disbelieved                  bool // it said what no call can have consumed
	inputDetails, outputDetails  []byte
}

// readUsage reads the usage object of a provider. Some name what came from their cache elsewhere.
func readUsage(raw []byte) (consumed, bool) {
	fields, err := rawjson.Object(raw)
	if err != nil {
		return consumed{}, false
	}
	count := func(raw []byte) int64 { return provider.Tokens(string(raw)) }
	used := consumed{
		known: true,
		input: count(fields.Get("prompt_tokens")), output: count(fields.Get("completion_tokens")),
		inputDetails: fields.Get("prompt_tokens_details"), outputDetails: fields.Get("completion_tokens_details"),
	}
	details, _ := rawjson.Object(used.inputDetails) // without details nothing was cached
	for _, raw := range [][]byte{details.Get("cached_tokens"), fields.Get("cached_tokens"), fields.Get("prompt_cache_hit_tokens")} {
		if used.cached == 0 {
			used.cached = count(raw)
		}
	}
	if !provider.Believable(used.input, used.output, used.cached) {
		return consumed{disbelieved: true}, true
	}
	used.cached = min(used.cached, used.input)
	used.total = max(count(fields.Get("total_tokens")), used.input+used.output)
	return used, true
}

// append renders the usage of an answer (document 3, 10.2).
func (u *consumed) append(dst []byte) []byte {
	dst = append(dst, `{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, u.input, 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, u.output, 10)
	dst = append(dst, `,"cached_tokens":`...)
	dst = strconv.AppendInt(dst, u.cached, 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, max(u.total, u.input+u.output), 10)
	if u.inputDetails != nil {
		dst = append(append(dst, `,"prompt_tokens_details":`...), u.inputDetails...)
	}
	if u.outputDetails != nil {
		dst = append(append(dst, `,"completion_tokens_details":`...), u.outputDetails...)
	}
	return append(dst, '}')
}

// guess fills in what the provider did not say, from the sizes of request and answer.
func (u *consumed) guess(call *Call, answerBytes int) {
	if u.known {
		return
	}
	u.input = tokens(textBytes(call.Body.Get("messages")) + textBytes(call.Body.Get("input")))
	u.output = tokens(answerBytes)
	u.total = u.input + u.output
}

// charge estimates a call that ended without an answer: a provider that has what was asked may charge for it, unless it refused.
func (u *consumed) charge(call *Call, t *target, outcome string, err error) {
	failed, ok := errors.AsType[*provider.Failure](err)
	unsettled := outcome == outcomeCancelled || ok && failed.Unanswered()
	if unsettled && u.input+u.output == 0 && t.sent.Load() {
		u.guess(call, 0)
	}
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
	if used.disbelieved {
		c.parts.Logger.Warn("a provider's usage cannot be: an estimate is booked", slog.String("model", t.key), slog.String("service", t.service))
	}
	t.made.End(outcome)
	price := t.model.GetPrice()
	c.parts.Book(Usage{
		TenantID: call.TenantID, ProjectID: call.ProjectID, UserID: call.UserID, TokenID: call.TokenID,
		Model: t.key, Service: t.service, Failed: outcome == outcomeError,
		InputTokens: used.input, OutputTokens: used.output, CachedInputTokens: used.cached,
		CostNanoUSD: provider.Cost(price, used.input, used.cached, used.output),
		Priced:      price != nil && (used.known || used.input+used.output == 0),
	})
}

package inference

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"parley/actors/core/quota"
	"parley/actors/provider"
)

// blindOutput is what a call is taken to say at most where neither it nor its model says, while a budget bounds it. Every model accepts
// it as a cap.
const blindOutput = 4096

// paid is how a call is paid for. The zero value: nothing bounds it.
type paid struct {
	pass    quota.Pass
	output  int64 // tokens of each choice that are paid for and that policies allow, 0 = any number
	settled bool
}

// pay asks the door for a call that is about to be made, and lowers its output to what was got.
func (c *Caller) pay(ctx context.Context, call *Call, t *target) error {
	if c.parts.Door == nil || !c.parts.Door.Guards(call.TenantID) {
		return nil
	}
	entering := entering(call, t)
	if t.hasSound() {
		t.hold(entering)
		pass, err := c.parts.Door.Enter(ctx, entering)
		t.paid.pass = pass
		return notLetIn(ctx, err)
	}
	outlay, limit, refused := t.outlay(call)
	if refused != nil {
		return refused
	}
	entering.Domain, entering.InputTokens, entering.OutputTokens = quota.LLM, outlay.Input, limit
	if t.service == ServiceEmbeddings {
		entering.Domain = quota.Embedding
	}
	entering.Need, entering.Want = outlay.Need(), max(outlay.Want(), t.dearest)
	pass, err := c.parts.Door.Enter(ctx, entering)
	if err == nil && t.service == ServiceChat {
		t.paid.output = entering.Cap
	}
	if err != nil || pass == nil {
		return notLetIn(ctx, err)
	}
	t.paid.pass = pass
	held, binds := pass.Held()
	if binds && outlay.Price.GetOutputNanoUsdPerMtok() > 0 && t.service == ServiceChat {
		t.paid.output = t.affords(outlay.Afforded(held))
	}
	return nil
}

// admit asks the door for a call that costs nothing: rates of requests count it, and what bounds the size of requests holds.
func (c *Caller) admit(ctx context.Context, call *Call, t *target) error {
	if c.parts.Door == nil || !c.parts.Door.Guards(call.TenantID) {
		return nil
	}
	outlay, limit, refused := t.outlay(call)
	if refused != nil {
		return refused
	}
	entering := entering(call, t)
	entering.Domain, entering.Free, entering.InputTokens, entering.OutputTokens = quota.LLM, true, outlay.Input, limit
	pass, err := c.parts.Door.Enter(ctx, entering)
	if err == nil && pass != nil {
		pass.Settle(0, 0)
	}
	return notLetIn(ctx, err)
}

// entering is what the door is told of any call.
func entering(call *Call, t *target) *quota.Call {
	return &quota.Call{
		TenantID: call.TenantID, ProjectID: call.ProjectID, UserID: call.UserID, TokenID: call.TokenID,
		Model: t.key, Provider: t.record.GetProviderKey(), Inside: call.Inside,
	}
}

// outlay is what a call may cost with a model, and the cap of its output as far as anybody has said one.
func (t *target) outlay(call *Call) (outlay *provider.Outlay, limit int64, refused *Error) {
	asked := t.asked(call)
	outlay = &provider.Outlay{
		Price: t.model.GetPrice(), Choices: 1,
		Input: tokens(textBytes(asked.Get("messages")) + textBytes(asked.Get("input")) + textBytes(asked.Get("tools"))),
	}
	if t.service == ServiceChat {
		if limit, refused = outputCap(t, call); refused != nil {
			return nil, 0, refused
		}
		outlay.Output = cmp.Or(limit, blindOutput)
		outlay.Choices = min(max(number(asked.Get("n")), 1), maxChoices)
	}
	return outlay, limit, nil
}

// settle says what a call came to, once.
func (t *target) settle(used *consumed) {
	if t.paid.pass == nil || t.paid.settled {
		return
	}
	t.paid.settled = true
	cost := provider.Cost(t.model.GetPrice(), used.Input, used.Cached, used.Output)
	if t.hasSound() {
		sounds, _ := t.priceOf(used.sound)
		cost = saturated(cost, sounds)
	}
	t.paid.pass.Settle(cost, used.Input+used.Output)
}

// affords is an output cap, at most what is paid for; 0 = none.
func (t *target) affords(limit int64) int64 {
	if t.paid.output > 0 && (limit == 0 || limit > t.paid.output) {
		return t.paid.output
	}
	return limit
}

// notLetIn is what a client is told who was not let in, nil for one who was (document 3, sections 4 and 10.1).
func notLetIn(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	refused, is := errors.AsType[*quota.Refusal](err)
	switch {
	case !is && gone(ctx) != nil:
		return gone(ctx)
	case !is || refused.Broken:
		return &Error{Status: http.StatusInternalServerError, Type: typeServer, Code: "quota_check_failed", Message: "Quota check failed", Err: err}
	case refused.Spent:
		return &Error{Status: http.StatusTooManyRequests, Type: "rate_limit_error", Code: "insufficient_quota", Message: refused.Message, RetryAfter: refused.RetryAfter}
	}
	return &Error{
		Status: http.StatusTooManyRequests, Type: "rate_limit_error", Code: "rate_limit_exceeded", Message: refused.Message,
		RetryAfter: max(refused.RetryAfter, time.Duration(0)),
	}
}

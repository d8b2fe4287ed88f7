package turn

import (
	"cmp"
	"context"
	"errors"
	"unicode/utf8"

	"parley/actors/core/quota"
	"parley/actors/provider"
	"parley/actors/turn/model"
)

// generate makes a model call of a job, once the budgets and rates of its project let it in, with no more output than they allow. What
// it did cost is stored before it returns. A session's own budget bounds it besides.
func (r *Runner) generate(ctx context.Context, job *Job, by model.Provider, request *model.Request, stream model.Stream) (*model.Answer, error) {
	if r.config.Door == nil || !r.config.Door.Guards(job.TenantID) {
		return by.Generate(ctx, request, stream)
	}
	callee := request.Agent.GetModel()
	price, count := callee.GetPrice(), model.NewMeter(by, request)
	input, output := max(count.Input(), 0), int64(request.MaxOutputTokens)
	if output <= 0 {
		output = int64(callee.GetMaxOutputTokens())
	}
	entering := &quota.Call{
		TenantID: job.TenantID, ProjectID: job.ProjectID, UserID: job.ByUser, TokenID: job.ByToken, Model: callee.GetKey(),
		Domain: quota.LLM, InputTokens: input, OutputTokens: max(output, 0), Patient: true, // a turn shall not fail for that others run
	}
	if output <= 0 {
		output = blindCap
	}
	outlay := &provider.Outlay{Price: price, Input: input, Output: output, Choices: 1}
	entering.Need, entering.Want = outlay.Need(), outlay.Want()
	pass, err := r.config.Door.Enter(ctx, entering)
	if refused, is := errors.AsType[*quota.Refusal](err); is {
		return nil, &model.Error{Code: model.CodeRateLimited, Message: refused.Message}
	}
	if err != nil {
		return nil, err
	}
	if entering.Cap > 0 {
		request.MaxOutputTokens = int(entering.Cap)
	}
	if pass == nil {
		return by.Generate(ctx, request, stream)
	}
	if held, binds := pass.Held(); binds && price.GetOutputNanoUsdPerMtok() > 0 {
		afforded := int(outlay.Afforded(held))
		request.MaxOutputTokens = min(cmp.Or(request.MaxOutputTokens, afforded), afforded)
	}
	var used model.Usage
	defer func() { // a fault of the provider is settled, too
		pass.Settle(provider.Cost(price, used.InputTokens, used.CachedInputTokens, used.OutputTokens), used.InputTokens+used.OutputTokens)
	}()
	heard := &overheard{Stream: stream}
	used.InputTokens = input // unless it says otherwise
	answer, err := by.Generate(ctx, request, heard)
	switch {
	case answer != nil && answer.Usage.Known:
		used = answer.Usage
	case err != nil && heard.size == 0 && ctx.Err() == nil: // refused, or failed before it said a word
		used = model.Usage{}
	default:
		used.OutputTokens = heard.size
	}
	return answer, err
}

// overheard counts what a model says, about a token for each piece or for four letters.
type overheard struct {
	model.Stream
	size int64
}

func (o *overheard) count(piece string) {
	o.size += int64(utf8.RuneCountInString(piece)+3) / 4
}

// Text implements model.Stream.
func (o *overheard) Text(piece string) {
	o.count(piece)
	o.Stream.Text(piece)
}

// Unsaid implements model.Overhearer.
func (o *overheard) Unsaid(piece string) {
	o.count(piece)
	if heard, is := o.Stream.(model.Overhearer); is {
		heard.Unsaid(piece)
	}
}

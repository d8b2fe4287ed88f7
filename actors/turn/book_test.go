package turn

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"parley/proto/conversationpb"
)

// book is a conversation as far as a runner knows it: it keeps steps, money and what is open, by the contract of Progress.
type book struct {
	mu      sync.Mutex
	steps   []*conversationpb.Step
	calls   []*conversationpb.OpenCall
	paused  bool
	resumed uint32
	attempt uint32
	epoch   uint64

	budget, spent, reserved int64 // budget 0 = none
	asked                   []int64
	quiet                   bool                  // does not tell what is left
	usage                   *conversationpb.Usage // journalled
	stored                  *conversationpb.Progress
	doubted                 int
	ended                   bool

	fail func(*conversationpb.Progress) error // before it is taken
	lose func(*conversationpb.Progress) error // after it was taken
}

func (b *book) Steps(context.Context, string, string) ([]*conversationpb.Step, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.steps), nil
}

func (b *book) progress(_ context.Context, p *conversationpb.Progress) (*conversationpb.Progressed, error) {
	p, _ = proto.Clone(p).(*conversationpb.Progress)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		if err := b.fail(p); err != nil {
			return nil, err
		}
	}
	reply, err := b.take(p)
	if err == nil && b.lose != nil {
		err = b.lose(p)
	}
	return reply, err
}

func (b *book) take(p *conversationpb.Progress) (*conversationpb.Progressed, error) {
	last := uint32(len(b.steps))
	switch {
	case b.paused || b.ended || p.GetEpoch() != b.epoch || p.GetStep() > last+1:
		return nil, fmt.Errorf("step %d of %d, epoch %d: %w", p.GetStep(), last, p.GetEpoch(), ErrFenced)
	case p.GetStep() <= last:
		return b.reply(), nil
	}
	switch body := p.GetBody().(type) {
	case *conversationpb.Progress_Reserve:
		return b.reserve(body.Reserve.GetUptoNanoUsd()), nil
	case *conversationpb.Progress_Use:
		b.calls = nil
		for _, call := range body.Use.GetOpen() {
			b.calls = append(b.calls, proto.CloneOf(call))
		}
		b.settle(body.Use.GetUsage())
		body.Use.Open = nil
		b.add(&conversationpb.Step{Body: &conversationpb.Step_Use{Use: body.Use}})
	case *conversationpb.Progress_Results:
		for _, result := range body.Results.GetResults() {
			b.call(result.GetId()).Done = true
		}
		b.add(&conversationpb.Step{Body: &conversationpb.Step_Results{Results: body.Results}})
	case *conversationpb.Progress_Doubt:
		b.doubted += len(body.Doubt.GetCalls())
		for _, call := range body.Doubt.GetCalls() {
			b.call(call.GetId()).Need = conversationpb.Need_OUTCOME
		}
	}
	b.pauseIfDue(p)
	return b.reply(), nil
}

func (b *book) pauseIfDue(p *conversationpb.Progress) {
	open := 0
	for _, call := range b.calls {
		if call.GetDone() {
			continue
		}
		if call.GetNeed() == conversationpb.Need_RUN {
			return
		}
		open++
	}
	if open > 0 {
		b.paused, b.stored = true, p
	}
}

func (b *book) reserve(upto int64) *conversationpb.Progressed {
	b.asked = append(b.asked, upto)
	if b.budget == 0 {
		return &conversationpb.Progressed{Unlimited: true}
	}
	left := max(b.budget-b.spent, 0)
	b.reserved = max(b.reserved, min(upto, left))
	reply := &conversationpb.Progressed{Steps: uint32(len(b.steps)), GrantedNanoUsd: b.reserved, LimitNanoUsd: b.budget}
	if !b.quiet {
		reply.LeftNanoUsd = left
	}
	return reply
}

func (b *book) settle(usage *conversationpb.Usage) {
	b.spent += usage.GetCostNanoUsd()
	b.reserved = 0
	b.usage = plus(b.usage, usage)
}

func (b *book) add(step *conversationpb.Step) {
	step.Number = uint32(len(b.steps)) + 1
	b.steps = append(b.steps, step)
}

func (b *book) call(id string) *conversationpb.OpenCall {
	for _, call := range b.calls {
		if call.GetId() == id {
			return call
		}
	}
	panic("no call " + id)
}

func (b *book) reply() *conversationpb.Progressed {
	reply := &conversationpb.Progressed{Steps: uint32(len(b.steps)), Paused: b.paused}
	for _, call := range b.calls {
		reply.Calls = append(reply.Calls, proto.CloneOf(call))
	}
	return reply
}

// decide is what people say to a call, and whether the turn goes on.
func (b *book) decide(id string, result *conversationpb.ToolCall, args string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	call := b.call(id)
	if result != nil {
		call.Done = true
		result.Id = id
		b.add(&conversationpb.Step{Body: &conversationpb.Step_Results{Results: &conversationpb.ToolResults{
			Results: []*conversationpb.ToolCall{result},
		}}})
	} else {
		call.Need = conversationpb.Need_RUN
		if args != "" {
			call.Args = []byte(args)
		}
	}
	for _, call := range b.calls {
		if !call.GetDone() && call.GetNeed() != conversationpb.Need_RUN {
			return false
		}
	}
	b.paused, b.resumed, b.attempt = false, uint32(len(b.steps)), 1
	return true
}

// finish takes a report as the rules do.
func (b *book) finish(finish *conversationpb.Finish) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settle(finish.GetUsage())
	if partial := finish.GetPartial(); partial != nil {
		b.add(&conversationpb.Step{Body: &conversationpb.Step_Partial{Partial: partial}})
	}
	b.ended = true
}

// goOn takes the lease again for a turn that the budget cut.
func (b *book) goOn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended, b.resumed, b.attempt = false, uint32(len(b.steps)), 1
}

// lost is what the rules make of a runner that is gone.
func (b *book) lost() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.epoch++
	b.attempt++
	for _, call := range b.calls {
		if !call.GetDone() && call.GetNeed() == conversationpb.Need_RUN && !call.GetIdempotent() {
			call.Need = conversationpb.Need_OUTCOME
		}
	}
	b.spent += b.reserved
	b.reserved = 0
}

// on makes a job of what the book knows.
func (b *book) on(job Job) Job {
	b.mu.Lock()
	defer b.mu.Unlock()
	job.Epoch, job.Attempt = b.epoch, b.attempt
	job.Steps, job.ResumedAt = uint32(len(b.steps)), b.resumed
	job.Usage, job.Budget = b.usage, b.budget > 0
	job.Calls = b.reply().GetCalls()
	job.Progress = b.progress
	report := job.Report
	job.Report = func(ctx context.Context, finish *conversationpb.Finish) error {
		b.finish(finish)
		return report(ctx, finish)
	}
	return job
}

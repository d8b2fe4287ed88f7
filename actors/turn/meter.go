package turn

import (
	"context"
	"errors"
	"sync/atomic"

	"parley/actors/provider"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// errBudget cancels a model call that has used up its grant.
var errBudget = errors.New("the budget is reached")

// blindCap is the output cap for a model whose own limit is unknown: providers refuse caps above the model's limit, and
// every model accepts this one.
const blindCap = 4096

// meter measures the cost of a model call while it runs. It always counts, since a budget may be set in the meantime, but
// limits the call only if there is a budget: money is granted step by step, the next step is requested while the last is
// being used, and the call is cancelled when it has used its grant. Only the goroutine of the call uses it.
type meter struct {
	count  model.Meter
	price  *agentpb.Price
	tokens int64 // of the prompt, -1 = not counted yet: most calls are not limited
	step   int64 // nano-dollars of one metering step
	aside  int64 // nano-dollars that were granted for something else

	limited bool
	granted int64 // nano-dollars for this call
	limit   int64 // the budget's, when it was last asked
	final   bool  // the budget has no more
	asking  bool
	answers chan grant

	raised *atomic.Bool // the budget was set or raised
	ask    func(upto int64)
	cut    context.CancelCauseFunc
	done   <-chan struct{}
}

// grant is the answer to a request for money.
type grant struct {
	asked, granted, left, limit int64
	unlimited                   bool
	err                         error
}

func newMeter(count model.Meter, price *agentpb.Price, stepTokens int) *meter {
	return &meter{
		count: count, price: price, tokens: -1,
		step: max(provider.Cost(price, 0, 0, int64(stepTokens)), 1), answers: make(chan grant, 1),
	}
}

// prompt is the size of the prompt in tokens.
func (m *meter) prompt() int64 {
	if m.tokens < 0 {
		m.tokens = max(m.count.Input(), 0)
	}
	return m.tokens
}

// used is what the call has cost so far, by the meter.
func (m *meter) used() int64 { return provider.Cost(m.price, m.prompt(), 0, m.count.Output()) }

// room is the number of output tokens that an amount buys after the prompt is paid, -1 when output is free.
func (m *meter) room(amount int64) int64 {
	rate := m.price.GetOutputNanoUsdPerMtok()
	if rate <= 0 {
		return -1
	}
	left := max(amount-provider.Cost(m.price, m.prompt(), 0, 0), 0)
	return left/rate*1_000_000 + left%rate*1_000_000/rate
}

// affords says whether there may be money for another piece of output; without any the call is cancelled, since its answer is not
// whole. An answer that costs just what is granted is.
func (m *meter) affords() bool {
	m.heed()
	if !m.limited || !m.final || m.price.GetOutputNanoUsdPerMtok() <= 0 || m.used() < m.granted {
		return true
	}
	m.cut(errBudget)
	return false
}

// heed has more money asked for when the budget was set or raised.
func (m *meter) heed() {
	if m.raised.Load() && m.raised.CompareAndSwap(true, false) {
		m.limited, m.final = true, false
	}
}

// check requests the next grant in time, and cancels the call when it costs more than there is. It blocks only if the model is
// faster than the journal.
func (m *meter) check() {
	m.heed()
	if !m.limited {
		return
	}
	select {
	case answer := <-m.answers:
		m.take(answer)
	default:
	}
	used := m.used()
	if m.limited && !m.final && !m.asking && used > m.granted-m.step/2 {
		m.begin(max(used, m.granted) + m.step)
	}
	for m.limited && used >= m.granted {
		switch {
		case m.asking:
			select {
			case answer := <-m.answers:
				m.take(answer)
			case <-m.done:
				return
			}
		case m.final:
			if used > m.granted {
				m.cut(errBudget)
			}
			return
		default:
			m.begin(used + m.step)
		}
	}
}

func (m *meter) begin(upto int64) {
	m.asking = true
	m.ask(upto + m.aside)
}

// take processes the reply to a request for a grant. After an error nothing more is granted.
func (m *meter) take(answer grant) {
	m.asking = false
	switch {
	case answer.err != nil:
		m.final = true
		m.cut(answer.err)
	case answer.unlimited:
		m.limited = false
	default:
		m.granted = max(m.granted, answer.granted-m.aside)
		m.final, m.limit = answer.granted < answer.asked, answer.limit
	}
}

// close waits for the reply to a pending request, which would otherwise be taken for the reply to the next call's.
func (m *meter) close() {
	if m.asking {
		m.take(<-m.answers)
	}
}

// reserve asks for money for the model call under way.
func (l *modelLoop) reserve(ctx context.Context, upto int64) grant {
	reply, err := l.journal(ctx, &conversationpb.Progress{
		Step: l.steps + 1, Body: &conversationpb.Progress_Reserve{Reserve: &conversationpb.Reserve{UptoNanoUsd: upto}},
	})
	return grant{
		asked: upto, granted: reply.GetGrantedNanoUsd(), left: reply.GetLeftNanoUsd(), limit: reply.GetLimitNanoUsd(),
		unlimited: reply.GetUnlimited(), err: err,
	}
}

// openMeter starts the meter of a call, and begins to make a title where the money is there. It lowers the request's
// cap to what the budget buys. The call must not be made when it returns an error: errBudget when there is not enough.
func (l *modelLoop) openMeter(life, ctx context.Context, cut context.CancelCauseFunc) error {
	l.money.meter, l.money.capped = nil, false
	price := l.agent.GetModel().GetPrice()
	switch {
	case price == nil && l.money.limited: // it had one when the budget was set
		return &model.Error{Code: "budget_unavailable", Message: "The agent's model has no price, so the budget cannot be kept."}
	case price == nil:
		l.title.start(life)
		return nil
	}
	m := newMeter(model.NewMeter(l.provider, l.request), price, l.runner.config.MeterTokens)
	m.cut, m.done, m.raised = cut, ctx.Done(), &l.run.metered
	m.ask = func(upto int64) {
		go func() { m.answers <- l.reserve(ctx, upto) }()
	}
	if l.run.metered.Swap(false) {
		l.money.limited = true
	}
	if l.money.limited {
		if err := l.firstGrant(life, ctx, m); err != nil {
			return err
		}
	} else {
		l.title.start(life)
	}
	m.limited = l.money.limited
	l.money.meter = m
	return nil
}

// firstGrant asks for the prompt, one step, and the title. A call that could not say a word is not made.
func (l *modelLoop) firstGrant(life, ctx context.Context, m *meter) error {
	extra, needed := l.title.estimate(), m.used()
	g := l.reserve(ctx, needed+m.step+extra)
	switch {
	case g.err != nil:
		return g.err
	case g.unlimited:
		l.money.limited = false
		l.title.start(life)
		return nil
	}
	if g.granted >= g.asked && extra > 0 {
		l.title.start(life)
		m.aside = extra
	}
	m.granted, m.final, m.limit = g.granted-m.aside, g.granted < g.asked, g.limit
	l.money.limit = g.limit
	if m.granted < needed || m.room(m.granted) == 0 {
		return errBudget
	}
	left := m.granted
	if !m.final {
		left = g.left - m.aside
	}
	l.lowerCap(m.room(left))
	return nil
}

// lowerCap caps the answer at so many tokens where the agent's own cap is higher.
func (l *modelLoop) lowerCap(tokens int64) {
	own := int64(l.agent.GetModel().GetMaxOutputTokens())
	if own <= 0 {
		own = blindCap + 1
	}
	if tokens > 0 && tokens < own {
		l.request.MaxOutputTokens, l.money.capped = int(tokens), true
	}
}

// consumed is the usage of a call: as the provider reported it, otherwise as the meter counted it, if there was any output.
// A call that was cancelled before its first output has used its prompt.
func (l *modelLoop) consumed(answer *model.Answer, cut bool) model.Usage {
	var said model.Usage
	if answer != nil {
		said = answer.Usage
	}
	if said.Known || l.money.meter == nil || l.money.meter.count.Output() == 0 && !cut {
		return said
	}
	if said.InputTokens == 0 {
		said.InputTokens = l.money.meter.prompt()
	}
	said.OutputTokens = max(said.OutputTokens, l.money.meter.count.Output())
	said.Known = true // estimated, and charged
	return said
}

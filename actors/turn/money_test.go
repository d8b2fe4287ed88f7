package turn

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/actors/provider"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// till is a desk with the real scripted model, which says exactly what a call costs, and a book that keeps a budget.
type till struct {
	*desk
	book  *book
	agent *agentpb.Agent
}

// newTill has a model that says so many words; each costs 2,000 nano-dollars, a word of the prompt 1,000.
func newTill(tb testing.TB, tokens int32, budget int64, change ...func(*Config)) *till {
	tb.Helper()
	l := &till{book: &book{epoch: 7, attempt: 1, budget: budget}, agent: &agentpb.Agent{
		Id: "a", Model: &agentpb.Model{
			Provider: agentpb.Provider_SCRIPTED, Price: testPrice, Script: &agentpb.Script{Tokens: tokens},
		},
	}}
	l.desk = &desk{page: &page{}, reports: make(chan *conversationpb.Finish, 100)}
	config := Config{
		Agents: agents{"a": l.agent}, History: past{l.book}, Publisher: l.page, MeterTokens: 10,
		Providers: map[agentpb.Provider]model.Provider{agentpb.Provider_SCRIPTED: model.New(model.Config{})[agentpb.Provider_SCRIPTED]},
	}
	for _, c := range change {
		c(&config)
	}
	var err error
	l.Runner, err = New(config)
	require.NoError(tb, err)
	tb.Cleanup(func() { l.Drain(context.Background()) })
	return l
}

func (l *till) whole(tb testing.TB) *conversationpb.Finish {
	tb.Helper()
	require.NoError(tb, l.Start(l.book.on(l.job())))
	finish := <-l.reports
	l.Wait(tb.Context(), 3)
	return finish
}

func TestMoneyIsAskedForInSteps(t *testing.T) {
	l := newTill(t, 25, 1_000_000)
	finish := l.whole(t)
	require.Equal(t, conversationpb.StopReason_END_TURN, finish.GetStopReason())
	require.EqualValues(t, 1_000+25*2_000, l.book.spent)
	require.Equal(t, []int64{1_000 + 20_000, 41_000, 61_000}, l.book.asked)
}

func TestNothingIsAskedForWithoutABudget(t *testing.T) {
	l := newTill(t, 25, 0)
	finish := l.whole(t)
	require.Empty(t, l.book.asked)
	require.EqualValues(t, 51_000, finish.GetUsage().GetCostNanoUsd())
}

func TestTheBudgetCutsTheAnswer(t *testing.T) {
	// The prompt and 12 words and a half.
	l := newTill(t, 100, 1_000+25_000)
	finish := l.whole(t)
	require.Equal(t, conversationpb.StopReason_BUDGET_REACHED, finish.GetStopReason())
	require.Len(t, strings.Fields(finish.GetContent()), 12)
	require.Equal(t, finish.GetContent(), finish.GetPartial().GetText())
	require.EqualValues(t, 25_000, finish.GetUsage().GetCostNanoUsd())
	require.EqualValues(t, 25_000, finish.GetPartial().GetUsage().GetCostNanoUsd())
	require.True(t, finish.GetUsage().GetPriced())
	require.LessOrEqual(t, l.book.spent, l.book.budget)
}

// An answer that costs just what there is is whole: it is not cut, and not to be continued.
func TestABudgetOfExactlyThePrice(t *testing.T) {
	for name, one := range map[string]struct {
		tokens int32
		quiet  bool // the model is not capped
		late   bool // the budget is set while the model answers
	}{
		"capped": {tokens: 25}, "one step": {tokens: 10}, "not capped": {tokens: 25, quiet: true}, "set late": {tokens: 50, late: true},
	} {
		price := 1_000 + int64(one.tokens)*2_000
		for budget, ends := range map[int64]conversationpb.StopReason{
			price: conversationpb.StopReason_END_TURN, price - 2_001: conversationpb.StopReason_BUDGET_REACHED,
		} {
			l := newTill(t, one.tokens, budget)
			l.book.quiet = one.quiet
			job := l.book.on(l.job())
			if one.late {
				l.book.budget, job.Budget = 0, false
				l.page.onWrite = func(pieces int) {
					if pieces == 30 {
						l.book.mu.Lock()
						l.book.budget = budget
						l.book.mu.Unlock()
						l.Meter("run_1")
					}
				}
			}
			require.NoError(t, l.Start(job))
			finish := <-l.reports
			require.Equal(t, ends, finish.GetStopReason(), "%s %d", name, budget)
			if ends == conversationpb.StopReason_END_TURN {
				require.Nil(t, finish.GetPartial(), name)
				require.Equal(t, price, finish.GetUsage().GetCostNanoUsd(), name)
				require.Len(t, strings.Fields(finish.GetContent()), int(one.tokens), name)
			}
			require.LessOrEqual(t, finish.GetUsage().GetCostNanoUsd(), budget+2_000, name)
		}
	}
}

// The prompt uses up the budget, and output is free.
func TestABudgetOfExactlyThePrompt(t *testing.T) {
	l := newTill(t, 25, 1_000)
	l.agent.Model.Price = &agentpb.Price{InputNanoUsdPerMtok: 1_000_000_000}
	finish := l.whole(t)
	require.Equal(t, conversationpb.StopReason_END_TURN, finish.GetStopReason())
	require.Len(t, strings.Fields(finish.GetContent()), 25)
}

// The last piece costs more than there is, and nothing came after it: there is nothing to continue.
func TestAWholeAnswerThatCostsTooMuch(t *testing.T) {
	for _, more := range []string{"", " and more"} {
		l := newTill(t, 25, 1_000+25_000, answering(func(_ context.Context, _ *model.Request, stream model.Stream) (*model.Answer, error) {
			text := strings.Repeat("word ", 40)
			stream.Text(text)
			stream.Text(more)
			return &model.Answer{Text: text + more, Stop: model.StopEnd}, nil
		}))
		finish := l.whole(t)
		ends := conversationpb.StopReason_END_TURN
		if more != "" {
			ends = conversationpb.StopReason_BUDGET_REACHED
		}
		require.Equal(t, ends, finish.GetStopReason())
	}
}

func TestABudgetThatBuysNothing(t *testing.T) {
	for _, budget := range []int64{1, 999, 1_000, 2_999} {
		l := newTill(t, 100, budget)
		finish := l.whole(t)
		require.Equal(t, conversationpb.StopReason_BUDGET_REACHED, finish.GetStopReason())
		require.Empty(t, finish.GetContent())
		require.Nil(t, finish.GetPartial())
		require.Nil(t, finish.GetUsage(), "no call was made")
	}
}

func TestContinueGoesOnWhereTheBudgetCut(t *testing.T) {
	l := newTill(t, 100, 1_000+25_000)
	first := l.whole(t)
	l.book.goOn()
	l.book.budget = 10_000_000
	l.agent.Model.Script = &agentpb.Script{Text: " and the rest"}
	l.page.text.Reset()
	l.page.sealed = false
	second := l.whole(t)
	require.Equal(t, first.GetContent()+" and the rest", second.GetContent())
	require.Equal(t, conversationpb.StopReason_END_TURN, second.GetStopReason())
	require.EqualValues(t, 1, second.GetUsage().GetModelCalls())
}

func TestTheModelIsToldToGoOn(t *testing.T) {
	b := newBench(t, says("never"), says("two."))
	b.book.add(&conversationpb.Step{Body: &conversationpb.Step_Partial{Partial: &conversationpb.Partial{Text: "One, "}}})
	b.book.resumed = 1
	finish := b.whole(t)
	require.Equal(t, "One, two.", finish.GetContent())
	require.Equal(t, "two.", b.page.text.String())
	require.Equal(t, []string{"user: hello", "assistant: One, ", "user: " + goOn}, messagesOf(b.talks.last().Messages))
}

func TestABudgetThatIsSetWhileTheModelAnswers(t *testing.T) {
	l := newTill(t, 1000, 0)
	l.page.onWrite = func(pieces int) {
		if pieces == 50 {
			l.book.mu.Lock()
			l.book.budget = 1_000 + 70*2_000
			l.book.mu.Unlock()
			l.Meter("run_1")
		}
	}
	job := l.book.on(l.job())
	job.Budget = false
	require.NoError(t, l.Start(job))
	finish := <-l.reports
	require.Equal(t, conversationpb.StopReason_BUDGET_REACHED, finish.GetStopReason())
	require.Len(t, strings.Fields(finish.GetContent()), 70)
}

func TestABudgetThatIsRaisedWhileTheModelAnswers(t *testing.T) {
	l := newTill(t, 200, 1_000+100*2_000)
	l.agent.Model.Price = &agentpb.Price{InputNanoUsdPerMtok: 1_000_000_000, OutputNanoUsdPerMtok: 2_000_000_000}
	l.book.quiet = true // does not tell what is left: the model is not capped
	l.page.onWrite = func(pieces int) {
		if pieces == 99 {
			l.book.mu.Lock()
			l.book.budget = 10_000_000
			l.book.mu.Unlock()
			l.Meter("run_1")
		}
	}
	finish := l.whole(t)
	require.Equal(t, conversationpb.StopReason_END_TURN, finish.GetStopReason())
	require.EqualValues(t, 1_000+200*2_000, l.book.spent)
}

// A call that was capped by the old limit ends there. It says which limit that was: the new one is not reached.
func TestABudgetThatIsRaisedWhileACappedModelAnswers(t *testing.T) {
	const old = 1_000 + 100*2_000
	l := newTill(t, 200, old)
	l.page.onWrite = func(pieces int) {
		if pieces == 50 {
			l.book.mu.Lock()
			l.book.budget = 10_000_000
			l.book.mu.Unlock()
			l.Meter("run_1")
		}
	}
	finish := l.whole(t)
	require.Equal(t, conversationpb.StopReason_BUDGET_REACHED, finish.GetStopReason())
	require.Len(t, strings.Fields(finish.GetContent()), 100)
	require.EqualValues(t, old, finish.GetLimitNanoUsd())
}

// answering puts another model in the place of the scripted one.
func answering(generate func(context.Context, *model.Request, model.Stream) (*model.Answer, error)) func(*Config) {
	return func(config *Config) {
		config.Providers = map[agentpb.Provider]model.Provider{agentpb.Provider_SCRIPTED: &script{generate: generate}}
	}
}

// Who asks and cancels before the first word has the model read the prompt all the same.
func TestACallThatIsCutBeforeItsFirstWordCosts(t *testing.T) {
	asked := make(chan struct{})
	l := newTill(t, 0, 1_000_000, answering(func(ctx context.Context, _ *model.Request, _ model.Stream) (*model.Answer, error) {
		close(asked)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}))
	require.NoError(t, l.Start(l.book.on(l.job())))
	<-asked
	l.Stop("run_1")
	finish := <-l.reports
	require.Equal(t, conversationpb.StopReason_CANCELLED, finish.GetStopReason())
	require.Positive(t, finish.GetUsage().GetCostNanoUsd())
	require.True(t, finish.GetUsage().GetPriced())
}

// An agent that has lost its price since, say while a person was asked, spends nothing of a budget unseen.
func TestABudgetWithoutAPrice(t *testing.T) {
	l := newTill(t, 20, 1_000_000)
	l.agent.Model.Price = nil
	finish := l.whole(t)
	require.Equal(t, "budget_unavailable", finish.GetError().GetCode())
	require.Empty(t, finish.GetContent())
	require.Nil(t, finish.GetUsage())
}

func TestACallThatPanicsCosts(t *testing.T) {
	l := newTill(t, 0, 1_000_000, answering(func(_ context.Context, _ *model.Request, stream model.Stream) (*model.Answer, error) {
		stream.Text("to be ")
		panic("a fault of the provider")
	}))
	finish := l.whole(t)
	require.Equal(t, conversationpb.StopReason_ERROR, finish.GetStopReason())
	require.Equal(t, "to be ", finish.GetContent())
	require.Positive(t, finish.GetUsage().GetCostNanoUsd())
	require.Equal(t, finish.GetUsage().GetCostNanoUsd(), l.book.spent)
}

// What a provider says that a failed answer consumed is charged, and not what was heard of it.
func TestAFailedAnswerCostsWhatItsProviderSays(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) {
		response.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(response, `data: {"type":"response.output_text.delta","delta":"to be"}`+"\n\n"+
			`data: {"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"it broke"},"usage":{"input_tokens":4000,"output_tokens":1000}}}`+"\n\n")
	}))
	t.Cleanup(server.Close)
	providers := model.New(model.Config{})
	t.Cleanup(providers.Close)
	l := newTill(t, 0, 100_000_000, func(config *Config) { config.Providers = providers })
	l.agent.Model.Provider, l.agent.Model.Name, l.agent.Model.BaseUrl = agentpb.Provider_OPENAI_RESPONSES, "model-1", server.URL
	finish := l.whole(t)
	require.Equal(t, conversationpb.StopReason_ERROR, finish.GetStopReason())
	require.Contains(t, finish.GetError().GetMessage(), "it broke")
	require.Equal(t, "to be", finish.GetContent())
	require.EqualValues(t, 4000, finish.GetUsage().GetInputTokens())
	require.EqualValues(t, 1000, finish.GetUsage().GetOutputTokens())
	require.True(t, finish.GetUsage().GetPriced())
}

func TestABudgetThatIsTakenAwayWhileTheModelAnswers(t *testing.T) {
	l := newTill(t, 200, 1_000+100*2_000)
	l.book.quiet = true
	l.page.onWrite = func(pieces int) {
		if pieces == 20 {
			l.book.mu.Lock()
			l.book.budget = 0
			l.book.mu.Unlock()
		}
	}
	require.Equal(t, conversationpb.StopReason_END_TURN, l.whole(t).GetStopReason())
}

// TestSpendingHolds: whatever the budget, the price and the answer, nothing is spent beyond the budget, and everything
// that was consumed is charged once.
func TestSpendingHolds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tokens := rapid.Int32Range(1, 80).Draw(rt, "tokens")
		budget := rapid.Int64Range(1, 200_000).Draw(rt, "budget")
		l := newTill(t, tokens, budget)
		l.agent.Model.Price = &agentpb.Price{
			InputNanoUsdPerMtok:  rapid.Int64Range(0, 3_000_000_000).Draw(rt, "input price"),
			OutputNanoUsdPerMtok: rapid.Int64Range(0, 3_000_000_000).Draw(rt, "output price"),
		}
		l.agent.Model.MaxOutputTokens = rapid.Int32Range(0, 50).Draw(rt, "cap")
		l.agent.Instructions = strings.Repeat("be kind ", rapid.IntRange(0, 20).Draw(rt, "prompt"))
		l.book.quiet = rapid.Bool().Draw(rt, "does not tell what is left")
		if rapid.Bool().Draw(rt, "own usage") {
			l.agent.Model.Script.Usage = &agentpb.Script_Usage{
				InputTokens: rapid.Int64Range(0, 50).Draw(rt, "input"), OutputTokens: rapid.Int64Range(0, 500).Draw(rt, "output"),
			}
		}
		finish := l.whole(t)
		usage := finish.GetUsage()
		price := l.agent.GetModel().GetPrice()
		require.Equal(rt, provider.Cost(price, usage.GetInputTokens(), 0, usage.GetOutputTokens()), usage.GetCostNanoUsd())
		require.Equal(rt, usage.GetCostNanoUsd(), l.book.spent)
		// A piece of the answer is the least that can be cut off.
		piece := provider.Cost(price, 0, 0, 1+l.agent.GetModel().GetScript().GetUsage().GetOutputTokens()/int64(tokens))
		require.LessOrEqual(rt, l.book.spent, budget+piece)
		if finish.GetStopReason() == conversationpb.StopReason_END_TURN {
			require.Len(rt, strings.Fields(finish.GetContent()), int(tokens))
		}
	})
}

func TestOverheardToolCallsCost(t *testing.T) {
	b := newBench(t, func(stream model.Stream) (*model.Answer, error) {
		overhears, ok := stream.(model.Overhearer)
		if !ok {
			return nil, errDisk
		}
		stream.Text("I write.")
		for range 1000 {
			overhears.Unsaid("a long argument ")
		}
		return nil, context.Canceled
	})
	b.book.budget = 1_000_000
	finish := b.whole(t)
	require.Equal(t, conversationpb.StopReason_BUDGET_REACHED, finish.GetStopReason())
	require.Equal(t, "I write.", finish.GetPartial().GetText())
	require.InDelta(t, 1_000_000, finish.GetUsage().GetCostNanoUsd(), 20_000)
}

func TestMoneyOfALostCall(t *testing.T) {
	b := newBench(t, says("ok"))
	b.book.budget = 10_000_000
	stuck := make(chan struct{})
	b.talks.rounds[0] = func(model.Stream) (*model.Answer, error) {
		close(stuck)
		return nil, errDisk
	}
	b.book.lose = func(p *conversationpb.Progress) error { return nil }
	b.start(t)
	<-stuck
	<-b.reports
	require.Len(t, b.book.asked, 1)
	require.Zero(t, b.book.reserved, "the report ends the reserve")
}

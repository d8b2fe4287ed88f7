package turn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a Provider that does what its function does.
type script struct {
	generate func(ctx context.Context, request *model.Request, stream model.Stream) (*model.Answer, error)
	history  bool
}

func (s *script) Generate(ctx context.Context, request *model.Request, stream model.Stream) (*model.Answer, error) {
	return s.generate(ctx, request, stream)
}
func (s *script) NeedsHistory() bool { return s.history }

// words answers with one piece per word, and usage of one token each.
func words(text string) *script {
	return &script{generate: func(_ context.Context, _ *model.Request, stream model.Stream) (*model.Answer, error) {
		pieces := strings.SplitAfter(text, " ")
		for _, piece := range pieces {
			stream.Text(piece)
		}
		return &model.Answer{
			Text: text, Stop: model.StopEnd,
			Usage: model.Usage{InputTokens: 10, OutputTokens: int64(len(pieces)), Known: true},
		}, nil
	}}
}

type agents map[string]*agentpb.Agent

func (a agents) Agent(_, id string, _ int64) (*agentpb.Agent, bool) {
	agent, found := a[id]
	return agent, found
}

type messages []*conversationpb.Message

func (m messages) Before(_ context.Context, _ string, number uint64, visit func(*conversationpb.Message) bool) error {
	for _, message := range slices.Backward(m) {
		if message.GetNumber() < number && !visit(message) {
			return nil
		}
	}
	return nil
}

func (messages) Steps(context.Context, string, string) ([]*conversationpb.Step, error) {
	return nil, nil
}

// page is a Publisher that keeps what it is told.
type page struct {
	mu       sync.Mutex
	begun    []string
	text     strings.Builder
	pieces   int
	sealed   bool
	released bool
	onWrite  func(pieces int)
}

func (p *page) Begin(_ Place, runID string, _ *conversationpb.Message) Output {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = append(p.begun, runID)
	return p
}

func (p *page) Write(piece string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.sealed {
		p.text.WriteString(piece)
		p.pieces++
	}
	if p.onWrite != nil {
		p.onWrite(p.pieces)
	}
}

func (p *page) Seal() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sealed = true
	return p.text.String()
}

func (p *page) Cut() { p.Seal() }

func (p *page) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sealed, p.released = true, true
}

func (p *page) isSealed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sealed
}

func (p *page) isReleased() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.released
}

// desk is a runner under test with the reports it made.
type desk struct {
	*Runner
	page    *page
	reports chan *conversationpb.Finish
	answers []error // of the next reports
}

func newDesk(t *testing.T, provider model.Provider, change ...func(*Config)) *desk {
	t.Helper()
	d := &desk{page: &page{}, reports: make(chan *conversationpb.Finish, 100)}
	config := Config{
		Agents: agents{"a": {Id: "a", Model: &agentpb.Model{
			Provider: agentpb.Provider_SCRIPTED,
			Price:    &agentpb.Price{InputNanoUsdPerMtok: 1_000_000_000, OutputNanoUsdPerMtok: 2_000_000_000},
		}}},
		History:   messages{},
		Providers: map[agentpb.Provider]model.Provider{agentpb.Provider_SCRIPTED: provider},
		Publisher: d.page,
	}
	for _, c := range change {
		c(&config)
	}
	var err error
	d.Runner, err = New(config)
	require.NoError(t, err)
	t.Cleanup(func() { d.Drain(context.Background()) })
	return d
}

func (d *desk) job() Job {
	return Job{
		Place: Place{Shard: 3, Epoch: 7, ConversationID: "conv_1"},
		RunID: "run_1", AgentID: "a",
		UserMessage:   &conversationpb.Message{Number: 9, Role: conversationpb.Role_USER, Content: "hello"},
		HistoryBefore: 9, Attempt: 1,
		Progress: (&book{epoch: 7}).progress,
		Report: func(_ context.Context, finish *conversationpb.Finish) error {
			d.reports <- finish
			if len(d.answers) == 0 {
				return nil
			}
			err := d.answers[0]
			d.answers = d.answers[1:]
			return err
		},
	}
}

func (d *desk) run(t *testing.T) *conversationpb.Finish {
	t.Helper()
	require.NoError(t, d.Start(d.job()))
	return <-d.reports
}

// stuck streams two words and then waits to be stopped.
func stuck() *script {
	return &script{generate: func(ctx context.Context, _ *model.Request, stream model.Stream) (*model.Answer, error) {
		stream.Text("to be ")
		stream.Text("or ")
		<-ctx.Done()
		stream.Text("too late")
		return &model.Answer{Text: "to be or "}, context.Cause(ctx)
	}}
}

func TestTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, words("a short answer"))
		finish := d.run(t)
		require.Equal(t, "a short answer", finish.GetContent())
		require.Equal(t, "a short answer", d.page.text.String())
		require.Equal(t, conversationpb.StopReason_END_TURN, finish.GetStopReason())
		require.Equal(t, "run_1", finish.GetRunId())
		require.EqualValues(t, 7, finish.GetEpoch())
		require.EqualValues(t, 10_000+3*2_000, finish.GetUsage().GetCostNanoUsd())
		require.True(t, finish.GetUsage().GetPriced())
		require.EqualValues(t, 1, finish.GetUsage().GetModelCalls())
		require.Equal(t, []string{"run_1"}, d.page.begun)
		synctest.Wait()
		require.False(t, d.Active("run_1", 7))
		d.Stop("run_1")
	})
}

func TestWaitForTheTurnsOfAShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, stuck())
		d.Wait(t.Context(), 3)
		first, second, other := d.job(), d.job(), d.job()
		second.RunID, other.RunID = "run_2", "run_3"
		other.Shard = 4
		for _, job := range []Job{first, second, other} {
			require.NoError(t, d.Start(job))
		}
		waited := make(chan struct{}, 2)
		for range 2 {
			go func() {
				d.Wait(t.Context(), 3)
				waited <- struct{}{}
			}()
		}
		synctest.Wait()
		d.Stop("run_1")
		<-d.reports
		synctest.Wait()
		require.Empty(t, waited, "one still runs")
		d.Release(3, 7)
		<-waited
		<-waited
		ended, end := context.WithCancel(t.Context())
		end()
		d.Wait(ended, 4)
		require.True(t, d.Active("run_3", 7))
		d.Stop("run_3")
		<-d.reports
		d.Wait(t.Context(), 4)
	})
}

func TestStopIsFinalForTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, stuck())
		require.NoError(t, d.Start(d.job()))
		synctest.Wait()
		require.True(t, d.Active("run_1", 7))
		require.False(t, d.Active("run_1", 8))
		d.Stop("run_1")
		require.True(t, d.page.isSealed())
		finish := <-d.reports
		require.Equal(t, conversationpb.StopReason_CANCELLED, finish.GetStopReason())
		require.Equal(t, "to be or ", finish.GetContent())
		require.Nil(t, finish.GetError())
		require.True(t, finish.GetUsage().GetPriced(), "what a call that was cut off did not say is estimated")
		require.EqualValues(t, 5, finish.GetUsage().GetOutputTokens(), "with what came too late to be heard")
		d.Stop("run_1")
	})
}

func TestEndings(t *testing.T) {
	long := strings.Repeat("é", 100)
	tools := func(_ context.Context, request *model.Request, stream model.Stream) (*model.Answer, error) {
		stream.Text(fmt.Sprint("step ", request.Step))
		call := model.ToolCall{ID: fmt.Sprint("call_", request.Step), Name: "search", Arguments: "{}"}
		stream.ToolCall(call)
		return &model.Answer{Text: fmt.Sprint("step ", request.Step), ToolCalls: []model.ToolCall{call}, Stop: model.StopTools}, nil
	}
	fail := func(err error) func(context.Context, *model.Request, model.Stream) (*model.Answer, error) {
		return func(_ context.Context, _ *model.Request, stream model.Stream) (*model.Answer, error) {
			stream.Text("half")
			return nil, err
		}
	}
	stop := func(stop model.Stop) func(context.Context, *model.Request, model.Stream) (*model.Answer, error) {
		return func(context.Context, *model.Request, model.Stream) (*model.Answer, error) {
			return &model.Answer{Text: "half", Stop: stop}, nil // an adapter that does not stream
		}
	}
	for _, test := range []struct {
		name     string
		generate func(context.Context, *model.Request, model.Stream) (*model.Answer, error)
		change   func(*Config)
		agent    string
		reason   conversationpb.StopReason
		code     string
		content  string
	}{
		{
			name: "provider_error", generate: fail(&model.Error{Code: "rate_limited", Message: "slow down", Err: errors.New("key sk-1")}),
			reason: conversationpb.StopReason_ERROR, code: "rate_limited: slow down", content: "half",
		},
		{
			name: "unknown_error", generate: fail(errors.New("dial tcp 10.0.0.1: secret")),
			reason: conversationpb.StopReason_ERROR, code: "provider_error: The model could not be called.", content: "half",
		},
		{
			name: "no_answer", generate: fail(nil),
			reason: conversationpb.StopReason_ERROR, code: "provider_error: The model could not be called.", content: "half",
		},
		{
			name: "panic", generate: func(context.Context, *model.Request, model.Stream) (*model.Answer, error) { panic("oh") },
			reason: conversationpb.StopReason_ERROR, code: "internal_error: The turn ended by a fault of the server.",
		},
		{
			name: "timeout", generate: stuck().generate, change: func(c *Config) { c.Timeout = time.Minute },
			reason: conversationpb.StopReason_ERROR, code: "provider_timeout: The turn took too long.", content: "to be or too late",
		},
		{
			name: "no_agent", generate: tools, agent: "gone",
			reason: conversationpb.StopReason_ERROR, code: "agent_not_found: The agent of this conversation does not exist any more.",
		},
		{
			name: "no_provider", generate: tools, change: func(c *Config) { c.Providers = map[agentpb.Provider]model.Provider{} },
			reason: conversationpb.StopReason_ERROR, code: "provider_error: The agent's model provider is not configured.",
		},
		{name: "length", generate: stop(model.StopLength), reason: conversationpb.StopReason_LIMIT, content: "half"},
		{
			name: "filter", generate: stop(model.StopFilter), reason: conversationpb.StopReason_ERROR,
			code: "content_filtered: The model's provider withheld the answer.", content: "half",
		},
		{
			name: "tools", generate: tools, change: func(c *Config) { c.MaxRounds = 3 },
			reason: conversationpb.StopReason_MAX_TURNS, content: "step 0\n\nstep 1\n\nstep 2",
		},
		{
			name: "too_long", change: func(c *Config) { c.MaxText = 51 },
			generate: func(ctx context.Context, _ *model.Request, stream model.Stream) (*model.Answer, error) {
				stream.Text(long)
				stream.Text(long)
				return nil, context.Cause(ctx)
			},
			reason: conversationpb.StopReason_LIMIT, content: strings.Repeat("é", 25),
		},
		{
			name: "broken_text",
			generate: func(_ context.Context, _ *model.Request, stream model.Stream) (*model.Answer, error) {
				stream.Text("a\xff")
				stream.Text("b")
				return &model.Answer{}, nil
			},
			reason: conversationpb.StopReason_END_TURN, content: "a\uFFFDb",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, &script{generate: test.generate}, func(c *Config) {
					if test.change != nil {
						test.change(c)
					}
				})
				job := d.job()
				if test.agent != "" {
					job.AgentID = test.agent
				}
				require.NoError(t, d.Start(job))
				finish := <-d.reports
				require.Equal(t, test.reason, finish.GetStopReason())
				require.Equal(t, test.content, finish.GetContent())
				require.Equal(t, test.content, d.page.text.String(), "what is stored is what was streamed")
				code := ""
				if e := finish.GetError(); e != nil {
					code = e.GetCode() + ": " + e.GetMessage()
				}
				require.Equal(t, test.code, code)
				if test.name == "tools" {
					require.Len(t, finish.GetToolCalls(), 3)
					require.Equal(t, "there is no such tool", finish.GetToolCalls()[0].GetError())
					require.Equal(t, "not run: the turn has used all its model calls", finish.GetToolCalls()[2].GetError())
					require.EqualValues(t, 1, finish.GetUsage().GetModelCalls(), "two are journalled with their steps")
				}
			})
		})
	}
}

func TestToolErrorsGoBackToTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var second []model.Message
		d := newDesk(t, &script{generate: func(_ context.Context, request *model.Request, stream model.Stream) (*model.Answer, error) {
			if request.Step == 0 {
				return &model.Answer{Text: "let me see", ToolCalls: []model.ToolCall{{ID: "c", Name: "n", Arguments: "{}"}}}, nil
			}
			second = request.Messages
			stream.Text("no tool")
			return &model.Answer{Text: "no tool"}, nil
		}})
		finish := d.run(t)
		require.Equal(t, conversationpb.StopReason_END_TURN, finish.GetStopReason())
		require.Equal(t, "let me see\n\nno tool", finish.GetContent())
		require.Equal(t, []model.Message{
			{Role: model.User, Content: "hello"},
			{Role: model.Assistant, Content: "let me see", ToolCalls: []model.ToolCall{{ID: "c", Name: "n", Arguments: "{}"}}},
			{Role: model.ToolRole, ToolID: "c", Content: "error: there is no such tool", Failed: true},
		}, second)
	})
}

func TestReportIsRepeatedUntilItIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, words("an answer"))
		for range 20 {
			d.answers = append(d.answers, errors.New("disk full"))
		}
		start := time.Now()
		require.NoError(t, d.Start(d.job()))
		for range 20 {
			require.Equal(t, "an answer", (<-d.reports).GetContent())
			require.True(t, d.Active("run_1", 7), "nobody may start it again while its report is on the way")
		}
		<-d.reports
		synctest.Wait()
		require.False(t, d.Active("run_1", 7))
		require.Less(t, time.Since(start), 2*time.Minute)
		require.Greater(t, time.Since(start), 30*time.Second)
	})
}

func TestReportThatIsNotWanted(t *testing.T) {
	for _, test := range []struct {
		name    string
		answers []error
		last    string
		count   int
	}{
		{"fenced", []error{errors.New("x"), fmt.Errorf("stale: %w", ErrFenced)}, "an answer", 2},
		{"refused", []error{fmt.Errorf("too large: %w", ErrRefused)}, "", 2},
		{"refused_twice", []error{ErrRefused, ErrRefused}, "", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, words("an answer"))
				d.answers = test.answers
				require.NoError(t, d.Start(d.job()))
				time.Sleep(time.Hour)
				require.Len(t, d.reports, test.count)
				var last *conversationpb.Finish
				for range test.count {
					last = <-d.reports
				}
				require.Equal(t, test.last, last.GetContent())
				require.Equal(t, "run_1", last.GetRunId())
				require.False(t, d.Active("run_1", 7))
			})
		})
	}
}

func TestStartAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, stuck())
		require.NoError(t, d.Start(d.job()))
		require.NoError(t, d.Start(d.job()), "resumed before it heard that it had paused")
		require.Len(t, d.page.begun, 2)
		require.True(t, d.page.isReleased())
		synctest.Wait()
		require.True(t, d.Active("run_1", 7))
		later := d.job()
		later.Epoch = 8
		require.NoError(t, d.Start(later))
		require.Len(t, d.page.begun, 3)
		synctest.Wait()
		require.NoError(t, d.Start(d.job()), "old news")
		require.Len(t, d.page.begun, 3)
		require.False(t, d.Active("run_1", 7))
		require.True(t, d.Active("run_1", 8))
		require.Empty(t, d.reports, "the former one reports nothing")
		d.Stop("run_1")
		require.EqualValues(t, 8, (<-d.reports).GetEpoch())
	})
}

func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, stuck())
		start := func(run string, shard uint32, epoch uint64) {
			job := d.job()
			job.RunID, job.Shard, job.Epoch = run, shard, epoch
			require.NoError(t, d.Start(job))
		}
		start("old", 3, 5)
		start("current", 3, 6)
		start("newer", 3, 7)
		start("elsewhere", 4, 5)
		d.Release(3, 6)
		synctest.Wait()
		require.False(t, d.Active("old", 5))
		require.False(t, d.Active("current", 6))
		require.True(t, d.Active("newer", 7))
		require.True(t, d.Active("elsewhere", 5))
		require.Empty(t, d.reports)
		d.Release(3, 7)
		d.Release(4, 7)
	})
}

func TestReleaseEndsAReportThatIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, words("an answer"))
		for range 100 {
			d.answers = append(d.answers, errors.New("no leader"))
		}
		require.NoError(t, d.Start(d.job()))
		<-d.reports
		d.Release(3, 7)
		synctest.Wait()
		d.mu.Lock()
		defer d.mu.Unlock()
		require.Zero(t, d.mu.count)
	})
}

func TestOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, stuck(), func(c *Config) { c.MaxConcurrent = 1 })
		require.NoError(t, d.Start(d.job()))
		second := d.job()
		second.RunID = "run_2"
		require.ErrorIs(t, d.Start(second), ErrOverloaded)
		require.Len(t, d.page.begun, 1)
		d.Stop("run_1")
		<-d.reports
		synctest.Wait()
		require.NoError(t, d.Start(second))
		d.Stop("run_2")
	})
}

func TestDrainWaitsThenAbandons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, &script{generate: func(ctx context.Context, _ *model.Request, stream model.Stream) (*model.Answer, error) {
			select {
			case <-time.After(10 * time.Second):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			stream.Text("done")
			return &model.Answer{Text: "done"}, nil
		}})
		require.NoError(t, d.Start(d.job()))
		time.Sleep(9 * time.Second)
		late := d.job()
		late.RunID = "run_2"
		require.NoError(t, d.Start(late))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		d.Drain(ctx)
		require.Len(t, d.reports, 1)
		require.Equal(t, "run_1", (<-d.reports).GetRunId())
		require.True(t, d.page.isReleased())
		late.RunID = "run_3"
		require.ErrorIs(t, d.Start(late), ErrStopping)
		d.Drain(ctx)
	})
}

func TestWindow(t *testing.T) {
	var past messages
	for n := uint64(1); n <= 40; n++ {
		role := conversationpb.Role_USER
		if n%2 == 0 {
			role = conversationpb.Role_ASSISTANT
		}
		past = append(past, &conversationpb.Message{Number: n, Role: role, Content: strings.Repeat("x", 35)})
	}
	past[37].ToolCalls = []*conversationpb.ToolCall{{Id: "c", Name: "n", Arguments: "{}", Error: "broken"}}
	past[35].Content = ""
	var got []model.Message
	provider := &script{history: true, generate: func(_ context.Context, request *model.Request, _ model.Stream) (*model.Answer, error) {
		got = request.Messages
		return &model.Answer{Text: "ok"}, nil
	}}
	synctest.Test(t, func(t *testing.T) {
		agent := &agentpb.Agent{Id: "a", Model: &agentpb.Model{
			Provider: agentpb.Provider_SCRIPTED, ContextTokens: 300, MaxOutputTokens: 100,
		}}
		d := newDesk(t, provider, func(c *Config) { c.History, c.Agents = past, agents{"a": agent} })
		job := d.job()
		job.UserMessage.Number, job.HistoryBefore = 41, 41
		require.NoError(t, d.Start(job))
		<-d.reports
		require.Equal(t, model.User, got[0].Role)
		require.Equal(t, "hello", got[len(got)-1].Content)
		used := 0
		for _, m := range got {
			used += model.EstimateMessage(m)
		}
		require.LessOrEqual(t, used, model.Window(agent, nil))
		require.Greater(t, used, model.Window(agent, nil)-3*model.EstimateMessage(model.Message{Content: past[0].GetContent()}))
		require.Equal(t, "error: broken", got[len(got)-5].Content)
		require.Equal(t, "n", got[len(got)-6].ToolCalls[0].Name)
	})
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, provider, func(c *Config) { c.History = unreadable{} })
		finish := d.run(t)
		require.Equal(t, "provider_error", finish.GetError().GetCode())
	})
}

type unreadable struct{}

func (unreadable) Steps(context.Context, string, string) ([]*conversationpb.Step, error) {
	return nil, errors.New("disk")
}

func (unreadable) Before(context.Context, string, uint64, func(*conversationpb.Message) bool) error {
	return errors.New("disk")
}

func TestCost(t *testing.T) {
	price := &agentpb.Price{InputNanoUsdPerMtok: 3_000_000_001, CachedInputNanoUsdPerMtok: 300_000_000, OutputNanoUsdPerMtok: 15_000_000_000}
	for _, test := range []struct {
		name   string
		usage  usage
		price  *agentpb.Price
		cost   int64
		priced bool
	}{
		{"nothing_called", usage{}, price, 0, false},
		{"no_price", usage{calls: 1, input: 5}, nil, 0, false},
		{"rounds_up_once", usage{calls: 1, input: 1}, price, 3001, true},
		{"parts", usage{calls: 2, input: 1000, cached: 400, output: 10}, price, 1_800_001 + 120_000 + 150_000, true},
		{"no_cached_price", usage{calls: 1, input: 10, cached: 10}, &agentpb.Price{InputNanoUsdPerMtok: 2_000_000}, 20, true},
		{"lower_bound", usage{calls: 1, input: 1, unknown: true}, price, 3001, false},
		{"huge", usage{calls: 1, input: math.MaxInt64}, &agentpb.Price{InputNanoUsdPerMtok: math.MaxInt64}, math.MaxInt64, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			total := test.usage.priced(&agentpb.Model{Price: test.price})
			require.Equal(t, test.cost, total.GetCostNanoUsd())
			require.Equal(t, test.priced, total.GetPriced())
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		tokens, rate := rapid.Int64Range(0, 1<<30).Draw(t, "tokens"), rapid.Int64Range(0, 1<<32).Draw(t, "price")
		u := usage{calls: 1, output: tokens}
		cost := u.priced(&agentpb.Model{Price: &agentpb.Price{OutputNanoUsdPerMtok: rate}}).GetCostNanoUsd()
		product := tokens * rate
		require.GreaterOrEqual(t, cost*1_000_000, product)
		require.Less(t, cost*1_000_000-product, int64(1_000_000))
	})
}

func TestConfigIsChecked(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "required")
	_, err = New(Config{
		Agents: agents{}, History: messages{}, Providers: map[agentpb.Provider]model.Provider{}, Publisher: &page{}, MaxText: -1,
	})
	require.ErrorContains(t, err, "MaxText")
}

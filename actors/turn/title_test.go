package turn

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// duet answers a turn and makes its title, each after its own time.
type duet struct {
	answer, title time.Duration
	words         string
	err           error
	asked         *model.Request
}

func (d *duet) NeedsHistory() bool { return true }

func (d *duet) Generate(ctx context.Context, request *model.Request, stream model.Stream) (*model.Answer, error) {
	wait, words := d.answer, "an answer"
	making := request.Agent.GetInstructions() == titlePrompt
	if making {
		wait, words, d.asked = d.title, d.words, request
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return &model.Answer{}, context.Cause(ctx)
	}
	if making && d.err != nil {
		return nil, d.err
	}
	stream.Text(words)
	return &model.Answer{Text: words, Usage: model.Usage{InputTokens: 10, OutputTokens: 5, Known: true}}, nil
}

// stage is a desk for titles.
type stage struct {
	*desk
	job    Job
	titles chan *conversationpb.SetTitle
}

func newStage(t *testing.T, d *duet, change ...func(*agentpb.Agent)) *stage {
	t.Helper()
	agent := &agentpb.Agent{Id: "a", Experience: &agentpb.Experience{Titles: true}, Model: &agentpb.Model{
		Provider: agentpb.Provider_OPENAI, Price: testPrice,
	}}
	for _, c := range change {
		c(agent)
	}
	s := &stage{titles: make(chan *conversationpb.SetTitle, 10)}
	s.desk = newDesk(t, d, func(c *Config) {
		c.Agents = agents{"a": agent}
		c.Providers = map[agentpb.Provider]model.Provider{agentpb.Provider_OPENAI: d, agentpb.Provider_ANTHROPIC: d}
	})
	s.job = s.desk.job()
	s.job.Untitled = true
	s.job.SetTitle = func(_ context.Context, title *conversationpb.SetTitle) error {
		s.titles <- title
		return nil
	}
	return s
}

func TestTitleThatIsReadyGoesWithTheReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &duet{answer: 2 * time.Second, title: time.Second, words: " \"The **Weather**\nin Bern.\" "}
		s := newStage(t, d)
		require.NoError(t, s.Start(s.job))
		finish := <-s.reports
		require.Equal(t, "The Weather", finish.GetTitle())
		require.EqualValues(t, 2, finish.GetUsage().GetModelCalls())
		require.EqualValues(t, 2*20_000, finish.GetUsage().GetCostNanoUsd())
		require.Equal(t, "an answer", finish.GetContent())
		s.Wait(t.Context(), 3)
		synctest.Wait()
		require.Empty(t, s.titles)
		require.Equal(t, "hello", d.asked.Messages[0].Content)
		require.Empty(t, d.asked.Tools)
	})
}

func TestTitleThatIsLateIsToldAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, &duet{answer: time.Second, title: 2 * time.Second, words: "The weather"})
		require.NoError(t, s.Start(s.job))
		finish := <-s.reports
		require.Empty(t, finish.GetTitle())
		require.EqualValues(t, 1, finish.GetUsage().GetModelCalls())
		begin := time.Now()
		s.Wait(t.Context(), 3)
		require.Zero(t, time.Since(begin), "a title holds up no hand-over")
		require.False(t, s.Active("run_1", 7))
		title := <-s.titles
		require.Equal(t, "The weather", title.GetTitle())
		require.Equal(t, "run_1", title.GetRunId())
		require.EqualValues(t, 20_000, title.GetUsage().GetCostNanoUsd())
	})
}

func TestNoTitle(t *testing.T) {
	for _, test := range []struct {
		name  string
		duet  duet
		agent func(*agentpb.Agent)
		job   func(*Job)
		calls int32
	}{
		{name: "agent_does_not_want_it", agent: func(a *agentpb.Agent) { a.Experience = nil }, calls: 1},
		{name: "has_one", job: func(j *Job) { j.Untitled = false }, calls: 1},
		{name: "model_fails", duet: duet{err: errDisk}, calls: 1},
		{name: "provider_is_not_there", agent: func(a *agentpb.Agent) { a.TitleModel = &agentpb.Model{Provider: agentpb.Provider_OPENAI_RESPONSES} }, calls: 1},
		{name: "budget_cannot_bear_it", job: func(j *Job) {
			j.Budget = true
			j.Progress = (&book{epoch: 7, attempt: 1, budget: 400_000}).progress
		}, calls: 1},
		{name: "no_price_beside_a_budget", agent: func(a *agentpb.Agent) { a.TitleModel = &agentpb.Model{Provider: agentpb.Provider_ANTHROPIC} }, job: func(j *Job) {
			j.Budget = true
			j.Progress = (&book{epoch: 7, attempt: 1, budget: 400_000_000}).progress
		}, calls: 1},
		{name: "too_late", duet: duet{title: time.Hour}, calls: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.duet.words = "Never"
				s := newStage(t, &test.duet, func(a *agentpb.Agent) {
					if test.agent != nil {
						test.agent(a)
					}
				})
				if test.job != nil {
					test.job(&s.job)
				}
				require.NoError(t, s.Start(s.job))
				finish := <-s.reports
				time.Sleep(2 * time.Hour)
				require.Empty(t, finish.GetTitle())
				require.Equal(t, test.calls, finish.GetUsage().GetModelCalls())
				require.Equal(t, conversationpb.StopReason_END_TURN, finish.GetStopReason())
				require.Empty(t, s.titles)
			})
		})
	}
}

func TestTitleWithinTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, &duet{answer: time.Second, words: "The weather"})
		book := &book{epoch: 7, attempt: 1, budget: 10_000_000}
		s.job.Budget, s.job.Progress = true, book.progress
		require.NoError(t, s.Start(s.job))
		finish := <-s.reports
		require.Equal(t, "The weather", finish.GetTitle())
		require.Greater(t, book.asked[0], int64(2000*(256+titleTokens)), "asked for together")
	})
}

func TestStopEndsTheTitle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, &duet{answer: time.Minute, title: time.Minute, words: "Never"})
		require.NoError(t, s.Start(s.job))
		synctest.Wait()
		s.Stop("run_1")
		finish := <-s.reports
		require.Equal(t, conversationpb.StopReason_CANCELLED, finish.GetStopReason())
		require.Empty(t, finish.GetTitle())
		time.Sleep(time.Hour)
		require.Empty(t, s.titles)
	})
}

func TestReleaseEndsTheTitle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, &duet{title: 15 * time.Second, words: "Never"})
		require.NoError(t, s.Start(s.job))
		<-s.reports
		synctest.Wait()
		s.Release(3, 7)
		synctest.Wait()
		require.Empty(t, s.titles)
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Zero(t, s.mu.count)
	})
}

func TestTheStandInTakesTheFirstWords(t *testing.T) {
	agent := &agentpb.Agent{Model: &agentpb.Model{Provider: agentpb.Provider_SCRIPTED, Script: &agentpb.Script{Tokens: 1000}}}
	require.Equal(t, "what is the best", titleMaker(agent, "what is  the\nbest way to Bern").GetScript().GetText())
	require.EqualValues(t, 1000, agent.GetModel().GetScript().GetTokens())
}

func TestCleanTitle(t *testing.T) {
	for given, want := range map[string]string{
		"":                            "",
		"  Weather in Bern.  ":        "Weather in Bern",
		"\u201cBern\u201d":            "Bern",
		"# Title\nand more":           "Title",
		"\n\n**Bold  move**":          "Bold move",
		strings.Repeat("\u00e9", 300): strings.Repeat("\u00e9", 200),
	} {
		require.Equal(t, want, cleanTitle(given))
	}
}

func TestTitleOfATurnThatPauses(t *testing.T) {
	release := make(chan struct{})
	b := newBench(t, asks("Hm.", `c1 camera {}`), says("ok"))
	b.agent.Experience = &agentpb.Experience{Titles: true}
	b.agent.TitleModel = &agentpb.Model{Provider: agentpb.Provider_ANTHROPIC, Price: testPrice}
	b.renew(t, func(c *Config) {
		c.Providers[agentpb.Provider_ANTHROPIC] = &script{generate: func(_ context.Context, _ *model.Request, stream model.Stream) (*model.Answer, error) {
			<-release
			stream.Text("Camera")
			return &model.Answer{Text: "Camera", Usage: callUsage}, nil
		}}
	})
	b.untitled = true
	b.untilPause(t)
	close(release)
	title := <-b.titles
	require.Equal(t, "Camera", title.GetTitle())
	require.EqualValues(t, 20_000, title.GetUsage().GetCostNanoUsd())
	require.EqualValues(t, 20_000, b.book.spent)
}

func TestTitleIsPaidForWithTheNextStep(t *testing.T) {
	b := newBench(t, nil, says("ok"))
	b.agent.Experience = &agentpb.Experience{Titles: true}
	b.agent.TitleModel = &agentpb.Model{Provider: agentpb.Provider_ANTHROPIC, Price: testPrice}
	made := make(chan struct{})
	b.renew(t, func(c *Config) {
		c.Providers[agentpb.Provider_ANTHROPIC] = &script{generate: func(_ context.Context, _ *model.Request, stream model.Stream) (*model.Answer, error) {
			defer close(made)
			stream.Text("Camera")
			return &model.Answer{Text: "Camera", Usage: callUsage}, nil
		}}
	})
	b.talks.rounds[0] = func(stream model.Stream) (*model.Answer, error) {
		<-made
		stream.Text("Hm.")
		for range 100 {
			runtime.Gosched() // lets the title's goroutine end
		}
		return asks("", `c1 read {}`)(stream)
	}
	b.untitled = true
	finish := b.whole(t)
	require.Equal(t, "Camera", finish.GetTitle())
	require.EqualValues(t, 3*20_000, b.book.spent, "once")
	require.Empty(t, b.titles)
}

package turn

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/proto/conversationpb"
)

func TestToolsRunAndTheirResultsGoBack(t *testing.T) {
	b := newBench(t,
		asks("Let me look.", `c1 read {"n":1}`, `c2 write {"n": 2}`, `c3 nothing {}`, `c4 read {"n":"x"}`),
		asks("", `c1 read {}`),
		says("All done."))
	finish := b.whole(t)
	require.Equal(t, conversationpb.StopReason_END_TURN, finish.GetStopReason())
	require.Equal(t, "Let me look.\n\nAll done.", finish.GetContent())
	require.Equal(t, finish.GetContent(), b.page.text.String())
	calls := callsOf(finish.GetToolCalls())
	require.Len(t, calls, 5)
	require.Equal(t, []string{
		`c1 read {"n":1} = read done`,
		`c2 write {"n": 2} = write done`,
		`c3 nothing {} = there is no such tool`,
	}, calls[:3])
	require.Contains(t, calls[3], "the arguments do not fit the tool's schema")
	require.NotEqual(t, "c1", finish.GetToolCalls()[4].GetId(), "ids are the turn's own")
	require.Zero(t, finish.GetToolCalls()[2].GetTookMs(), "it was not run")
	require.Positive(t, finish.GetToolCalls()[1].GetTookMs())

	require.Equal(t, map[string]int{"run_1/1/0": 1, "run_1/1/1": 1, finishKey(b, "read done", 4): 1}, b.shop.counts())
	require.EqualValues(t, 1, finish.GetUsage().GetModelCalls(), "what is journalled is not charged again")
	require.EqualValues(t, 2, b.book.usage.GetModelCalls()-finish.GetUsage().GetModelCalls())
	require.EqualValues(t, 3*(10_000+5*2_000), b.book.spent)

	names := make([]string, 0, 5)
	for _, definition := range b.talks.last().Tools {
		names = append(names, definition.Name)
	}
	require.Equal(t, []string{"ask_user", "camera", "pay", "read", "write"}, names)
	said := messagesOf(b.talks.last().Messages)
	require.Equal(t, "user: hello", said[0])
	require.Equal(t, `assistant: Let me look. [c1 read {"n":1}] [c2 write {"n": 2}] [c3 nothing {}] [c4 read {"n":"x"}]`, said[1])
	require.Equal(t, "tool c1: read done", said[2])
	require.Equal(t, "tool c3: error: there is no such tool", said[4])
	require.Len(t, said, 8)
}

// finishKey is the key of the call of the third model step, whose number depends on how results came together.
func finishKey(b *bench, _ string, _ int) string {
	for _, step := range b.book.steps[1:] {
		if step.GetUse() != nil {
			return "run_1/" + string(rune('0'+step.GetNumber())) + "/0"
		}
	}
	return ""
}

func TestEachResultIsJournalledAsItComes(t *testing.T) {
	b := newBench(t, asks("", `c1 read {"n":1}`, `c2 read {"n":2}`), says("ok"))
	release := make(chan struct{})
	b.shop.hook = func(_ string, request *http.Request) (int, string) {
		if strings.HasSuffix(request.Header.Get("Idempotency-Key"), "/1") {
			<-release
		}
		return http.StatusOK, "fine"
	}
	journalled := make(chan int, 10)
	b.book.lose = func(p *conversationpb.Progress) error {
		if results := p.GetResults(); results != nil {
			journalled <- len(results.GetResults())
		}
		return nil
	}
	b.start(t)
	require.Equal(t, 1, <-journalled)
	close(release)
	require.Equal(t, 1, <-journalled)
	require.Equal(t, "ok", (<-b.reports).GetContent())
}

func TestToolsRunSideBySideWithinTheirBound(t *testing.T) {
	const bound, all = 3, 7
	var calls []string
	for i := range all {
		calls = append(calls, string(rune('a'+i))+" read {}")
	}
	b := newBench(t, asks("", calls...), says("ok"))
	b.renew(t, func(c *Config) { c.MaxParallelTools = bound })
	arrived, release := make(chan struct{}, all), make(chan struct{})
	b.shop.hook = func(string, *http.Request) (int, string) {
		arrived <- struct{}{}
		<-release
		return http.StatusOK, "fine"
	}
	b.start(t)
	for range bound {
		<-arrived
	}
	require.Empty(t, arrived)
	close(release)
	require.Len(t, (<-b.reports).GetToolCalls(), all)
	require.Len(t, b.shop.counts(), all)
}

func TestResultsAreBounded(t *testing.T) {
	b := newBench(t, asks("", `c1 read {}`), asks("", `c2 read {}`), asks("", "c3 read "+`{"n":`+strings.Repeat(" ", 70_000)+`1}`), says("ok"))
	b.renew(t, func(c *Config) { c.MaxToolResult, c.MaxTurnResults = 100, 150 }) // the second result finds too little left
	b.shop.hook = func(string, *http.Request) (int, string) { return http.StatusOK, strings.Repeat("é", 400) }
	finish := b.whole(t)
	size := 0
	for _, call := range finish.GetToolCalls() {
		size += len(call.GetResult()) + len(call.GetArguments())
		require.LessOrEqual(t, len(call.GetResult()), 100)
	}
	require.LessOrEqual(t, size, 150+minToolResult)
	require.Contains(t, finish.GetToolCalls()[0].GetResult(), "[cut: the result is too long]")
	require.Equal(t, "{}", finish.GetToolCalls()[2].GetArguments())
	require.Contains(t, finish.GetToolCalls()[2].GetError(), "arg")
}

func TestStopDuringTools(t *testing.T) {
	b := newBench(t, asks("Wait.", `c1 write {}`, `c2 read {}`), says("never"))
	running, gone := make(chan struct{}, 2), make(chan struct{}, 2)
	b.shop.hook = func(_ string, request *http.Request) (int, string) {
		running <- struct{}{}
		<-request.Context().Done()
		gone <- struct{}{}
		return http.StatusOK, "too late"
	}
	b.start(t)
	<-running
	<-running
	b.Stop("run_1")
	finish := <-b.reports
	<-gone
	<-gone
	require.Equal(t, conversationpb.StopReason_CANCELLED, finish.GetStopReason())
	require.Equal(t, "Wait.", finish.GetContent())
	require.Equal(t, []string{`c1 write {} = cancelled`, `c2 read {} = cancelled`}, callsOf(finish.GetToolCalls()))
	require.Nil(t, finish.GetUsage(), "the model call is journalled with its step")
	require.Len(t, b.book.steps, 1)
}

func TestRoundsAreBounded(t *testing.T) {
	b := newBench(t, asks("again", `c1 write {}`))
	b.agent.MaxTurns = 2
	finish := b.whole(t)
	require.Equal(t, conversationpb.StopReason_MAX_TURNS, finish.GetStopReason())
	require.Equal(t, map[string]int{"run_1/1/0": 1}, b.shop.counts(), "nobody would read the second result")
	require.Equal(t, "not run: the turn has used all its model calls", finish.GetToolCalls()[1].GetError())
}

func TestPauseAndResume(t *testing.T) {
	b := newBench(t,
		asks("One moment.", `c1 pay {"n":1}`, `c2 ask_user {"questions":[{"question":"Why?"}]}`, `c3 camera {}`, `c4 read {}`, `c5 pay {"n":5}`),
		says("Thanks."))
	stored := b.untilPause(t)
	require.Equal(t, "One moment.", stored.GetContent())
	require.Len(t, stored.GetToolCalls(), 5)
	require.Equal(t, "read done", stored.GetToolCalls()[3].GetResult())
	require.Equal(t, map[string]int{"run_1/1/3": 1}, b.shop.counts())

	open := b.book.calls
	require.Equal(t, []conversationpb.Need{
		conversationpb.Need_APPROVAL, conversationpb.Need_QUESTION, conversationpb.Need_CLIENT, conversationpb.Need_RUN, conversationpb.Need_APPROVAL,
	}, needs(open))
	require.JSONEq(t, `{"n":1}`, string(open[0].GetArgs()))
	require.JSONEq(t, `{"prompt":"Really?"}`, string(open[0].GetDetails()))
	require.True(t, json.Valid(open[0].GetSchema()))
	require.EqualValues(t, 5000, open[1].GetActionTimeoutMs())
	require.Contains(t, string(open[1].GetDetails()), `"question":"Why?"`)
	require.Empty(t, open[3].GetArgs())
	require.True(t, open[3].GetIdempotent())

	require.False(t, b.book.decide("c1", nil, `{"n":100}`))
	require.False(t, b.book.decide("c2", &conversationpb.ToolCall{Result: "Because."}, ""))
	require.False(t, b.book.decide("c3", &conversationpb.ToolCall{Error: "no camera"}, ""))
	require.True(t, b.book.decide("c5", &conversationpb.ToolCall{Error: "denied"}, ""))

	b.page = &page{}
	b.renew(t)
	finish := b.whole(t)
	require.Equal(t, conversationpb.StopReason_END_TURN, finish.GetStopReason())
	require.Equal(t, "One moment.\n\nThanks.", finish.GetContent(), "the whole")
	require.Equal(t, "\n\nThanks.", b.page.text.String(), "only what is new is streamed")
	require.Equal(t, map[string]int{"run_1/1/3": 1, "run_1/1/0": 1}, b.shop.counts())
	require.JSONEq(t, `{"n":100}`, b.shop.args["run_1/1/0"])
	require.Equal(t, []string{
		`c1 pay {"n":100} = pay done`,
		`c2 ask_user {"questions":[{"question":"Why?"}]} = Because.`,
		`c3 camera {} = no camera`,
		`c4 read {} = read done`,
		`c5 pay {"n":5} = denied`,
	}, callsOf(finish.GetToolCalls()))
	said := messagesOf(b.talks.last().Messages)
	require.Contains(t, said[1], `[c1 pay {"n":100}]`, "the model reads what was run")
	require.Equal(t, []string{
		"tool c1: pay done", "tool c2: Because.", "tool c3: error: no camera", "tool c4: read done", "tool c5: error: denied",
	}, said[2:])
	require.Equal(t, 1, b.talks.last().Step)
}

func needs(calls []*conversationpb.OpenCall) []conversationpb.Need {
	var needs []conversationpb.Need
	for _, call := range calls {
		needs = append(needs, call.GetNeed())
	}
	return needs
}

func TestApprovedArgumentsSurviveTheirRunner(t *testing.T) {
	b := newBench(t, asks("", `c1 pay {"n":1}`, `c2 pay {"n":2}`), asks("", `c3 camera {}`), says("ok"))
	b.untilPause(t)
	b.book.decide("c1", nil, `{"n":100}`)
	require.True(t, b.book.decide("c2", nil, ""))
	b.renew(t)
	b.untilPause(t)
	require.True(t, b.book.decide("c3", &conversationpb.ToolCall{Result: "click"}, ""))
	b.renew(t)
	finish := b.whole(t)
	require.Equal(t, []string{`c1 pay {"n":100} = pay done`, `c2 pay {"n":2} = pay done`, `c3 camera {} = click`}, callsOf(finish.GetToolCalls()))
	require.Contains(t, messagesOf(b.talks.last().Messages)[1], `[c1 pay {"n":100}]`)
}

func TestTooManyCallsForPeople(t *testing.T) {
	var calls []string
	for i := range maxPending + 3 {
		calls = append(calls, string(rune('A'+i))+" camera {}")
	}
	b := newBench(t, asks("", calls...), says("ok"))
	b.untilPause(t)
	run := slices.DeleteFunc(needs(b.book.calls), func(n conversationpb.Need) bool { return n != conversationpb.Need_RUN })
	require.Len(t, run, 3)
}

func TestStepThatIsNotTaken(t *testing.T) {
	for _, test := range []struct {
		name   string
		err    error
		code   string
		silent bool
	}{
		{name: "refused", err: ErrRefused, code: "internal_error"},
		{name: "fenced", err: ErrFenced, silent: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, asks("hm", `c1 write {}`), says("ok"))
			b.book.fail = func(p *conversationpb.Progress) error {
				if p.GetUse() != nil {
					return test.err
				}
				return nil
			}
			b.start(t)
			b.Wait(t.Context(), 3)
			require.Empty(t, b.shop.counts(), "nothing runs that is not journalled")
			if test.silent {
				require.Empty(t, b.reports)
				require.True(t, b.page.isReleased())
				return
			}
			finish := <-b.reports
			require.Equal(t, test.code, finish.GetError().GetCode())
			require.EqualValues(t, 1, finish.GetUsage().GetModelCalls())
		})
	}
}

// TestStepsAreTakenOnceWhateverTheJournalSays has every step fail, or lose its answer, before it goes through.
func TestStepsAreTakenOnceWhateverTheJournalSays(t *testing.T) {
	b := newBench(t, asks("a", `c1 write {}`, `c2 read {}`), asks("b", `c3 write {}`), says("c"))
	tries := map[string]int{}
	trouble := func(kind string) func(p *conversationpb.Progress) error {
		return func(p *conversationpb.Progress) error {
			key := kind + p.String()
			if tries[key]++; tries[key] == 1 {
				return errDisk
			}
			return nil
		}
	}
	b.book.fail, b.book.lose = trouble("fail"), trouble("lose")
	finish := b.whole(t)
	require.Equal(t, "a\n\nb\n\nc", finish.GetContent())
	require.EqualValues(t, 3*20_000, b.book.spent)
	for key, count := range b.shop.counts() {
		require.Equal(t, 1, count, key)
	}
	uses := 0
	for _, step := range b.book.steps {
		if step.GetUse() != nil {
			uses++
		}
	}
	require.Equal(t, 2, uses)
}

func TestToolThatPanics(t *testing.T) {
	loop := &modelLoop{runner: newDesk(t, words("x")).Runner, run: &run{}}
	result := loop.runTool(t.Context(), &toolCall{open: &conversationpb.OpenCall{}})
	require.ErrorContains(t, result.err, "fault of the server")
}

func TestReleaseDuringTools(t *testing.T) {
	b := newBench(t, asks("Wait.", `c1 write {}`), says("never"))
	running, gone := make(chan struct{}), make(chan struct{})
	b.shop.hook = func(_ string, request *http.Request) (int, string) {
		close(running)
		<-request.Context().Done()
		close(gone)
		return http.StatusOK, "too late"
	}
	b.start(t)
	<-running
	b.Release(3, 7)
	<-gone
	b.Drain(t.Context())
	require.Empty(t, b.reports)
	require.Len(t, b.book.steps, 1)
	require.True(t, b.page.isReleased())
}

func TestResultsThatAreNotWantedAnyMore(t *testing.T) {
	b := newBench(t, asks("Wait.", `c1 write {}`), says("never"))
	b.book.fail = func(p *conversationpb.Progress) error {
		if p.GetResults() != nil {
			return ErrFenced
		}
		return nil
	}
	b.start(t)
	b.Wait(t.Context(), 3)
	require.Empty(t, b.reports)
	require.True(t, b.page.isReleased())
}

package turn

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/machine"
	"parley/actors/machine/machinetest"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// court is a conversation under the real rules, with the runner that its effects start.
type court struct {
	*bench
	t *testing.T

	mu     sync.Mutex
	entity *machinetest.Entity
	epoch  uint64
	now    time.Time
	runner *Runner
	ended  chan *conversationpb.TurnResult // of runs that ended or paused
	before func(*conversationpb.Command) error
	after  func(*conversationpb.Command) error
	pages  []*page
	guard  Guard
}

func newCourt(t *testing.T, rounds ...func(model.Stream) (*model.Answer, error)) *court {
	t.Helper()
	limits := conversation.DefaultLimits()
	limits.Attempts = 6             // a turn of these tests loses its process up to four times
	limits.ActionArgsBytes = 10_000 // below the runner's own bound
	c := &court{
		bench: newBench(t, rounds...), t: t, epoch: 1, now: time.UnixMilli(1_700_000_000_000),
		entity: machinetest.NewEntity(conversation.New(limits)), ended: make(chan *conversationpb.TurnResult, 1000),
	}
	c.agent.Capabilities = &agentpb.Capabilities{ToolApproval: true, AskUser: true, ClientTools: true}
	c.newRunner()
	_, failure := c.do(&conversationpb.Command{CommandId: "create", Body: &conversationpb.Command_Create{
		Create: &conversationpb.Create{Agent: c.agent},
	}})
	require.Nil(t, failure)
	return c
}

func (c *court) newRunner() {
	c.t.Helper()
	c.renew(c.t, func(config *Config) { config.History, config.Publisher, config.Guard = rows{c}, c, c.guard })
	c.mu.Lock()
	c.runner = c.Runner
	c.mu.Unlock()
}

// Begin gives each part of a run a page of its own.
func (c *court) Begin(Place, string, *conversationpb.Message) Output {
	p := &page{}
	c.pages = append(c.pages, p)
	return p
}

// rows reads the steps that the rules have stored.
type rows struct{ *court }

func (rows) Before(context.Context, string, uint64, func(*conversationpb.Message) bool) error {
	return nil
}

func (r rows) Steps(_ context.Context, _, run string) ([]*conversationpb.Step, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var steps []*conversationpb.Step
	for key, value := range r.entity.Rows.Items {
		if key.Table == conversation.TableSteps && strings.HasPrefix(key.Key, run) {
			step := &conversationpb.Step{}
			if err := proto.Unmarshal([]byte(value), step); err != nil {
				return nil, err
			}
			steps = append(steps, step)
		}
	}
	slices.SortFunc(steps, func(a, b *conversationpb.Step) int { return int(a.GetNumber()) - int(b.GetNumber()) })
	return steps, nil
}

func (c *court) state() *conversationpb.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	state, _ := proto.Clone(c.entity.State).(*conversationpb.State)
	return state
}

// do decides a command as the shell does. What breaks the contract fails the test.
func (c *court) do(command *conversationpb.Command) (*conversationpb.Reply, *machine.Failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	command, _ = proto.Clone(command).(*conversationpb.Command)
	command.ConversationId = "conv_1"
	command.Caller = &conversationpb.Caller{TenantId: "t", ProjectId: "p", UserId: "ann", Identified: true}
	decision, failure, err := c.entity.Do(command, machine.Env{Now: c.now, Node: "n", Epoch: c.epoch, NewID: c.entity.NewID})
	if err != nil {
		c.t.Errorf("contract: %v", err)
	}
	if failure != nil {
		return nil, failure
	}
	for _, settled := range decision.Settle {
		if reply, ok := settled.Reply.(*conversationpb.Reply); ok && reply.GetTurn() != nil {
			c.ended <- reply.GetTurn()
		}
	}
	for _, effect := range append(decision.Urgent, decision.Effects...) {
		c.perform(effect)
	}
	reply, _ := decision.Reply.(*conversationpb.Reply)
	return reply, nil
}

func (c *court) perform(effect machine.Effect) {
	switch e := effect.(type) {
	case conversation.StartTurn:
		if err := c.runner.Start(c.jobOf(e)); err != nil {
			c.t.Errorf("start: %v", err)
		}
	case conversation.StopTurn:
		c.runner.Stop(e.RunID)
	case conversation.MeterTurn:
		c.runner.Meter(e.RunID)
	}
}

func (c *court) jobOf(e conversation.StartTurn) Job {
	return Job{
		Place: Place{Shard: 3, Epoch: e.Epoch, ConversationID: e.ConversationID},
		RunID: e.RunID, AgentID: e.AgentID, UserMessage: e.UserMessage, HistoryBefore: e.HistoryBefore, Mode: e.Mode,
		Attempt: e.Attempt, Steps: e.Steps, ResumedAt: e.ResumedAt, Calls: e.Calls, Usage: e.Usage, Answer: e.Answer,
		Budget: e.Budget != nil, Untitled: e.Untitled, UserID: e.UserID,
		Progress: func(_ context.Context, p *conversationpb.Progress) (*conversationpb.Progressed, error) {
			reply, err := c.tell(&conversationpb.Command{Body: &conversationpb.Command_Progress{Progress: p}}) //nolint:contextcheck // a turn is detached from whoever starts it
			return reply.GetProgressed(), err
		},
		SetTitle: func(_ context.Context, title *conversationpb.SetTitle) error {
			_, err := c.tell(&conversationpb.Command{Body: &conversationpb.Command_SetTitle{SetTitle: title}}) //nolint:contextcheck // a turn is detached from whoever starts it
			return err
		},
		Report: func(_ context.Context, finish *conversationpb.Finish) error {
			_, err := c.tell(&conversationpb.Command{Body: &conversationpb.Command_Finish{Finish: finish}}) //nolint:contextcheck // a turn is detached from whoever starts it
			return err
		},
	}
}

// tell is what a runner says, with the faults of the test.
func (c *court) tell(command *conversationpb.Command) (*conversationpb.Reply, error) {
	if c.before != nil {
		if err := c.before(command); err != nil {
			return nil, err
		}
	}
	reply, failure := c.do(command)
	switch {
	case failure != nil && failure.Code == failurepb.Code_STALE_TURN:
		return nil, fmt.Errorf("%w: %w", ErrFenced, failure)
	case failure != nil:
		c.t.Errorf("refused: %v", failure)
		return nil, fmt.Errorf("%w: %w", ErrRefused, failure)
	}
	if c.after != nil {
		if err := c.after(command); err != nil {
			return nil, err
		}
	}
	return reply, nil
}

func (c *court) send(id string) {
	c.t.Helper()
	_, failure := c.do(&conversationpb.Command{CommandId: id, Body: &conversationpb.Command_Send{Send: &conversationpb.Send{
		Agent: c.agent, Content: "hello",
	}}})
	require.Nil(c.t, failure)
}

func (c *court) budget(limit int64) {
	c.t.Helper()
	_, failure := c.do(&conversationpb.Command{CommandId: fmt.Sprint("budget-", limit), Body: &conversationpb.Command_Update{
		Update: &conversationpb.Update{Agent: c.agent, Patch: &conversationpb.Patch{Budget: &conversationpb.Budget{MaxCostNanoUsd: limit}}},
	}})
	require.Nil(c.t, failure)
}

// resolve has a person say yes to an action, or bring what it asks for.
func (c *court) resolve(action *conversationpb.PendingAction, args string) {
	c.t.Helper()
	resolve := &conversationpb.Resolve{ActionId: action.GetId(), Agent: c.agent}
	switch action.GetKind() {
	case "tool_approval":
		resolve.Resolution = &conversationpb.Resolve_Approval{Approval: &conversationpb.ToolApproval{Allow: true, ApprovedArgs: []byte(args)}}
	case "user_question":
		resolve.Resolution = &conversationpb.Resolve_Answers{Answers: &conversationpb.UserAnswers{Answers: []byte(`{"Why?":"Because."}`)}}
	default:
		resolve.Resolution = &conversationpb.Resolve_Client{Client: &conversationpb.ClientResult{Output: []byte(`"click"`)}}
	}
	_, failure := c.do(&conversationpb.Command{CommandId: "resolve-" + action.GetId(), Body: &conversationpb.Command_Resolve{Resolve: resolve}})
	require.Nil(c.t, failure)
}

func (c *court) crashed() {
	c.t.Helper()
	c.runner.Release(3, c.epoch)
	c.runner.Drain(context.Background())
	c.newRunner()
	c.mu.Lock()
	c.epoch++
	c.now = c.now.Add(2 * time.Minute)
	c.mu.Unlock()
	if c.state().GetStatus() == conversationpb.Status_RUNNING {
		_, failure := c.do(&conversationpb.Command{Body: &conversationpb.Command_Recover{Recover: &conversationpb.Recover{}}})
		require.Nil(c.t, failure)
	}
}

func (c *court) streamed() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.pages[len(c.pages)-1]
	last.mu.Lock()
	defer last.mu.Unlock()
	return last.text.String()
}

func TestRulesPauseAndResume(t *testing.T) {
	c := newCourt(t,
		asks("One moment.", `c1 pay {"n":1}`, `c2 ask_user {"questions":[{"question":"Why?"}]}`, `c3 camera {}`, `c4 read {}`),
		says("Thanks."))
	c.send("s1")
	paused := <-c.ended
	require.Equal(t, conversationpb.StopReason_REQUIRES_ACTION, paused.GetStopReason())
	require.Equal(t, "One moment.", paused.GetResponse().GetContent())
	require.Equal(t, "read done", paused.GetResponse().GetToolCalls()[3].GetResult())
	require.Len(t, paused.GetPending(), 3)
	require.Equal(t, c.now.UnixMilli()+5000, paused.GetPending()[1].GetExpiresAt())
	for _, action := range paused.GetPending() {
		args := ""
		if action.GetKind() == "tool_approval" {
			args = `{"n":100}`
		}
		c.resolve(action, args)
	}
	done := <-c.ended
	require.Equal(t, conversationpb.StopReason_END_TURN, done.GetStopReason())
	require.Equal(t, "One moment.\n\nThanks.", done.GetResponse().GetContent())
	require.Equal(t, paused.GetResponse().GetId(), done.GetResponse().GetId())
	require.Equal(t, []string{
		`c1 pay {"n":100} = pay done`, `c2 ask_user {"questions":[{"question":"Why?"}]} = {"Why?":"Because."}`,
		`c3 camera {} = click`, `c4 read {} = read done`,
	}, callsOf(done.GetResponse().GetToolCalls()))
	require.EqualValues(t, 40_000, c.state().GetSpentNanoUsd())
	require.EqualValues(t, 40_000, done.GetUsage().GetCostNanoUsd())
	require.Equal(t, "\n\nThanks.", c.streamed())
	c.requireTidy()
}

// requireTidy: an ended turn leaves no steps, and the conversation is free.
func (c *court) requireTidy() {
	c.t.Helper()
	c.runner.Wait(context.Background(), 3)
	state := c.state()
	require.Equal(c.t, conversationpb.Status_IDLE, state.GetStatus())
	require.Nil(c.t, state.GetLease())
	require.Empty(c.t, state.GetPending())
	steps, err := rows{c}.Steps(context.Background(), "", "run_")
	require.NoError(c.t, err)
	require.Empty(c.t, steps)
}

func TestStepsAreReadWithPatience(t *testing.T) {
	b := newBench(t, asks("One.", `c1 camera {}`), says("Two."))
	b.untilPause(t)
	require.True(t, b.book.decide("c1", &conversationpb.ToolCall{Result: "click"}, ""))
	b.page = &page{}
	stumbles := &stumbling{past: past{b.book}, left: 2}
	b.renew(t, func(c *Config) { c.History = stumbles })
	require.Equal(t, "One.\n\nTwo.", b.whole(t).GetContent())
	require.Zero(t, stumbles.left)
}

// stumbling fails some reads.
type stumbling struct {
	past
	left int
}

func (s *stumbling) Steps(ctx context.Context, conversationID, runID string) ([]*conversationpb.Step, error) {
	if s.left > 0 {
		s.left--
		return nil, errDisk
	}
	return s.past.Steps(ctx, conversationID, runID)
}

func TestRulesCallThatNobodyCanBeAskedAbout(t *testing.T) {
	c := newCourt(t, asks("", `c1 pay {"n":1}`, `c2 camera {"x":"`+strings.Repeat("y", 20_000)+`"}`), says("ok"))
	c.send("s1")
	paused := <-c.ended
	require.Len(t, paused.GetPending(), 1)
	c.resolve(paused.GetPending()[0], "")
	done := <-c.ended
	require.Equal(t, conversationpb.StopReason_END_TURN, done.GetStopReason())
	require.Contains(t, done.GetResponse().GetToolCalls()[1].GetError(), "not run")
	c.requireTidy()
}

func TestRulesOnlyCallThatNobodyCanBeAskedAbout(t *testing.T) {
	c := newCourt(t, asks("", `c2 camera {"x":"`+strings.Repeat("y", 20_000)+`"}`), says("ok"))
	c.send("s1")
	done := <-c.ended
	require.Equal(t, conversationpb.StopReason_END_TURN, done.GetStopReason())
	require.Contains(t, done.GetResponse().GetToolCalls()[0].GetError(), "not run")
	require.Contains(t, messagesOf(c.talks.last().Messages)[2], "error: not run")
	c.requireTidy()
}

func TestRulesApprovedCallInDoubtKeepsItsArguments(t *testing.T) {
	c := newCourt(t, asks("", `c1 pay {"n":1}`), says("ok"))
	c.send("s1")
	paused := <-c.ended
	running, hang := make(chan struct{}), make(chan struct{})
	c.shop.hook = func(string, *http.Request) (int, string) {
		close(running)
		<-hang
		return http.StatusOK, "paid"
	}
	c.resolve(paused.GetPending()[0], `{"n":100}`)
	<-running
	c.crashed()
	close(hang)
	c.shop.mu.Lock()
	c.shop.hook = nil
	c.shop.mu.Unlock()
	doubt := <-c.ended
	require.True(t, doubt.GetPending()[0].GetUnknownOutcome())
	require.JSONEq(t, `{"n":100}`, string(doubt.GetPending()[0].GetArgs()))
	c.resolve(doubt.GetPending()[0], "")
	done := <-c.ended
	require.Equal(t, []string{`c1 pay {"n":100} = pay done`}, callsOf(done.GetResponse().GetToolCalls()))
	c.requireTidy()
}

func TestRulesCancelWhileAStepIsJournalled(t *testing.T) {
	c := newCourt(t, asks("Wait.", `c1 pay {}`, `c2 write {}`), says("never"))
	once := sync.Once{}
	c.before = func(command *conversationpb.Command) error {
		if command.GetProgress().GetUse() != nil {
			once.Do(func() {
				_, failure := c.do(&conversationpb.Command{CommandId: "cancel", Body: &conversationpb.Command_Cancel{Cancel: &conversationpb.Cancel{}}})
				require.Nil(t, failure)
			})
		}
		return nil
	}
	c.send("s1")
	done := <-c.ended
	require.Equal(t, conversationpb.StopReason_CANCELLED, done.GetStopReason())
	require.EqualValues(t, 20_000, c.state().GetSpentNanoUsd(), "the call that asked for tools was made")
	require.Empty(t, c.shop.counts())
	c.requireTidy()
}

func TestRulesBudgetAndContinue(t *testing.T) {
	c := newCourt(t)
	scripted := model.New(model.Config{})[agentpb.Provider_SCRIPTED]
	c.agent.Model.Script = &agentpb.Script{Steps: []*agentpb.Script_Step{
		{Text: strings.Repeat("one ", 100)}, {Text: strings.Repeat("two ", 100)},
	}}
	c.renew(t, func(config *Config) {
		config.History, config.Publisher, config.MeterTokens = rows{c}, c, 10
		config.Providers = map[agentpb.Provider]model.Provider{agentpb.Provider_SCRIPTED: scripted}
	})
	c.runner = c.Runner
	c.budget(1_000 + 30*2_000)
	c.send("s1")
	cut := <-c.ended
	require.Equal(t, conversationpb.StopReason_BUDGET_REACHED, cut.GetStopReason())
	require.Len(t, strings.Fields(cut.GetResponse().GetContent()), 30)
	require.EqualValues(t, 61_000, c.state().GetSpentNanoUsd())
	require.True(t, c.state().GetContinuable())
	c.runner.Wait(t.Context(), 3)
	c.budget(1_000_000)
	_, failure := c.do(&conversationpb.Command{CommandId: "go", Body: &conversationpb.Command_Continue{Continue: &conversationpb.Continue{Agent: c.agent}}})
	require.Nil(t, failure)
	done := <-c.ended
	require.Equal(t, conversationpb.StopReason_END_TURN, done.GetStopReason())
	require.Equal(t, cut.GetResponse().GetContent()+strings.Repeat("two ", 100), done.GetResponse().GetContent())
	require.Equal(t, cut.GetResponse().GetId(), done.GetResponse().GetId())
	require.EqualValues(t, 2, done.GetUsage().GetModelCalls())
	require.Equal(t, done.GetUsage().GetCostNanoUsd(), c.state().GetSpentNanoUsd())
	c.requireTidy()
}

// TestRulesKilledAtAnyPoint is TestKilledAtAnyPoint with the real rules, and with a budget: nothing is charged twice.
func TestRulesKilledAtAnyPoint(t *testing.T) {
	turns, seed := kills(t, 25)
	random := rand.New(rand.NewPCG(seed, 2))
	c := newCourt(t)
	for i := range turns {
		c.killTurn(i, random)
	}
}

func (c *court) killTurn(number int, random *rand.Rand) {
	t := c.t
	t.Helper()
	c.talks.mu.Lock()
	c.talks.requests = nil
	c.talks.rounds = []func(model.Stream) (*model.Answer, error){
		asks("One.", `c1 write {}`, `c2 read {}`), asks("Two.", `c3 write {}`, `c4 pay {}`, `c5 write {}`), says("Three."),
	}
	c.talks.mu.Unlock()
	killed := make(chan struct{}, 1000)
	left, guard := random.IntN(5), sync.Mutex{}
	strike := func(chance int) bool {
		guard.Lock()
		defer guard.Unlock()
		if left == 0 || random.IntN(chance) != 0 {
			return false
		}
		left--
		killed <- struct{}{}
		return true
	}
	c.before = func(*conversationpb.Command) error {
		if strike(8) {
			return fmt.Errorf("killed: %w", ErrFenced)
		}
		return nil
	}
	c.after = c.before
	c.shop.mu.Lock()
	c.shop.hook = func(name string, _ *http.Request) (int, string) {
		strike(5)
		return http.StatusOK, name + " done"
	}
	c.shop.mu.Unlock()
	spent, allowed := c.state().GetSpentNanoUsd(), map[string]int{}
	c.budget(spent + 1_000_000_000 + int64(number))
	c.send(fmt.Sprint("s", number))
	run := c.state().GetLastRunId()
	if lease := c.state().GetLease(); lease != nil {
		run = lease.GetRunId()
	}
	crashes := 0
	for range 200 {
		select {
		case <-killed:
			crashes++
			c.crashed()
		case result := <-c.ended:
			if result.GetStopReason() != conversationpb.StopReason_REQUIRES_ACTION {
				c.judgeTurn(result, killTally{run: run, spent: spent, allowed: allowed, crashes: crashes})
				return
			}
			c.decide(result, run, allowed)
		}
	}
	t.Fatal("the turn does not end")
}

// decide lets people say yes to everything.
func (c *court) decide(result *conversationpb.TurnResult, run string, allowed map[string]int) {
	for _, action := range result.GetPending() {
		if action.GetUnknownOutcome() {
			steps, err := rows{c}.Steps(context.Background(), "", run)
			require.NoError(c.t, err)
			for _, step := range steps {
				for index, call := range step.GetUse().GetCalls() {
					if call.GetId() == action.GetToolCallId() {
						allowed[fmt.Sprintf("%s/%d/%d", run, step.GetNumber(), index)]++
					}
				}
			}
		}
		c.resolve(action, "")
	}
}

// killTally is what a turn that was killed again and again is judged by.
type killTally struct {
	run     string
	spent   int64          // before it
	allowed map[string]int // how often people let a call run again, by its key
	crashes int
}

func (c *court) judgeTurn(result *conversationpb.TurnResult, tally killTally) {
	t := c.t
	t.Helper()
	require.Equal(t, conversationpb.StopReason_END_TURN, result.GetStopReason(), "%v", result)
	require.Equal(t, "One.\n\nTwo.\n\nThree.", result.GetResponse().GetContent())
	require.Len(t, result.GetResponse().GetToolCalls(), 5)
	for key, count := range c.shop.counts() {
		if strings.HasPrefix(key, tally.run+"/") && !strings.HasSuffix(key, "/1/1") { // that one is idempotent
			require.LessOrEqual(t, count, 1+tally.allowed[key], key)
		}
	}
	c.requireTidy()
	cost := c.state().GetSpentNanoUsd() - tally.spent
	require.GreaterOrEqual(t, cost, int64(3*20_000))
	const reserve = 1_100_000 // more than what one of these calls reserves; a lost one is charged with all of it
	require.LessOrEqual(t, cost, 3*20_000+int64(tally.crashes)*reserve, "%d crashes", tally.crashes)
	require.Equal(t, cost, result.GetUsage().GetCostNanoUsd())
}

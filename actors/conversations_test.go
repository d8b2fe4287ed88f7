package actors

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/machine"
	"parley/actors/turn"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// speaker is a model that mayPublish as its function says.
type speaker func(ctx context.Context, say func(string)) error

func (s speaker) NeedsHistory() bool { return false }

func (s speaker) Generate(ctx context.Context, _ *model.Request, stream model.Stream) (*model.Answer, error) {
	if err := s(ctx, stream.Text); err != nil {
		return nil, err
	}
	return &model.Answer{Stop: model.StopEnd, Usage: model.Usage{InputTokens: 1, OutputTokens: 1, Known: true}}, nil
}

type oneAgent struct{}

func (oneAgent) Agent(_, id string, _ int64) (*agentpb.Agent, bool) {
	return &agentpb.Agent{Id: id, Model: &agentpb.Model{Provider: agentpb.Provider_SCRIPTED}}, true
}

type noHistory struct{}

func (noHistory) Steps(context.Context, string, string) ([]*conversationpb.Step, error) {
	return nil, nil
}

func (noHistory) Before(context.Context, string, uint64, func(*conversationpb.Message) bool) error {
	return nil
}

// lasting are limits for tests in which owners come and go faster than they ever do.
func lasting() conversation.Limits {
	limits := conversation.DefaultLimits()
	limits.Attempts = 1000
	return limits
}

// talkative is a shell with the real conversation rules and turn runner.
func talkative(tb testing.TB, j *journal, speak speaker, change ...func(*Config)) *shell {
	tb.Helper()
	streams := NewLiveStreams(LiveStreamsConfig{})
	runner, err := turn.New(turn.Config{
		Agents: oneAgent{}, History: noHistory{}, Publisher: streams,
		Providers: map[agentpb.Provider]model.Provider{agentpb.Provider_SCRIPTED: speak},
	})
	require.NoError(tb, err)
	return newShell(tb, j, 1, append([]func(*Config){func(c *Config) {
		c.LiveStreams = streams
		c.Kinds = []Kind{Conversations(conversation.New(conversation.DefaultLimits()), runner, streams, nil)}
	}}, change...)...)
}

var commandIDs atomic.Uint64

func (s *shell) do(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
	command.ConversationId = testID
	command.CommandId = fmt.Sprint("cmd_", commandIDs.Add(1))
	command.Caller = &conversationpb.Caller{TenantId: "t", ProjectId: "p", UserId: "u", Trusted: true}
	reply, err := s.Ask(ctx, testShard, testID, command)
	if err != nil {
		return nil, err
	}
	answer, ok := reply.(*conversationpb.Reply)
	require.True(s.tb, ok)
	return answer, nil
}

func (s *shell) create(t *testing.T) {
	t.Helper()
	_, err := s.do(t.Context(), &conversationpb.Command{Body: &conversationpb.Command_Create{Create: &conversationpb.Create{
		Agent: &agentpb.Agent{Id: "a"},
	}}})
	require.NoError(t, err)
}

func (s *shell) send(ctx context.Context, wait bool) (*conversationpb.Reply, error) {
	return s.do(ctx, &conversationpb.Command{Body: &conversationpb.Command_Send{Send: &conversationpb.Send{
		Agent: &agentpb.Agent{Id: "a"}, Content: "hello", Wait: wait,
	}}})
}

func (s *shell) cancelTurn(ctx context.Context) (*conversationpb.Cancelled, error) {
	reply, err := s.do(ctx, &conversationpb.Command{Body: &conversationpb.Command_Cancel{Cancel: &conversationpb.Cancel{}}})
	return reply.GetCancelled(), err
}

func says(pieces ...string) speaker {
	return func(_ context.Context, say func(string)) error {
		for _, piece := range pieces {
			say(piece)
		}
		return nil
	}
}

func saysThenHangs(pieces ...string) speaker {
	return func(ctx context.Context, say func(string)) error {
		_ = says(pieces...)(ctx, say)
		<-ctx.Done()
		say("too late")
		return context.Cause(ctx)
	}
}

func TestConversationTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := talkative(t, newJournal(), says("good ", "day"))
		s.create(t)
		sink := &reader{}
		sink.follow(t, s)
		reply, err := s.send(t.Context(), true)
		require.NoError(t, err)
		require.Equal(t, "good day", reply.GetTurn().GetResponse().GetContent())
		synctest.Wait()
		require.Empty(t, sink.faults)
		require.Equal(t, []string{"good day"}, sink.heard)
		require.EqualValues(t, 4, sink.cursor)
		require.Len(t, s.journal.log(t, testID), 5)
		require.Nil(t, s.journal.state(testID).GetLease())
	})
}

func TestCancelSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := talkative(t, newJournal(), saysThenHangs("to be ", "or"))
		s.create(t)
		sink := &reader{}
		sink.follow(t, s)
		_, err := s.send(t.Context(), false)
		require.NoError(t, err)
		synctest.Wait()
		cancelled, err := s.cancelTurn(t.Context())
		require.NoError(t, err)
		require.True(t, cancelled.GetCancelled())
		require.True(t, cancelled.GetSettled())
		synctest.Wait()
		require.Empty(t, sink.faults)
		require.Equal(t, []string{"to be or"}, sink.heard)
	})
}

func TestCancelWhileTheDiskIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := talkative(t, j, saysThenHangs("to be"))
		s.create(t)
		_, err := s.send(t.Context(), false)
		require.NoError(t, err)
		synctest.Wait()
		j.fail(full, full, full, full)
		_, err = s.cancelTurn(t.Context())
		if err != nil { // the rules may leave it to the shell to say that nothing was written
			require.Equal(t, failurepb.Code_STORAGE_FULL, codeOf(err))
		}
		time.Sleep(time.Minute)
		state := j.state(testID)
		require.Nil(t, state.GetLease(), "the report is repeated until there is room")
		require.Equal(t, conversationpb.StopReason_CANCELLED, state.GetStopReason())
	})
}

func TestInterruptedTurnIsRepeatedByTheNextOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		first := talkative(t, j, saysThenHangs("half"))
		first.create(t)
		_, err := first.send(t.Context(), false)
		require.NoError(t, err)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		first.Stop(ctx)
		require.NotNil(t, j.state(testID).GetLease(), "left to recovery, not ended")

		second := talkative(t, j, says("whole"))
		second.Own(testShard, 2)
		synctest.Wait()
		state := j.state(testID)
		require.Nil(t, state.GetLease())
		require.Equal(t, conversationpb.StopReason_END_TURN, state.GetStopReason())
		events := j.log(t, testID)
		answers := 0
		for _, event := range events {
			if m := event.GetAgentMessage(); m != nil {
				require.Equal(t, "whole", m.GetMessage().GetContent())
				answers++
			}
		}
		require.Equal(t, 1, answers)
	})
}

func TestLostAcknowledgementOfTheSendStillRunsTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := talkative(t, j, says("here"))
		s.create(t)
		j.fail(lostAck)
		_, err := s.send(t.Context(), true)
		require.Equal(t, failurepb.Code_UNAVAILABLE, codeOf(err))
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, conversationpb.StopReason_END_TURN, j.state(testID).GetStopReason())
	})
}

// The end of a turn is written, but nobody here hears so: who waits for it is sent to ask again, and is told.
func TestWaiterIsNotForgottenWithALostAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := talkative(t, j, func(context.Context, func(string)) error {
			j.fail(lostAck) // of the report
			return nil
		})
		s.create(t)
		command := &conversationpb.Command{
			ConversationId: testID, CommandId: "cmd_once", Caller: &conversationpb.Caller{TenantId: "t", ProjectId: "p", UserId: "u", Trusted: true},
			Body: &conversationpb.Command_Send{Send: &conversationpb.Send{Agent: &agentpb.Agent{Id: "a"}, Content: "hello", Wait: true}},
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := s.Ask(ctx, testShard, testID, command)
		var unknown *UnknownOutcomeError
		require.ErrorAs(t, err, &unknown)
		require.True(t, unknown.Lost(), "to be sent again at once")
		answer, err := s.Ask(ctx, testShard, testID, command.Again())
		require.NoError(t, err)
		reply, ok := answer.(*conversationpb.Reply)
		require.True(t, ok)
		require.Equal(t, conversationpb.StopReason_END_TURN, reply.GetTurn().GetStopReason())
	})
}

type ratingHeard func(conversation.TellFeedback)

func (l ratingHeard) TellFeedback(feedback conversation.TellFeedback) { l(feedback) }

func TestRatingIsToldOnceItIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		var told []conversation.TellFeedback
		s := talkative(t, j, says("good"), func(c *Config) {
			perform := c.Kinds[0].Perform
			hears := Conversations(c.Kinds[0].Machine, nil, c.LiveStreams, ratingHeard(func(f conversation.TellFeedback) { told = append(told, f) }))
			c.Kinds[0].Perform = func(at Entity, effect machine.Effect) proto.Message {
				if _, rated := effect.(conversation.TellFeedback); rated {
					return hears.Perform(at, effect)
				}
				return perform(at, effect)
			}
		})
		s.create(t)
		answer, err := s.send(t.Context(), true)
		require.NoError(t, err)
		rate := func() error {
			_, err := s.do(t.Context(), &conversationpb.Command{Body: &conversationpb.Command_Rate{Rate: &conversationpb.Rate{
				Target: &conversationpb.Target{Message: answer.GetTurn().GetResponse(), AsOf: j.state(testID).GetLastSeq()}, Rating: "up",
				Agent: &agentpb.Agent{Id: "a"},
			}}})
			return err
		}
		j.fail(full)
		require.Error(t, rate())
		synctest.Wait()
		require.Empty(t, told)
		require.NoError(t, rate())
		synctest.Wait()
		require.Len(t, told, 1)
		require.Equal(t, testID, told[0].ConversationID)
		require.Equal(t, "up", told[0].Feedback.GetRating())
	})
}

func TestReloadInMidTurnLeavesTheTurnAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		var calls atomic.Int32
		s := talkative(t, j, func(ctx context.Context, say func(string)) error {
			calls.Add(1)
			say("a")
			time.Sleep(10 * time.Second)
			say("b")
			return nil
		})
		s.create(t)
		done := make(chan *conversationpb.Reply, 1)
		go func() {
			reply, err := s.send(t.Context(), true)
			if err != nil {
				t.Error(err)
			}
			done <- reply
		}()
		synctest.Wait()
		j.fail(lost)
		_, err := s.do(t.Context(), &conversationpb.Command{Body: &conversationpb.Command_Update{Update: &conversationpb.Update{
			Patch: &conversationpb.Patch{Title: proto.String("x")},
		}}})
		require.Error(t, err)
		require.Equal(t, "ab", (<-done).GetTurn().GetResponse().GetContent())
		require.EqualValues(t, 1, calls.Load())
	})
}

func TestOverloadedTurnEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		streams := NewLiveStreams(LiveStreamsConfig{})
		runner, err := turn.New(turn.Config{
			Agents: oneAgent{}, History: noHistory{}, Publisher: streams, MaxConcurrent: 1,
			Providers: map[agentpb.Provider]model.Provider{agentpb.Provider_SCRIPTED: saysThenHangs()},
		})
		require.NoError(t, err)
		require.NoError(t, runner.Start(turn.Job{RunID: "run_other", Report: func(context.Context, *conversationpb.Finish) error { return nil }}))
		s := newShell(t, j, 1, func(c *Config) {
			c.LiveStreams = streams
			c.Kinds = []Kind{Conversations(conversation.New(conversation.DefaultLimits()), runner, streams, nil)}
		})
		s.create(t)
		reply, err := s.send(t.Context(), true)
		require.NoError(t, err)
		require.Equal(t, conversationpb.StopReason_ERROR, reply.GetTurn().GetStopReason())
		require.Equal(t, "overloaded", reply.GetTurn().GetError().GetCode())
		runner.Stop("run_other")
	})
}

// reader is a Sink that checks what it hears against the promises of Follow, and the text of every answer against the
// pieces it was told before.
type reader struct {
	mu     sync.Mutex
	opened bool
	early  []*conversationpb.Change // before the snapshot was there
	cursor uint64
	run    string
	text   string
	heard  []string
	deltas int
	faults []string
	closed error
	stop   func()
	inside atomic.Bool
}

func (r *reader) follow(t *testing.T, s *shell) bool {
	t.Helper()
	snapshot, cancel, err := s.Follow(t.Context(), testShard, testID, r)
	if err != nil {
		var notOwner *NotOwnerError
		if !errors.As(err, &notOwner) {
			t.Error(err)
		}
		return false
	}
	r.stop = cancel
	r.begin(snapshot)
	return true
}

// begin takes the snapshot, and what has come since.
func (r *reader) begin(snapshot *conversationpb.Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cursor, r.run, r.text, r.opened = snapshot.GetLastSeq(), snapshot.GetRunId(), snapshot.GetText(), true
	for _, change := range r.early {
		r.take(change)
	}
}

func (r *reader) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed != nil
}

func (r *reader) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

func (r *reader) Change(change *conversationpb.Change) {
	if r.inside.Swap(true) {
		panic("calls overlap")
	}
	defer r.inside.Store(false)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed != nil {
		r.fault("change after closed")
	}
	if !r.opened {
		r.early = append(r.early, change)
		return
	}
	r.take(change)
}

func (r *reader) take(change *conversationpb.Change) {
	if started := change.GetRunStarted(); started != nil {
		if r.run != "" && r.run != started.GetRunId() {
			r.fault("%s started before the end of %s", started.GetRunId(), r.run)
		}
		r.run, r.text = started.GetRunId(), ""
	}
	if delta := change.GetDelta(); delta != nil {
		r.deltas++
		if delta.GetRunId() != r.run {
			r.fault("delta of %s in run %q", delta.GetRunId(), r.run)
		}
		if delta.GetOffset() != uint64(len(r.text)) {
			r.fault("delta at %d, have %d", delta.GetOffset(), len(r.text))
		}
		r.text += delta.GetText()
	}
	for _, event := range change.GetEvents() {
		if event.GetSeq() != r.cursor+1 {
			r.fault("event %d after %d", event.GetSeq(), r.cursor)
		}
		r.cursor = event.GetSeq()
		if m := event.GetAgentMessage(); m != nil {
			if r.run != event.GetRunId() {
				r.fault("answer of %s while following %q", event.GetRunId(), r.run)
			} else if r.text != m.GetMessage().GetContent() {
				r.fault("answer %q, heard %q", m.GetMessage().GetContent(), r.text)
			}
			r.heard = append(r.heard, m.GetMessage().GetContent())
		}
		if event.GetTurnEnded() != nil {
			r.run, r.text = "", ""
		}
	}
}

func (r *reader) Closed(reason error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed != nil {
		r.fault("closed twice")
	}
	r.closed = reason
}

// Followers come and go while turns run, are cancelled, the entity is retired, storage fails and the shard changes
// hands: each of them hears every event once and in order, and every answer as it was streamed.
func TestFollowersHearEverythingOnce(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	j := newJournal()
	s := talkative(t, j, func(ctx context.Context, say func(string)) error {
		pieces := rand.IntN(30)
		for i := range pieces {
			say(fmt.Sprint("w", i, "é "))
			runtime.Gosched()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		if pieces == 7 {
			return &model.Error{Code: "cut", Message: "cut"}
		}
		return nil
	}, func(c *Config) { c.IdleAfter = time.Millisecond })
	s.create(t)

	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var heard, deltas, follows atomic.Int64
	for follower := range 6 {
		random := rand.New(rand.NewPCG(seed, uint64(follower)))
		wg.Go(func() {
			for ctx.Err() == nil {
				r := &reader{}
				if !r.follow(t, s) { //nolint:contextcheck // follows outlive the loop's context
					runtime.Gosched()
					continue
				}
				follows.Add(1)
				for range random.IntN(200) {
					runtime.Gosched()
				}
				r.stop()
				r.mu.Lock()
				if len(r.faults) > 0 {
					t.Errorf("seed %d: %v", seed, r.faults)
				}
				heard.Add(int64(len(r.heard)))
				deltas.Add(int64(r.deltas))
				r.mu.Unlock()
			}
		})
	}
	steady := &reader{}
	require.True(t, steady.follow(t, s))
	random := rand.New(rand.NewPCG(seed, 99))
	epoch := uint64(1)
	const turns = 400
	for i := range turns {
		if i == turns/2 { // the steady follower has seen half of it; from here the shard changes hands
			steady.check(t, j, seed)
			steady.stop()
		}
		if random.IntN(12) == 0 && i > turns/2 {
			s.Disown(testShard)
			epoch++
			s.Own(testShard, epoch)
		}
		if random.IntN(20) == 0 && i > turns/2 {
			j.fail(lostAck)
		}
		wait := random.IntN(3) > 0
		_, err := s.send(t.Context(), wait)
		if !wait || err != nil {
			if random.IntN(2) == 0 {
				_, _ = s.cancelTurn(t.Context())
			}
			require.Eventually(t, func() bool { return j.state(testID).GetLease() == nil }, 30*time.Second, time.Millisecond)
		}
	}
	cancel()
	wg.Wait()
	j.log(t, testID)
	require.Greater(t, follows.Load(), int64(20))
	require.Positive(t, heard.Load())
	t.Logf("%d follows, %d answers, %d deltas", follows.Load(), heard.Load(), deltas.Load())
	require.Eventually(t, func() bool { return s.streams.size() == 0 }, 30*time.Second, time.Millisecond,
		"nothing is left of streams that nobody needs")
}

func (r *reader) check(t *testing.T, j *journal, seed uint64) {
	t.Helper()
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.cursor == j.state(testID).GetLastSeq()
	}, 30*time.Second, time.Millisecond, "a follower who stays hears all")
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(t, r.faults, "seed %d", seed)
	require.NoError(t, r.closed)
}

func (f *LiveStreams) size() int {
	total := 0
	for i := range f.buckets {
		f.buckets[i].mu.RLock()
		total += len(f.buckets[i].streams)
		f.buckets[i].mu.RUnlock()
	}
	return total
}

package actors

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// startsRun makes the probe's "run" a command that starts something, and finish what waits for it.
func startsRun(finish func(context.Context, uint32)) func(*Config) {
	return func(c *Config) {
		c.Kinds[0].Starts = func(command proto.Message) bool {
			asked, ok := command.(*conversationpb.Command)
			return ok && strings.HasPrefix(asked.GetSend().GetContent(), "run")
		}
		c.Kinds[0].Finish = finish
	}
}

// draining drains in the background.
func (s *shell) draining(ctx context.Context) chan error {
	done := make(chan error, 1)
	go func() { done <- s.Drain(ctx, testShard) }()
	synctest.Wait()
	return done
}

func requireOpen(t *testing.T, answer chan answered, why string) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-answer:
		require.Fail(t, "answered", "%s: %+v", why, got)
	default:
	}
}

func TestDrainHoldsStartsFirstAndThenAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running := make(chan struct{})
		s := newShell(t, newJournal(), 1, startsRun(func(ctx context.Context, shard uint32) {
			require.EqualValues(t, testShard, shard)
			select {
			case <-running:
			case <-ctx.Done():
			}
		}))
		s.must("add:a")
		drained := s.draining(t.Context())

		start := s.later("run add:s")
		requireOpen(t, start, "it would start a turn")
		require.Equal(t, "a", s.must("title"), "a turn still runs: what does not start another is served")
		s.must("add:b")
		_, err := s.ask(t.Context(), testShard, inside(testID, say("add:t")))
		require.NoError(t, err)

		close(running)
		require.NoError(t, <-drained)
		other := s.later("add:c")
		requireOpen(t, other, "all is held")
		_, err = s.ask(t.Context(), testShard, inside(testID, say("add:u")))
		require.NoError(t, err, "what comes from inside is not held")
		require.Len(t, s.journal.log(t, testID), 4)

		s.Undrain(testShard)
		require.NoError(t, (<-start).err)
		require.NoError(t, (<-other).err)
		require.Equal(t, "abtusc", s.must("title"), "served in the order they came")
		s.Undrain(testShard)
		require.EqualValues(t, 0, s.hostIf(testShard).active.Load())
	})
}

func TestDrainThenDisownSendsHeldCommandsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShell(t, newJournal(), 4)
		s.must("add:a")
		require.NoError(t, s.Drain(t.Context(), testShard))
		require.NoError(t, s.Drain(t.Context(), testShard), "two are one")
		held := s.later("add:b")
		requireOpen(t, held, "held")
		s.Disown(testShard)
		requireNotOwner(t, (<-held).err, 4)
		require.Zero(t, s.hostIf(testShard).inFlight.Load())
		requireNotOwner(t, s.Drain(t.Context(), testShard), 4)
		requireNotOwner(t, s.Drain(t.Context(), 77), 0)
		s.Undrain(testShard)
		s.Undrain(77)

		s.Own(testShard, 5)
		s.must("add:c")
		require.Equal(t, "ac", s.must("title"), "a new term holds nothing")
	})
}

func TestDrainGivesHeldCommandsToTheNextTenureHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShell(t, newJournal(), 4)
		s.must("add:a")
		require.NoError(t, s.Drain(t.Context(), testShard))
		held := s.later("add:b")
		s.Own(testShard, 5) // lost and won again before anybody heard of it
		require.NoError(t, (<-held).err)
		require.EqualValues(t, 5, s.journal.entities[testID].head.Epoch)
	})
}

func TestDrainWaitsForAppendsNotForTurnsThatDoNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := newShell(t, j, 1, startsRun(func(ctx context.Context, _ uint32) { <-ctx.Done() }))
		s.must("add:a")
		j.slow(2 * time.Second)
		slow := s.later("add:b")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		require.NoError(t, s.Drain(ctx, testShard))
		require.Equal(t, 2*time.Second, time.Since(began), "turns have until ctx ends, appends until they are done")
		require.NoError(t, (<-slow).err)
	})
}

func TestDrainFailsWhereAppendsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := newShell(t, j, 1, func(c *Config) { c.AppendTimeout = time.Second })
		s.must("add:a")
		j.slow(time.Hour)
		slow := s.later("add:b")
		queued := s.later("add:q")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		held := s.later("add:h")
		err := s.Drain(ctx, testShard)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		j.slow(0)
		<-held
		require.Equal(t, failurepb.Code_UNAVAILABLE, codeOf((<-slow).err))
		<-queued
		require.Contains(t, s.must("title"), "a", "nothing is held any more")
	})
}

func TestDrainEndsWithTheTenure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShell(t, newJournal(), 3, startsRun(func(ctx context.Context, _ uint32) { <-ctx.Done() }))
		drained := s.draining(t.Context())
		s.Disown(testShard)
		requireNotOwner(t, <-drained, 3)

		s.Own(testShard, 4)
		drained = s.draining(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s.Stop(ctx)
		require.Error(t, <-drained)
	})
}

func TestDrainOfAConversationLetsItsTurnFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := talkative(t, j, func(_ context.Context, say func(string)) error {
			say("one ")
			time.Sleep(200 * time.Millisecond)
			say("two")
			return nil
		})
		s.create(t)
		first := make(chan *conversationpb.Reply, 1)
		go func() {
			reply, _ := s.send(t.Context(), true)
			first <- reply
		}()
		time.Sleep(10 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		require.NoError(t, s.Drain(ctx, testShard))
		require.Equal(t, 190*time.Millisecond, time.Since(began), "as long as the turn took")
		require.Equal(t, "one two", (<-first).GetTurn().GetResponse().GetContent())
		require.Nil(t, j.state(testID).GetLease())

		second := make(chan error, 1)
		go func() {
			_, err := s.send(t.Context(), true)
			second <- err
		}()
		synctest.Wait()
		s.Disown(testShard)
		requireNotOwner(t, <-second, 1)
		require.Len(t, j.log(t, testID), 5, "nothing of the held command")
	})
}

// A cancel is served while a turn is given time to finish: the person who asks for it does not wait.
func TestCancelWhileDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := talkative(t, newJournal(), saysThenHangs("for ever"))
		s.create(t)
		_, err := s.send(t.Context(), false)
		require.NoError(t, err)
		drained := s.draining(t.Context())
		began := time.Now()
		cancelled, err := s.cancelTurn(t.Context())
		require.NoError(t, err)
		require.True(t, cancelled.GetSettled())
		require.NoError(t, <-drained)
		require.Zero(t, time.Since(began))
	})
}

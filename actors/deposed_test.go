package actors

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/turn"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/logpb"
)

// What no append stands behind is answered only after the journal has said that this node still owns the shard.
func TestAnswersFromMemoryAreConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := newShell(t, j, 1)
		require.Empty(t, s.must("title"))
		require.Zero(t, j.confirms.Load(), "it has just been read")
		s.must("add:a")
		require.Zero(t, j.confirms.Load(), "the append tells")
		require.Equal(t, "a", s.must("title"))
		require.EqualValues(t, 1, j.confirms.Load())
		s.must("add:b timer:1s=settle:k")
		time.Sleep(2 * time.Second)
		require.EqualValues(t, 1, j.confirms.Load(), "nobody is answered")

		for _, words := range []string{"title", "refuse", "wait:k", "settle:k"} {
			j.confErrs = []error{ErrNotOwner, errors.New("hiccup"), ErrFailed}
			_, err := s.tell(words)
			requireNotOwner(t, err, 1)
			_, err = s.tell(words)
			require.Equal(t, failurepb.Code_UNAVAILABLE, codeOf(err), words)
			_, err = s.tell(words)
			require.Equal(t, failurepb.Code_STORAGE_FAILED, codeOf(err), words)
		}
		_, err := s.tell("refuse")
		require.Equal(t, failurepb.Code_CONVERSATION_BUSY, codeOf(err))
		waiting := s.later("wait:k")
		s.must("settle:k")
		require.NoError(t, (<-waiting).err)
	})
}

func TestUrgentEffectsDoNotWaitForTheConfirmation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := newShell(t, j, 1)
		s.must("add:a")
		synctest.Wait()
		s.happened()
		j.confErrs = []error{ErrNotOwner}
		_, err := s.tell("urgent:stop settle:k effect:x")
		requireNotOwner(t, err, 1)
		require.Equal(t, []string{"effect stop"}, s.happened(), "stopping is always safe; the rest is not done")
	})
}

func TestFollowOfADeposedOwnerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := newShell(t, j, 6)
		s.must("add:a")
		j.loadErrs = []error{errors.Join(errors.New("read shard 3"), ErrNotOwner), ErrFailed, errors.New("slow")}
		_, _, err := s.Follow(t.Context(), testShard, testID, &recorder{})
		requireNotOwner(t, err, 6)
		_, _, err = s.Follow(t.Context(), testShard, testID, &recorder{})
		require.Equal(t, failurepb.Code_STORAGE_FAILED, codeOf(err))
		_, _, err = s.Follow(t.Context(), testShard, testID, &recorder{})
		require.Equal(t, failurepb.Code_UNAVAILABLE, codeOf(err))
		require.Zero(t, s.streams.size())
	})
}

// hanging is a journal whose reads and appends hang like those of an owner that is cut off.
type hanging struct {
	*journal
	cut atomic.Bool
}

func (h *hanging) hang(ctx context.Context) error {
	if !h.cut.Load() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (h *hanging) Confirm(ctx context.Context, shard uint32) error {
	if err := h.hang(ctx); err != nil {
		return err
	}
	return h.journal.Confirm(ctx, shard)
}

func (h *hanging) Load(ctx context.Context, shard uint32, id string) (Head, bool, error) {
	if err := h.hang(ctx); err != nil {
		return Head{}, false, err
	}
	return h.journal.Load(ctx, shard, id)
}

// When the shard is lost, everybody who waits for anything is told at once.
func TestDisownAnswersEverybodyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &hanging{journal: newJournal()}
		s := newShell(t, j.journal, 2, func(c *Config) { c.Journal = j })
		s.must("add:a")
		waiting := s.later("wait:k")
		j.cut.Store(true)
		j.slow(time.Hour)
		appending := s.later("add:b")
		queued := s.later("add:c")
		other := make(chan error, 2)
		go func() {
			_, err := s.tellTo(t.Context(), "conv_other", "title")
			other <- err
		}()
		go func() {
			_, _, err := s.Follow(t.Context(), testShard, testID, &recorder{})
			other <- err
		}()
		synctest.Wait()
		began := time.Now()
		s.Disown(testShard)
		requireNotOwner(t, (<-waiting).err, 2)
		requireLost(t, (<-appending).err)
		requireNotOwner(t, (<-queued).err, 2)
		requireNotOwner(t, <-other, 2)
		requireNotOwner(t, <-other, 2)
		require.Zero(t, time.Since(began))
		require.Zero(t, s.streams.size())
	})
}

// An owner that is cut off goes on with its turns, but nothing of them is heard for longer than the lease: the next
// owner counts on it.
func TestTextIsPublishedUnderALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &hanging{journal: newJournal()}
		s := talkative(t, j.journal, func(ctx context.Context, say func(string)) error {
			for range 100 {
				say(".")
				time.Sleep(100 * time.Millisecond)
			}
			return nil
		}, func(c *Config) { c.Journal = j })
		s.create(t)
		sink := &reader{}
		sink.follow(t, s)
		_, err := s.send(t.Context(), false)
		require.NoError(t, err)
		length := func() int {
			sink.mu.Lock()
			defer sink.mu.Unlock()
			return len(sink.text)
		}
		time.Sleep(5*time.Second + time.Millisecond)
		require.Equal(t, 51, length(), "while proofs come, nothing is held")
		j.cut.Store(true)
		time.Sleep(1100 * time.Millisecond)
		held := length()
		require.InDelta(t, 60, held, 2, "a second after the last proof, it is silent")
		time.Sleep(time.Second)
		require.Equal(t, held, length())

		j.cut.Store(false) // the link heals
		time.Sleep(1500 * time.Millisecond)
		require.InDelta(t, 86, length(), 2, "what was held is said")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Empty(t, sink.faults)
		require.Len(t, sink.heard, 1)
	})
}

func TestHeldTextOfACancelledTurnIsNotPartOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &hanging{journal: newJournal()}
		s := talkative(t, j.journal, func(ctx context.Context, say func(string)) error {
			say("heard")
			time.Sleep(3 * time.Second)
			say(" and not heard")
			<-ctx.Done()
			return context.Cause(ctx)
		}, func(c *Config) { c.Journal = j })
		s.create(t)
		sink := &reader{}
		sink.follow(t, s)
		_, err := s.send(t.Context(), false)
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond)
		j.cut.Store(true)
		time.Sleep(5 * time.Second)
		cancelled, err := s.cancelTurn(t.Context())
		require.NoError(t, err)
		require.True(t, cancelled.GetSettled())
		synctest.Wait()
		require.Empty(t, sink.faults)
		require.Equal(t, []string{"heard"}, sink.heard)
	})
}

// The end of a turn is durable: what was held of it needs no other proof, and comes before it.
func TestHeldTextIsSaidBeforeTheEndOfItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &hanging{journal: newJournal()}
		s := talkative(t, j.journal, func(_ context.Context, say func(string)) error {
			say("first")
			time.Sleep(3 * time.Second)
			say(" last")
			return nil
		}, func(c *Config) { c.Journal = j })
		s.create(t)
		sink := &reader{}
		sink.follow(t, s)
		_, err := s.send(t.Context(), false)
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond)
		j.cut.Store(true)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Empty(t, sink.faults)
		require.Equal(t, []string{"first last"}, sink.heard)
	})
}

// A follower who comes while text is held sees the same text as the others, then and later.
func TestSnapshotWhileTextIsHeld(t *testing.T) {
	s := newScene(t)
	s.lease = time.Second
	held := newTerm(t.Context(), 1, nil)
	s.govern(1, held)
	early := &recorder{}
	s.open(s.register(early), 5, "")
	held.prove(time.Now())
	out := s.begin("r")
	out.Write("ab")
	held.proven.Store(neverProven)
	out.Write("cd")
	require.Equal(t, "start r 0:ab", early.heard())
	late := &recorder{}
	require.Equal(t, "ab", s.open(s.register(late), 5, "r").GetText())
	held.prove(time.Now())
	s.flush(2)
	s.flush(1)
	require.Equal(t, "2:cd", late.heard())
	out.Write("ef")
	require.Equal(t, "start r 0:ab 2:cd 4:ef", early.heard())
	require.EqualValues(t, 1, held.streams.Load())

	held.over.Store(true)
	out.Write("gh")
	require.Equal(t, "start r 0:ab 2:cd 4:ef", early.heard(), "nothing once the term is over")
	again := s.begin("r")
	again.Write("xy")
	require.Equal(t, "start r 0:ab 2:cd 4:ef", early.heard(), "nor of a turn that was started too late")
	require.Empty(t, again.Seal())
	out.Release()
	require.Zero(t, held.streams.Load())
	late.mu.Lock()
	defer late.mu.Unlock()
	require.Len(t, late.changes, 2)
}

// A turn whose start was given up, and that was written down long after, is run: nobody else would notice it.
func TestTurnThatWasWrittenLateIsPickedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, after := range []time.Duration{3 * time.Second, 2 * time.Minute} {
			j := newJournal()
			thief := &thief{journal: j}
			s := talkative(t, j, says("here"), func(c *Config) { c.Journal = thief })
			s.create(t)
			thief.armed.Store(true)
			_, err := s.send(t.Context(), false)
			require.Equal(t, failurepb.Code_UNAVAILABLE, codeOf(err))
			sink := &reader{}
			sink.follow(t, s)
			time.Sleep(after)
			require.Nil(t, j.state(testID).GetLease())
			thief.apply()
			time.Sleep(20 * time.Second)
			synctest.Wait()
			require.Equal(t, conversationpb.StopReason_END_TURN, j.state(testID).GetStopReason(), after)
			sink.mu.Lock()
			require.Error(t, sink.closed, "it has missed events")
			sink.mu.Unlock()
		}
	})
}

// thief gives up one append, to apply it later.
type thief struct {
	*journal
	armed atomic.Bool
	apply func()
}

func (f *thief) Append(ctx context.Context, in uint32, entry *logpb.Append) (*logpb.Result, error) {
	if f.armed.CompareAndSwap(true, false) {
		f.apply = func() { f.journal.apply(in, entry) }
		return nil, ErrOutcomeUnknown
	}
	return f.journal.Append(ctx, in, entry)
}

func TestLateTurnOfAFormerTenureIsNotHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := talkative(t, j, saysThenHangs("new"))
		s.create(t)
		_, err := s.send(t.Context(), false)
		require.NoError(t, err)
		s.Own(testShard, 2)
		synctest.Wait()
		sink := &reader{}
		sink.follow(t, s)
		require.Equal(t, "new", sink.text)
		late := s.streams.Begin(turn.Place{Shard: testShard, Epoch: 1, ConversationID: testID}, "run_late", nil)
		late.Write("old")
		synctest.Wait()
		require.Equal(t, "new", sink.text)
		require.Empty(t, sink.faults)
		cancelled, err := s.cancelTurn(t.Context())
		require.NoError(t, err)
		require.True(t, cancelled.GetSettled())
	})
}

// A run that was taken over is settled when its former owner must be silent.
func TestCancelAfterATakeoverSettlesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		first := talkative(t, j, saysThenHangs("half"))
		first.create(t)
		_, err := first.send(t.Context(), false)
		require.NoError(t, err)
		synctest.Wait() // it is cut off, and hears of nothing
		second := talkative(t, j, saysThenHangs("again"))
		second.Own(testShard, 2)
		time.Sleep(400 * time.Millisecond)
		began := time.Now()
		cancelled, err := second.cancelTurn(t.Context())
		require.NoError(t, err)
		require.True(t, cancelled.GetCancelled())
		require.True(t, cancelled.GetSettled())
		require.Equal(t, 1100*time.Millisecond, time.Since(began))

		reply, err := second.do(t.Context(), &conversationpb.Command{Body: &conversationpb.Command_Update{
			Update: &conversationpb.Update{Patch: &conversationpb.Patch{Title: proto.String("x")}},
		}})
		require.NoError(t, err)
		require.Equal(t, conversationpb.Status_IDLE, reply.GetState().GetStatus())
	})
}

package actors

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNothingIsSeenBeforeItIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		j.slow(20 * time.Millisecond)
		s := newShell(t, j, 7)
		j.watch = s.note
		s.must("add:a")
		synctest.Wait()
		s.happened()

		answered := make(chan struct{})
		go func() {
			s.must("add:b effect:later urgent:now")
			s.note("reply")
			close(answered)
		}()
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []string{"effect now"}, s.happened(), "only what is urgent comes before the append")
		<-answered
		synctest.Wait()
		seen := s.happened()
		require.Equal(t, "durable", seen[0])
		require.ElementsMatch(t, []string{"durable", "reply", "commit 1", "effect later"}, seen)
		require.Equal(t, "ab", s.must("title"))
		require.Len(t, j.log(t, testID), 2)
	})
}

func TestStorageRefuses(t *testing.T) {
	for _, test := range []struct {
		name   string
		fault  fault
		code   failurepb.Code
		title  string // afterwards
		reload bool
	}{
		{"full", full, failurepb.Code_STORAGE_FULL, "a", false},
		{"failed", broken, failurepb.Code_STORAGE_FAILED, "a", false},
		{"too_large", large, failurepb.Code_TOO_LARGE, "a", false},
		{"busy", busy, failurepb.Code_UNAVAILABLE, "a", false},
		{"lost_ack", lostAck, failurepb.Code_UNAVAILABLE, "ab", true},
		{"lost", lost, failurepb.Code_UNAVAILABLE, "a", true},
		{"late", late, failurepb.Code_UNAVAILABLE, "ab", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newJournal()
				s := newShell(t, j, 1)
				s.must("add:a")
				synctest.Wait() // the reply comes before the followers hear
				s.happened()
				loads := j.loads.Load()
				j.fail(test.fault, test.fault)
				_, err := s.tell("add:b urgent:stop effect:start")
				require.Equal(t, test.code, codeOf(err))
				require.Equal(t, []string{"effect stop"}, s.happened(), "no effect and no event of what is not known to be durable")
				require.Equal(t, test.title, s.must("title"))
				require.Equal(t, test.reload, j.loads.Load() > loads)
				answer, err := s.tell("add:c urgent:stop unwritten")
				if test.reload {
					require.Equal(t, test.code, codeOf(err), "who may have been written down is not told otherwise")
					return
				}
				require.NoError(t, err)
				require.Equal(t, "unwritten", answer)
			})
		})
	}
}

func TestLateAppendMakesTheNextCommandDecideAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := newShell(t, j, 1)
		s.must("add:a")
		// Between the load of the next command and its append, somebody else's append arrives.
		j.fail(lost)
		_, err := s.tell("add:b")
		require.Equal(t, failurepb.Code_UNAVAILABLE, codeOf(err))
		require.Equal(t, "a", s.must("title"))
		entry := s.entryOf(t, "add:X")
		j.apply(testShard, entry)
		s.must("add:c")
		require.Equal(t, "aXc", s.must("title"))
	})
}

func TestCreateOfWhatExistsDecidesAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := newShell(t, j, 1)
		require.Empty(t, s.must("title"), "not there, and known not to be")
		other := newShell(t, j, 1)
		other.must("add:a")
		s.must("add:b")
		require.Equal(t, "ab", s.must("title"))
	})
}

func TestFencedOwnerStepsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := newShell(t, j, 4)
		s.must("add:a")
		sink := &recorder{}
		_, _, err := s.Follow(t.Context(), testShard, testID, sink)
		require.NoError(t, err)
		waiting := s.later("wait:k")
		synctest.Wait()
		s.happened()
		j.fail(fenced)
		_, err = s.tell("add:b effect:x unwritten")
		requireNotOwner(t, err, 4)
		synctest.Wait()
		require.Equal(t, []string{"release 3 4", "release 3 4"}, s.happened())
		requireNotOwner(t, sink.reason(), 4)
		requireNotOwner(t, (<-waiting).err, 4)
		_, err = s.tell("title")
		requireNotOwner(t, err, 4)
		s.Own(testShard, 4)
		_, err = s.tell("title")
		require.NoError(t, err, "told again that it owns the epoch, it tries")
	})
}

func TestNewerHeadFencesOnActivation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		newShell(t, j, 9).must("add:a")
		s := newShell(t, j, 8)
		_, err := s.tell("add:b")
		requireNotOwner(t, err, 8)
	})
}

func TestJournalSaysNotOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := newShell(t, j, 1)
		s.must("add:a")
		j.fail(notOwner)
		_, err := s.tell("add:b unwritten")
		requireNotOwner(t, err, 1)
		require.Equal(t, "a", s.must("title"), "a moment without leadership is not the end of it")
		_, err = s.Ask(t.Context(), 99, testID, say("title"))
		requireNotOwner(t, err, 0)
		_, err = s.Ask(t.Context(), testShard, "file_x", say("title"))
		require.Equal(t, failurepb.Code_NOT_FOUND, codeOf(err))
	})
}

func TestOpenTurnsAreRecoveredByTheNextOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		first := newShell(t, j, 1)
		first.fellow = func(Entity, machine.Effect) proto.Message { panic("the process dies between commit and effect") }
		for i := range 200 {
			_, err := first.tellTo(t.Context(), fmt.Sprint("conv_", i), "add:x run effect:start")
			require.NoError(t, err)
		}
		_, err := first.tellTo(t.Context(), "conv_idle", "add:x")
		require.NoError(t, err)
		first.Disown(testShard)

		j.scanErrs = []error{errors.New("no leader yet")}
		j.loadErrs = []error{errors.New("disk hiccup")}
		j.fail(busy, lost, lostAck)
		loads := j.loads.Load()
		second := newShell(t, j, 2)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.GreaterOrEqual(t, j.loads.Load()-loads, int64(200))
		recovered := 0
		for _, what := range second.happened() {
			if what == "effect recovered" {
				recovered++
			}
		}
		require.Equal(t, 199, recovered, "each once, but for the one whose acknowledgement was lost")
		for i := range 200 {
			lease := j.state(fmt.Sprint("conv_", i)).GetLease()
			require.EqualValues(t, 2, lease.GetEpoch())
		}
		require.EqualValues(t, 1, j.entities["conv_idle"].head.Epoch, "nothing to recover, nothing written")
	})
}

func TestOwnAgainUnderANewEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := newShell(t, j, 1)
		s.must("add:a run")
		s.Own(testShard, 5)
		s.Own(testShard, 4) // old news
		s.must("add:b")
		synctest.Wait()
		require.EqualValues(t, 5, j.entities[testID].head.Epoch)
		require.Contains(t, s.happened(), "release 3 1")
		s.Disown(testShard)
		s.Own(testShard, 3) // older than what was owned
		_, err := s.tell("title")
		requireNotOwner(t, err, 5)
	})
}

func TestIdleEntitiesAreRetired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShell(t, newJournal(), 1)
		_, err := s.tellTo(t.Context(), "conv_turn", "add:x run")
		require.NoError(t, err)
		waiting, giveUp := context.WithCancel(t.Context())
		gaveUp := make(chan error, 1)
		go func() {
			_, left := s.tellTo(waiting, "conv_waiter", "add:x wait:k")
			gaveUp <- left
		}()
		_, err = s.tellTo(t.Context(), "conv_timer", "add:x timer:5m=add:late")
		require.NoError(t, err)
		for i := range 5000 {
			_, err = s.tellTo(t.Context(), fmt.Sprint("conv_", i), "add:x")
			require.NoError(t, err)
		}
		active := func() float64 { synctest.Wait(); return s.metric("parley_actors_active_entities") }
		require.InDelta(t, 4096, active(), 3, "the cap holds, but for those that are engaged")
		time.Sleep(50 * time.Second)
		require.InDelta(t, 4096, active(), 3)
		time.Sleep(20 * time.Second)
		require.InDelta(t, 3, active(), 0, "a turn, a waiter and a timer keep theirs")
		giveUp()
		require.ErrorIs(t, <-gaveUp, context.Canceled)
		time.Sleep(2 * time.Minute)
		require.InDelta(t, 2, active(), 0, "a caller who left keeps nothing")
		time.Sleep(5 * time.Minute)
		require.InDelta(t, 1, active(), 0)
		require.Equal(t, "xlate", s.journal.state("conv_timer").GetTitle())
		_, err = s.tellTo(t.Context(), "conv_turn", "end")
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		require.InDelta(t, 0, active(), 0)
	})
}

// counting is a probe that counts how often a state is decoded.
type counting struct {
	probe
	decoded *atomic.Int64
}

func (c counting) NewState() proto.Message {
	c.decoded.Add(1)
	return c.probe.NewState()
}

func TestStateAtRestIsPacked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		var decoded atomic.Int64
		s := newShell(t, j, 1, func(c *Config) { c.Kinds[0].Machine = counting{decoded: &decoded} })
		s.must("add:a")
		time.Sleep(3500 * time.Millisecond)
		s.must("add:b")
		time.Sleep(4 * time.Second)
		s.must("add:c")
		require.Zero(t, decoded.Load(), "used in between")
		time.Sleep(8 * time.Second)
		s.must("add:d run")
		require.EqualValues(t, 1, decoded.Load())
		time.Sleep(20 * time.Second)
		require.Equal(t, "abcd", s.must("title"))
		require.EqualValues(t, 1, decoded.Load(), "not while a turn runs")
		require.EqualValues(t, 1, j.loads.Load())
	})
}

// Commands that arrive while their entity is being retired wait for its successor: every one is answered, none is lost
// and none is done twice.
func TestNoCommandIsLostWhileEntitiesComeAndGo(t *testing.T) {
	j := newJournal()
	s := newShell(t, j, 1, func(c *Config) { c.MaxActive, c.IdleAfter = 2, time.Millisecond })
	const callers, commands, entities = 8, 400, 30
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := range commands {
				if _, err := s.tellTo(t.Context(), fmt.Sprint("conv_", (caller+i)%entities), "add:x"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	total := 0
	for i := range entities {
		total += len(j.log(t, fmt.Sprint("conv_", i)))
	}
	require.Equal(t, callers*commands, total)
	require.Greater(t, s.metric("parley_actors_passivations_total"), 10.0)
}

func TestWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShell(t, newJournal(), 1, func(c *Config) { c.MaxWaiters = 3 })
		s.must("add:a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.tellTo(ctx, testID, "wait:k")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var waiting []chan answered
		for range 3 {
			waiting = append(waiting, s.later("wait:k"))
		}
		_, err = s.tell("add:b wait:k")
		require.Equal(t, failurepb.Code_UNAVAILABLE, codeOf(err))
		require.Equal(t, "a", s.must("title"), "refused before anything was done")
		s.must("settle:other")
		s.must("settle:k")
		for _, w := range waiting {
			require.Equal(t, "settled", (<-w).title)
		}
		left := s.later("wait:k")
		s.must("delete")
		require.Equal(t, failurepb.Code_NOT_FOUND, codeOf((<-left).err))
		s.must("add:again")
		left = s.later("wait:k")
		s.Disown(testShard)
		requireNotOwner(t, (<-left).err, 1)
	})
}

func TestOwnCommandsAreRepeatedUntilStorageTakesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := newShell(t, j, 1)
		s.fellow = func(Entity, machine.Effect) proto.Message { return say("add:n") }
		s.must("add:a timer:1s=add:t")
		j.fail(none, full) // the effect's own command is refused at first
		s.must("add:b effect:next")
		require.Equal(t, "ab", s.must("title"))
		j.fail(full, full, busy, lost)
		time.Sleep(time.Minute)
		require.Equal(t, "abnt", sorted(s.must("title")))
	})
}

func TestTurnWhoseAcknowledgementWasLostIsPickedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := newShell(t, j, 1)
		s.must("add:a")
		loads := j.loads.Load()
		j.fail(lostAck)
		_, err := s.tell("run effect:start")
		require.Equal(t, failurepb.Code_UNAVAILABLE, codeOf(err))
		time.Sleep(time.Second)
		require.Greater(t, j.loads.Load(), loads, "reloaded by itself: nobody else would notice the open turn")
	})
}

func TestFaultStaysInItsCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShell(t, newJournal(), 1)
		s.must("add:a")
		_, err := s.tell("panic")
		require.Equal(t, failurepb.Code_INTERNAL, codeOf(err))
		s.fellow = func(Entity, machine.Effect) proto.Message { panic("effect") }
		s.must("add:b effect:x")
		_, err = s.tell("refuse")
		require.Equal(t, failurepb.Code_CONVERSATION_BUSY, codeOf(err))
		require.Equal(t, "ab", s.must("title"))
	})
}

func TestBoundedQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := newShell(t, j, 1, func(c *Config) { c.MaxQueued, c.MaxInFlight = 5, 8 })
		s.must("add:a")
		j.slow(time.Second)
		var waiting []chan answered
		for range 20 {
			waiting = append(waiting, s.later("add:b"))
		}
		refused := 0
		for _, w := range waiting {
			if a := <-w; a.err != nil {
				require.Equal(t, failurepb.Code_UNAVAILABLE, codeOf(a.err))
				refused++
			}
		}
		require.Equal(t, 15, refused)
		j.slow(0)
		require.Equal(t, "abbbbb", s.must("title"))
		synctest.Wait()
		require.Zero(t, s.hostIf(testShard).inFlight.Load())
	})
}

func TestCommandOfACallerWhoLeftIsNotDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := newShell(t, j, 1)
		s.must("add:a")
		j.slow(time.Second)
		slow := s.later("add:b")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := s.tellTo(ctx, testID, "add:c")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, (<-slow).err)
		require.Equal(t, "ab", s.must("title"))
	})
}

func TestEnv(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShell(t, newJournal(), 1)
		require.Equal(t, time.Now().Format(time.RFC3339), s.must("now"))
		require.Equal(t, "msg_3_1", s.must("id"))
	})
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := newShell(t, j, 1)
		s.must("add:a")
		s.Own(44, 6)
		s.Disown(44)
		sink := &recorder{}
		_, cancel, err := s.Follow(t.Context(), testShard, testID, sink)
		require.NoError(t, err)
		defer cancel()
		waiting := s.later("wait:k")
		j.slow(time.Second)
		slow := s.later("add:b")
		synctest.Wait()
		ended, end := context.WithCancel(t.Context())
		end()
		s.Stop(ended)
		s.Stop(ended)
		require.Contains(t, s.happened(), "drain")
		require.Equal(t, failurepb.Code_UNAVAILABLE, codeOf(sink.reason()))
		require.Equal(t, failurepb.Code_UNAVAILABLE, codeOf((<-waiting).err))
		require.Error(t, (<-slow).err, "cut off: its outcome is not known")
		_, err = s.tell("title")
		require.Equal(t, failurepb.Code_UNAVAILABLE, codeOf(err))
		_, _, err = s.Follow(t.Context(), testShard, testID, sink)
		require.Equal(t, failurepb.Code_UNAVAILABLE, codeOf(err))
		_, err = s.Ask(t.Context(), 44, testID, say("title"))
		requireNotOwner(t, err, 6)
		_, err = s.Ask(t.Context(), 45, testID, say("title"))
		requireNotOwner(t, err, 0)
		_, _, err = s.Follow(t.Context(), 44, testID, sink)
		requireNotOwner(t, err, 6)
		s.Own(testShard, 2)
		s.Disown(testShard)
	})
}

func TestConfigIsChecked(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "required")
	whole := Config{Node: "n", Journal: newJournal(), IDs: &testIDs{}, Kinds: []Kind{{Machine: probe{}}}}
	bad := whole
	bad.MaxActive = -1
	_, err = New(bad)
	require.ErrorContains(t, err, "MaxActive")
	bad = whole
	bad.Kinds = append(bad.Kinds, bad.Kinds[0])
	_, err = New(bad)
	require.ErrorContains(t, err, "two kinds")
	bad.Kinds = []Kind{{}}
	_, err = New(bad)
	require.ErrorContains(t, err, "Machine")
	s, err := New(whole)
	require.NoError(t, err)
	s.Stop(t.Context())
}

type answered struct {
	title string
	err   error
}

// later tells in the background and returns once the command has been taken.
func (s *shell) later(words string) chan answered {
	done := make(chan answered, 1)
	go func() {
		title, err := s.tell(words)
		done <- answered{title, err}
	}()
	synctest.Wait()
	return done
}

func requireNotOwner(t *testing.T, err error, epoch uint64) {
	t.Helper()
	var refused *NotOwnerError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, epoch, refused.Epoch)
}

func requireLost(t *testing.T, err error) {
	t.Helper()
	var lost interface{ Lost() bool }
	require.ErrorAs(t, err, &lost)
	require.True(t, lost.Lost())
	require.Equal(t, failurepb.Code_UNAVAILABLE, codeOf(err), "what a client is told")
}

func sorted(text string) string {
	letters := []rune(text)
	for i := range letters {
		for k := i; k > 0 && letters[k] < letters[k-1]; k-- {
			letters[k], letters[k-1] = letters[k-1], letters[k]
		}
	}
	return string(letters)
}

// recorder is a Sink that keeps what it hears.
type recorder struct {
	mu      sync.Mutex
	changes []*conversationpb.Change
	closed  error
	closes  int
}

func (r *recorder) Change(c *conversationpb.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes = append(r.changes, c)
}

func (r *recorder) Closed(reason error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed, r.closes = reason, r.closes+1
}

func (r *recorder) reason() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// TestCreatesSparesTheRead: a command that makes its entity is decided without reading what cannot be there, and on
// what is there where it turns out to be.
func TestCreatesSparesTheRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		creates := func(c *Config) {
			c.Kinds[0].Creates = func(command proto.Message) bool {
				asked, ok := command.(*conversationpb.Command)
				return ok && strings.HasPrefix(asked.GetSend().GetContent(), "add:")
			}
		}
		j := newJournal()
		s := newShell(t, j, 1, creates)
		s.must("add:a")
		require.Zero(t, j.loads.Load())
		require.Equal(t, "a", s.must("title"))

		other := newShell(t, j, 1, creates)
		other.must("add:b")
		require.Equal(t, "ab", other.must("title"), "the journal told it that the entity exists")

		third := newShell(t, j, 1, creates)
		_, err := third.tell("add:c refuse")
		require.Error(t, err)
		require.Equal(t, "ab", third.must("title"), "a refusal leaves no belief behind")
	})
}

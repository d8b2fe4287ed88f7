package actors

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/machine"
)

// withDue makes the probe's due row be swept: each entity that is due is told so.
func withDue(words string) func(*Config) {
	return func(c *Config) {
		c.Kinds[0].Due = Due{List: probeDue, Command: func(string) proto.Message { return say(words) }}
	}
}

func TestDueEntitiesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := newShell(t, j, 1, withDue("add:! due:never"))
		s.must("add:a due:90s")
		_, err := s.tellTo(t.Context(), "conv_other", "add:b due:1h")
		require.NoError(t, err)
		time.Sleep(80 * time.Second)
		synctest.Wait()
		require.Zero(t, s.metric("parley_actors_active_entities"), "nothing is kept in memory for what is due later")
		time.Sleep(12 * time.Second)
		require.Equal(t, "a!", j.state(testID).GetTitle())
		time.Sleep(2 * time.Hour)
		require.Equal(t, "a!", s.must("title"), "once")
		require.Equal(t, "b!", j.state("conv_other").GetTitle())
		require.InDelta(t, 2, s.metric("parley_actors_due_total"), 0)
	})
}

func TestWhatWasDueMeanwhileIsToldByTheNextOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		first := newShell(t, j, 1, withDue("add:! due:never"))
		first.must("add:a due:10s")
		first.Disown(testShard)
		time.Sleep(time.Minute)
		require.Equal(t, "a", j.state(testID).GetTitle())
		newShell(t, j, 2, withDue("add:! due:never"))
		synctest.Wait()
		require.Equal(t, "a!", j.state(testID).GetTitle(), "at once")
	})
}

func TestWhatIsDueIsTriedUntilItIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := newShell(t, j, 1, withDue("add:! due:never"))
		s.must("add:a due:3500ms")
		j.mu.Lock()
		j.dueErrs = []error{nil, nil, errors.New("disk hiccup"), errors.New("disk hiccup")}
		j.mu.Unlock()
		time.Sleep(2500 * time.Millisecond)
		j.fail(full, busy, lost)
		time.Sleep(20 * time.Second)
		require.Equal(t, "a!", j.state(testID).GetTitle())
	})
}

func TestDueWaitsWhileTheShardIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := newShell(t, j, 1, withDue("add:! due:never"))
		s.must("add:a due:5s")
		require.NoError(t, s.Drain(t.Context(), testShard))
		time.Sleep(time.Minute)
		require.Equal(t, "a", j.state(testID).GetTitle(), "held")
		s.Disown(testShard)
		next := newShell(t, j, 2, withDue("add:? due:never"))
		synctest.Wait()
		require.Equal(t, "a?", next.must("title"))
	})
}

func TestManyAreDueAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := newShell(t, j, 1, withDue("due:never"))
		const count = 3 * maxDue
		for i := range count {
			_, err := s.tellTo(t.Context(), fmt.Sprint("conv_", i), "due:100ms")
			require.NoError(t, err)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Empty(t, j.rows)
		require.InDelta(t, count, s.metric("parley_actors_due_total"), 0)
	})
}

// namesake is a second kind.
type namesake struct{ probe }

func (namesake) Kind() string { return "task" }

func TestKindsLiveBesideEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		var s *shell
		s = newShell(t, j, 1, withDue("add:c due:never"), func(c *Config) {
			c.Kinds = append(c.Kinds, Kind{
				Machine: namesake{},
				Due:     Due{List: probeDue + "/not", Command: func(string) proto.Message { return say("add:wrong") }},
				Perform: func(at Entity, effect machine.Effect) proto.Message {
					s.note(fmt.Sprint(at.ID, " ", effect))
					return nil
				},
			})
		})
		s.must("add:a due:1s effect:x")
		_, err := s.tellTo(t.Context(), "task_1", "add:b effect:y")
		require.NoError(t, err)
		synctest.Wait()
		require.Contains(t, s.happened(), "task_1 y")
		_, err = s.tellTo(t.Context(), "other_1", "add:b")
		require.Error(t, err)
		time.Sleep(3 * time.Second)
		require.Equal(t, "ac", j.state(testID).GetTitle())
		require.Equal(t, "b", j.state("task_1").GetTitle())
	})
}

func TestNothingIsLookedForWhereNoKindIsEverDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		newShell(t, j, 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, j.looks)
		s := newShell(t, j, 1, withDue("due:never"))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.InDelta(t, 60, j.looks, 1)
		s.Stop(context.Background())
	})
}

func TestConfigRefusesHalfADue(t *testing.T) {
	_, err := New(Config{
		Node: "n", Journal: newJournal(), IDs: &testIDs{},
		Kinds: []Kind{{Machine: probe{}, Due: Due{List: "x"}}},
	})
	require.Error(t, err)
}

package actors

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"parley/proto/conversationpb"
)

// dying is a conversation with a turn that never ends, and the processes that own it in turn.
type dying struct {
	journal *journal
	ids     *testIDs
	epoch   uint64
}

// next is a process that owns the shard under the next epoch. What the one before still does is fenced.
func (d *dying) next(t *testing.T) *shell {
	t.Helper()
	d.epoch++
	s := talkative(t, d.journal, saysThenHangs("half"), func(c *Config) { c.IDs = d.ids })
	s.Own(testShard, d.epoch)
	synctest.Wait()
	return s
}

func (d *dying) deaths(t *testing.T) int {
	t.Helper()
	lease := d.journal.state(testID).GetLease()
	require.NotNil(t, lease)
	require.Equal(t, d.epoch, lease.GetEpoch(), "recovered")
	return int(lease.GetDeaths())
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func begun(t *testing.T) (*dying, *shell) {
	t.Helper()
	t.Helper()
	d := &dying{journal: newJournal(), ids: &testIDs{}, epoch: 10} // every shell begins with epoch 1
	s := d.next(t)
	s.create(t)
	_, err := s.send(t.Context(), false)
	require.NoError(t, err)
	synctest.Wait()
	require.Zero(t, d.deaths(t))
	return d, s
}

// TestSecondDeathEndsTheTurn: a turn whose attempts end with their processes is given up after the second, says so, and the
// conversation goes on.
func TestSecondDeathEndsTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := begun(t)
		d.next(t)
		require.Equal(t, 1, d.deaths(t))
		last := d.next(t)
		state := d.journal.state(testID)
		require.Nil(t, state.GetLease())
		require.Equal(t, conversationpb.StopReason_ERROR, state.GetStopReason())
		_, err := last.send(t.Context(), false)
		require.NoError(t, err)
		require.Zero(t, d.deaths(t), "another turn")
	})
}

// TestPlannedMovesAreNoDeaths: neither a hand-over, nor a stop, nor a shard that was lost and won again in one process.
func TestPlannedMovesAreNoDeaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := begun(t)
		for range 3 {
			require.NoError(t, s.Drain(soon(t), testShard))
			s.Disown(testShard)
			s = d.next(t)
			require.Zero(t, d.deaths(t))

			s.Stop(soon(t))
			s = d.next(t)
			require.Zero(t, d.deaths(t))

			d.epoch++
			s.Disown(testShard)
			s.Own(testShard, d.epoch)
			synctest.Wait()
			require.Zero(t, d.deaths(t))
		}
		s = d.next(t)
		require.Equal(t, 1, d.deaths(t), "the word of an earlier owner says nothing of a later one")
		s.Stop(soon(t))
		d.next(t)
		require.Equal(t, 1, d.deaths(t), "and takes no death back")
	})
}

// TestHandOverThatFails: whoever goes on after all can die again.
func TestHandOverThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := begun(t)
		require.NoError(t, s.Drain(soon(t), testShard))
		s.Undrain(testShard)
		d.next(t)
		require.Equal(t, 1, d.deaths(t))
	})
}

// TestNoWordIsGuessed: while it cannot be read how the shard was left, no turn is recovered.
func TestNoWordIsGuessed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := begun(t)
		s.Stop(soon(t))
		d.journal.mu.Lock()
		d.journal.loadErrs = []error{nil, errors.New("disk is slow")} // the conversation, then the word
		d.journal.mu.Unlock()
		d.next(t)
		require.EqualValues(t, 11, d.journal.state(testID).GetLease().GetEpoch())
		time.Sleep(time.Second)
		require.Zero(t, d.deaths(t))
	})
}

// TestNothingOpenNoWord: a shard at rest is given up without a write.
func TestNothingOpenNoWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := talkative(t, j, says("done"))
		s.create(t)
		_, err := s.send(t.Context(), true)
		require.NoError(t, err)
		appends := j.appends.Load()
		require.NoError(t, s.Drain(soon(t), testShard))
		s.Stop(soon(t))
		require.Equal(t, appends, j.appends.Load())
	})
}

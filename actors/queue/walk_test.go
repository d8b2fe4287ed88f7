package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/actors/machine"
	"parley/actors/machine/machinetest"
	"parley/actors/queue"
	"parley/proto/runpb"
)

// TestWalk lets runs come, go and be lost in any order: who waits gets its place in the order of coming, there are never
// more than the limit but for those that run already, nothing lapsed stays, and in the end nothing is left.
func TestWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entity := machinetest.NewEntity(queue.New(limits(), nil, nil).Machine)
		now := int64(1000)
		var forced, line []string // those that took a place that was not free; the order of who waits
		state := func() *runpb.Queue {
			s, _ := entity.State.(*runpb.Queue)
			return s
		}
		do := func(command *runpb.QueueCommand) {
			command.QueueId = "queue_1"
			decision, failure, err := entity.Do(command, machine.Env{Now: time.UnixMilli(now), NewID: entity.NewID})
			require.NoError(t, err)
			if failure != nil {
				require.Len(t, state().GetWaiting(), limits().MaxQueued)
			}
			waiting := ids(state().GetWaiting())
			granted := []string(nil)
			for _, effect := range decision.Effects {
				grant, _ := effect.(queue.Grant)
				granted = append(granted, grant.RunID)
			}
			line = slices.DeleteFunc(line, func(run string) bool { return !slices.Contains(waiting, run) && !slices.Contains(granted, run) })
			require.GreaterOrEqual(t, len(line), len(granted))
			for i, run := range granted {
				require.Equal(t, line[i], run, "first come, first served")
			}
			line = line[len(granted):]
			for _, run := range waiting {
				if !slices.Contains(line, run) {
					line = append(line, run)
				}
			}
			require.Len(t, waiting, len(line))
			if len(line) > 0 {
				require.Equal(t, line, waiting)
			}
		}
		runs := rapid.SampledFrom([]string{"run_1", "run_2", "run_3", "run_4", "run_5", "run_6", "run_7"})
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now += int64(rapid.SampledFrom([]int{0, 0, 100, 3000, 11_000}).Draw(t, "pause"))
			run := runs.Draw(t, "run")
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				do(&runpb.QueueCommand{Body: &runpb.QueueCommand_Join{Join: &runpb.Join{RunId: run}}})
			case 2:
				if !slices.Contains(ids(state().GetPlaces()), run) {
					forced = append(forced, run)
				}
				do(&runpb.QueueCommand{Body: &runpb.QueueCommand_Join{Join: &runpb.Join{RunId: run, AtOnce: true}}})
				require.Contains(t, ids(state().GetPlaces()), run)
			case 3, 4:
				do(&runpb.QueueCommand{Body: &runpb.QueueCommand_Leave{Leave: &runpb.Leave{RunId: run}}})
				require.NotContains(t, append(ids(state().GetPlaces()), ids(state().GetWaiting())...), run)
			case 5:
				do(&runpb.QueueCommand{Body: &runpb.QueueCommand_Due{Due: &runpb.QueueDue{}}})
				for _, place := range append(slices.Clone(state().GetPlaces()), state().GetWaiting()...) {
					require.Greater(t, place.GetExpiresAt(), now)
				}
			}
			check(t, state(), entity.Rows.String())
			forced = slices.DeleteFunc(forced, func(run string) bool { return !slices.Contains(ids(state().GetPlaces()), run) })
			require.LessOrEqual(t, len(state().GetPlaces()), limits().Concurrency+len(forced))
		}
		now += 100_000
		do(&runpb.QueueCommand{Body: &runpb.QueueCommand_Due{Due: &runpb.QueueDue{}}})
		for range 3 { // who waited had lapsed as well
			now += 100_000
			do(&runpb.QueueCommand{Body: &runpb.QueueCommand_Due{Due: &runpb.QueueDue{}}})
		}
		require.Nil(t, state())
		require.Empty(t, entity.Rows.String())
	})
}

func ids(list []*runpb.Place) (all []string) {
	for _, place := range list {
		all = append(all, place.GetRunId())
	}
	return all
}

func check(t *rapid.T, s *runpb.Queue, rows string) {
	if s == nil {
		require.Empty(t, rows)
		return
	}
	all := append(ids(s.GetPlaces()), ids(s.GetWaiting())...)
	require.NotEmpty(t, all, "there is no empty queue")
	seen := slices.Clone(all)
	slices.Sort(seen)
	require.Len(t, slices.Compact(seen), len(all), "each run stands once")
	if len(s.GetWaiting()) > 0 {
		require.GreaterOrEqual(t, len(s.GetPlaces()), limits().Concurrency, "nobody waits while a place is free")
	}
	first := int64(0)
	for _, place := range append(slices.Clone(s.GetPlaces()), s.GetWaiting()...) {
		if first == 0 || place.GetExpiresAt() < first {
			first = place.GetExpiresAt()
		}
	}
	require.Equal(t, fmt.Sprintf("list queue/due %d queue_1\n", first), rows)
}

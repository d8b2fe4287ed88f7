package conversation_test

import (
	"slices"

	"github.com/stretchr/testify/require"

	"parley/actors/conversation"
	"parley/actors/machine"
	"parley/proto/conversationpb"
)

func queuedRun(s *conversationpb.State, run string) bool {
	return slices.ContainsFunc(s.GetQueue(), func(q *conversationpb.Queued) bool { return q.GetMessage().GetRunId() == run })
}

func runsOf(s *conversationpb.State) (runs []string) {
	for _, q := range s.GetQueue() {
		runs = append(runs, q.GetMessage().GetRunId())
	}
	return runs
}

// rests says that nothing keeps the queue waiting.
func rests(s *conversationpb.State) bool {
	limit := s.GetBudget().GetMaxCostNanoUsd()
	used := s.GetBudget() != nil && (s.GetSpentNanoUsd() >= limit || s.GetReachedNanoUsd() >= limit)
	return s.GetLease() == nil && s.GetPaused() == nil && s.GetBackgroundRun() == "" && !used
}

// checkQueue: messages are begun in their order, whole, once, and for whom they were sent; none waits for nothing.
func (w *walk) checkQueue(before *conversationpb.State, decision machine.Decision) {
	s, want := w.state(), slices.Clone(runsOf(before))
	for _, event := range events(decision.Events) {
		run := event.GetRunId()
		switch {
		case event.GetMessageQueued() != nil:
			q := event.GetMessageQueued().GetQueued()
			at := len(want)
			if q.GetFirst() {
				w.seen["interrupted"]++
				require.True(w.t, s.GetLease().GetCancelling())
				at = slices.IndexFunc(before.GetQueue(), func(q *conversationpb.Queued) bool { return !q.GetFirst() })
				if at < 0 {
					at = len(want)
				}
			}
			want = slices.Insert(want, at, run)
		case event.GetMessageDequeued() != nil:
			want = slices.DeleteFunc(want, func(one string) bool { return one == run })
		case event.GetUserMessage() != nil && queuedRun(before, run):
			w.seen["begun from the queue"]++
			require.Equal(w.t, want[0], run, "out of order")
			require.Equal(w.t, before.GetQueue()[0].GetMessage().GetContent(), event.GetUserMessage().GetMessage().GetContent())
			require.Equal(w.t, before.GetQueue()[0].GetMessage().GetId(), event.GetUserMessage().GetMessage().GetId())
			want = want[1:]
		case event.GetTurnStarted() != nil && queuedRun(before, run):
			q, lease := before.GetQueue()[0], event.GetTurnStarted().GetLease()
			require.Equal(w.t, q.GetByUser(), lease.GetByUser())
			require.Equal(w.t, q.GetByToken(), lease.GetByToken())
			require.Equal(w.t, q.GetAgentVersion(), lease.GetAgentVersion())
			require.True(w.t, slices.ContainsFunc(decision.Effects, func(effect machine.Effect) bool {
				start, is := effect.(conversation.StartTurn)
				return is && start.RunID == run
			}))
		}
	}
	require.Len(w.t, s.GetQueue(), len(want))
	require.LessOrEqual(w.t, len(want), w.limits.Queue)
	if len(want) > 0 {
		require.Equal(w.t, want, runsOf(s))
		require.False(w.t, rests(s), "the queue waits for nothing")
	}
}

// checkNext: once a turn ends, the conversation rests, or the next message has its turn.
func (w *walk) checkNext(before, after *conversationpb.State) {
	if queue := runsOf(before); len(queue) > 0 && after.GetStatus() != conversationpb.Status_IDLE {
		require.Equal(w.t, queue[0], after.GetLease().GetRunId())
		return
	}
	require.Equal(w.t, conversationpb.Status_IDLE, after.GetStatus())
	require.False(w.t, len(after.GetQueue()) > 0 && rests(after))
}

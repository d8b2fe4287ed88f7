package conversation_test

import (
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/actors/conversation"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/deliverypb"
)

func (w *walk) push() *conversationpb.Push {
	return &conversationpb.Push{
		Id:   rapid.SampledFrom([]string{"", "a", "b", "c", "d", "e", "\x00", "\xff"}).Draw(w.t, "push id"),
		Form: "a2a/1.0", Sealed: []byte("sealed"), ShownUrl: "https://x", Scheme: "Bearer",
	}
}

// pushed is a report of an attempt, of the one under way or another, or the removal of an address.
func (w *walk) pushed(c *conversationpb.Command) {
	known := append(slices.Clone(w.state().GetPushes()), &conversationpb.Push{RunId: "run_1"})
	push := rapid.SampledFrom(known).Draw(w.t, "push")
	if rapid.IntRange(0, 9).Draw(w.t, "remove") == 7 {
		c.Body = &conversationpb.Command_RemovePush{RemovePush: &conversationpb.RemovePush{Number: push.GetNumber(), Id: push.GetId()}}
		return
	}
	ago := rapid.SampledFrom([]uint32{1, 1, 1, 2, 0}).Draw(w.t, "attempts ago")
	c.Body = &conversationpb.Command_Pushed{Pushed: &conversationpb.Pushed{RunId: push.GetRunId(), Id: push.GetId(), Report: &deliverypb.Report{
		Id: push.GetDelivery().GetId(), Attempt: max(push.GetDelivery().GetAttempt(), ago) - ago,
		Ok: rapid.Bool().Draw(w.t, "taken"), Unsent: rapid.IntRange(0, 4).Draw(w.t, "unsent") == 3,
	}}}
}

// checkPushes: whoever asked for it is told of each end and pause, one attempt at a time, and forgotten once the end is told.
func (w *walk) checkPushes(before *conversationpb.State, decision machine.Decision) {
	s, rested := w.state(), map[string]bool{}
	for _, event := range events(decision.Events) {
		if event.GetTurnEnded() != nil || event.GetTurnPaused() != nil {
			rested[event.GetRunId()] = true
		}
		if over := event.GetPushOver(); over != nil {
			w.seen["told"]++
			require.False(w.t, over.GetDelivered() && over.GetError() != "")
		}
	}
	goesOn := func(run string) bool {
		return s.GetLease().GetRunId() == run || s.GetStatus() == conversationpb.Status_WAITING && s.GetPaused().GetRunId() == run
	}
	of, ids := map[string]int{}, map[string]bool{}
	for _, push := range s.GetPushes() {
		of[push.GetRunId()]++
		require.False(w.t, ids[push.GetRunId()+"/"+push.GetId()], "an address twice")
		ids[push.GetRunId()+"/"+push.GetId()] = true
		require.LessOrEqual(w.t, of[push.GetRunId()], 4)
		require.True(w.t, push.GetDelivery() != nil || goesOn(push.GetRunId()), "kept for ever")
		require.False(w.t, push.GetDelivery() == nil && (push.GetUnderWay() || push.GetAgain()))
		require.False(w.t, push.GetAgain() && !push.GetUnderWay())
		require.Positive(w.t, push.GetNumber())
		if rested[push.GetRunId()] {
			require.True(w.t, push.GetUnderWay(), "not told of an end")
			w.seen["being told"]++
		}
		if push.GetAgain() {
			w.seen["told again"]++
		}
	}
	require.LessOrEqual(w.t, len(s.GetPushes()), 8)
	for _, effect := range decision.Effects {
		tell, is := effect.(conversation.TellPush)
		if !is {
			continue
		}
		for _, was := range before.GetPushes() {
			if was.GetRunId() == tell.Push.GetRunId() && was.GetId() == tell.Push.GetId() && was.GetUnderWay() && was.GetDelivery().GetNextAt() > w.env.Now.UnixMilli() {
				require.NotEqual(w.t, was.GetDelivery().GetAttempt(), tell.Attempt.GetAttempt(), "two attempts at once")
			}
		}
		require.True(w.t, slices.ContainsFunc(s.GetPushes(), func(push *conversationpb.Push) bool {
			return push.GetDelivery().GetId() == tell.Attempt.GetId() && push.GetDelivery().GetAttempt() == tell.Attempt.GetAttempt()+1 && push.GetUnderWay()
		}), "an attempt that is not stored")
	}
}

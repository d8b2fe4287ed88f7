package conversation_test

import (
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/machine"
	"parley/actors/machine/machinetest"
	"parley/proto/conversationpb"
)

// checkEvents: a turn starts, or goes on, only where none is; it ends, pauses and journals only where one is.
func (w *walk) checkEvents(before *conversationpb.State, decision machine.Decision) {
	held, waits := before.GetLease().GetRunId(), before.GetPaused().GetRunId()
	for _, event := range events(decision.Events) {
		switch event.GetBody().(type) {
		case *conversationpb.Event_TurnStarted:
			require.Empty(w.t, held, "two turns at once")
			held, waits = event.GetRunId(), ""
			w.starts = 1
		case *conversationpb.Event_TurnResumed:
			require.Empty(w.t, held, "two turns at once")
			require.Equal(w.t, waits, event.GetRunId())
			held, waits = waits, ""
			w.starts = 1
		case *conversationpb.Event_TurnRecovered:
			w.starts++
			require.LessOrEqual(w.t, w.starts, 4*3)
			require.Less(w.t, event.GetTurnRecovered().GetQuick(), uint32(3))
			require.Equal(w.t, held, event.GetRunId())
		case *conversationpb.Event_TurnPaused:
			require.NotEmpty(w.t, held)
			require.Equal(w.t, held, event.GetRunId())
			held, waits = "", held
		case *conversationpb.Event_ActionClosed:
			require.NotEmpty(w.t, waits)
			require.Equal(w.t, waits, event.GetRunId())
		case *conversationpb.Event_TurnEnded:
			require.Equal(w.t, held+waits, event.GetRunId())
			held, waits = "", ""
		case *conversationpb.Event_AgentMessage:
			require.Equal(w.t, held+waits, event.GetRunId())
		case *conversationpb.Event_ToolUse, *conversationpb.Event_ToolResults, *conversationpb.Event_Reserved,
			*conversationpb.Event_Partial, *conversationpb.Event_ActionRequested:
			require.NotEmpty(w.t, held)
			require.Equal(w.t, held, event.GetRunId())
		case *conversationpb.Event_TurnOptions:
			require.Equal(w.t, held+waits, event.GetRunId())
		}
	}
}

// checkEffects: no effect without its event. Stopping is urgent, and safe without one.
func (w *walk) checkEffects(before *conversationpb.State, decision machine.Decision) {
	started := slices.ContainsFunc(events(decision.Events), func(e *conversationpb.Event) bool {
		return e.GetTurnStarted() != nil || e.GetTurnRecovered() != nil || e.GetTurnResumed() != nil || e.GetPartial().GetCharged()
	})
	for _, effect := range decision.Urgent {
		stop, ok := effect.(conversation.StopTurn)
		require.True(w.t, ok)
		require.Equal(w.t, before.GetLease().GetRunId(), stop.RunID)
	}
	starts := 0
	for _, effect := range decision.Effects {
		switch effect := effect.(type) {
		case conversation.StartTurn:
			starts++
			require.True(w.t, started, "a turn is started without an event")
			lease := w.state().GetLease()
			require.Equal(w.t, lease.GetRunId(), effect.RunID)
			require.Equal(w.t, w.env.Epoch, effect.Epoch)
			require.NotNil(w.t, effect.UserMessage)
			require.Equal(w.t, lease.GetSteps(), effect.Steps)
			require.LessOrEqual(w.t, effect.ResumedAt, effect.Steps)
			require.Equal(w.t, lease.GetByUser(), effect.ByUser)
			require.Equal(w.t, lease.GetByToken(), effect.ByToken)
			require.Equal(w.t, lease.GetAgentVersion(), effect.AgentVersion)
			require.Equal(w.t, string(lease.GetRuntimeContext()), string(effect.TurnContext))
		case conversation.ResumeTurn:
			require.Empty(w.t, decision.Events)
			require.Equal(w.t, before.GetLease().GetRunId(), effect.RunID)
			require.Equal(w.t, w.env.Epoch, effect.Epoch)
		case conversation.MeterTurn:
			require.Equal(w.t, w.state().GetLease().GetRunId(), effect.RunID)
			require.False(w.t, proto.Equal(before.GetBudget(), w.state().GetBudget()))
		case conversation.TellFeedback:
			require.True(w.t, slices.ContainsFunc(events(decision.Events), func(e *conversationpb.Event) bool {
				return e.GetMessageChanged() != nil
			}))
		case conversation.TellPush: // checkPushes
		case machine.Timer:
			require.Positive(w.t, effect.After)
		default:
			require.Fail(w.t, "unknown effect", "%T", effect)
		}
	}
	require.Equal(w.t, started, starts == 1)
}

// tooLate says that a resolve found its action expired.
func tooLate(decision machine.Decision) bool { return strings.HasPrefix(decision.Wait, "expired:") }

// checkSettled: whoever waits for a run waits for one that is active, and is told when it is no longer.
func (w *walk) checkSettled(before *conversationpb.State, decision machine.Decision) {
	loud := w.loud()
	if tooLate(decision) {
		require.True(w.t, slices.ContainsFunc(decision.Settle, func(s machine.Settlement) bool {
			return s.Key == decision.Wait && s.Failure != nil
		}))
	} else if decision.Wait != "" {
		run := strings.TrimPrefix(decision.Wait, "cancel:")
		if queuedRun(w.state(), decision.Wait) {
			w.seen["waits in the queue"]++
		} else if run != w.state().GetLease().GetRunId() {
			require.True(w.t, loud, "only the silence of a former owner is worth waiting for")
			require.Len(w.t, slices.DeleteFunc(slices.Clone(decision.Effects), func(effect machine.Effect) bool {
				_, told := effect.(conversation.TellPush)
				_, next := effect.(conversation.StartTurn)
				return told || next
			}), 1, "somebody tells it")
			w.seen["wait for silence"]++
		}
	}
	run := before.GetLease().GetRunId()
	ended := run != "" && w.state().GetLease().GetRunId() != run
	told := slices.ContainsFunc(decision.Settle, func(s machine.Settlement) bool { return s.Key == run })
	require.Equal(w.t, ended, told)
	if ended && before.GetLease().GetCancelling() && !decision.Delete {
		settled := slices.ContainsFunc(decision.Settle, func(s machine.Settlement) bool { return s.Key == "cancel:"+run })
		later := slices.ContainsFunc(decision.Effects, func(e machine.Effect) bool {
			timer, ok := e.(machine.Timer)
			command, _ := timer.Command.(*conversationpb.Command)
			return ok && command.GetCancelTimeout().GetSilent() && command.GetCancelTimeout().GetRunId() == run
		})
		require.NotEqual(w.t, settled, later)
		require.Equal(w.t, loud && run == w.foreign, later)
	}
	// Nobody is told that nothing can follow while the former owner of the run may be heard.
	if loud && w.foreign != "" && w.state().GetLastRunId() == w.foreign {
		reply, _ := decision.Reply.(*conversationpb.Reply)
		taken := queuedRun(before, reply.GetCancelled().GetRunId()) // its turn never ran
		require.False(w.t, reply.GetCancelled().GetSettled() && !taken, "settled too early")
	}
}

// checkCancel: a cancel that names a turn changes nothing of any other one.
func (w *walk) checkCancel(before *conversationpb.State, given *conversationpb.Command, decision machine.Decision) {
	meant := given.GetCancel().GetRunId()
	if queuedRun(before, meant) {
		require.False(w.t, queuedRun(w.state(), meant))
		require.Empty(w.t, decision.Urgent)
		return
	}
	if meant == "" || meant == before.GetLease().GetRunId() || meant == before.GetPaused().GetRunId() {
		return
	}
	require.Empty(w.t, decision.Events)
	require.Empty(w.t, decision.Urgent)
	w.seen["cancel of another turn"]++
}

// loud says that a former owner may still be heard.
func (w *walk) loud() bool {
	return !w.env.EpochSince.IsZero() && w.env.Now.Sub(w.env.EpochSince) < conversation.DefaultLimits().TakeoverSilence
}

func (w *walk) checkState(before *conversationpb.State) {
	s := w.state()
	lease, paused := s.GetLease(), s.GetPaused()
	require.Equal(w.t, lease != nil, s.GetStatus() == conversationpb.Status_RUNNING)
	require.Equal(w.t, len(s.GetPending()) > 0, s.GetStatus() == conversationpb.Status_WAITING)
	require.Equal(w.t, paused != nil, s.GetStatus() == conversationpb.Status_WAITING || s.GetContinuable())
	require.False(w.t, s.GetContinuable() && s.GetStatus() != conversationpb.Status_IDLE)
	if lease != nil {
		require.NotEmpty(w.t, lease.GetNode())
		require.NotZero(w.t, lease.GetEpoch())
		w.checkTurn(lease)
	}
	if paused != nil {
		require.Empty(w.t, paused.GetNode())
		require.Zero(w.t, paused.GetEpoch())
		require.Zero(w.t, paused.GetReservedNanoUsd())
		w.checkTurn(paused)
	}
	require.LessOrEqual(w.t, len(s.GetPending()), w.limits.MaxPending)
	require.LessOrEqual(w.t, len(s.GetRememberedTools()), w.limits.RememberedTools)
	require.LessOrEqual(w.t, len(s.GetClosed()), 32)
	require.GreaterOrEqual(w.t, s.GetSpentNanoUsd(), before.GetSpentNanoUsd())
	require.Equal(w.t, s.GetNextMessage()-1, s.GetMessageCount(), "a message's number is its place")
	require.GreaterOrEqual(w.t, s.GetUpdatedAt(), before.GetUpdatedAt())
	require.LessOrEqual(w.t, len(s.GetOutcomes()), 3)
	folded := w.rules.Evolve(nil, w.entity.Journal)
	if !proto.Equal(s, folded) {
		require.Equal(w.t, machinetest.Text(s), machinetest.Text(folded), "the journal folds to another state")
	}
}

func (w *walk) checkTurn(turn *conversationpb.Lease) {
	s := w.state()
	require.Equal(w.t, s.GetLastRunId(), turn.GetRunId())
	require.Equal(w.t, s.GetLastUserMessage(), turn.GetUserMessage().GetNumber())
	said := turn.GetUserMessage()
	require.True(w.t, said.GetContent() != "" || len(said.GetFiles()) > 0, "a message says something or has files")
	require.LessOrEqual(w.t, turn.GetResumedAt(), turn.GetSteps())
	waited := map[string]bool{}
	for _, action := range s.GetPending() {
		waited[action.GetToolCallId()] = true
	}
	for _, call := range turn.GetCalls() {
		if s.GetStatus() == conversationpb.Status_WAITING && !call.GetDone() {
			require.Equal(w.t, call.GetNeed() != conversationpb.Need_RUN, waited[call.GetId()], "an open call waits for nobody")
		}
	}
}

// walkSlack is what a model call of these walks may cost above what it was granted: one metering step.
const walkSlack = 5

// checkMoney: the budget holds, up to one step of metering.
func (w *walk) checkMoney(before *conversationpb.State, decision machine.Decision) {
	s := w.state()
	reserved := s.GetLease().GetReservedNanoUsd()
	for _, event := range events(decision.Events) {
		if event.GetUpdated().GetPatch().GetBudget() != nil || event.GetCreated() != nil {
			w.ceiling = max(s.GetBudget().GetMaxCostNanoUsd(), s.GetSpentNanoUsd()+reserved)
		}
		w.ceiling += max(0, event.GetUpdated().GetUsage().GetCostNanoUsd()) // titles are asked for beside
	}
	if s.GetBudget() == nil {
		return
	}
	require.LessOrEqual(w.t, s.GetSpentNanoUsd(), w.ceiling+walkSlack, "overspent")
	if reserved > before.GetLease().GetReservedNanoUsd() {
		require.LessOrEqual(w.t, s.GetSpentNanoUsd()+reserved, w.ceiling, "granted too much")
	}
}

// checkWayOut: nothing is stuck. Whoever may do something can; time and the runner's report end what is under way.
func (w *walk) checkWayOut() {
	s := w.state()
	env := w.env
	minted := 0
	env.NewID = func(kind string) string { minted++; return kind + "_out" + string(rune('a'+minted%26)) }
	try := func(command *conversationpb.Command) *conversationpb.State {
		command.ConversationId = s.GetId()
		command.Caller = &conversationpb.Caller{TenantId: s.GetTenantId(), ProjectId: s.GetProjectId(), Trusted: true}
		decision, failure := w.rules.Decide(s, command, env)
		require.Nil(w.t, failure, "stuck: %s", machinetest.Text(s))
		after, _ := w.rules.Evolve(s, decision.Events).(*conversationpb.State)
		return after
	}
	if run := s.GetBackgroundRun(); run != "" {
		after := try(&conversationpb.Command{Body: &conversationpb.Command_Hold{Hold: &conversationpb.Hold{RunId: run, Release: true}}})
		require.Empty(w.t, after.GetBackgroundRun())
	}
	switch s.GetStatus() {
	case conversationpb.Status_RUNNING:
		after := try(&conversationpb.Command{Body: &conversationpb.Command_Finish{Finish: &conversationpb.Finish{
			RunId: s.GetLease().GetRunId(), Epoch: s.GetLease().GetEpoch(), StopReason: conversationpb.StopReason_ERROR,
		}}})
		w.checkNext(s, after)
	case conversationpb.Status_WAITING:
		after := try(&conversationpb.Command{Body: &conversationpb.Command_Cancel{Cancel: &conversationpb.Cancel{}}})
		w.checkNext(s, after)
		var due int64
		for _, action := range s.GetPending() {
			due = max(due, action.GetExpiresAt())
		}
		env.Now = time.UnixMilli(due)
		after = try(&conversationpb.Command{Body: &conversationpb.Command_Due{Due: &conversationpb.Due{}}})
		require.NotEqual(w.t, conversationpb.Status_WAITING, after.GetStatus())
	default: // idle: a message, or the budget that forbids it
	}
}

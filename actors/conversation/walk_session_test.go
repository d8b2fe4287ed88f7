package conversation_test

import (
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/actors/machine"
	"parley/actors/machine/machinetest"
	"parley/proto/conversationpb"
)

// behalf says for whom a command is given: mostly the run that holds the conversation, if one does.
func (w *walk) behalf(c *conversationpb.Command) {
	t := w.t
	c.Caller.TokenId = rapid.SampledFrom([]string{"", "tok_1"}).Draw(t, "token")
	c.BackgroundRun = w.state().GetBackgroundRun()
	if rapid.IntRange(0, 5).Draw(t, "other behalf") == 3 {
		c.BackgroundRun = rapid.SampledFrom([]string{"", "run_b1", "run_b2"}).Draw(t, "behalf")
	}
	c.AgentVersion = rapid.SampledFrom([]int64{0, 2, -1}).Draw(t, "version")
	c.RuntimeContext = rapid.SampledFrom([][]byte{nil, []byte("\xffsealed"), make([]byte, 97)}).Draw(t, "context")
	if rapid.IntRange(0, 9).Draw(t, "large context") != 7 && len(c.GetRuntimeContext()) > 96 {
		c.RuntimeContext = nil
	}
}

// holdCommands are those of background runs.
func (w *walk) holdCommands() []generator {
	t := w.t
	return []generator{{idle: 2, running: 1, waiting: 1, none: 1, make: func(c *conversationpb.Command) {
		hold := &conversationpb.Hold{
			RunId:     rapid.SampledFrom([]string{"run_b1", "run_b2", ""}).Draw(t, "background run"),
			Release:   rapid.Bool().Draw(t, "release"),
			Continues: rapid.IntRange(0, 3).Draw(t, "continues") == 2,
			Agent:     w.agent(),
		}
		if run := w.state().GetBackgroundRun(); run != "" && rapid.IntRange(0, 3).Draw(t, "its own") != 2 {
			hold.RunId = run
		}
		c.Body = &conversationpb.Command_Hold{Hold: hold}
	}}}
}

// checkHold: while a run holds the conversation, only its commands begin a turn; only it lets go, and none takes over.
func (w *walk) checkHold(before *conversationpb.State, given *conversationpb.Command, decision machine.Decision) {
	run := before.GetBackgroundRun()
	for _, event := range events(decision.Events) {
		begun := event.GetTurnStarted() != nil || event.GetTurnResumed().GetLease().GetMode() == conversationpb.Mode_CONTINUE
		if begun && queuedRun(before, event.GetRunId()) {
			require.Empty(w.t, run, "a queued turn begins while a run holds the conversation")
			begun = false
		}
		if begun {
			require.Equal(w.t, run, given.GetBackgroundRun(), "a turn begins on behalf of another")
			if run != "" {
				w.seen["begun for a run"]++
			}
		}
		held := event.GetHeld()
		switch {
		case held == nil:
			continue
		case held.GetReleased():
			w.seen["let go"]++
			require.Equal(w.t, run, held.GetRunId())
			run = ""
		default:
			w.seen["held"]++
			require.Empty(w.t, run, "taken away")
			require.Nil(w.t, before.GetLease(), "held while a turn runs")
			run = held.GetRunId()
		}
		require.Empty(w.t, event.PublicType())
	}
	if w.entity.State != nil {
		require.Equal(w.t, run, w.state().GetBackgroundRun())
	}
	waits := before.GetStatus() == conversationpb.Status_WAITING
	require.False(w.t, decision.Delete && given.GetDelete().GetOnlyIdle() && run != "" && !waits)
}

// checkBy: a turn that somebody began, or let go on, is theirs.
func (w *walk) checkBy(given *conversationpb.Command, decision machine.Decision) {
	for _, event := range events(decision.Events) {
		started, resumed := event.GetTurnStarted(), event.GetTurnResumed()
		if queuedRun(w.queuedBefore, event.GetRunId()) {
			continue // checkQueue
		}
		if started == nil && (resumed == nil || given.GetDue() != nil || tooLate(decision)) {
			continue
		}
		lease, caller := w.state().GetLease(), given.GetCaller()
		require.Equal(w.t, caller.GetUserId(), lease.GetByUser())
		require.Equal(w.t, caller.GetTokenId(), lease.GetByToken())
		if started != nil {
			require.Equal(w.t, given.GetAgentVersion(), lease.GetAgentVersion())
		}
		if sealed := given.GetRuntimeContext(); started != nil || len(sealed) > 0 {
			require.Equal(w.t, string(sealed), string(lease.GetRuntimeContext()))
		}
	}
}

// wantSessions are the places in the lists of sessions that the conversation is to have.
func (w *walk) wantSessions(want *machinetest.Rows) {
	s := w.state()
	project := s.GetTenantId() + "/" + s.GetProjectId()
	names := []string{
		"session/a/" + project, "session/g/" + project + "/a%2F1", "session/u/" + project + "/" + machine.ListPart(s.GetUserId()),
	}
	switch {
	case s.GetLease() != nil:
		names = append(names, "session/s/"+project+"/running")
	case len(s.GetPending()) > 0:
		names = append(names, "session/s/"+project+"/requires_action")
	case s.GetContinuable() && s.GetBudget().GetOnReach() == "pause":
		names = append(names, "session/s/"+project+"/budget_paused")
	}
	for _, name := range names {
		want.Listings[machinetest.Place{List: name, Score: s.GetCreatedMicros(), Member: s.GetId()}] = ""
	}
}

// checkUsage: what stands in the rows of usage is what was spent and used, each model call once.
func (w *walk) checkUsage(t *tale) {
	s := w.state()
	used := slices.Clone(t.titles)
	open := s.GetLease()
	if open == nil {
		open = s.GetPaused()
	}
	if open.GetUsage() != nil {
		used = append(used, open.GetUsage())
	}
	for run, ended := range t.runs {
		if run != open.GetRunId() {
			used = append(used, ended.GetUsage())
		}
	}
	var tokens, calls, bare int64
	for _, usage := range used {
		tokens += usage.GetInputTokens()
		calls += int64(usage.GetModelCalls())
	}
	var total machine.UsageNumbers
	for key, numbers := range w.entity.Rows.Sums {
		require.Equal(w.t, "usage/"+s.GetTenantId()+"/"+s.GetProjectId(), key.Name)
		_, by, ok := machine.ParseUsageMember(key.Member)
		require.True(w.t, ok)
		require.Equal(w.t, "agents", by.Service)
		require.Equal(w.t, "a/1", by.Agent)
		require.Contains(w.t, []string{"", "m/1", "m2\uFFFD"}, by.Model)
		for i, number := range numbers {
			total[i] += number
		}
	}
	bare = total[machine.UsageRequests] - calls // turns that failed before any call
	require.Equal(w.t, s.GetSpentNanoUsd(), total[machine.UsageCostNanoUSD])
	require.Equal(w.t, tokens, total[machine.UsageInputTokens])
	require.EqualValues(w.t, t.failed, total[machine.UsageErrors])
	require.GreaterOrEqual(w.t, bare, int64(0))
	require.LessOrEqual(w.t, bare, total[machine.UsageErrors])
	require.Equal(w.t, s.GetSpentUnknown(), total[machine.UsageUnpriced] > 0)
}

package conversation_test

import (
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/machine/machinetest"
	"parley/proto/conversationpb"
)

// checkRows builds the rows anew from what there is, by other means than the rules do, and compares.
func (w *walk) checkRows() {
	s, want := w.state(), machinetest.NewRows()
	escape := strings.NewReplacer("%", "%25", "/", "%2F")
	pin := "o"
	if s.GetPinned() {
		pin = "p"
	}
	owner := strings.Join([]string{pin, s.GetTenantId(), s.GetProjectId(), escape.Replace(s.GetUserId())}, "/")
	for _, name := range []string{owner, owner + "/" + escape.Replace(s.GetAgentId())} {
		want.Listings[machinetest.Place{List: "conv/c/" + name, Score: s.GetCreatedMicros(), Member: s.GetId()}] = ""
		want.Listings[machinetest.Place{List: "conv/u/" + name, Score: s.GetUpdatedAt(), Member: s.GetId()}] = ""
		want.Counts["conv/n/"+name] = 1
	}
	if s.GetLease() != nil {
		place := machinetest.Place{List: conversation.ListRunning, Score: s.GetLease().GetStartedAt(), Member: s.GetId()}
		want.Listings[place] = ""
	}
	var times []int64
	for _, action := range s.GetPending() {
		times = append(times, action.GetExpiresAt())
	}
	for _, file := range s.GetFiles() {
		if file.GetExpiresAt() > 0 {
			times = append(times, file.GetExpiresAt())
		}
	}
	for _, push := range s.GetPushes() {
		if push.GetDelivery() != nil {
			times = append(times, push.GetDelivery().GetNextAt())
		}
	}
	if len(times) > 0 {
		want.Listings[machinetest.Place{List: conversation.ListDue, Score: slices.Min(times), Member: s.GetId()}] = ""
	}
	w.wantSessions(want)
	require.Equal(w.t, want.Listings, w.entity.Rows.Listings)
	require.Equal(w.t, want.Counts, w.entity.Rows.Counts)

	w.checkContent()

	t := told(events(w.entity.Journal))
	w.checkUsage(t)
	if answer := s.GetLastAnswer(); answer.GetId() != "" {
		stored := new(conversationpb.Message)
		w.row(conversation.TableMessages, string(conversation.MessageKey(answer.GetNumber())), stored)
		require.Equal(w.t, pendingOf(s.GetPending()), pendingOf(stored.GetPending()))
	}
	for run, ended := range t.runs {
		stored := new(conversationpb.Run)
		w.row(conversation.TableRuns, run, stored)
		require.Equal(w.t, ended.GetStopReason(), stored.GetStopReason())
		require.True(w.t, proto.Equal(ended.GetUsage(), stored.GetUsage()))
		require.NotZero(w.t, stored.GetUserMessage())
	}
	for i, step := range t.steps {
		stored := new(conversationpb.Step)
		w.row(conversation.TableSteps, string(conversation.StepKey(t.run, uint32(i+1))), stored)
		require.Equal(w.t, uint32(i+1), stored.GetNumber())
		require.Len(w.t, stored.GetResults().GetResults(), step)
	}
	rows := map[uint32]int{}
	for key := range w.entity.Rows.Items {
		rows[key.Table]++
	}
	require.Len(w.t, t.runs, rows[conversation.TableRuns])
	require.Len(w.t, t.steps, rows[conversation.TableSteps], "steps of an ended turn, or too few")
}

func (w *walk) row(table uint32, key string, into proto.Message) {
	row, found := w.entity.Rows.Items[machinetest.Item{Table: table, Key: key}]
	require.True(w.t, found, "no row %d %q", table, key)
	require.NoError(w.t, proto.Unmarshal([]byte(row), into))
}

func pendingOf(actions []*conversationpb.PendingAction) (ids []string) {
	for _, action := range actions {
		ids = append(ids, action.GetId())
	}
	return ids
}

// tale is what a journal says there is besides messages.
type tale struct {
	runs   map[string]*conversationpb.TurnEnded
	failed int                     // turns that ended in an error
	titles []*conversationpb.Usage // of model calls beside
	run    string                  // whose steps there are
	steps  []int                   // results in each
}

func told(journal []*conversationpb.Event) *tale {
	t := &tale{runs: map[string]*conversationpb.TurnEnded{}}
	for _, event := range journal {
		switch {
		case event.GetTurnStarted() != nil:
			t.run, t.steps = event.GetRunId(), nil
		case event.GetToolUse() != nil, event.GetPartial() != nil, event.GetTurnOptions() != nil:
			t.steps = append(t.steps, 0)
		case event.GetToolResults() != nil:
			t.steps = append(t.steps, len(event.GetToolResults().GetResults()))
		case event.GetActionClosed().GetResult() != nil:
			t.steps = append(t.steps, 1)
		case event.GetUpdated().GetUsage() != nil:
			t.titles = append(t.titles, event.GetUpdated().GetUsage())
		case event.GetTurnEnded() != nil:
			if event.GetTurnEnded().GetError() != nil {
				t.failed++
			}
			t.runs[event.GetRunId()] = event.GetTurnEnded()
			if !event.GetTurnEnded().GetContinuable() {
				t.steps = nil
			}
		}
	}
	return t
}

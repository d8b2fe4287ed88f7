package conversation_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley/actors/conversation"
	"parley/actors/machine"
	"parley/actors/machine/machinetest"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// TestWalk sends random commands, with crashes between any two of them, and checks after every step what must always
// be so.
func TestWalk(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := newWalk(t)
		w.seen = seen
		t.Repeat(map[string]func(*rapid.T){"": func(*rapid.T) {}, "step": func(*rapid.T) { w.step() }})
	})
	if testing.Short() {
		return // too few to meet everything
	}
	// A walk that never gets anywhere proves nothing.
	t.Logf("met: %v", seen)
	for _, what := range []string{
		"user.message", "agent.message", "session.status_running", "session.status_idle", "session.recovered",
		"session.cancel_requested", "session.updated", "delete", "resume", "wait", "repeat", "refused",
		"wait for silence",
		"session.truncated", "message.feedback", "file.added", "file.removed",
	} {
		require.NotZero(t, seen[what], "no walk met %s: %v", what, seen)
	}
}

type walk struct {
	t       *rapid.T
	entity  *machinetest.Entity
	env     machine.Env
	starts  int            // of the turn under way
	foreign string         // the last run that was active when an epoch began
	seen    map[string]int // what walks have met
	reads   []*conversationpb.Target
}

func newWalk(t *rapid.T) *walk {
	w := &walk{t: t, entity: machinetest.NewEntity(suite().Machine)}
	w.env = machine.Env{Node: "n1", Epoch: 1, Now: time.UnixMilli(1_000_000)}
	return w
}

func (w *walk) state() *conversationpb.State {
	s, _ := w.entity.State.(*conversationpb.State)
	return s
}

func (w *walk) step() {
	w.env.NewID = w.entity.NewID
	w.env.Now = w.env.Now.Add(time.Duration(rapid.IntRange(-5, 15_000).Draw(w.t, "ms")) * time.Millisecond)
	if rapid.IntRange(0, 9).Draw(w.t, "crash") == 7 {
		w.activate()
		return
	}
	w.do(w.command())
}

// activate loads the conversation again, on this or another node, in this epoch or a later one.
func (w *walk) activate() {
	if epochs := rapid.IntRange(0, 2).Draw(w.t, "epochs"); epochs > 0 {
		w.env.Epoch += uint64(epochs)
		w.env.EpochSince = w.env.Now
		if run := w.state().GetLease().GetRunId(); run != "" {
			w.foreign = run // whoever ran it may still be heard
		}
	}
	w.env.Node = rapid.SampledFrom([]string{"n1", "n2"}).Draw(w.t, "node")
	if w.entity.State == nil {
		return
	}
	raw, err := proto.Marshal(w.entity.State)
	require.NoError(w.t, err)
	loaded := w.entity.Machine.NewState()
	require.NoError(w.t, proto.Unmarshal(raw, loaded))
	w.entity.State = loaded
	command := w.entity.Machine.OnActivate(loaded, w.env)
	require.Equal(w.t, w.state().GetLease() != nil, command != nil, "recovery is asked for exactly while a turn is under way")
	if command != nil {
		w.do(command)
	}
}

func (w *walk) do(command proto.Message) {
	before := w.state()
	decision, failure, err := w.entity.Do(command, w.env)
	if err != nil {
		require.NoError(w.t, err, "%s", machinetest.Text(command))
	}
	if failure != nil {
		require.NotZero(w.t, failure.Code)
		w.seen["refused"]++
		return
	}
	w.meet(decision)
	w.checkEvents(before, decision)
	w.checkEffects(before, decision)
	w.checkSettled(before, decision)
	if w.entity.State == nil {
		require.Empty(w.t, w.entity.Rows.String(), "a deleted conversation leaves rows")
		return
	}
	w.checkState(before)
	w.checkRows()
}

func (w *walk) meet(decision machine.Decision) {
	for _, event := range events(decision.Events) {
		w.seen[event.PublicType()]++
	}
	for _, effect := range decision.Effects {
		if _, ok := effect.(conversation.ResumeTurn); ok {
			w.seen["resume"]++
		}
	}
	reply, _ := decision.Reply.(*conversationpb.Reply)
	switch {
	case decision.Delete:
		w.seen["delete"]++
	case decision.Wait != "":
		w.seen["wait"]++
	case len(decision.Events) == 0 && reply.GetAccepted() != nil:
		w.seen["repeat"]++
	}
}

// checkEvents: a turn starts only where none is, and ends only where one is.
func (w *walk) checkEvents(before *conversationpb.State, decision machine.Decision) {
	for _, event := range events(decision.Events) {
		switch event.GetBody().(type) {
		case *conversationpb.Event_TurnStarted:
			require.Nil(w.t, before.GetLease(), "two turns at once")
			w.starts = 1
		case *conversationpb.Event_TurnRecovered:
			w.starts++
			require.LessOrEqual(w.t, w.starts, 4*3)
			require.Less(w.t, event.GetTurnRecovered().GetQuick(), uint32(3))
			require.Equal(w.t, before.GetLease().GetRunId(), event.GetRunId())
		case *conversationpb.Event_TurnEnded, *conversationpb.Event_AgentMessage:
			require.Equal(w.t, before.GetLease().GetRunId(), event.GetRunId())
		}
	}
}

// checkEffects: no effect without its event. Stopping is urgent, and safe without one.
func (w *walk) checkEffects(before *conversationpb.State, decision machine.Decision) {
	started := slices.ContainsFunc(events(decision.Events), func(e *conversationpb.Event) bool {
		return e.GetTurnStarted() != nil || e.GetTurnRecovered() != nil
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
			require.Equal(w.t, w.state().GetLease().GetRunId(), effect.RunID)
			require.Equal(w.t, w.env.Epoch, effect.Epoch)
			require.NotNil(w.t, effect.UserMessage)
		case conversation.ResumeTurn:
			require.Empty(w.t, decision.Events)
			require.Equal(w.t, before.GetLease().GetRunId(), effect.RunID)
			require.Equal(w.t, w.env.Epoch, effect.Epoch)
		case conversation.TellFeedback, conversation.MeterTurn:
			require.NotEmpty(w.t, decision.Events)
		case machine.Timer:
			require.Positive(w.t, effect.After)
		default:
			require.Fail(w.t, "unknown effect", "%T", effect)
		}
	}
	require.Equal(w.t, started, starts == 1)
}

// checkSettled: whoever waits for a run waits for one that is active, and is told when it is no longer.
func (w *walk) checkSettled(before *conversationpb.State, decision machine.Decision) {
	loud := w.loud()
	if decision.Wait != "" {
		run := strings.TrimPrefix(decision.Wait, "cancel:")
		if run != w.state().GetLease().GetRunId() {
			require.True(w.t, loud, "only the silence of a former owner is worth waiting for")
			require.Len(w.t, decision.Effects, 1, "somebody tells it")
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
		require.False(w.t, reply.GetCancelled().GetSettled(), "settled too early")
	}
}

// loud says that a former owner may still be heard.
func (w *walk) loud() bool {
	return !w.env.EpochSince.IsZero() && w.env.Now.Sub(w.env.EpochSince) < conversation.DefaultLimits().TakeoverSilence
}

func (w *walk) checkState(before *conversationpb.State) {
	s := w.state()
	require.Equal(w.t, s.GetLease() != nil, s.GetStatus() == conversationpb.Status_RUNNING)
	if lease := s.GetLease(); lease != nil {
		require.NotEmpty(w.t, lease.GetNode())
		require.NotZero(w.t, lease.GetEpoch())
		require.Equal(w.t, s.GetLastRunId(), lease.GetRunId())
		require.Equal(w.t, s.GetLastUserMessage(), lease.GetUserMessage().GetNumber())
		require.NotEmpty(w.t, lease.GetUserMessage().GetContent())
	}
	require.GreaterOrEqual(w.t, s.GetSpentNanoUsd(), before.GetSpentNanoUsd())
	require.GreaterOrEqual(w.t, s.GetUpdatedAt(), before.GetUpdatedAt())
	require.LessOrEqual(w.t, len(s.GetOutcomes()), 3)
	folded := suite().Machine.Evolve(nil, w.entity.Journal)
	if !proto.Equal(s, folded) {
		require.Equal(w.t, machinetest.Text(s), machinetest.Text(folded), "the journal folds to another state")
	}
}

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
		want.Listings[machinetest.Place{List: "conv/c/" + name, Score: s.GetCreatedAt(), Member: s.GetId()}] = ""
		want.Listings[machinetest.Place{List: "conv/u/" + name, Score: s.GetUpdatedAt(), Member: s.GetId()}] = ""
		want.Counts["conv/n/"+name] = 1
	}
	if s.GetLease() != nil {
		place := machinetest.Place{List: conversation.ListRunning, Score: s.GetLease().GetStartedAt(), Member: s.GetId()}
		want.Listings[place] = ""
	}
	for place := range w.entity.Rows.Listings {
		if place.List == conversation.ListDue {
			want.Listings[place] = ""
		}
	}
	require.Equal(w.t, want.Listings, w.entity.Rows.Listings)
	require.Equal(w.t, want.Counts, w.entity.Rows.Counts)

	w.checkContent()
}

func events(messages []proto.Message) []*conversationpb.Event {
	list := make([]*conversationpb.Event, len(messages))
	for i, message := range messages {
		list[i], _ = message.(*conversationpb.Event)
	}
	return list
}

func (w *walk) command() *conversationpb.Command {
	t := w.t
	c := &conversationpb.Command{ConversationId: "conv_1"}
	if rapid.Bool().Draw(t, "with id") {
		c.CommandId = rapid.SampledFrom([]string{"k1", "k2", "k3", "k4", "k5", "k6"}).Draw(t, "command id")
	}
	c.Caller = &conversationpb.Caller{TenantId: "t", ProjectId: "p", UserId: "a/n%n", Identified: true}
	if rapid.IntRange(0, 19).Draw(t, "stranger") == 13 {
		c.Caller = rapid.SampledFrom([]*conversationpb.Caller{
			{TenantId: "t", ProjectId: "p", UserId: "bob", Identified: true},
			{TenantId: "t", ProjectId: "p", Trusted: true},
			{TenantId: "t", ProjectId: "p"},
			nil,
		}).Draw(t, "caller")
	}
	agent := &agentpb.Agent{Id: "a/1", Model: &agentpb.Model{}}
	if rapid.IntRange(0, 5).Draw(t, "unpriced") != 3 {
		agent.Model.Price = &agentpb.Price{}
	}
	lease := w.state().GetLease()
	kind := rapid.IntRange(1, 12).Draw(t, "kind")
	if lease == nil && kind < 8 {
		kind = rapid.SampledFrom([]int{1, 1, 1, 4, 5}).Draw(t, "idle kind")
	}
	if w.state() == nil {
		kind = rapid.SampledFrom([]int{12, 12, 12, 12, 1, 5}).Draw(t, "first")
	}
	if w.state() != nil && rapid.IntRange(0, 2).Draw(t, "content") == 1 {
		rapid.SampledFrom(w.contentCommands()).Draw(t, "content command")(c)
		return c
	}
	switch kind {
	case 12:
		c.Body = &conversationpb.Command_Create{Create: &conversationpb.Create{Agent: agent, Budget: w.budget()}}
	case 1, 2, 3:
		c.Body = &conversationpb.Command_Send{Send: &conversationpb.Send{
			Agent:    agent,
			Content:  rapid.SampledFrom([]string{"hi", "how are you", "x", "y", "z", "0", "", "\xff"}).Draw(t, "content"),
			Metadata: rapid.SampledFrom([][]byte{nil, []byte(`{"a":1}`), nil, nil, nil, nil, []byte(`[`)}).Draw(t, "metadata"),
			Wait:     rapid.Bool().Draw(t, "wait"),
		}}
	case 4:
		c.Body = &conversationpb.Command_Cancel{Cancel: &conversationpb.Cancel{
			SettleWaitMs: rapid.Int64Range(-1, 60_000).Draw(t, "settle"),
		}}
	case 5, 6, 7:
		c.Body = &conversationpb.Command_Finish{Finish: w.finish(lease)}
	case 8:
		c.Body = &conversationpb.Command_Update{Update: &conversationpb.Update{Agent: agent, Patch: w.patch()}}
	case 9:
		if rapid.IntRange(0, 3).Draw(t, "really") == 3 {
			c.Body = &conversationpb.Command_Delete{Delete: &conversationpb.Delete{OnlyIdle: rapid.Bool().Draw(t, "only idle")}}
		}
	case 10:
		c.Body = &conversationpb.Command_CancelTimeout{CancelTimeout: &conversationpb.CancelTimeout{
			RunId: w.run(lease), Final: rapid.Bool().Draw(t, "final"),
		}}
	default:
		c.Body = &conversationpb.Command_AwaitRun{AwaitRun: &conversationpb.AwaitRun{RunId: w.run(lease)}}
	}
	return c
}

// run is the active run, or another.
func (w *walk) run(lease *conversationpb.Lease) string {
	if rapid.IntRange(0, 4).Draw(w.t, "other run") == 3 {
		return rapid.SampledFrom([]string{"run_1", "run_2", "", "run_x"}).Draw(w.t, "run")
	}
	return lease.GetRunId()
}

func (w *walk) finish(lease *conversationpb.Lease) *conversationpb.Finish {
	t := w.t
	finish := &conversationpb.Finish{
		RunId:      w.run(lease),
		Content:    rapid.SampledFrom([]string{"", "fine", "cut \xff off"}).Draw(t, "answer"),
		StopReason: conversationpb.StopReason(rapid.IntRange(0, 8).Draw(t, "reason")),
		Usage: &conversationpb.Usage{
			CostNanoUsd: rapid.Int64Range(-5, 40).Draw(t, "cost"),
			Priced:      rapid.Bool().Draw(t, "was priced"),
			ModelCalls:  rapid.Int32Range(0, 2).Draw(t, "calls"),
		},
		Error: &conversationpb.TurnError{Code: "provider_error", Message: "bad \xfe text"},
	}
	if rapid.Bool().Draw(t, "says epoch") {
		finish.Epoch = lease.GetEpoch()
	}
	return finish
}

func (w *walk) budget() *conversationpb.Budget {
	if rapid.IntRange(0, 2).Draw(w.t, "no budget") < 2 {
		return nil
	}
	return &conversationpb.Budget{
		MaxCostNanoUsd: rapid.Int64Range(-1, 100).Draw(w.t, "max"),
		OnReach:        rapid.SampledFrom([]string{"", "pause", "stop", "x"}).Draw(w.t, "on reach"),
	}
}

func (w *walk) patch() *conversationpb.Patch {
	t := w.t
	patch := &conversationpb.Patch{Budget: w.budget()}
	if rapid.Bool().Draw(t, "has title") {
		patch.Title = proto.String(rapid.SampledFrom([]string{"", " x ", "y", "\xff"}).Draw(t, "title"))
	}
	if rapid.Bool().Draw(t, "has pinned") {
		patch.Pinned = proto.Bool(rapid.Bool().Draw(t, "pinned"))
	}
	if rapid.Bool().Draw(t, "has metadata") {
		patch.Metadata = rapid.SampledFrom([][]byte{{}, []byte(`{ "a": 1 }`), []byte(`{`)}).Draw(t, "patch metadata")
	}
	if patch.GetBudget() == nil {
		patch.RemoveBudget = rapid.Bool().Draw(t, "remove")
	}
	return patch
}

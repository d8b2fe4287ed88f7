package conversation_test

import (
	"flag"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley/actors/conversation"
	"parley/actors/machine"
	"parley/actors/machine/machinetest"
	"parley/proto/conversationpb"
)

// walkSteps is how many steps the walks take in all. PARLEY_WALK_STEPS says otherwise: a million, every night.
const (
	walkSteps   = 10_000
	walkPerTest = 100
)

// TestWalk sends random commands, with crashes and moves between any two of them, and checks after every step what must
// always be so. A walk that fails is printed with its seed (-rapid.seed) and made as short as can be.
func TestWalk(t *testing.T) {
	steps := walkSteps
	if asked, err := strconv.Atoi(os.Getenv("PARLEY_WALK_STEPS")); err == nil {
		steps = asked
	}
	setFlag(t, "rapid.steps", strconv.Itoa(walkPerTest))
	setFlag(t, "rapid.shrinktime", "5s")
	setFlag(t, "rapid.checks", strconv.Itoa(max(1, steps/walkPerTest)))
	seen := map[string]int{}
	walk := func() {
		for name, limits := range map[string]conversation.Limits{"refusing": walkLimits("deny", "refuse"), "cancelling": walkLimits("cancel", "cancel")} {
			t.Run(name, func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					w := newWalk(t, limits)
					w.seen = seen
					t.Repeat(map[string]func(*rapid.T){"": func(*rapid.T) {}, "step": func(*rapid.T) { w.step() }})
				})
			})
		}
	}
	walk()
	if testing.Short() {
		return // too few to meet everything
	}
	// A walk that never gets anywhere proves nothing. What is rare is not met by every ten thousand steps.
	const most = 10
	for range most - 1 {
		if t.Failed() || !slices.ContainsFunc(toMeet(), func(what string) bool { return seen[what] == 0 }) {
			break
		}
		walk()
	}
	t.Logf("met: %v", seen)
	for _, what := range toMeet() {
		require.NotZero(t, seen[what], "no walk met %s", what)
	}
}

// toMeet is what the walks are to meet.
func toMeet() []string {
	return []string{
		"user.message", "agent.message", "session.status_running", "session.status_idle", "session.recovered",
		"session.cancel_requested", "session.updated", "delete", "resume", "wait", "repeat", "refused",
		"wait for silence", "session.status_waiting", "agent.tool_use", "agent.tool_result", "budget.reserved",
		"session.usage", "budget.reached", "action.requested", "action.resolved", "action.expired", "action.cancelled",
		"tool.remembered", "tool.forgotten", "agent.partial", "meter", "lost call", "unknown outcome", "continue", "too late",
		"session.truncated", "message.feedback", "file.added", "file.removed",
		"regenerated, completed", "regenerated, requires_action",
		"made with the message", "files with the message",
		"carried agent",
		"held", "let go", "begun for a run", "refused, held", "message.queued", "message.unqueued", "begun from the queue", "waits in the queue", "interrupted",
		"queue refused", "being told", "told", "told again",
	}
}

func setFlag(t *testing.T, name, value string) {
	t.Helper()
	was := flag.Lookup(name).Value.String()
	require.NoError(t, flag.Set(name, value))
	t.Cleanup(func() { require.NoError(t, flag.Set(name, was)) })
}

func walkLimits(onTimeout, pending string) conversation.Limits {
	limits := suiteLimits()
	limits.OnActionTimeout, limits.PendingPolicy = onTimeout, pending
	if pending == "cancel" {
		limits.Queue = 1
	}
	return limits
}

type walk struct {
	t       *rapid.T
	rules   machine.Machine
	limits  conversation.Limits
	entity  *machinetest.Entity
	env     machine.Env
	starts  int            // of the turn under way
	foreign string         // the last run that was active when an epoch began
	ceiling int64          // what may be spent at most under the budget in force
	seen    map[string]int // what walks have met
	reads   []*conversationpb.Target

	queuedBefore *conversationpb.State // before the last step
}

func newWalk(t *rapid.T, limits conversation.Limits) *walk {
	rules := conversation.New(limits)
	w := &walk{t: t, rules: rules, limits: limits, entity: machinetest.NewEntity(rules)}
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
	command := w.command()
	w.t.Logf("%s", machinetest.Text(command))
	w.do(command)
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
	require.Equal(w.t, w.state().GetLease() != nil || conversation.Telling(w.state()), command != nil, "recovery is asked for exactly while a turn, or a push, is under way")
	if command != nil {
		w.do(command)
	}
}

func (w *walk) do(command proto.Message) {
	before := w.state()
	w.checkCarried(command)
	decision, failure, err := w.entity.Do(command, w.env)
	if err != nil {
		require.NoError(w.t, err, "%s", machinetest.Text(command))
	}
	given, _ := command.(*conversationpb.Command)
	if failure != nil {
		require.NotZero(w.t, failure.Code)
		w.seen["refused"]++
		if _, full := failure.Details["queued"]; full {
			w.seen["queue refused"]++
		}
		if failure.Details["activeRunId"] == before.GetBackgroundRun() {
			w.seen["refused, held"]++
		}
		return
	}
	w.queuedBefore = before
	w.meet(before, decision)
	w.checkEvents(before, decision)
	w.checkEffects(before, decision)
	w.checkSettled(before, decision)
	w.checkCancel(before, given, decision)
	w.checkHold(before, given, decision)
	w.checkBy(given, decision)
	if w.entity.State == nil {
		clear(w.entity.Rows.Sums) // they stay, and the next one's are counted from none
		w.reads = nil             // the next one has another id, only here it has not
		require.Empty(w.t, w.entity.Rows.String(), "a deleted conversation leaves rows")
		return
	}
	w.checkState(before)
	w.checkPushes(before, decision)
	w.checkQueue(before, decision)
	w.checkMoney(before, decision)
	w.checkRows()
	w.checkWayOut()
}

func (w *walk) meet(before *conversationpb.State, decision machine.Decision) {
	added := false
	for _, event := range events(decision.Events) {
		added = added || event.GetFileAdded() != nil
		if event.GetUserMessage() != nil && decision.Create {
			w.seen["made with the message"]++
		}
		if event.GetUserMessage() != nil && added {
			w.seen["files with the message"]++
		}
		w.seen[event.PublicType()]++
		switch {
		case event.GetTurnRecovered() != nil && before.GetLease().GetReservedNanoUsd() > 0:
			w.seen["lost call"]++
		case event.GetActionRequested().GetAction().GetUnknownOutcome():
			w.seen["unknown outcome"]++
		case event.GetTurnResumed().GetLease().GetMode() == conversationpb.Mode_CONTINUE:
			w.seen["continue"]++
		}
	}
	for _, effect := range decision.Effects {
		switch effect.(type) {
		case conversation.ResumeTurn:
			w.seen["resume"]++
		case conversation.MeterTurn:
			w.seen["meter"]++
		}
	}
	reply, _ := decision.Reply.(*conversationpb.Reply)
	switch {
	case decision.Delete:
		w.seen["delete"]++
	case tooLate(decision):
		w.seen["too late"]++
	case decision.Wait != "":
		w.seen["wait"]++
	case len(decision.Events) == 0 && reply.GetAccepted() != nil:
		w.seen["repeat"]++
	}
}

func events(messages []proto.Message) []*conversationpb.Event {
	list := make([]*conversationpb.Event, len(messages))
	for i, message := range messages {
		list[i], _ = message.(*conversationpb.Event)
	}
	return list
}

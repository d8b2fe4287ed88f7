package conversation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/machine"
	"parley/actors/machine/machinetest"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// talk is a conversation under real limits, one command after the other.
type talk struct {
	t      *testing.T
	entity *machinetest.Entity
	env    machine.Env
}

func newTalk(t *testing.T, limits conversation.Limits) *talk {
	t.Helper()
	talk := &talk{t: t, entity: machinetest.NewEntity(conversation.New(limits))}
	talk.env = machine.Env{Node: "n1", Epoch: 1, Now: time.UnixMilli(1000), NewID: talk.entity.NewID}
	talk.do(&conversationpb.Command{Body: &conversationpb.Command_Create{Create: &conversationpb.Create{Agent: agent()}}})
	return talk
}

func (k *talk) state() *conversationpb.State {
	s, _ := k.entity.State.(*conversationpb.State)
	return s
}

func (k *talk) try(command *conversationpb.Command) (machine.Decision, *machine.Failure) {
	k.t.Helper()
	prepare(command)
	k.env.Now = k.env.Now.Add(time.Second)
	decision, failure, err := k.entity.Do(command, k.env)
	require.NoError(k.t, err)
	return decision, failure
}

func (k *talk) do(command *conversationpb.Command) machine.Decision {
	k.t.Helper()
	decision, failure := k.try(command)
	require.Nil(k.t, failure)
	return decision
}

// exchange is a message and its answer.
func (k *talk) exchange(message, answer string) {
	k.t.Helper()
	k.do(&conversationpb.Command{Body: &conversationpb.Command_Send{Send: &conversationpb.Send{Content: message}}})
	k.answer(answer)
}

func (k *talk) answer(text string) {
	k.t.Helper()
	k.do(&conversationpb.Command{Body: &conversationpb.Command_Finish{Finish: &conversationpb.Finish{
		RunId: k.state().GetLease().GetRunId(), Content: text, StopReason: conversationpb.StopReason_END_TURN,
	}}})
}

// message reads a row.
func (k *talk) message(number uint64) *conversationpb.Message {
	k.t.Helper()
	row, ok := k.entity.Rows.Items[machinetest.Item{Table: conversation.TableMessages, Key: string(conversation.MessageKey(number))}]
	require.True(k.t, ok, "message %d", number)
	message := new(conversationpb.Message)
	require.NoError(k.t, proto.Unmarshal([]byte(row), message))
	return message
}

func (k *talk) target(number uint64) *conversationpb.Target {
	k.t.Helper()
	return &conversationpb.Target{Message: k.message(number), AsOf: k.state().GetLastSeq()}
}

func (k *talk) regenerate() *conversationpb.Command {
	k.t.Helper()
	last := k.state().GetNextMessage() - 1
	return &conversationpb.Command{Body: &conversationpb.Command_Regenerate{Regenerate: &conversationpb.Regenerate{
		Target: k.target(last), UserMessage: k.message(k.state().GetLastUserMessage()),
	}}}
}

// TestFormerContentsAreBounded: large answers are forgotten before there are five of them.
func TestFormerContentsAreBounded(t *testing.T) {
	talk := newTalk(t, conversation.DefaultLimits())
	talk.exchange("tell me all", strings.Repeat("a", 300<<10))
	for _, letter := range "bcdef" {
		talk.do(talk.regenerate())
		talk.answer(strings.Repeat(string(letter), 300<<10))
	}
	last := talk.message(2)
	require.Equal(t, "f", last.GetContent()[:1])
	size := 0
	for i, content := range last.GetPreviousContent() {
		require.Equal(t, "cde"[i:i+1], content[:1], "newest last")
		size += len(content)
	}
	require.Len(t, last.GetPreviousContent(), 3)
	require.LessOrEqual(t, size, 1<<20)

	talk.do(talk.regenerate())
	talk.answer("short")
	talk.do(talk.regenerate())
	talk.answer("")
	require.Empty(t, talk.message(2).GetContent())
	talk.do(talk.regenerate())
	talk.answer("again")
	previous := talk.message(2).GetPreviousContent()
	require.Equal(t, "short", previous[len(previous)-1], "an answer without text is not worth remembering")
	require.EqualValues(t, 2, talk.state().GetMessageCount())
}

// TestPlacesNotNumbers: however often messages are edited and answered anew, those that are there are 1, 2, 3, ..., and
// each row is found by its id.
func TestPlacesNotNumbers(t *testing.T) {
	talk := newTalk(t, conversation.DefaultLimits())
	for i := range 3 {
		talk.exchange(fmt.Sprint("m", i), fmt.Sprint("a", i))
	}
	for round := range 12 {
		number := uint64(1 + 2*(round%3))
		if number >= talk.state().GetNextMessage() {
			talk.exchange("more", "fine")
			continue
		}
		talk.do(&conversationpb.Command{Body: &conversationpb.Command_Edit{Edit: &conversationpb.Edit{
			Target: talk.target(number), Content: fmt.Sprint("e", round),
		}}})
		talk.answer("fine")
		talk.do(talk.regenerate())
		talk.answer("finer")
		require.Equal(t, number+2, talk.state().GetNextMessage())
		require.Equal(t, number+1, talk.state().GetMessageCount())
	}
	for number := uint64(1); number < talk.state().GetNextMessage(); number++ {
		message := talk.message(number)
		require.Equal(t, number, message.GetNumber())
		id := machinetest.Item{Table: conversation.TableMessageIDs, Key: message.GetId()}
		require.Equal(t, string(conversation.MessageKey(number)), talk.entity.Rows.Items[id])
	}
	require.EqualValues(t, talk.state().GetMessageCount(), rowsOf(talk.entity, conversation.TableMessages))
}

func rowsOf(entity *machinetest.Entity, table uint32) int {
	n := 0
	for item := range entity.Rows.Items {
		if item.Table == table {
			n++
		}
	}
	return n
}

// TestMakingWay: with the policy cancel, a waiting turn makes way for a regenerate and for an edit as for a new message.
func TestMakingWay(t *testing.T) {
	limits := conversation.DefaultLimits()
	limits.PendingPolicy = "cancel"
	waiting := func() *talk {
		talk := newTalk(t, limits)
		talk.do(&conversationpb.Command{Body: &conversationpb.Command_Send{Send: &conversationpb.Send{Content: "go"}}})
		talk.do(&conversationpb.Command{Body: &conversationpb.Command_Progress{Progress: &conversationpb.Progress{
			RunId: talk.state().GetLease().GetRunId(), Step: 1, Content: "I ask.",
			Body: &conversationpb.Progress_Use{Use: &conversationpb.ToolUse{
				Calls: []*conversationpb.ToolCall{{Id: "c1", Name: "ask_user", Arguments: "{}"}},
				Open:  []*conversationpb.OpenCall{{Id: "c1", Name: "ask_user", Need: conversationpb.Need_QUESTION}},
			}},
		}}})
		require.Equal(t, conversationpb.Status_WAITING, talk.state().GetStatus())
		return talk
	}
	talk := waiting()
	talk.do(talk.regenerate())
	require.Equal(t, conversationpb.Status_RUNNING, talk.state().GetStatus())
	require.Nil(t, talk.state().GetPaused())
	require.Empty(t, talk.state().GetPending())
	require.Equal(t, "cancelled", talk.message(2).GetStatus())
	talk.answer("Done.")
	require.Equal(t, []string{"I ask."}, talk.message(2).GetPreviousContent())
	require.Zero(t, rowsOf(talk.entity, conversation.TableSteps))

	talk = waiting()
	talk.do(&conversationpb.Command{Body: &conversationpb.Command_Edit{Edit: &conversationpb.Edit{
		Target: talk.target(1), Content: "stop",
	}}})
	require.EqualValues(t, 1, talk.state().GetMessageCount())
	require.Equal(t, 1, rowsOf(talk.entity, conversation.TableMessages))
	require.Zero(t, rowsOf(talk.entity, conversation.TableSteps))
	talk.answer("Stopped.")
	require.Equal(t, 2, rowsOf(talk.entity, conversation.TableRuns))
}

// TestRegenerateThatWaits: the answer is replaced when the turn pauses, and what it waits with is replaced at its end.
func TestRegenerateThatWaits(t *testing.T) {
	talk := newTalk(t, conversation.DefaultLimits())
	talk.exchange("go", "Gone.")
	first := talk.message(2).GetId()
	command := talk.regenerate()
	command.GetRegenerate().Metadata = []byte(`{"a":1}`)
	talk.do(command)
	run := talk.state().GetLease().GetRunId()
	talk.do(&conversationpb.Command{Body: &conversationpb.Command_Progress{Progress: &conversationpb.Progress{
		RunId: run, Step: 1, Content: "May I?",
		Body: &conversationpb.Progress_Use{Use: &conversationpb.ToolUse{
			Calls: []*conversationpb.ToolCall{{Id: "c1", Name: "ask_user", Arguments: "{}"}},
			Open:  []*conversationpb.OpenCall{{Id: "c1", Name: "ask_user", Need: conversationpb.Need_QUESTION}},
		}},
	}}})
	paused := talk.message(2)
	require.Equal(t, "requires_action", paused.GetStatus())
	require.Equal(t, first, paused.GetRegeneratedFrom())
	require.Equal(t, []string{"Gone."}, paused.GetPreviousContent())
	require.JSONEq(t, `{"a":1}`, string(paused.GetMetadata()))
	_, failure := talk.try(&conversationpb.Command{Body: &conversationpb.Command_Rate{Rate: &conversationpb.Rate{
		Target: talk.target(2), Rating: "up",
	}}})
	require.NotNil(t, failure)
	require.Equal(t, failurepb.Code_INVALID_MESSAGE_TARGET, failure.Code)

	talk.do(&conversationpb.Command{Body: &conversationpb.Command_Resolve{Resolve: &conversationpb.Resolve{
		ActionId:   talk.state().GetPending()[0].GetId(),
		Resolution: &conversationpb.Resolve_Answers{Answers: &conversationpb.UserAnswers{Answers: []byte(`{"q":"yes"}`)}},
	}}})
	talk.answer("May I? Thanks.")
	final := talk.message(2)
	require.Equal(t, paused.GetId(), final.GetId())
	require.Equal(t, first, final.GetRegeneratedFrom())
	require.Equal(t, []string{"Gone."}, final.GetPreviousContent())
	require.JSONEq(t, `{"a":1}`, string(final.GetMetadata()))
	require.EqualValues(t, 2, talk.state().GetMessageCount())
	require.Equal(t, 2, rowsOf(talk.entity, conversation.TableMessages))
	require.Equal(t, 2, rowsOf(talk.entity, conversation.TableMessageIDs))
	require.Zero(t, rowsOf(talk.entity, conversation.TableSteps))
	talk.do(&conversationpb.Command{Body: &conversationpb.Command_Rate{Rate: &conversationpb.Rate{
		Target: talk.target(2), Rating: "up",
	}}})
}

// TestHeadOfAnOlderRelease: a conversation whose head does not say what its newest answer is can be regenerated.
func TestHeadOfAnOlderRelease(t *testing.T) {
	talk := newTalk(t, conversation.DefaultLimits())
	talk.exchange("hello", "hi")
	talk.state().LastAnswer = nil
	command := talk.regenerate()
	decision := talk.do(command)
	require.Len(t, decision.Events, 1)
	talk.answer("hello")
	require.EqualValues(t, 2, talk.state().GetMessageCount())
	require.Equal(t, []string{"hi"}, talk.message(2).GetPreviousContent())
}

// TestBadTextOfContent: text that is not UTF-8 never comes in through strings of a script.
func TestBadTextOfContent(t *testing.T) {
	bad := "caf\xe9"
	files := &agentpb.Agent{Capabilities: &agentpb.Capabilities{Attachments: &agentpb.Attachments{Enabled: true}}}
	talk := newTalk(t, conversation.DefaultLimits())
	talk.exchange("hello", "hi")
	for name, want := range map[string]failurepb.Code{
		"comment": failurepb.Code_INVALID_FEEDBACK, "reason": failurepb.Code_INVALID_FEEDBACK,
		"edit": failurepb.Code_VALIDATION, "regenerate": failurepb.Code_VALIDATION,
		"file name": failurepb.Code_VALIDATION, "file type": failurepb.Code_VALIDATION,
		"file metadata": failurepb.Code_VALIDATION, "file id": failurepb.Code_NOT_FOUND,
		"server metadata": failurepb.Code_VALIDATION, "many ids": failurepb.Code_VALIDATION,
	} {
		command := map[string]*conversationpb.Command{
			"comment": {Body: &conversationpb.Command_Rate{Rate: &conversationpb.Rate{
				Target: talk.target(2), Rating: "up", Comment: bad,
			}}},
			"reason": {Body: &conversationpb.Command_Rate{Rate: &conversationpb.Rate{
				Target: talk.target(2), Rating: "down", Reasons: []string{bad},
			}}},
			"edit": {Body: &conversationpb.Command_Edit{Edit: &conversationpb.Edit{Target: talk.target(1), Content: bad}}},
			"regenerate": {Body: &conversationpb.Command_Regenerate{Regenerate: &conversationpb.Regenerate{
				Target: talk.target(2), UserMessage: talk.message(1), Metadata: []byte(bad),
			}}},
			"file name": {Body: &conversationpb.Command_AddFile{AddFile: &conversationpb.AddFile{
				Agent: files, File: &conversationpb.File{Id: "file_1", Name: bad},
			}}},
			"file type": {Body: &conversationpb.Command_AddFile{AddFile: &conversationpb.AddFile{
				Agent: files, File: &conversationpb.File{Id: "file_1", Name: "a", MimeType: bad},
			}}},
			"file metadata": {Body: &conversationpb.Command_AddFile{AddFile: &conversationpb.AddFile{
				Agent: files, File: &conversationpb.File{Id: "file_1", Name: "a", Metadata: []byte(bad)},
			}}},
			"file id": {Body: &conversationpb.Command_Send{Send: &conversationpb.Send{Content: "x", FileIds: []string{bad}}}},
			"many ids": {Body: &conversationpb.Command_Send{Send: &conversationpb.Send{
				Content: "x", FileIds: make([]string, 1001),
			}}},
			"server metadata": {ConversationId: "conv_2", Body: &conversationpb.Command_Create{Create: &conversationpb.Create{
				Agent: agent(), ServerMetadata: []byte(`{"parley.a":"` + bad + `"}`),
			}}},
		}[name]
		if command.GetCreate() != nil {
			prepare(command)
			_, failure := talk.entity.Machine.Decide(nil, command, talk.env)
			require.NotNil(t, failure, name)
			require.Equal(t, want, failure.Code, name)
			continue
		}
		_, failure := talk.try(command)
		require.NotNil(t, failure, name)
		require.Equal(t, want, failure.Code, name)
		_, err := proto.Marshal(&conversationpb.Refused{Message: failure.DefaultText()})
		require.NoError(t, err, name)
	}
	// A model's title is not refused, it is made fit.
	talk.do(&conversationpb.Command{Body: &conversationpb.Command_SetTitle{SetTitle: &conversationpb.SetTitle{
		RunId: "run_1", Title: bad + strings.Repeat(" ö", 300),
	}}})
	require.True(t, talk.state().GetTitleGenerated())
	require.Len(t, []rune(talk.state().GetTitle()), 199, "of 200 the last is a blank")
}

// TestMetering: a turn that runs hears of a budget, one that does not run needs not to.
func TestMetering(t *testing.T) {
	talk := newTalk(t, conversation.DefaultLimits())
	budget := func(most int64) *conversationpb.Command {
		return &conversationpb.Command{Body: &conversationpb.Command_Update{Update: &conversationpb.Update{
			Patch: &conversationpb.Patch{Budget: &conversationpb.Budget{MaxCostNanoUsd: most}},
		}}}
	}
	require.Empty(t, talk.do(budget(1000)).Effects)
	talk.do(&conversationpb.Command{Body: &conversationpb.Command_Send{Send: &conversationpb.Send{Content: "go"}}})
	run := talk.state().GetLease().GetRunId()
	require.Equal(t, []machine.Effect{conversation.MeterTurn{RunID: run}}, talk.do(budget(2000)).Effects)
	require.Empty(t, talk.do(budget(2000)).Effects, "nothing changed")
	title := &conversationpb.Command{Body: &conversationpb.Command_Update{Update: &conversationpb.Update{
		Patch: &conversationpb.Patch{Title: proto.String("x")},
	}}}
	require.Empty(t, talk.do(title).Effects)
}

package actors

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/core/failure"
	"parley/actors/deliver"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/actors/task"
	"parley/actors/turn"
	"parley/actors/turn/model"
	"parley/actors/turn/tool"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/taskpb"
)

// shelves reads what the journal in memory holds of conversations, as the runner and the tasks want it.
type shelves struct{ journal *journal }

// rows visits the rows of a table, in order, whose key begins with a prefix.
func (s shelves) rows(id string, table byte, prefix string, visit func(value []byte)) bool {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	e := s.journal.entities[id]
	if e == nil {
		return false
	}
	for _, key := range slices.Sorted(maps.Keys(e.items)) {
		if strings.HasPrefix(key, string(table)+prefix) {
			visit(e.items[key])
		}
	}
	return true
}

func decoded[M proto.Message](raw []byte, into M) M {
	if err := proto.Unmarshal(raw, into); err != nil {
		panic(err)
	}
	return into
}

func (s shelves) messages(id string) (all []*conversationpb.Message) {
	s.rows(id, conversation.TableMessages, "", func(row []byte) {
		all = append(all, decoded(row, &conversationpb.Message{}))
	})
	return all
}

func (s shelves) Before(_ context.Context, id string, number uint64, visit func(*conversationpb.Message) bool) error {
	for _, message := range slices.Backward(s.messages(id)) {
		if message.GetNumber() < number && !visit(message) {
			break
		}
	}
	return nil
}

func (s shelves) Steps(_ context.Context, id, runID string) (steps []*conversationpb.Step, _ error) {
	s.rows(id, conversation.TableSteps, runID, func(row []byte) {
		steps = append(steps, decoded(row, &conversationpb.Step{}))
	})
	return steps, nil
}

func (s shelves) Turn(_ context.Context, id, runID string) (*conversationpb.TurnResult, error) {
	turn := &conversationpb.TurnResult{RunId: runID}
	found := false
	s.rows(id, conversation.TableRuns, runID, func(row []byte) {
		found = true
		run := decoded(row, &conversationpb.Run{})
		turn.StopReason, turn.Usage, turn.Error = run.GetStopReason(), run.GetUsage(), run.GetError()
	})
	for _, message := range s.messages(id) {
		if message.GetRunId() == runID && message.GetRole() == conversationpb.Role_ASSISTANT {
			turn.Response = message
		}
	}
	if state := s.journal.state(id); !found && state.GetPaused().GetRunId() == runID {
		turn.StopReason, turn.Pending = state.GetStopReason(), state.GetPending()
	} else if !found {
		return nil, failure.Verbatim(failurepb.Code_NOT_FOUND, "no such turn")
	}
	return turn, nil
}

// thinker is a model that answers what it is asked as its function says; a text that begins with "?" asks the user.
type thinker func(ctx context.Context, asked string) (string, error)

func (thinker) NeedsHistory() bool { return true }

func (f thinker) Generate(ctx context.Context, request *model.Request, stream model.Stream) (*model.Answer, error) {
	last := request.Messages[len(request.Messages)-1]
	said, err := f(ctx, last.Content)
	if err != nil {
		return nil, err
	}
	answer := &model.Answer{Stop: model.StopEnd, Usage: model.Usage{InputTokens: 2, OutputTokens: 3, Known: true}}
	if question, asks := strings.CutPrefix(said, "?"); asks {
		arguments, err := json.Marshal(map[string]any{"questions": []any{map[string]any{"question": question}}})
		if err != nil {
			return nil, err
		}
		answer.Stop = model.StopTools
		answer.ToolCalls = []model.ToolCall{{ID: fmt.Sprint("call_", request.Step), Name: tool.AskUser, Arguments: string(arguments)}}
		stream.ToolCall(answer.ToolCalls[0])
		return answer, nil
	}
	stream.Text(said)
	answer.Text = said
	return answer, nil
}

// asker is an agent that may ask. It is not active while asleep is set.
type asker struct{ asleep *atomic.Bool }

func (a asker) Agent(_, id string, _ int64) (*agentpb.Agent, bool) {
	status := "active"
	if a.asleep != nil && a.asleep.Load() {
		status = "inactive"
	}
	return &agentpb.Agent{
		Id: id, Status: status, Model: &agentpb.Model{Provider: agentpb.Provider_SCRIPTED, ApiKey: askerKey}, AskUser: &agentpb.AskUser{},
		Capabilities: &agentpb.Capabilities{AskUser: true},
	}, id != "gone"
}

// askerKey is a secret of the agent: no command to a conversation may carry it.
const askerKey = "sk-of-the-asker"

// sealed is the rules of conversations, and fails a test whose commands carry the agent's secrets.
type sealed struct {
	machine.Machine
	t *testing.T
}

func (s sealed) Decide(state, command proto.Message, env machine.Env) (machine.Decision, *machine.Failure) {
	if raw, err := proto.Marshal(command); err != nil || bytes.Contains(raw, []byte(askerKey)) {
		s.t.Errorf("a command carries a secret: %v (%v)", command, err) // not on the test's goroutine
	}
	return s.Machine.Decide(state, command, env)
}

const taskID = "task_1"

// workshopIDs mints for all workshops: the next node must not mint what the one before has.
var workshopIDs testIDs

// workshop is a shell with the real rules of tasks and conversations, the real runner, and tools.
func workshop(t *testing.T, j *journal, think thinker) *shell {
	t.Helper()
	return workshopThat(t, j, think, task.Watch)
}

// workshopThat is one whose tasks hear of their conversations by watch.
func workshopThat(t *testing.T, j *journal, think thinker, watch func(*Kind, kit.Pool)) *shell {
	t.Helper()
	feeds := NewLiveStreams(LiveStreamsConfig{})
	guard := deliver.NewGuard(deliver.GuardConfig{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	tools, err := tool.New(tool.Config{Guard: guard})
	require.NoError(t, err)
	t.Cleanup(tools.Close)
	runner, err := turn.New(turn.Config{
		Agents: asker{}, History: shelves{j}, Publisher: feeds, Tools: tools,
		Providers: map[agentpb.Provider]model.Provider{agentpb.Provider_SCRIPTED: think},
	})
	require.NoError(t, err)
	poster, err := deliver.NewPoster(deliver.PosterConfig{Guard: guard})
	require.NoError(t, err)
	workers, err := NewPool(PoolConfig{Gauge: "tasks"})
	require.NoError(t, err)
	tasks := task.New(task.DefaultLimits(), task.Config{
		Agents: asker{}, Records: shelves{j}, Pool: workers, Secret: "s3",
		Callbacks: newDeliveries(t).Callbacks(CallbacksConfig{Poster: poster, Name: "callbacks"}),
	})
	conversations := Conversations(sealed{conversation.New(lasting()), t}, runner, feeds, nil)
	watch(&conversations, workers)
	return newShell(t, j, 1, func(c *Config) {
		c.LiveStreams, c.IDs = feeds, &workshopIDs
		c.Kinds = []Kind{conversations, tasks}
	})
}

func newDeliveries(t *testing.T) *Deliveries {
	t.Helper()
	deliveries, err := NewDeliveries(DeliveriesConfig{})
	require.NoError(t, err)
	return deliveries
}

func (s *shell) onTask(t *testing.T, command *taskpb.Command) (*taskpb.Reply, error) {
	t.Helper()
	command.TaskId = taskID
	command.CommandId = fmt.Sprint("cmd_", commandIDs.Add(1))
	command.Caller = &conversationpb.Caller{TenantId: "t", ProjectId: "p", UserId: "u", Identified: true}
	answer, err := s.Ask(t.Context(), testShard, taskID, command)
	reply, _ := answer.(*taskpb.Reply)
	return reply, err
}

func (s *shell) createTask(t *testing.T, create *taskpb.Create) {
	t.Helper()
	create.ConversationId = testID
	if create.GetAgentId() == "" {
		create.AgentId = "a"
	}
	_, err := s.onTask(t, &taskpb.Command{Body: &taskpb.Command_Create{Create: create}})
	require.NoError(t, err)
}

func (s *shell) comment(t *testing.T, text string) *taskpb.State {
	t.Helper()
	reply, err := s.onTask(t, &taskpb.Command{Body: &taskpb.Command_AddComment{AddComment: &taskpb.AddComment{Content: text}}})
	require.NoError(t, err)
	return reply.GetTask()
}

func (s *shell) cancelTask(t *testing.T) *taskpb.State {
	t.Helper()
	reply, err := s.onTask(t, &taskpb.Command{Body: &taskpb.Command_Cancel{Cancel: &taskpb.Cancel{}}})
	require.NoError(t, err)
	return reply.GetTask()
}

// task is the stored one, and its result.
func (j *journal) task(t *testing.T) (*taskpb.State, *taskpb.Result) {
	t.Helper()
	result := &taskpb.Result{}
	shelves{j}.rows(taskID, task.TableResults, "", func(row []byte) { decoded(row, result) })
	j.mu.Lock()
	defer j.mu.Unlock()
	return decoded(j.entities[taskID].head.State, &taskpb.State{}), result
}

// turns counts the turns that were begun in the task's conversation.
func (j *journal) turns(t *testing.T) (started int) {
	t.Helper()
	for _, event := range j.log(t, testID) {
		if event.GetTurnStarted() != nil {
			started++
		}
	}
	return started
}

// idle waits until nothing happens any more.
func idle(t *testing.T) {
	t.Helper()
	time.Sleep(5 * time.Second)
	synctest.Wait()
}

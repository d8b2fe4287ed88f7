package actors

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/core/failure"
	"parley/actors/deliver"
	"parley/actors/queue"
	"parley/actors/run"
	"parley/actors/turn"
	"parley/actors/turn/model"
	"parley/actors/turn/tool"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/runpb"
)

// State makes shelves the records of runs.
func (s shelves) State(_ context.Context, id string) (*conversationpb.State, error) {
	if state := s.journal.state(id); state != nil {
		return state, nil
	}
	return nil, failure.Verbatim(failurepb.Code_NOT_FOUND, "no such conversation")
}

// records are shelves of which a test hears before a turn is read.
type records struct {
	shelves

	reads *atomic.Pointer[func()]
}

func (r records) Turn(ctx context.Context, id, runID string) (*conversationpb.TurnResult, error) {
	if reads := r.reads.Load(); reads != nil {
		(*reads)()
	}
	return r.shelves.Turn(ctx, id, runID)
}

// near reaches queues and runs in the one shard of a system.
type near struct {
	system atomic.Pointer[System]      // nil = it cannot be reached yet
	lose   atomic.Pointer[func() bool] // whether a notice to a run is lost; nil = none is
}

// Ask implements entity.Client.
func (n *near) Ask(ctx context.Context, id string, command proto.Message) (proto.Message, error) {
	if _, notice := command.(*runpb.Command); notice {
		if lose := n.lose.Load(); lose != nil && (*lose)() {
			return nil, context.DeadlineExceeded
		}
	}
	system := n.system.Load()
	if system == nil {
		return nil, unavailable("not yet")
	}
	return system.Ask(ctx, testShard, id, command)
}

// Read implements entity.Client.
func (*near) Read(context.Context, proto.Message) (proto.Message, error) {
	return nil, unavailable("no reads")
}

// office is a shell with the real rules of runs, queues and conversations, the real runner, and tools.
type office struct {
	*shell

	near   *near
	reads  atomic.Pointer[func()] // called before the turn of a run is read
	asleep atomic.Bool            // the agents are not active
}

func newOffice(t *testing.T, j *journal, think thinker, change ...func(*queue.Limits)) *office {
	t.Helper()
	return newOfficeUnder(t, j, think, run.DefaultLimits(), change...)
}

func newOfficeUnder(t *testing.T, j *journal, think thinker, rules run.Limits, change ...func(*queue.Limits)) *office {
	t.Helper()
	feeds := NewLiveStreams(LiveStreamsConfig{})
	guard := deliver.NewGuard(deliver.GuardConfig{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	tools, err := tool.New(tool.Config{Guard: guard})
	require.NoError(t, err)
	t.Cleanup(tools.Close)
	o := &office{near: &near{}}
	runner, err := turn.New(turn.Config{
		Agents: asker{&o.asleep}, History: shelves{j}, Publisher: feeds, Tools: tools,
		Providers: map[agentpb.Provider]model.Provider{agentpb.Provider_SCRIPTED: think},
	})
	require.NoError(t, err)
	poster, err := deliver.NewPoster(deliver.PosterConfig{Guard: guard, Carry: true})
	require.NoError(t, err)
	limits := queue.DefaultLimits()
	for _, c := range change {
		c(&limits)
	}
	workers, err := NewPool(PoolConfig{Gauge: "runs"})
	require.NoError(t, err)
	runs := run.New(rules, run.Config{
		Agents: asker{&o.asleep}, Records: records{shelves{j}, &o.reads}, Client: o.near, Pool: workers,
		QueueID:   func(_, projectID string) string { return "queue_" + projectID },
		Callbacks: newDeliveries(t).Callbacks(CallbacksConfig{Poster: poster, Name: "callbacks"}),
		OpenSecret: func(sealed []byte, about string) ([]byte, error) {
			return []byte("opened " + string(sealed) + " of " + about), nil
		},
	})
	pool, err := NewPool(PoolConfig{Gauge: "calls"})
	require.NoError(t, err)
	conversations := Conversations(sealed{conversation.New(lasting()), t}, runner, feeds, nil)
	run.Watch(&conversations, workers)
	o.shell = newShell(t, j, 1, func(c *Config) {
		c.LiveStreams, c.IDs = feeds, &workshopIDs
		c.Kinds = []Kind{conversations, runs, queue.New(limits, o.near, pool)}
	})
	o.near.system.Store(o.System)
	return o
}

func narrow(limits *queue.Limits) { limits.Concurrency, limits.MaxQueued = 2, 3 }

var customer = &conversationpb.Caller{TenantId: "t", ProjectId: "p", UserId: "u", Identified: true, TokenId: "tok"}

// inSession gives a conversation a command of the customer's.
func (o *office) inSession(id string, command *conversationpb.Command) (*conversationpb.Reply, error) {
	command.ConversationId, command.CommandId = id, fmt.Sprint("cmd_", commandIDs.Add(1))
	command.Caller = customer
	answer, err := o.Ask(context.Background(), testShard, id, command)
	reply, _ := answer.(*conversationpb.Reply)
	return reply, err
}

func (o *office) session(t *testing.T, id string) {
	t.Helper()
	_, err := o.inSession(id, &conversationpb.Command{Body: &conversationpb.Command_Create{Create: &conversationpb.Create{
		Agent: &agentpb.Agent{Id: "a"}, Source: "session",
	}}})
	require.NoError(t, err)
}

func (o *office) sendTo(id, text string) error {
	_, err := o.inSession(id, &conversationpb.Command{Body: &conversationpb.Command_Send{Send: &conversationpb.Send{
		Agent: &agentpb.Agent{Id: "a"}, Content: text,
	}}})
	return err
}

func (o *office) resolve(t *testing.T, id, answer string) {
	t.Helper()
	_, err := o.inSession(id, &conversationpb.Command{Body: &conversationpb.Command_Resolve{Resolve: &conversationpb.Resolve{
		ActionId: o.journal.state(id).GetPending()[0].GetId(), Agent: &agentpb.Agent{Id: "a"},
		Resolution: &conversationpb.Resolve_Answers{Answers: &conversationpb.UserAnswers{Answers: []byte(`{"Where?":"` + answer + `"}`)}},
	}}})
	require.NoError(t, err)
}

// onRun gives a run a command of the customer's.
func (o *office) onRun(ctx context.Context, id string, command *runpb.Command) (*runpb.Reply, error) {
	command.RunId, command.Caller = id, customer
	if command.GetCommandId() == "" {
		command.CommandId = fmt.Sprint("cmd_", commandIDs.Add(1))
	}
	answer, err := o.Ask(ctx, testShard, id, command)
	reply, _ := answer.(*runpb.Reply)
	return reply, err
}

func createRun(session, text string) *runpb.Command {
	return &runpb.Command{Body: &runpb.Command_Create{Create: &runpb.Create{
		AgentId: "a", ConversationId: session, Order: &runpb.Order{Content: text, Continues: text == ""},
	}}}
}

func (o *office) start(t *testing.T, id, session, text string) *runpb.State {
	t.Helper()
	reply, err := o.onRun(t.Context(), id, createRun(session, text))
	require.NoError(t, err)
	require.True(t, reply.GetRun().GetAdmitted())
	return reply.GetRun()
}

func (o *office) cancelRun(t *testing.T, id string) *runpb.State {
	t.Helper()
	reply, err := o.onRun(t.Context(), id, &runpb.Command{Body: &runpb.Command_Cancel{Cancel: &runpb.Cancel{}}})
	require.NoError(t, err)
	return reply.GetRun()
}

func (o *office) wait(t *testing.T, id string) *runpb.Reply {
	t.Helper()
	reply, err := o.onRun(t.Context(), id, &runpb.Command{Body: &runpb.Command_Await{Await: &runpb.Await{}}})
	require.NoError(t, err)
	return reply
}

// run is the stored one, nil = there is none.
func (j *journal) run(id string) *runpb.State {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := j.entities[id]; e != nil {
		return decoded(e.head.State, &runpb.State{})
	}
	return nil
}

func (j *journal) result(id string) *conversationpb.TurnResult {
	result := &conversationpb.TurnResult{}
	shelves{j}.rows(id, run.TableResults, "", func(row []byte) { decoded(row, result) })
	return result
}

// line is the stored queue, nil = nobody runs or waits.
func (j *journal) line() *runpb.Queue {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := j.entities["queue_p"]; e != nil {
		return decoded(e.head.State, &runpb.Queue{})
	}
	return nil
}

// settledRun checks that a run is over, and that it has let go of everything.
func (j *journal) settledRun(t *testing.T, id, session string, status runpb.Status) *runpb.State {
	t.Helper()
	state := j.run(id)
	require.Equal(t, status, state.GetStatus(), "%v", state)
	require.True(t, state.GetSettled())
	require.NotZero(t, state.GetEndedAt())
	require.Empty(t, j.state(session).GetBackgroundRun())
	require.Nil(t, j.state(session).GetLease())
	for _, place := range append(j.line().GetPlaces(), j.line().GetWaiting()...) {
		require.NotEqual(t, id, place.GetRunId())
	}
	return state
}

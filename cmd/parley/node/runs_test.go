package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/entity"
	"parley/actors/machine"
	"parley/cmd/parley/node/ids"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
	"parley/proto/runpb"
)

func (f *fleet) askRun(through string, command *runpb.Command) (*runpb.Reply, error) {
	return entity.Ask[*runpb.Reply](f.t.Context(), &client{f.nodes[through]}, command.GetRunId(), command)
}

func (f *fleet) readRun(through, id string) (*nodepb.RunReply, error) {
	return entity.Read[*nodepb.RunReply](f.t.Context(), &client{f.nodes[through]}, &nodepb.RunQuery{Id: id})
}

// startRun makes a session of the assistant, and a run in it, through a node.
func (f *fleet) startRun(through, text string) (session, id string) {
	f.t.Helper()
	n := f.nodes[through]
	caller := &conversationpb.Caller{TenantId: "t", ProjectId: "p", UserId: "ada", Identified: true}
	agent, ok := n.directory.agents.Agent("p", "assistant")
	require.True(f.t, ok)
	mint := ids.New(n.shards)
	session = mint.NewID("conv")
	_, err := (&runtime{&client{n}, n.router}).Ask(f.t.Context(), &conversationpb.Command{
		ConversationId: session, CommandId: session, Caller: caller,
		Body: &conversationpb.Command_Create{Create: &conversationpb.Create{Agent: agent, Source: "session"}},
	})
	require.NoError(f.t, err)
	id = mint.NewIDFor("run", session)
	create := &runpb.Command{RunId: id, CommandId: id, Caller: caller, Body: &runpb.Command_Create{Create: &runpb.Create{
		AgentId: agent.GetId(), ConversationId: session, Order: &runpb.Order{Content: text},
	}}}
	f.eventually("the run is admitted", 60*time.Second, func() bool { // leaders may still move
		reply, err := f.askRun(through, create)
		return err == nil && reply.GetRun().GetAdmitted()
	})
	return session, id
}

// TestRunsOverNodes: runs are made through any node, in sessions on all of them; the owner of some is cut off while they
// run: the others finish each of them, once.
func TestRunsOverNodes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: three whole nodes")
	}
	f := newFleet(t, "n1", "n2", "n3")
	f.grown()
	sessions := map[string]string{}
	for i := range 9 {
		session, id := f.startRun(fmt.Sprintf("n%d", i%3+1), "Tell me a short story.")
		sessions[id] = session
	}
	f.network.Isolate("n1", "n2", "n3")
	for id, session := range sessions {
		var reply *nodepb.RunReply
		f.eventually("the run is over", 60*time.Second, func() bool {
			var err error
			reply, err = f.readRun("n2", id)
			return err == nil && reply.GetRun().GetSettled()
		})
		require.Equal(t, runpb.Status_SUCCEEDED, reply.GetRun().GetStatus(), "%v", reply.GetRun())
		require.NotEmpty(t, reply.GetResult().GetResponse().GetContent())
		read, err := entity.Read[*nodepb.StateReply](t.Context(), &client{f.nodes["n3"]}, &nodepb.StateQuery{Id: session})
		require.NoError(t, err)
		require.EqualValues(t, 2, read.GetState().GetMessageCount())
		require.Empty(t, read.GetState().GetBackgroundRun())
	}
	f.network.Heal()
	for id := range sessions {
		f.eventually("the one that was cut off knows it, too", 60*time.Second, func() bool {
			reply, err := f.readRun("n1", id)
			return err == nil && reply.GetRun().GetStatus() == runpb.Status_SUCCEEDED
		})
	}
}

// What was said in a session goes with it, though its runs stay to be read.
func (f *fleet) forgets(session, id string) {
	f.t.Helper()
	f.eventually("the run is over", 60*time.Second, func() bool {
		reply, err := f.readRun("n2", id)
		return err == nil && reply.GetRun().GetSettled() && reply.GetResult() != nil
	})
	_, err := (&runtime{&client{f.nodes["n2"]}, f.nodes["n2"].router}).Ask(f.t.Context(), &conversationpb.Command{
		ConversationId: session, CommandId: "delete",
		Caller: &conversationpb.Caller{TenantId: "t", ProjectId: "p", UserId: "ada", Identified: true},
		Body:   &conversationpb.Command_Delete{Delete: &conversationpb.Delete{OnlyIdle: true}},
	})
	require.NoError(f.t, err)
	reply, err := f.readRun("n3", id)
	require.NoError(f.t, err)
	require.Nil(f.t, reply.GetResult())
	require.Equal(f.t, runpb.Status_SUCCEEDED, reply.GetRun().GetStatus())
}

// No id reads what it is no id of.
func TestRunsAreNoConversations(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: whole nodes")
	}
	f := newFleet(t, "n1", "n2", "n3")
	f.grown()
	session, id := f.startRun("n1", "Hello")
	var refused *machine.Failure
	_, err := entity.Read[*nodepb.StateReply](t.Context(), &client{f.nodes["n1"]}, &nodepb.StateQuery{Id: id})
	require.ErrorAs(t, err, &refused)
	require.Equal(t, failurepb.Code_NOT_FOUND, refused.Code)
	for _, other := range []string{session, "run_none", ""} {
		_, err = f.readRun("n1", other)
		require.ErrorAs(t, err, &refused)
		require.Equal(t, failurepb.Code_RUN_NOT_FOUND, refused.Code)
		_, err = f.askRun("n1", &runpb.Command{RunId: other, Body: &runpb.Command_Cancel{Cancel: &runpb.Cancel{}}})
		require.ErrorAs(t, err, &refused)
		require.Equal(t, failurepb.Code_RUN_NOT_FOUND, refused.Code)
	}
	f.forgets(session, id)
}

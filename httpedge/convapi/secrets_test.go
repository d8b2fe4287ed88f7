package convapi_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/taskpb"
)

// TestNoSecretInCommands: commands travel to other nodes. Of an agent they carry what the rules read, and no key, header or secret.
// Every command that has room for an agent is sent.
func TestNoSecretInCommands(t *testing.T) {
	public := &agentpb.Agent{
		Id: "sealed", Name: "Sealed",
		Capabilities: &agentpb.Capabilities{Attachments: &agentpb.Attachments{Enabled: true, AllowedMimeTypes: []string{"image/*"}}},
		Experience:   &agentpb.Experience{Rename: true, Edit: true, Regenerate: true, FeedbackEnabled: true},
	}
	agent := endpointtest.SecretAgent(public)
	require.Equal(t, endpointtest.Secret, agent.GetFeedbackHook().GetSecret())
	require.Equal(t, endpointtest.Secret, agent.GetModel().GetConnection().GetApiKey())
	require.Contains(t, agent.GetServers()[0].GetEnv(), endpointtest.Secret)

	at, picture := "/conversations/"+conv1, inline("x.png", "image/png", png)
	requests := []struct{ body, method, path, request string }{
		{"create", "POST", "/conversations", `{"agentId":"sealed"}`},
		{"update", "PATCH", at, `{"title":"x"}`},
		{"send", "POST", at + "/messages", `{"message":"x","files":[` + picture + `]}`},
		{"continue", "POST", at + "/continue", `{}`},
		{"regenerate", "POST", at + "/messages/" + msg2 + "/regenerate", `{}`},
		{"edit", "POST", at + "/messages/" + msg1 + "/edit", `{"content":"x","files":[` + picture + `]}`},
		{"rate", "POST", at + "/messages/" + msg2 + "/feedback", `{"rating":"up"}`},
		{"resolve", "POST", at + "/actions/act_1", `{"resolution":{"type":"tool_approval","decision":"allow"}}`},
		{"add_file", "POST", "/files", `{"conversationId":"` + conv1 + `","file":` + picture + `}`},
		{"", "POST", "/tasks", `{"agentId":"sealed","input":"x","files":[` + picture + `]}`},
	}
	notSentHere := map[string]bool{"answer": true, "hold": true} // of the Client API, and of runs

	k := serve(t, func(k *kit) {
		k.agents, k.invents = endpointtest.Agents{agent}, true
	})
	talk := waitingTalk(approval("act_1"))
	talk.State.AgentId = "sealed"
	k.store.Put(talk)
	k.runtime.OnAsk = func(_ context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
		if command.GetCreate() != nil || command.GetAddFile() != nil {
			return stateReply(talk.State), nil // what comes before other commands must not end the request
		}
		return nil, fail(failurepb.Code_ACTION_DISABLED, "enough seen")
	}
	k.tasks.OnAsk = func(context.Context, *taskpb.Command) (*taskpb.Reply, error) {
		return nil, fail(failurepb.Code_VALIDATION, "enough seen")
	}
	for _, r := range requests {
		k.do(r.method, r.path, r.request)
	}

	seen := map[string]bool{}
	for _, command := range k.runtime.Commands() {
		raw, err := proto.Marshal(command)
		require.NoError(t, err)
		require.NotContains(t, string(raw), endpointtest.Secret, "%v", command)
		seen[bodyOf(command)] = true
	}
	require.NotEmpty(t, k.tasks.Commands())
	for _, command := range k.tasks.Commands() {
		raw, err := proto.Marshal(command)
		require.NoError(t, err)
		require.NotContains(t, string(raw), endpointtest.Secret, "%v", command)
	}
	for _, r := range requests {
		require.True(t, r.body == "" || seen[r.body], "%s was not sent", r.body)
	}
	bodies := new(conversationpb.Command).ProtoReflect().Descriptor().Oneofs().ByName("body").Fields()
	for i := range bodies.Len() {
		body := bodies.Get(i)
		if body.Message().Fields().ByName("agent") != nil {
			require.True(t, seen[string(body.Name())] || notSentHere[string(body.Name())], "no request of the test sends %s", body.Name())
		}
	}
}

func bodyOf(command *conversationpb.Command) string {
	m := command.ProtoReflect()
	if body := m.WhichOneof(m.Descriptor().Oneofs().ByName("body")); body != nil {
		return string(body.Name())
	}
	return ""
}

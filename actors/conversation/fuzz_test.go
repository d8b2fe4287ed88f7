package conversation_test

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/machine"
	"parley/actors/machine/machinetest"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

func fuzzEnv(e *machinetest.Entity) machine.Env {
	return machine.Env{Now: time.UnixMilli(1000), Node: "n1", Epoch: 1, NewID: e.NewID}
}

// target is a message as the edge would have read it just now.
func target(number uint64, role conversationpb.Role) *conversationpb.Target {
	return &conversationpb.Target{
		Message: &conversationpb.Message{Id: "msg_x", Number: number, Role: role, Content: "x"}, AsOf: 1 << 60,
	}
}

// FuzzText puts any text where text from outside goes: it is refused or stored, and what is stored can be written.
func FuzzText(f *testing.F) {
	f.Add("title", "hello", `{"a":{"b":[1,2]}}`, "ann", "c1", "answer")
	f.Add("\xff", " ", `{"parley.x":1,"a":"\u0000"}`, "a/b%2F", "", "\xed\xa0\x80")
	f.Add("\u2028", "\x00", "{\n}", "", "\xff", "")
	f.Fuzz(func(t *testing.T, title, content, metadata, user, id, answer string) {
		e := machinetest.NewEntity(suite().Machine)
		caller := &conversationpb.Caller{UserId: user, Identified: user != "", TokenId: id}
		for _, command := range []*conversationpb.Command{
			{Body: &conversationpb.Command_Create{Create: &conversationpb.Create{
				Agent: &agentpb.Agent{Id: "a"}, Title: title, Metadata: []byte(metadata), RuntimeContext: []byte(metadata),
			}}},
			{Body: &conversationpb.Command_Create{Create: &conversationpb.Create{Agent: &agentpb.Agent{Id: "a"}}}},
			{CommandId: title, Body: &conversationpb.Command_Hold{Hold: &conversationpb.Hold{RunId: answer}}},
			{CommandId: id, BackgroundRun: answer, RuntimeContext: []byte(content), Body: &conversationpb.Command_Send{
				Send: &conversationpb.Send{Content: content, Metadata: []byte(metadata)},
			}},
			{CommandId: title, Body: &conversationpb.Command_Hold{Hold: &conversationpb.Hold{RunId: answer, Release: true}}},
			{Body: &conversationpb.Command_Finish{Finish: &conversationpb.Finish{
				RunId: "run_1", Content: answer, StopReason: conversationpb.StopReason_ERROR,
				Error:     &conversationpb.TurnError{Code: answer, Message: answer},
				Usage:     &conversationpb.Usage{Model: metadata, ModelCalls: 1},
				ToolCalls: []*conversationpb.ToolCall{{Name: answer, Arguments: content, Result: metadata, Error: title}},
			}}},
			{Body: &conversationpb.Command_Update{Update: &conversationpb.Update{Patch: &conversationpb.Patch{
				Title: &title, Metadata: []byte(metadata), RuntimeContext: []byte(metadata),
			}}}},
			{Body: &conversationpb.Command_AddFile{AddFile: &conversationpb.AddFile{
				File: &conversationpb.File{Id: "file_1", Name: title, MimeType: content, Metadata: []byte(metadata)},
				Agent: &agentpb.Agent{Capabilities: &agentpb.Capabilities{Attachments: &agentpb.Attachments{
					Enabled: true, AllowedMimeTypes: []string{answer, "*"},
				}}},
			}}},
			{Body: &conversationpb.Command_Rate{Rate: &conversationpb.Rate{
				Target: target(2, conversationpb.Role_ASSISTANT), Rating: "down", Comment: answer, Reasons: []string{title},
				Agent: &agentpb.Agent{Experience: &agentpb.Experience{
					FeedbackEnabled: true, FeedbackComments: true, FeedbackReasons: []string{title},
				}},
			}}},
			{Body: &conversationpb.Command_SetTitle{SetTitle: &conversationpb.SetTitle{
				RunId: "run_1", Title: answer, Usage: &conversationpb.Usage{Model: answer, ModelCalls: 1},
			}}},
			{Body: &conversationpb.Command_RemoveFile{RemoveFile: &conversationpb.RemoveFile{FileId: id}}},
			{CommandId: id + "e", Body: &conversationpb.Command_Edit{Edit: &conversationpb.Edit{
				Target: target(1, conversationpb.Role_USER), Content: answer, SetFiles: true, FileIds: []string{"file_1", id},
			}}},
		} {
			command.ConversationId, command.Caller = "conv_1", caller
			_, failure, err := e.Do(command, fuzzEnv(e))
			require.NoError(t, err)
			if failure != nil {
				require.True(t, utf8.ValidString(failure.DefaultText()))
			}
		}
	})
}

// FuzzCommand decodes any bytes as a command and gives it to a conversation that is idle, then running.
func FuzzCommand(f *testing.F) {
	for _, command := range []*conversationpb.Command{
		{Body: &conversationpb.Command_Send{Send: &conversationpb.Send{Content: "x"}}},
		{Body: &conversationpb.Command_Update{Update: &conversationpb.Update{}}},
		{Body: &conversationpb.Command_Finish{Finish: &conversationpb.Finish{RunId: "run_1"}}},
		{Body: &conversationpb.Command_Delete{Delete: &conversationpb.Delete{}}},
		{Body: &conversationpb.Command_Hold{Hold: &conversationpb.Hold{RunId: "run_b"}}},
		{BackgroundRun: "run_b", AgentVersion: -1, RuntimeContext: []byte("x"), Body: &conversationpb.Command_Send{
			Send: &conversationpb.Send{Content: "x"},
		}},
		{Body: &conversationpb.Command_Edit{Edit: &conversationpb.Edit{
			Target: target(1, conversationpb.Role_USER), Content: "y",
		}}},
		{Body: &conversationpb.Command_Regenerate{Regenerate: &conversationpb.Regenerate{
			Target: target(1, conversationpb.Role_USER),
		}}},
		{Body: &conversationpb.Command_Rate{Rate: &conversationpb.Rate{
			Target: target(1, conversationpb.Role_ASSISTANT), Rating: "up",
		}}},
		{Body: &conversationpb.Command_AddFile{AddFile: &conversationpb.AddFile{
			File:  &conversationpb.File{Id: "file_1", Name: "a"},
			Agent: &agentpb.Agent{Capabilities: &agentpb.Capabilities{Attachments: &agentpb.Attachments{Enabled: true}}},
		}}},
	} {
		raw, err := proto.Marshal(command)
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		command := new(conversationpb.Command)
		if proto.Unmarshal(raw, command) != nil {
			return
		}
		command.Caller = &conversationpb.Caller{}
		e := machinetest.NewEntity(suite().Machine)
		for _, next := range []*conversationpb.Command{
			command,
			{ConversationId: "conv_1", Body: &conversationpb.Command_Create{Create: &conversationpb.Create{
				Agent: &agentpb.Agent{Id: "a"},
			}}},
			command,
			{Body: &conversationpb.Command_Send{Send: &conversationpb.Send{Content: "x"}}},
			command,
		} {
			_, _, err := e.Do(next, fuzzEnv(e))
			require.NoError(t, err)
		}
	})
}

// FuzzListName: no owner, whatever the name, gets into another's list.
func FuzzListName(f *testing.F) {
	f.Add("t", "p", "ann", "a", "t", "p", "ann/a", "")
	f.Add("t", "p/ann", "", "", "t", "p", "ann", "")
	f.Add("t", "p", "%2F", "", "t", "p", "/", "")
	long := strings.Repeat("/", 100)
	hash := sha256.Sum256([]byte(long))
	f.Add("t", "p", long, "", "t", "p", "~"+base64.RawURLEncoding.EncodeToString(hash[:]), "")
	f.Add(long, long+"p", long+"u", long+"a", long, long+"p", long+"u", long+"b")
	f.Fuzz(func(t *testing.T, t1, p1, u1, a1, t2, p2, u2, a2 string) {
		one := conversation.List{TenantID: t1, ProjectID: p1, UserID: u1, AgentID: a1, Order: conversation.ByCreated}
		two := conversation.List{TenantID: t2, ProjectID: p2, UserID: u2, AgentID: a2, Order: conversation.ByCreated}
		require.Equal(t, one == two, one.Name() == two.Name())
		require.Equal(t, one == two, one.CountName() == two.CountName())
		names := []string{one.Name(), one.CountName(), conversation.ListRunning}
		one.Pinned = true
		names = append(names, one.Name(), one.CountName())
		one.Order = conversation.ByUpdated
		names = append(names, one.Name())
		slices.Sort(names)
		require.Len(t, slices.Compact(names), 6)
		for _, name := range names {
			require.LessOrEqual(t, len(name), 255, "storage takes no longer name")
		}
	})
}

// FuzzSessionListName: no project, user or agent, whatever its name, gets into another's list.
func FuzzSessionListName(f *testing.F) {
	f.Add("t", "p", byte(0), "ann", "t", "p/ann", byte(0), "")
	f.Add("t", "p", byte(1), "", "t", "p", byte(0), "")
	f.Add("t", "p", byte(2), "x", "t", "p", byte(3), "x")
	long := strings.Repeat("%", 100)
	f.Add(long, long+"p", byte(1), long, long, long+"p", byte(1), long+"%")
	f.Fuzz(func(t *testing.T, t1, p1 string, k1 byte, v1, t2, p2 string, k2 byte, v2 string) {
		of := func(tenant, project string, kind byte, value string) conversation.SessionList {
			list := conversation.SessionList{TenantID: tenant, ProjectID: project}
			switch kind % 4 {
			case 1:
				list.ByUser, list.UserID = true, value
			case 2:
				list.AgentID = value
			case 3:
				list.Status = value
			}
			return list
		}
		one, two := of(t1, p1, k1, v1), of(t2, p2, k2, v2)
		require.Equal(t, one == two, one.Name() == two.Name())
		require.LessOrEqual(t, len(one.Name()), 255, "storage takes no longer name")
	})
}

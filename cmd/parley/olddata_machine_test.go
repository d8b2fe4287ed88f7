package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The archives of testdata/olddata are data directories of earlier releases, as their binaries have left them when they were
// killed, and what could be read from them. make.sh makes them (olddata_make_machine_test.go).

// Addresses that are written into the archives: models and tools, and the receiver of callbacks. They are loopback
// addresses that nothing else uses.
const (
	oldShopAddress     = "127.91.17.5:47113"
	oldReceiverAddress = "127.91.17.5:47114"
)

// oldGate is what the models of turns that were running when the release was killed wait for.
const oldGate = "old-gate"

// oldConfig is the configuration of the archives' nodes. late is how long the model of the agent "late" lets wait for its
// first word: while an archive is made, for ever.
func oldConfig(late string) string {
	return `
node: {name: old}
log: {level: warn}
bootstrap_token: ` + houseToken + `
provider_encryption_secret: the-secret-of-old-data
outbound: {allow: [127.0.0.0/8]}
tasks: {callback_secret: ` + callbackSecret + `}
client: {run_concurrency: 2, usage_retention: 876000h}
agents:
  - id: quick
    model: {provider: scripted, script: {text: "one two three"}}
    capabilities: {attachments: {enabled: true}}
  - id: late
    model: {provider: scripted, first_token_timeout: 1h, script: {first_token_delay: ` + late + `, text: "better late"}}
  - id: broken
    model: {provider: scripted, script: {steps: [{error_code: invalid_request, error_message: "the model refused"}]}}
  - id: priced
    model: {provider: scripted, price: {input: 1, output: 2}, script: {text: "a b c", usage: {input_tokens: 1000, output_tokens: 500}}}
  - id: asking
    model: {provider: scripted, script: {steps: [{text: "one thing", tool_calls: [{name: ask_user, arguments: {questions: [{question: "Which colour?"}]}}]}, {text: "thank you"}]}}
    capabilities: {ask_user: true}
  - id: approving
    model: {provider: scripted, script: {steps: [{text: "may I", tool_calls: [{name: current_time, arguments: {}}]}, {text: "it is late"}]}}
    tools: [{name: current_time, builtin: current_time, approval: always}]
  - id: camera
    model: {provider: scripted, script: {steps: [{text: "smile", tool_calls: [{name: photo, arguments: {}}]}, {text: "nice"}]}}
    tools: [{name: photo, client: true}]
`
}

// oldData says what is in an archive.
type oldData struct {
	Release string            `json:"release"`
	Token   string            `json:"token"` // of the tenant's owner
	IDs     map[string]string `json:"ids"`   // by what they are
	Known   []oldKnown        `json:"known"`
}

// oldKnown is what a GET request was answered.
type oldKnown struct {
	Path   string          `json:"path"`
	Token  string          `json:"token"` // of the Client API; empty = the conversation server's, without one
	Answer json.RawMessage `json:"answer"`
}

// oldNode is a node with the data of an archive, and what it reaches.
type oldNode struct {
	*process
	apiCaller

	data     oldData
	shop     *workshop
	receiver *receiver
}

// oldNeighbours are the servers at the addresses of the archives. Whoever else on the machine runs these tests is waited for.
func oldNeighbours(t *testing.T) (*workshop, *receiver) {
	t.Helper()
	listen := func(address string) (listener net.Listener) {
		require.Eventually(t, func() bool {
			var err error
			listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
			return err == nil
		}, 10*waitLong, 20*waitStep, address)
		return listener
	}
	shop, err := newWorkshop(listen(oldShopAddress))
	require.NoError(t, err)
	t.Cleanup(shop.server.Close)
	return shop, newReceiverAt(t, listen(oldReceiverAddress))
}

// TestOldData: whatever earlier releases have stored is read by this one, and what they had begun goes on.
func TestOldData(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds the binary and runs processes")
	}
	archives, err := filepath.Glob("testdata/olddata/*.tar.gz")
	require.NoError(t, err)
	require.NotEmpty(t, archives)
	shop, receiver := oldNeighbours(t)
	for _, archive := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".tar.gz"), func(t *testing.T) {
			shop.forget()
			receiver.forget()
			p := newProcess(t, oldConfig("0s"))
			n := &oldNode{process: p, shop: shop, receiver: receiver, data: unpack(t, archive, filepath.Dir(p.dir))}
			require.Equal(t, filepath.Base(archive), n.data.Release+".tar.gz")
			p.start()
			n.apiCaller = apiCaller{p, n.data.Token}
			t.Run("everything_reads_as_it_was", n.readsAsItWas)
			t.Run("what_waits_for_a_person_goes_on", n.goesOnWhenAnswered)
			t.Run("what_was_running_ends", n.ends)
			t.Run("callbacks_that_were_owed_are_made", n.callsBack)
			p.kill()
			p.start()
			t.Run("everything_reads_as_it_was_after_a_restart", n.readsAsItWas)
			t.Run("work_goes_on_with_old_agents", n.worksOn)
		})
	}
}

// unpack puts the data directory of an archive into a directory.
func unpack(t *testing.T, archive, into string) (data oldData) {
	t.Helper()
	file, err := os.Open(archive)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	require.NoError(t, err)
	for reader := tar.NewReader(unzipped); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return data
		}
		require.NoError(t, err)
		text, err := io.ReadAll(reader)
		require.NoError(t, err)
		if header.Name == "known.json" {
			require.NoError(t, json.Unmarshal(text, &data))
			continue
		}
		path := filepath.Join(into, filepath.FromSlash(header.Name))
		require.True(t, filepath.IsLocal(header.Name))
		if header.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(path, 0o700))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, text, 0o600))
	}
}

// readsAsItWas asks for all that is known. A newer release may say more of a thing.
func (n *oldNode) readsAsItWas(t *testing.T) {
	for _, known := range n.data.Known {
		got := apiCaller{n.process, known.Token}
		var a answer
		if known.Token == "" {
			a = n.process.ask(t, "GET", known.Path, nil)
		} else {
			a = got.get(t, known.Path)
		}
		require.Equalf(t, 200, a.status, "%s: %s", known.Path, a.text)
		require.NoErrorf(t, stillSays(decode(t, a.text).v, decode(t, string(known.Answer)).v), "%s: %s", known.Path, a.text)
	}
	require.NotEmpty(t, n.data.Known)
	n.process.ask(t, "GET", "/conversations/"+n.data.IDs["deleted conversation"], nil).refused(404, "NOT_FOUND")
}

// stillSays checks that whatever was known is there, and is the same.
func stillSays(got, known any) error {
	switch known := known.(type) {
	case map[string]any:
		members, _ := got.(map[string]any)
		for name, value := range known {
			switch {
			case name == "lastUsed": // of a token, which these tests use
			case members == nil:
				return fmt.Errorf("%v is no object", got)
			default:
				if err := stillSays(members[name], value); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
	case []any:
		items, _ := got.([]any)
		if len(items) != len(known) {
			return fmt.Errorf("%d items instead of %d", len(items), len(known))
		}
		for i, value := range known {
			if err := stillSays(items[i], value); err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
		}
	default:
		if got != known {
			return fmt.Errorf("%v instead of %v", got, known)
		}
	}
	return nil
}

// goesOnWhenAnswered answers what approvals, questions and client tools waited for.
func (n *oldNode) goesOnWhenAnswered(t *testing.T) {
	for name, resolution := range map[string]any{
		"approving": allow, "asking": object1{"type": "user_question", "answers": object1{"Which colour?": "red"}},
		"camera": object1{"type": "client_tool", "output": object1{"taken": true}},
	} {
		id := n.data.IDs["conversation of "+name]
		action := n.process.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).
			at("pendingActions").list()[0].text("id")
		n.process.ask(t, "POST", "/conversations/"+id+"/actions/"+action, object1{"resolution": resolution}).fits(200, anyObject)
		n.idle(t, id)
		require.Equal(t, "completed", n.messages(t, id)[1].text("status"), name)
	}
	task := n.data.IDs["waiting task"]
	n.process.comment(t, task, "blue").fits(201, anyObject)
	require.Contains(t, n.taskIs(t, task, "completed").text("result", "content"), "thank you")

	run := n.data.IDs["waiting run"]
	session := n.get(t, "/agents/runs/"+run).fits(200, anyObject).text("session_id")
	action := n.get(t, "/agents/sessions/"+session).fits(200, anyObject).at("pending_actions").list()[0].text("id")
	n.post(t, "/agents/sessions/"+session+"/actions/"+action, object1{"resolution": allow}).fits(202, anyObject)
}

// ends waits for what was under way.
func (n *oldNode) ends(t *testing.T) {
	close(n.shop.gate(oldGate))
	for _, name := range []string{"running run", "other running run", "queued run", "waiting run"} {
		require.Equal(t, "succeeded", n.runIs(t, n.data.IDs[name], "succeeded").text("status"), name)
	}
	n.idle(t, n.data.IDs["running conversation"])
	require.Equal(t, "better late", n.messages(t, n.data.IDs["running conversation"])[1].text("content"))
	for _, name := range []string{"running task", "commented task"} {
		require.Equal(t, "better late", n.taskIs(t, n.data.IDs[name], "completed").text("result", "content"), name)
	}
	require.Len(t, n.messages(t, n.taskIs(t, n.data.IDs["commented task"], "completed").text("task", "conversationId")), 4)
	n.taskIs(t, n.data.IDs["canceled running task"], "canceled")
}

// runIs waits until a run has a status. What is known of its shape elsewhere holds for times of today.
func (n *oldNode) runIs(t *testing.T, id, status string) tree {
	t.Helper()
	return n.is(t, status, func() tree { return n.get(t, "/agents/runs/"+id).fits(200, anyObject) })
}

// taskIs waits until a task has a status.
func (n *oldNode) taskIs(t *testing.T, id, status string) (read tree) {
	t.Helper()
	n.is(t, status, func() tree {
		read = n.process.ask(t, "GET", "/tasks/"+id, nil).fits(200, anyObject)
		return read.at("task")
	})
	return read
}

func (n *oldNode) is(t *testing.T, status string, read func() tree) (last tree) {
	t.Helper()
	require.Eventually(t, func() bool {
		last = read()
		return last.text("status") == status
	}, waitLong, waitStep, status)
	return last
}

// callsBack waits for the callbacks whose first attempts failed.
func (n *oldNode) callsBack(t *testing.T) {
	of := n.receiver.got(t, "/run", 1)[0]
	callbackSigned(t, of, callbackSecret)
	require.Equal(t, "agent_run.succeeded", of.header.Get("X-Service-Event"))
	require.Equal(t, n.data.IDs["event of the owed run"], decode(t, of.body).text("id"), "the same event as before")
	require.Equal(t, n.data.IDs["owed run"], decode(t, of.body).text("runId"))
	require.Eventually(t, func() bool {
		shown := n.get(t, "/agents/runs/"+n.data.IDs["owed run"]).fits(200, anyObject).at("callback")
		return shown.text("status") == "delivered" || shown.at("event_id").v == nil // an earlier release did not note it
	}, waitLong, waitStep)
	of = n.receiver.got(t, "/task", 1)[0]
	callbackSigned(t, of, callbackSecret)
	body := decode(t, of.body)
	require.Equal(t, []string{n.data.IDs["owed task"], "completed"}, []string{body.text("taskId"), body.text("status")})
}

// worksOn uses old agents, models, users and tokens.
func (n *oldNode) worksOn(t *testing.T) {
	run := n.post(t, "/agents/responses", object1{
		"model": n.data.IDs["worker"], "input": script(part{Text: "anew"}), "background": true, "session_id": n.data.IDs["session"],
	}).fits(202, anyObject)
	require.Equal(t, "anew", n.runIs(t, run.text("id"), "succeeded").at("result").said())
	n.with(n.data.IDs["token of a user"]).done(t, "GET", "/agents", nil)
	n.say(t, n.data.IDs["conversation"], "and on")
	task := n.data.IDs["completed task"]
	n.process.comment(t, task, "once more").fits(201, anyObject)
	require.Equal(t, "one two three", n.taskIs(t, task, "completed").text("result", "content"))
}

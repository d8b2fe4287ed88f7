package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/bench/nodes"
)

// newContentCluster starts three nodes with the agents of the content tests.
func newContentCluster(t *testing.T) *cluster {
	t.Helper()
	file := filepath.Join(t.TempDir(), "parley.yaml")
	require.NoError(t, os.WriteFile(file, []byte(contentAgents()), 0o600))
	c := newCluster(t, 3, false, "--config", file, "--cluster-election-timeout", "3s") // a busy machine is no failure
	require.NoError(t, c.Start(t.Context()))
	require.NoError(t, c.awaitSettled(t.Context(), 3))
	return c
}

// as lets the tests of one process ask a node.
func as(t *testing.T, n *nodes.Node) *process {
	t.Helper()
	return &process{t: t, listen: n.Listen, ops: n.Ops}
}

// served waits until a node answers a read with 200, and returns the answer.
func served(t *testing.T, p *process, path string) answer {
	t.Helper()
	var last answer
	require.Eventuallyf(t, func() bool {
		last = p.ask(t, "GET", path, nil)
		return last.status == http.StatusOK
	}, 30*time.Second, 20*time.Millisecond, "%s is not served", path)
	return last
}

// slowUpload is a file that comes in pieces.
type slowUpload struct {
	t    *testing.T
	body *io.PipeWriter
	came chan answer
}

func beginUpload(t *testing.T, p *process, conversation string) *slowUpload {
	t.Helper()
	return beginPost(t, p.newRequest(t, "POST", "/files?name=slow.bin&conversationId="+conversation, nil, []string{"Content-Type", "application/octet-stream"}))
}

// beginPost sends a request whose body comes in pieces.
func beginPost(t *testing.T, request *http.Request) *slowUpload {
	t.Helper()
	reader, writer := io.Pipe()
	request.Body = reader
	u := &slowUpload{t: t, body: writer, came: make(chan answer, 1)}
	go func() {
		a := answer{t: t, what: "slow upload"}
		response, err := client().Do(request)
		if err == nil {
			var text []byte
			text, err = io.ReadAll(response.Body)
			_ = response.Body.Close() // it was read
			a.status, a.header, a.text = response.StatusCode, response.Header, string(text)
		}
		if err != nil {
			a.text = err.Error()
		}
		_ = reader.CloseWithError(io.ErrClosedPipe) // whoever still writes is told
		u.came <- a
	}()
	return u
}

// send gives the server more of the file; one that has refused it takes no more.
func (u *slowUpload) send(data []byte) { _, _ = u.body.Write(data) }

func (u *slowUpload) end() answer {
	u.t.Helper()
	_ = u.body.Close() // the end of the file
	a := <-u.came
	require.NotZero(u.t, a.status, a.text)
	a.sane()
	return a
}

// TestSpecContentCluster does everything with content through any of three nodes, and goes on when one is killed.
func TestSpecContentCluster(t *testing.T) {
	t.Parallel()
	c := newContentCluster(t)
	all := c.Nodes()
	one, two, three := as(t, all[0]), as(t, all[1]), as(t, all[2])
	data := randomBytes(700_000)
	id := one.newConversation(t, "open", "cluster")
	file := two.upload(t, id, "plan.bin", "application/octet-stream", data).text("id")
	loose := three.upload(t, "", "loose.txt", "text/plain", []byte("nobody's")).text("id")
	note := one.upload(t, id, "note.txt", "text/plain", []byte("written on the first node")).text("id")

	t.Run("files_are_read_through_any_node", func(t *testing.T) {
		for _, n := range all {
			p := as(t, n)
			require.Equal(t, data, []byte(p.ask(t, "GET", "/files/"+file+"/content", nil).text))
			require.Equal(t, data[262_000:263_000], []byte(p.ask(t, "GET", "/files/"+file+"/content", nil, "Range", "bytes=262000-262999").text))
			require.Equal(t, "nobody's", p.ask(t, "GET", "/files/"+loose+"/content", nil).text)
			require.Len(t, p.ask(t, "GET", "/conversations/"+id+"/files", nil).fits(200, anyObject).at("files").list(), 2)
			p.ask(t, "GET", "/files/file_AAAAAAAAAAAAAAAAAAAAA", nil).refused(404, "NOT_FOUND")
		}
	})
	t.Run("messages_are_rewritten_through_any_node", func(t *testing.T) {
		turn := three.ask(t, "POST", "/conversations/"+id+"/messages", map[string]any{"message": "cluster words", "fileIds": []string{note}}).fits(200, anyObject)
		require.Contains(t, echo().about(t, "cluster words"), "written on the first node")
		turn = one.about(t, id, turn.text("response", "id"), "regenerate", nil).fits(200, anyObject)
		two.about(t, id, turn.text("response", "id"), "feedback", `{"rating":"up"}`).fits(200, anyObject)
		turn = two.about(t, id, turn.text("message", "id"), "edit", `{"content":"other words"}`).fits(200, anyObject)
		three.about(t, id, turn.text("response", "id"), "regenerate", nil).fits(200, anyObject)
		exported := one.exported(t, id, "?format=json", "application/json").text
		require.Equal(t, exported, two.exported(t, id, "?format=json", "application/json").text)
		require.Equal(t, exported, three.exported(t, id, "?format=json", "application/json").text)
		_, err := c.sameLog(t.Context(), id)
		require.NoError(t, err)
	})

	waiting := one.newTask(t, "asking", "paint it", nil).text("id")
	two.becomes(t, waiting, "waiting_for_input")
	var running []string
	for n, p := range []*process{one, two, three, one, two, three} {
		running = append(running, p.newTask(t, "steady", fmt.Sprint("go ", n), map[string]any{"userId": "cluster"}).text("id"))
	}
	for _, task := range running {
		three.becomes(t, task, "running")
	}
	before := one.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).at("messages")
	victim, err := c.owner(t.Context(), id)
	require.NoError(t, err)
	left := c.others(victim)
	cut := beginUpload(t, as(t, left[0]), id)
	cut.send(data[:300_000])
	require.NoError(t, victim.Kill())
	t.Run("upload_through_another_node_meets_the_kill", func(t *testing.T) {
		cut.send(data[300_000:])
		a := cut.end()
		if a.status != http.StatusCreated { // the bytes are stored whole or not at all
			a.refused(503, "unavailable")
			return
		}
		path := "/files/" + decode(t, a.text).text("file", "id") + "/content"
		require.Equal(t, data, []byte(served(t, as(t, left[1]), path).text))
	})

	t.Run("files_outlive_their_node", func(t *testing.T) {
		for _, n := range left {
			p := as(t, n)
			require.Equal(t, data, []byte(served(t, p, "/files/"+file+"/content").text))
			require.Equal(t, "nobody's", served(t, p, "/files/"+loose+"/content").text)
			require.Equal(t, before.v, decode(t, served(t, p, "/conversations/"+id).text).at("messages").v)
		}
		late := as(t, left[0]).upload(t, id, "late.bin", "application/octet-stream", data[:300_000]).text("id")
		require.Equal(t, data[:300_000], []byte(as(t, left[1]).ask(t, "GET", "/files/"+late+"/content", nil).text))
	})
	t.Run("tasks_outlive_their_node", func(t *testing.T) {
		p := as(t, left[1])
		_, err := insist(t.Context(), left[0], 201, "POST", "/tasks/"+waiting+"/comments", map[string]string{"content": "blue"})
		require.NoError(t, err)
		served(t, p, "/tasks/"+waiting)
		require.Contains(t, p.becomes(t, waiting, "completed").text("result", "content"), "thank you")
		for _, task := range running {
			served(t, p, "/tasks/"+task)
			read := p.becomes(t, task, "completed")
			require.True(t, strings.HasSuffix(read.text("result", "content"), "w60"))
			require.Len(t, p.messages(t, read.text("task", "conversationId")), 2, "it ran once")
		}
		require.Len(t, p.ask(t, "GET", "/tasks?userId=cluster", nil).fits(200, anyObject).at("tasks").list(), len(running))
	})
	t.Run("files_go_with_their_conversation_everywhere", func(t *testing.T) {
		as(t, left[0]).ask(t, "DELETE", "/conversations/"+id, nil).empty(204)
		for _, n := range left {
			as(t, n).ask(t, "GET", "/files/"+file, nil).refused(404, "NOT_FOUND")
			as(t, n).ask(t, "GET", "/files/"+file+"/content", nil).refused(404, "NOT_FOUND")
		}
	})
}

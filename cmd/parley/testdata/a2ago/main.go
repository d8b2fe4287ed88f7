// Command a2ago is the official client of A2A for Go, unchanged, held against /a2a by go test ./cmd/parley -run TestClientA2A. It
// prints a line of JSON for each case: {"name", "error"}, error null or what went wrong. It is a module of its own, so that what the
// client needs does not become part of the server's.
//
//	a2ago <base URL> <token> <{agents by what they do, nodes: base URLs of the other nodes, by comma}: JSON>
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
)

type authorized struct{ token string }

func (a authorized) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+a.token)
	return http.DefaultTransport.RoundTrip(request)
}

type caller struct {
	http   *http.Client
	agents map[string]string
	nodes  []string
	turn   int
}

// client reads the card of an agent, at the next node.
func (c *caller) client(ctx context.Context, agent string) (*a2aclient.Client, error) {
	base := c.nodes[c.turn%len(c.nodes)]
	c.turn++
	card, err := agentcard.NewResolver(c.http).Resolve(ctx, base+"/a2a/"+c.agents[agent])
	if err != nil {
		return nil, err
	}
	return a2aclient.NewFromCard(ctx, card, a2aclient.WithJSONRPCTransport(c.http))
}

func message(text string, info a2a.TaskInfo) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: a2a.NewMessageForTask(a2a.MessageRoleUser, info, a2a.NewTextPart(text))}
}

func (c *caller) send(ctx context.Context, agent, text string, info a2a.TaskInfo) (*a2a.Task, error) {
	client, err := c.client(ctx, agent)
	if err != nil {
		return nil, err
	}
	result, err := client.SendMessage(ctx, message(text, info))
	if err != nil {
		return nil, err
	}
	task, is := result.(*a2a.Task)
	if !is {
		return nil, fmt.Errorf("the result is a %T", result)
	}
	return task, nil
}

func said(task *a2a.Task) string {
	var text strings.Builder
	for _, artifact := range task.Artifacts {
		for _, part := range artifact.Parts {
			text.WriteString(part.Text())
		}
	}
	return text.String()
}

// heard is what the events of a stream come to.
type heard struct {
	task   *a2a.Task
	text   string
	pieces int
	state  a2a.TaskState
}

func listen(events iter.Seq2[a2a.Event, error]) (heard, error) {
	var h heard
	for event, err := range events {
		if err != nil {
			return h, err
		}
		switch event := event.(type) {
		case *a2a.Task:
			h.task, h.text, h.state = event, said(event), event.Status.State
		case *a2a.TaskArtifactUpdateEvent:
			piece := said(&a2a.Task{Artifacts: []*a2a.Artifact{event.Artifact}})
			if !event.Append {
				h.text = ""
			}
			h.text += piece
			h.pieces++
		case *a2a.TaskStatusUpdateEvent:
			h.state = event.Status.State
		}
	}
	return h, nil
}

func (c *caller) stream(ctx context.Context, agent, text string, info a2a.TaskInfo) (heard, error) {
	client, err := c.client(ctx, agent)
	if err != nil {
		return heard{}, err
	}
	return listen(client.SendStreamingMessage(ctx, message(text, info)))
}

func expect[T comparable](what string, want, got T) error {
	if want != got {
		return fmt.Errorf("%s is %v, not %v", what, got, want)
	}
	return nil
}

func (c *caller) message(ctx context.Context) error {
	first, err := c.send(ctx, "quick", "hello", a2a.TaskInfo{})
	if err != nil {
		return err
	}
	second, err := c.send(ctx, "quick", "again", a2a.TaskInfo{ContextID: first.ContextID})
	if err != nil {
		return err
	}
	client, err := c.client(ctx, "quick")
	if err != nil {
		return err
	}
	read, err := client.GetTask(ctx, &a2a.GetTaskRequest{ID: first.ID})
	if err != nil {
		return err
	}
	_, failed := client.CancelTask(ctx, &a2a.CancelTaskRequest{ID: first.ID})
	return errors.Join(
		expect("the first state", a2a.TaskStateCompleted, first.Status.State),
		expect("the first task", a2a.TaskID("task_"+first.ContextID+"_1"), first.ID),
		expect("the second task", a2a.TaskID("task_"+first.ContextID+"_3"), second.ID),
		expect("the text", "one two three", said(first)),
		expect("what is read", said(first), said(read)),
		expect("a cancel", true, errors.Is(failed, a2a.ErrUnsupportedOperation)),
	)
}

func (c *caller) streamed(ctx context.Context) error {
	whole, err := c.stream(ctx, "slow", "hello", a2a.TaskInfo{})
	if err != nil {
		return err
	}
	client, err := c.client(ctx, "slow")
	if err != nil {
		return err
	}
	read, err := client.GetTask(ctx, &a2a.GetTaskRequest{ID: whole.task.ID})
	if err != nil {
		return err
	}
	_, failed := listen(client.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: whole.task.ID}))
	return errors.Join(
		expect("the state", a2a.TaskStateCompleted, whole.state), expect("the text", said(read), whole.text),
		expect("pieces", true, whole.pieces > 2), expect("a late subscription", true, errors.Is(failed, a2a.ErrUnsupportedOperation)),
	)
}

func (c *caller) question(ctx context.Context) error {
	asked, err := c.send(ctx, "asking", "plan a trip", a2a.TaskInfo{})
	if err != nil {
		return err
	}
	_, busy := c.send(ctx, "asking", "hello?", a2a.TaskInfo{ContextID: asked.ContextID})
	done, err := c.stream(ctx, "asking", "Rome", asked.TaskInfo())
	if err != nil {
		return err
	}
	return errors.Join(
		expect("the state", a2a.TaskStateInputRequired, asked.Status.State),
		expect("a message meanwhile", true, errors.Is(busy, a2a.ErrServerError)),
		expect("the state then", a2a.TaskStateCompleted, done.state), expect("the task", asked.ID, done.task.ID),
		expect("the text", "Off we go", done.text),
	)
}

func (c *caller) refused(ctx context.Context) error {
	_, unknown := c.send(ctx, "quick", "hello", a2a.TaskInfo{ContextID: "conv_nowhere"})
	_, empty := c.stream(ctx, "quick", " ", a2a.TaskInfo{})
	client, err := c.client(ctx, "quick")
	if err != nil {
		return err
	}
	_, missing := client.GetTask(ctx, &a2a.GetTaskRequest{ID: "task_conv_nowhere_1"})
	_, broken := c.send(ctx, "broken", "hello", a2a.TaskInfo{})
	return errors.Join(
		expect("an unknown context", true, errors.Is(unknown, a2a.ErrInvalidParams)),
		expect("no text in a stream", true, errors.Is(empty, a2a.ErrInvalidParams)),
		expect("an unknown task", true, errors.Is(missing, a2a.ErrTaskNotFound)),
		expect("a model that breaks", true, errors.Is(broken, a2a.ErrInternalError)),
	)
}

// push asks to be told of a task that it does not wait for.
func (c *caller) push(ctx context.Context) error {
	type notice struct {
		header http.Header
		event  a2a.Event
	}
	heard := make(chan notice, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var said a2a.StreamResponse
		if err := json.NewDecoder(request.Body).Decode(&said); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		heard <- notice{request.Header, said.Event}
	}))
	defer receiver.Close()
	next := func() (notice, error) {
		select {
		case one := <-heard:
			return one, nil
		case <-ctx.Done():
			return notice{}, ctx.Err()
		}
	}
	client, err := c.client(ctx, "asking")
	if err != nil {
		return err
	}
	request := message("plan a trip", a2a.TaskInfo{})
	request.Config = &a2a.SendMessageConfig{ReturnImmediately: true, PushConfig: &a2a.PushConfig{
		ID: "own", URL: receiver.URL, Token: "the-token", Auth: &a2a.PushAuthInfo{Scheme: "Bearer", Credentials: "the-proof"},
	}}
	result, err := client.SendMessage(ctx, request)
	if err != nil {
		return err
	}
	task, is := result.(*a2a.Task)
	if !is {
		return fmt.Errorf("the result is a %T", result)
	}
	first, err := next()
	if err != nil {
		return err
	}
	asked, is := first.event.(*a2a.TaskStatusUpdateEvent)
	if !is {
		return fmt.Errorf("told of a %T", first.event)
	}
	config, err := client.GetTaskPushConfig(ctx, &a2a.GetTaskPushConfigRequest{TaskID: task.ID, ID: "own"})
	if err != nil {
		return err
	}
	_, err = client.CreateTaskPushConfig(ctx, &a2a.PushConfig{TaskID: task.ID, ID: "other", URL: receiver.URL + "/other"})
	if err != nil {
		return err
	}
	all, err := client.ListTaskPushConfigs(ctx, &a2a.ListTaskPushConfigRequest{TaskID: task.ID})
	if err != nil {
		return err
	}
	if err = client.DeleteTaskPushConfig(ctx, &a2a.DeleteTaskPushConfigRequest{TaskID: task.ID, ID: "other"}); err != nil {
		return err
	}
	if _, err = c.send(ctx, "asking", "Rome", task.TaskInfo()); err != nil {
		return err
	}
	second, err := next()
	if err != nil {
		return err
	}
	over, is := second.event.(*a2a.TaskStatusUpdateEvent)
	if !is {
		return fmt.Errorf("told of a %T", second.event)
	}
	return errors.Join(
		expect("the task", task.ID, asked.TaskID), expect("the state", a2a.TaskStateInputRequired, asked.Status.State),
		expect("the token", "the-token", first.header.Get("X-A2A-Notification-Token")),
		expect("the proof", "Bearer the-proof", first.header.Get("Authorization")),
		expect("the URL", receiver.URL, config.URL), expect("configs", 2, len(all)),
		expect("the state then", a2a.TaskStateCompleted, over.Status.State),
	)
}

func run() error {
	var agents map[string]string
	if err := json.Unmarshal([]byte(os.Args[3]), &agents); err != nil {
		return err
	}
	c := &caller{
		http: &http.Client{Transport: authorized{os.Args[2]}, Timeout: time.Minute}, agents: agents, nodes: []string{os.Args[1]},
	}
	if others := agents["nodes"]; others != "" {
		c.nodes = append(c.nodes, strings.Split(others, ",")...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out := json.NewEncoder(os.Stdout)
	for _, one := range []struct {
		name string
		run  func(context.Context) error
	}{{"go_message", c.message}, {"go_stream", c.streamed}, {"go_question", c.question}, {"go_refused", c.refused}, {"go_push", c.push}} {
		result := map[string]any{"name": one.name, "error": nil}
		if err := one.run(ctx); err != nil {
			result["error"] = err.Error()
		}
		if err := out.Encode(result); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

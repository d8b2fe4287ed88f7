package convapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"parley/actors/core/failure"
	"parley/actors/core/follow"
	"parley/httpedge"
	"parley/httpedge/convapi"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/httpedge/sse"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

// talk is one live conversation behind the runtime: its log, its running text, and who follows.
type talk struct {
	endpointtest.Store
	mu    sync.Mutex
	state *conversationpb.State
	log   []*conversationpb.Event
	run   string
	user  *conversationpb.Message
	text  string
	sinks map[follow.Sink]struct{}
	sent  chan *conversationpb.Accepted // messages accepted
	asked int
	// onAsk answers commands other than a send.
	onAsk func(command *conversationpb.Command) (*conversationpb.Reply, error)
}

func newTalk() *talk {
	return &talk{
		state: &conversationpb.State{Id: "conv_1", TenantId: "t", ProjectId: "p", UserId: "ann", AgentId: "assistant"},
		sinks: make(map[follow.Sink]struct{}),
		sent:  make(chan *conversationpb.Accepted, 64),
	}
}

func (c *talk) State(_ context.Context, id string) (*conversationpb.State, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id != c.state.GetId() {
		return nil, failure.New(failurepb.Code_NOT_FOUND, failure.ConversationNotFound)
	}
	return c.state, nil
}

func (c *talk) Events(_ context.Context, query *nodepb.EventsQuery) (*nodepb.EventsReply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := uint64(len(c.log))
	from := min(query.After, last)
	return &nodepb.EventsReply{Events: c.log[from:min(from+uint64(query.GetLimit()), last)], LastSeq: last}, nil
}

// entities answers the reads of the conversation.
func (c *talk) entities() endpointtest.Entities {
	e := endpointtest.Entities{}
	c.Serve(e)
	endpointtest.On(e, func(ctx context.Context, query *nodepb.StateQuery) (*nodepb.StateReply, error) {
		state, err := c.State(ctx, query.GetId())
		return &nodepb.StateReply{State: state}, err
	})
	endpointtest.On(e, c.Events)
	return e
}

func (c *talk) Follow(_ context.Context, id string, sink follow.Sink) (*endpoint.Subscription, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id != c.state.GetId() {
		return nil, failure.New(failurepb.Code_NOT_FOUND, failure.ConversationNotFound)
	}
	c.sinks[sink] = struct{}{}
	return &endpoint.Subscription{
		Snapshot: &conversationpb.Snapshot{Epoch: 1, LastSeq: uint64(len(c.log)), RunId: c.run, Text: c.text, UserMessage: c.user},
		Cancel: func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.sinks, sink)
		},
	}, nil
}

// Ask accepts a message: its run begins, and the test goes on from there.
func (c *talk) Ask(_ context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
	c.mu.Lock()
	c.asked++
	if id := command.GetConversationId(); id != "" && id != c.state.GetId() {
		c.mu.Unlock()
		return nil, failure.New(failurepb.Code_NOT_FOUND, failure.ConversationNotFound)
	}
	busy, seq, other := c.run, uint64(len(c.log)), c.onAsk
	c.mu.Unlock()
	if other != nil && command.GetSend() == nil {
		return other(command)
	}
	if busy != "" {
		return nil, failure.Verbatim(failurepb.Code_CONVERSATION_BUSY, "a turn is running").With("activeRunId", busy)
	}
	send := command.GetSend()
	if send == nil {
		return nil, errors.New("unexpected command")
	}
	run := fmt.Sprintf("run_%d", seq)
	message := &conversationpb.Message{
		Id: fmt.Sprintf("msg_%d", seq), Content: send.GetContent(), Metadata: send.GetMetadata(), RunId: run,
	}
	c.publish(run,
		&conversationpb.Event{Body: &conversationpb.Event_UserMessage{UserMessage: &conversationpb.UserMessage{Message: message}}},
		&conversationpb.Event{Body: &conversationpb.Event_TurnStarted{TurnStarted: &conversationpb.TurnStarted{
			Lease: &conversationpb.Lease{RunId: run, Attempt: 1, Mode: conversationpb.Mode_MESSAGE},
		}}},
	)
	c.begin(run, message)
	accepted := &conversationpb.Accepted{RunId: run, UserMessage: message, Seq: seq}
	c.sent <- accepted
	return &conversationpb.Reply{Body: &conversationpb.Reply_Accepted{Accepted: accepted}}, nil
}

func (c *talk) commands() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// rename gives the conversation another id, so that it is not found any more.
func (c *talk) rename(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = &conversationpb.State{Id: id, TenantId: "t", ProjectId: "p", UserId: "ann", AgentId: "assistant"}
}

func (c *talk) tell(change *conversationpb.Change) {
	change.Epoch = 1
	for sink := range c.sinks {
		sink.Change(change)
	}
}

func (c *talk) publish(run string, events ...*conversationpb.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, event := range events {
		event.Seq, event.RunId, event.CreatedAt = uint64(len(c.log)+1), run, 1_700_000_000_123
		c.log = append(c.log, event)
		if event.EndsText() {
			c.run, c.text, c.user = "", "", nil
		}
	}
	c.tell(&conversationpb.Change{Events: events})
}

func (c *talk) begin(run string, user *conversationpb.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run, c.text, c.user = run, "", user
	c.tell(&conversationpb.Change{RunStarted: &conversationpb.RunStarted{RunId: run, UserMessage: user}})
}

func (c *talk) say(pieces ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, piece := range pieces {
		delta := &conversationpb.Delta{RunId: c.run, Offset: uint64(len(c.text)), Text: piece}
		c.text += piece
		c.tell(&conversationpb.Change{Delta: delta})
	}
}

// end finishes the run with an answer ("" = none).
func (c *talk) end(run, content string, ended *conversationpb.TurnEnded) {
	var events []*conversationpb.Event
	if content != "" {
		events = append(events, &conversationpb.Event{Body: &conversationpb.Event_AgentMessage{
			AgentMessage: &conversationpb.AgentMessage{Message: &conversationpb.Message{
				Id: "msg_answer", Role: conversationpb.Role_ASSISTANT, Content: content, Status: "completed",
				StopReason: ended.GetStopReason(),
			}},
		}})
	}
	c.publish(run, append(events, &conversationpb.Event{Body: &conversationpb.Event_TurnEnded{TurnEnded: ended}})...)
}

func endTurn() *conversationpb.TurnEnded {
	return &conversationpb.TurnEnded{
		StopReason: conversationpb.StopReason_END_TURN, Usage: &conversationpb.Usage{InputTokens: 2, OutputTokens: 3},
	}
}

// node is the surface on a real server.
type node struct {
	*talk
	base   string
	server *httpedge.Server
	hub    *sse.Hub
	client *http.Client
}

func newNode(t *testing.T, authenticate endpointtest.Authenticate) *node {
	t.Helper()
	before := goleak.IgnoreCurrent()
	c := newTalk()
	config := sse.DefaultConfig()
	config.Linger = 20 * time.Millisecond
	hub, err := sse.New(config, convapi.NewUpstream(c, c.entities()), nil, nil)
	require.NoError(t, err)
	require.NoError(t, hub.Start())
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a test's listener
	require.NoError(t, err)
	server, err := httpedge.New(httpedge.DefaultConfig(), httpedge.Parts{
		Listener: listener, Node: "n1", Authenticator: authenticate, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	api := convapi.New(convapi.DefaultConfig(), convapi.Parts{
		Runtime: c, Entities: c.entities(), Agents: endpointtest.Agents{}, IDs: &endpointtest.IDs{}, Hub: hub,
	})
	require.NoError(t, server.Mount(api.BasePath(), api.Surface()))
	require.NoError(t, server.Start())
	n := &node{
		talk: c, base: "http://" + listener.Addr().String() + api.BasePath(), server: server, hub: hub,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1 << 10}, Timeout: time.Minute},
	}
	t.Cleanup(func() {
		n.client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(t, hub.Stop(ctx))
		require.NoError(t, server.Stop(ctx))
		goleak.VerifyNone(
			t, before,
			goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),    // started once for ever
			goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"), // sleeps before it ends
		)
	})
	return n
}

type frame struct {
	id, event, data, comment string
}

// open begins a stream; a status other than 200 leaves the body for the caller.
type stream struct {
	response *http.Response
	lines    *bufio.Reader
}

func (n *node) open(t *testing.T, request *http.Request) *stream {
	t.Helper()
	response, err := n.client.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return &stream{response, bufio.NewReader(response.Body)}
}

func (n *node) events(t *testing.T, query string, header ...string) *stream {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.base+"/conversations/conv_1/events/stream"+query, nil)
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	return n.open(t, request)
}

func (n *node) send(t *testing.T, text string) *stream {
	t.Helper()
	body, err := json.Marshal(map[string]any{"message": text, "stream": true, "metadata": map[string]any{"k": "v"}})
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.base+"/conversations/conv_1/messages", bytes.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	return n.open(t, request)
}

func (s *stream) next() (frame, error) {
	var f frame
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			return f, err
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "":
			if line == "\n" && f == (frame{comment: "ping"}) { // they come at any time
				f = frame{}
				continue
			}
			if line == "\n" {
				return f, nil
			}
			f.comment = value
		case "id":
			f.id = value
		case "event":
			f.event = value
		case "data":
			f.data += value
		}
	}
}

func (s *stream) must(t *testing.T) frame {
	t.Helper()
	f, err := s.next()
	require.NoError(t, err)
	return f
}

func (s *stream) ends(t *testing.T) {
	t.Helper()
	_, err := s.next()
	require.ErrorIs(t, err, io.EOF)
}

// piece is the data of a frame of a message stream.
type piece struct {
	Type           string
	ConversationID string `json:"conversationId"`
	MessageID      string `json:"messageId"`
	Text           string
	IsFinal        *bool `json:"isFinal"`
	Content        *string
	StopReason     string `json:"stopReason"`
	Status         string
	RunID          string `json:"runId"`
	Timestamp      int64
	Seq            int
	Title          string
	Error          string
	Code           string
	Usage          map[string]any
}

// pieces reads a message stream to its end and checks what holds for all of them.
func (s *stream) pieces(t *testing.T) (all []piece, text string) {
	t.Helper()
	for {
		f, err := s.next()
		if errors.Is(err, io.EOF) {
			return all, text
		}
		require.NoError(t, err)
		if f.comment != "" {
			continue
		}
		var p piece
		require.NoError(t, json.Unmarshal([]byte(f.data), &p), f.data)
		require.Equal(t, f.event, p.Type)
		require.Empty(t, f.id)
		require.Equal(t, len(all)+1, p.Seq)
		require.InDelta(t, time.Now().UnixMilli(), p.Timestamp, 60_000)
		all = append(all, p)
		text += p.Text
	}
}

func TestEventStreamFrames(t *testing.T) {
	n := newNode(t, endpointtest.Off)
	s := n.events(t, "")
	require.Equal(t, 200, s.response.StatusCode)
	require.Equal(t, "text/event-stream", s.response.Header.Get("Content-Type"))
	require.Equal(t, "no-cache", s.response.Header.Get("Cache-Control"))
	require.NotEmpty(t, s.response.Header.Get("X-Request-Id"))
	require.Equal(t, "open", s.must(t).comment)

	_, err := n.Ask(t.Context(), &conversationpb.Command{Body: &conversationpb.Command_Send{
		Send: &conversationpb.Send{Content: "a\nb\u2028\"c\"", Metadata: []byte(`{"k":1}`)},
	}})
	require.NoError(t, err)
	n.say("Hel", "lo")
	const stamp = `"run_id":"run_0","created_at":"2023-11-14T22:13:20.123Z"}`
	require.Equal(t, frame{
		id: "1", event: "user.message",
		data: `{"seq":1,"type":"user.message","data":{"content":"a\nb\u2028\"c\"","message_id":"msg_0","metadata":{"k":1}},` + stamp,
	}, s.must(t))
	require.Equal(t, frame{
		id: "2", event: "session.status_running",
		data: `{"seq":2,"type":"session.status_running","data":{"attempt":1},` + stamp,
	}, s.must(t))
	delta := s.must(t)
	require.Equal(t, "agent.message.delta", delta.event)
	require.Empty(t, delta.id)
	require.Contains(t, delta.data, `{"type":"agent.message.delta","data":{"text":"Hel","offset":0},"run_id":"run_0","created_at":"`)
	require.Contains(t, s.must(t).data, `"data":{"text":"lo","offset":3}`)

	late := n.events(t, "?after=1")
	require.Equal(t, "open", late.must(t).comment)
	snapshot := late.must(t)
	require.Equal(t, "agent.message.snapshot", snapshot.event)
	require.Empty(t, snapshot.id)
	require.Contains(t, snapshot.data, `{"type":"agent.message.snapshot","data":{"run_id":"run_0","text":"Hello","user_message":{"content":`)
	require.Equal(t, "2", late.must(t).id)

	n.end("run_0", "Hello", endTurn())
	for _, s := range []*stream{s, late} {
		answer := s.must(t)
		require.Equal(t, "3", answer.id)
		require.JSONEq(t, `{"seq":3,"type":"agent.message","data":{"content":"Hello","message_id":"msg_answer","stop_reason":"end_turn",`+
			`"status":"completed"},`+stamp, answer.data)
		require.Equal(t, "session.status_idle", s.must(t).event)
	}
}

func TestEventStreamCursors(t *testing.T) {
	n := newNode(t, endpointtest.Off)
	for range 5 {
		n.publish("", &conversationpb.Event{Body: &conversationpb.Event_CancelRequested{CancelRequested: &conversationpb.CancelRequested{}}})
	}
	first := func(query string, header ...string) string {
		s := n.events(t, query, header...)
		require.Equal(t, 200, s.response.StatusCode)
		require.Equal(t, "open", s.must(t).comment)
		return s.must(t).id
	}
	require.Equal(t, "1", first(""))
	require.Equal(t, "3", first("?after=2"))
	require.Equal(t, "5", first("?after=2", "Last-Event-ID", "4")) // the header wins
	for _, bad := range [][]string{{"?after=x"}, {"?after=-1"}, {"?after=1.5"}, {"?after=99999999999999999999"}, {"?after=2", "Last-Event-ID", "x"}} {
		s := n.events(t, bad[0], bad[1:]...)
		require.Equal(t, 400, s.response.StatusCode, bad)
		var body struct{ Code string }
		require.NoError(t, json.NewDecoder(s.lines).Decode(&body))
		require.Equal(t, "VALIDATION_ERROR", body.Code)
	}
}

func TestEventStreamTypes(t *testing.T) {
	n := newNode(t, endpointtest.Off)
	_, err := n.Ask(t.Context(), &conversationpb.Command{Body: &conversationpb.Command_Send{Send: &conversationpb.Send{Content: "q"}}})
	require.NoError(t, err)
	n.say("He")
	cases := map[string][]string{
		"?types=user.message":                               {"user.message"},
		"?types=agent.message,session.status_idle":          {"agent.message", "session.status_idle"},
		"?types=agent.message.delta":                        {"agent.message.snapshot", "agent.message.delta"},
		"?types=agent.message.snapshot,%20session.updated,": {"agent.message.snapshot", "session.updated"},
		"?types=nonsense,agent.message":                     {"agent.message"},
		"?types=session.updated&after=1":                    {"session.updated"},
	}
	streams := make(map[string]*stream)
	for query, want := range cases {
		streams[query] = n.events(t, query)
		require.Equal(t, "open", streams[query].must(t).comment)
		// The snapshot is taken after the opening: text said in between would be in it, and no delta.
		if want[0] == "agent.message.snapshot" {
			require.Equal(t, want[0], streams[query].must(t).event, query)
			cases[query] = want[1:]
		}
	}
	n.say("llo")
	for query, want := range cases {
		// Text is live only: a stream that is still catching up when the run ends gets the answer, and no delta.
		if len(want) > 0 && want[0] == "agent.message.delta" {
			require.Equal(t, want[0], streams[query].must(t).event, query)
			cases[query] = want[1:]
		}
	}
	n.end("run_0", "Hello", endTurn())
	title := "New"
	n.publish("", &conversationpb.Event{Body: &conversationpb.Event_Updated{
		Updated: &conversationpb.Updated{Patch: &conversationpb.Patch{Title: &title}},
	}})
	for query, want := range cases {
		for _, name := range want {
			require.Equal(t, name, streams[query].must(t).event, query)
		}
	}
}

func TestEventStreamIsRefusedBeforeItBegins(t *testing.T) {
	n := newNode(t, endpointtest.ByToken)
	require.Equal(t, 401, n.events(t, "").response.StatusCode)
	require.Equal(t, 403, n.events(t, "", "Authorization", "Bearer bob").response.StatusCode)
	require.Equal(t, 200, n.events(t, "", "Authorization", "Bearer ann").response.StatusCode)
	n.rename("conv_2")
	require.Equal(t, 404, n.events(t, "", "Authorization", "Bearer ann").response.StatusCode)
}

func TestMessageStream(t *testing.T) {
	n := newNode(t, endpointtest.Off)
	for turn := range 3 { // over one connection
		go func() {
			accepted := <-n.sent
			n.say("Hel", "lo ", "Wörld\n")
			title := "Greeting"
			n.publish("", &conversationpb.Event{Body: &conversationpb.Event_Updated{
				Updated: &conversationpb.Updated{Patch: &conversationpb.Patch{Title: &title}},
			}})
			n.end(accepted.GetRunId(), "Hello Wörld\n", endTurn())
		}()
		run := fmt.Sprintf("run_%d", turn*5)
		s := n.send(t, "hi")
		require.Equal(t, 200, s.response.StatusCode)
		require.Equal(t, "text/event-stream", s.response.Header.Get("Content-Type"))
		pieces, text := s.pieces(t)
		start, done := pieces[0], pieces[len(pieces)-1]
		require.Equal(t, "stream.start", start.Type)
		require.Equal(t, "conv_1", start.ConversationID)
		require.Equal(t, fmt.Sprintf("msg_%d", turn*5), start.MessageID)
		for _, p := range pieces[1 : len(pieces)-1] {
			require.Equal(t, "stream.text", p.Type)
			require.False(t, *p.IsFinal)
		}
		require.Equal(t, "stream.done", done.Type)
		require.Equal(t, "Hello Wörld\n", *done.Content)
		require.Equal(t, text, *done.Content)
		require.Equal(t, []string{"conv_1", "msg_answer", "end_turn", run, "Greeting", ""},
			[]string{done.ConversationID, done.MessageID, done.StopReason, done.RunID, done.Title, done.Status})
		require.EqualValues(t, 5, done.Usage["totalTokens"])
	}
	require.Equal(t, 3, n.commands())
}

func TestMessageStreamIsRefusedAsJSON(t *testing.T) {
	n := newNode(t, endpointtest.Off)
	s := n.send(t, "")
	require.Equal(t, 400, s.response.StatusCode)
	n.begin("run_x", nil)
	s = n.send(t, "hi")
	require.Equal(t, 409, s.response.StatusCode)
	var body struct {
		Code    string
		Details struct{ ActiveRunID string }
	}
	require.NoError(t, json.NewDecoder(s.lines).Decode(&body))
	require.Equal(t, "conversation_busy", body.Code)
	require.Equal(t, "run_x", body.Details.ActiveRunID)
	n.rename("conv_2")
	require.Equal(t, 404, n.send(t, "hi").response.StatusCode)
}

func TestMessageStreamSendsWhatWasNotStreamed(t *testing.T) {
	n := newNode(t, endpointtest.Off)
	go func() {
		accepted := <-n.sent
		n.say("Hel")
		n.end(accepted.GetRunId(), "Hello World", endTurn())
	}()
	pieces, text := n.send(t, "hi").pieces(t)
	require.Equal(t, "Hello World", text)
	require.Equal(t, text, *pieces[len(pieces)-1].Content)
}

func TestMessageStreamOfARecoveredRun(t *testing.T) {
	cases := map[string]struct {
		again []string // what the second attempt says
		text  string   // what the client has heard then
	}{
		"same_text":  {[]string{"He", "llo Wo", "rld"}, "Hello World"},
		"other_text": {[]string{"Goodbye", " all"}, "Hello"},
		"shorter":    {[]string{"Hell"}, "Hello"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, endpointtest.Off)
			content := strings.Join(c.again, "")
			s := n.send(t, "hi")
			accepted := <-n.sent
			n.say("Hel", "lo")
			require.Equal(t, "stream.start", s.must(t).event)
			require.Equal(t, "stream.text", s.must(t).event)
			n.publish(accepted.GetRunId(), &conversationpb.Event{Body: &conversationpb.Event_TurnRecovered{
				TurnRecovered: &conversationpb.TurnRecovered{Attempt: 2},
			}})
			n.begin(accepted.GetRunId(), accepted.GetUserMessage())
			n.say(c.again...)
			n.end(accepted.GetRunId(), content, endTurn())
			heard := "Hel"
			for {
				var p piece
				require.NoError(t, json.Unmarshal([]byte(s.must(t).data), &p))
				heard += p.Text
				if p.Type == "stream.done" {
					require.Equal(t, content, *p.Content)
					break
				}
			}
			s.ends(t)
			require.Equal(t, c.text, heard)
		})
	}
}

func TestMessageStreamEndings(t *testing.T) {
	cases := map[string]struct {
		content string
		ended   *conversationpb.TurnEnded
		want    piece
	}{
		"failed": {"", &conversationpb.TurnEnded{
			StopReason: conversationpb.StopReason_ERROR,
			Error:      &conversationpb.TurnError{Code: "provider_error", Message: "overloaded"},
		}, piece{Type: "stream.error", Error: "overloaded", Code: "provider_error"}},
		"failed_without_word": {
			"", &conversationpb.TurnEnded{StopReason: conversationpb.StopReason_ERROR},
			piece{Type: "stream.error", Error: "the turn failed"},
		},
		"cancelled": {
			"Hel", &conversationpb.TurnEnded{StopReason: conversationpb.StopReason_CANCELLED},
			piece{Type: "stream.done", MessageID: "msg_answer", StopReason: "cancelled", Status: "cancelled"},
		},
		"cancelled_before_text": {
			"", &conversationpb.TurnEnded{StopReason: conversationpb.StopReason_CANCELLED},
			piece{Type: "stream.done", MessageID: "msg_0", StopReason: "cancelled", Status: "cancelled"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, endpointtest.Off)
			go func() {
				n.end((<-n.sent).GetRunId(), c.content, c.ended)
			}()
			pieces, text := n.send(t, "hi").pieces(t)
			last := pieces[len(pieces)-1]
			require.Equal(t, "conv_1", last.ConversationID)
			require.Equal(t, "run_0", last.RunID)
			if last.Type == "stream.done" {
				require.Equal(t, text, *last.Content)
				require.Equal(t, c.content, text)
			}
			last = piece{Type: last.Type, Error: last.Error, Code: last.Code, MessageID: last.MessageID, StopReason: last.StopReason, Status: last.Status}
			require.Equal(t, c.want, last)
		})
	}
}

func TestMessageStreamWhenTheServerStops(t *testing.T) {
	n := newNode(t, endpointtest.Off)
	s := n.send(t, "hi")
	<-n.sent
	require.Equal(t, "stream.start", s.must(t).event)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, n.hub.Stop(ctx))
	f := s.must(t)
	require.Equal(t, "stream.error", f.event)
	require.Contains(t, f.data, `"code":"unavailable"`)
	s.ends(t)
}

func TestLeavingAMessageStreamDoesNotStopTheTurn(t *testing.T) {
	n := newNode(t, endpointtest.Off)
	s := n.send(t, "hi")
	accepted := <-n.sent
	require.Equal(t, "stream.start", s.must(t).event)
	require.NoError(t, s.response.Body.Close())
	require.Eventually(t, func() bool { // nobody follows any more
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.sinks) == 0
	}, 30*time.Second, 5*time.Millisecond)
	n.say("Hello")
	n.end(accepted.GetRunId(), "Hello", endTurn())
	require.Equal(t, 1, n.commands()) // no cancel
	pieces, _ := func() ([]piece, string) {
		go func() { n.end((<-n.sent).GetRunId(), "again", endTurn()) }()
		return n.send(t, "hi").pieces(t)
	}()
	require.Equal(t, "again", *pieces[len(pieces)-1].Content)
}

package sse

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"parley/actors/core/expected"
	"parley/actors/core/failure"
	"parley/actors/core/follow"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// fakeUpstream is conversations in memory, with the contract of the real ones: changes come under a lock, in order.
type fakeUpstream struct {
	mu   sync.Mutex
	logs map[string]*fakeLog
	// readError and follow, when set, may fail a read of the log and a subscription.
	readError func() error
	follow    func() error
	// lag, when set, delays what followers hear, each for itself, as a network does: the log is ahead of them.
	lag     func() time.Duration
	feeders sync.WaitGroup
	reads   int
	follows int
}

type fakeLog struct {
	epoch  uint64
	events []*conversationpb.Event
	run    string
	user   *conversationpb.Message
	text   string
	sinks  map[follow.Sink]func(func(follow.Sink)) // tells a sink
}

func newFakeUpstream() *fakeUpstream { return &fakeUpstream{logs: make(map[string]*fakeLog)} }

func (u *fakeUpstream) create(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.logs[id] = &fakeLog{epoch: 1, sinks: make(map[follow.Sink]func(func(follow.Sink)))}
}

func (u *fakeUpstream) Follow(ctx context.Context, id string, sink follow.Sink) (*conversationpb.Snapshot, func(), error) {
	u.mu.Lock()
	locked := true
	unlock := func() {
		if locked {
			locked = false
			u.mu.Unlock()
		}
	}
	defer unlock()
	u.follows++
	if u.follow != nil {
		if err := u.follow(); err != nil {
			return nil, nil, err
		}
	}
	log := u.logs[id]
	if log == nil && expected.In(ctx) {
		log = &fakeLog{epoch: 1, sinks: make(map[follow.Sink]func(func(follow.Sink)))}
		u.logs[id] = log
	}
	if log == nil {
		return nil, nil, failure.New(failurepb.Code_NOT_FOUND, failure.ConversationNotFound)
	}
	log.sinks[sink] = func(tell func(follow.Sink)) { tell(sink) }
	snapshot := &conversationpb.Snapshot{
		Epoch: log.epoch, LastSeq: uint64(len(log.events)), RunId: log.run, Text: log.text, UserMessage: log.user,
	}
	cancel := func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(log.sinks, sink)
	}
	if u.lag == nil {
		return snapshot, cancel, nil
	}
	feed := make(chan func(follow.Sink), 1<<16)
	log.sinks[sink] = func(tell func(follow.Sink)) { feed <- tell }
	quit := make(chan struct{})
	u.feeders.Go(func() {
		for {
			select {
			case tell := <-feed:
				<-time.After(u.lag())
				tell(sink)
			case <-quit:
				return
			}
		}
	})
	unlock()
	<-time.After(u.lag()) // the first changes may come before the snapshot
	return snapshot, sync.OnceFunc(func() {
		cancel()
		close(quit)
	}), nil
}

func (u *fakeUpstream) Events(_ context.Context, id string, after uint64, limit int) ([]*conversationpb.Event, uint64, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reads++
	if u.readError != nil {
		if err := u.readError(); err != nil {
			return nil, 0, err
		}
	}
	log := u.logs[id]
	if log == nil {
		return nil, 0, failure.New(failurepb.Code_NOT_FOUND, failure.ConversationNotFound)
	}
	last := uint64(len(log.events))
	var page []*conversationpb.Event
	for _, event := range log.events[min(after, last):] {
		if len(page) < limit && event.GetHeld() == nil { // not public
			page = append(page, event)
		}
	}
	return page, last, nil
}

// change applies f under the lock and tells the followers what it returns.
func (u *fakeUpstream) change(id string, f func(*fakeLog) *conversationpb.Change) {
	u.mu.Lock()
	defer u.mu.Unlock()
	log := u.logs[id]
	change := f(log)
	change.Epoch = log.epoch
	for _, tell := range log.sinks {
		tell(func(s follow.Sink) { s.Change(change) })
	}
}

// publish appends events.
func (u *fakeUpstream) publish(id string, events ...*conversationpb.Event) {
	u.change(id, func(log *fakeLog) *conversationpb.Change {
		for _, event := range events {
			event.Seq = uint64(len(log.events) + 1)
			event.CreatedAt = time.Now().UnixMilli()
			log.events = append(log.events, event)
			if event.EndsText() {
				log.run, log.text, log.user = "", "", nil
			}
		}
		return &conversationpb.Change{Events: events}
	})
}

// startRun makes a run active, or begins it again.
func (u *fakeUpstream) startRun(id, run string) {
	u.change(id, func(log *fakeLog) *conversationpb.Change {
		log.run, log.text = run, ""
		log.user = &conversationpb.Message{Id: "msg_" + run, Content: "question"}
		return &conversationpb.Change{RunStarted: &conversationpb.RunStarted{RunId: run, UserMessage: log.user}}
	})
}

func (u *fakeUpstream) say(id, text string) {
	u.change(id, func(log *fakeLog) *conversationpb.Change {
		delta := &conversationpb.Delta{RunId: log.run, Offset: uint64(len(log.text)), Text: text}
		log.text += text
		return &conversationpb.Change{Delta: delta}
	})
}

// cut ends all subscriptions, as when the owner moves.
func (u *fakeUpstream) cut(id string, remove bool) {
	u.mu.Lock()
	log := u.logs[id]
	log.epoch++
	sinks := log.sinks
	log.sinks = make(map[follow.Sink]func(func(follow.Sink)))
	if remove {
		delete(u.logs, id)
	}
	u.mu.Unlock()
	for _, tell := range sinks {
		tell(func(s follow.Sink) { s.Closed(errors.New("owner moved")) })
	}
}

func (u *fakeUpstream) followers(id string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.logs[id] == nil {
		return 0
	}
	return len(u.logs[id].sinks)
}

func updated(title string) *conversationpb.Event {
	return &conversationpb.Event{Body: &conversationpb.Event_Updated{
		Updated: &conversationpb.Updated{Patch: &conversationpb.Patch{Title: &title}},
	}}
}

func answered(run, content string) []*conversationpb.Event {
	return []*conversationpb.Event{
		{RunId: run, Body: &conversationpb.Event_AgentMessage{AgentMessage: &conversationpb.AgentMessage{
			Message: &conversationpb.Message{Content: content},
		}}},
		{RunId: run, Body: &conversationpb.Event_TurnEnded{TurnEnded: &conversationpb.TurnEnded{}}},
	}
}

// plainView renders what it is told, for the tests to check.
type plainView struct{}

func plain(name, data string, id uint64) Frame {
	b := Begin(len(data) + 32)
	if id > 0 {
		b = AppendID(b, id)
	}
	return Seal(AppendData(AppendEvent(b, name), []byte(data)))
}

func (plainView) Event(e *conversationpb.Event) (Frame, bool) {
	switch {
	case e.GetAgentMessage() != nil:
		return plain("answer", e.GetRunId()+"|"+e.GetAgentMessage().GetMessage().GetContent(), e.GetSeq()), false
	case e.GetUpdated() != nil:
		return plain("updated", e.GetUpdated().GetPatch().GetTitle(), e.GetSeq()), false
	case e.GetHeld() != nil:
		return nil, false
	}
	return plain("event", e.GetRunId(), e.GetSeq()), false
}

func (plainView) Snapshot(run Run) Frame {
	return plain("snapshot", run.ID+"|0|"+string(run.Text), 0)
}

func (plainView) Delta(run Run, offset int) Frame {
	return plain("delta", fmt.Sprintf("%s|%d|%s", run.ID, offset, run.Text[offset:]), 0)
}

func (plainView) End(why EndReason) Frame { return plain("parting", strconv.Itoa(int(why)), 0) }

// edge is a hub behind a real listener. A client says "<conversation> <after>\n" and gets the stream.
type edge struct {
	t        testing.TB
	hub      *Hub
	upstream *fakeUpstream
	listener net.Listener
	options  func(after uint64) Options
	wrap     func(net.Conn) net.Conn
	reuse    func(net.Conn)
	still    atomic.Pointer[func() *machine.Failure] // of the streams that are opened next
	released sync.WaitGroup
	serving  sync.WaitGroup
	plain    bool // clients speak HTTP/1.0
}

// hidden is anything but a *net.TCPConn, as a *tls.Conn is: it gets goroutines of its own.
type hidden struct{ net.Conn }

func (h hidden) NetConn() net.Conn { return h.Conn }

func testConfig() Config {
	cfg := DefaultConfig()
	cfg.Linger = 20 * time.Millisecond
	cfg.RetryMin = time.Millisecond
	cfg.RetryMax = 20 * time.Millisecond
	return cfg
}

func newEdge(tb testing.TB, cfg Config) *edge {
	tb.Helper()
	return newEdgeOf(tb, cfg, newFakeUpstream())
}

// newEdgeOf is one more edge of the same conversations.
func newEdgeOf(tb testing.TB, cfg Config, upstream *fakeUpstream) *edge {
	tb.Helper()
	fds := openFiles(tb)
	before := goleak.IgnoreCurrent()
	e := &edge{t: tb, upstream: upstream}
	e.options = func(after uint64) Options {
		return Options{After: after, Opening: Comment("open"), View: plainView{}, Shared: true}
	}
	hub, err := New(cfg, e.upstream, nil, prometheus.NewRegistry())
	require.NoError(tb, err)
	require.NoError(tb, hub.Start())
	e.hub = hub
	e.listener, err = net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a test's listener
	require.NoError(tb, err)
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			conn, err := e.listener.Accept()
			if err != nil {
				return
			}
			e.serving.Add(1)
			go e.serve(conn)
		}
	}()
	tb.Cleanup(func() {
		_ = e.listener.Close()
		<-accepting
		e.serving.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(tb, hub.Stop(ctx))
		require.NoError(tb, hub.Stop(ctx))
		e.released.Wait()
		e.upstream.feeders.Wait()
		require.Zero(tb, reading(hub.metrics.streams))
		require.Zero(tb, reading(hub.metrics.topics))
		require.Zero(tb, hub.streams)
		if _, benchmark := tb.(*testing.B); !benchmark {
			goleak.VerifyNone(tb, before)
			require.Eventually(tb, func() bool { return openFiles(tb) <= fds }, 30*time.Second, 5*time.Millisecond, "descriptors leak")
		}
	})
	return e
}

// reading returns the value of a counter or gauge.
func reading(metric prometheus.Metric) float64 {
	var out dto.Metric
	if err := metric.Write(&out); err != nil {
		return -1
	}
	return out.GetCounter().GetValue() + out.GetGauge().GetValue()
}

func openFiles(tb testing.TB) int {
	tb.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(tb, err)
	n := 0
	for _, entry := range entries {
		target, err := os.Readlink("/proc/self/fd/" + entry.Name())
		if err == nil && (strings.HasPrefix(target, "socket:") || strings.Contains(target, "eventpoll")) {
			n++
		}
	}
	return n
}

func (e *edge) serve(conn net.Conn) {
	defer e.serving.Done()
	line, err := readLine(conn)
	if err != nil {
		_ = conn.Close()
		return
	}
	id, after, _ := strings.Cut(line, " ")
	cursor, err := ParseCursor(after)
	if err != nil {
		_ = conn.Close()
		return
	}
	lease, err := e.hub.Acquire(context.Background(), id)
	if err != nil {
		_, _ = io.WriteString(conn, "HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n")
		_ = conn.Close()
		return
	}
	if e.wrap != nil {
		conn = e.wrap(conn)
	}
	e.released.Add(1)
	handover := Handover{Conn: conn, Head: []byte("X-Test: 1\r\n"), Release: e.released.Done, Reuse: e.reuse, Plain: e.plain}
	if still := e.still.Load(); still != nil {
		handover.Still = *still
	}
	lease.Open(handover, e.options(cursor))
}

// readLine reads byte by byte, because the rest of the connection belongs to the hub.
func readLine(conn net.Conn) (string, error) {
	var line []byte
	b := make([]byte, 1)
	for {
		if _, err := conn.Read(b); err != nil {
			return "", err
		}
		if b[0] == '\n' {
			return string(line), nil
		}
		line = append(line, b[0])
	}
}

// client reads one stream.
type client struct {
	conn   net.Conn
	status int
	header http.Header
	lines  *bufio.Reader
	pings  bool // they are wanted; they come at any time
}

type frame struct {
	id      uint64
	event   string
	data    string
	comment string
}

func (e *edge) dial(id string, after uint64) (*client, error) {
	conn, err := net.Dial("tcp", e.listener.Addr().String()) //nolint:noctx // a test's client
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn}
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err = fmt.Fprintf(conn, "%s %d\n", id, after); err != nil {
		return c, err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil) //nolint:bodyclose // the connection is closed
	if err != nil {
		return c, err
	}
	c.status, c.header = response.StatusCode, response.Header
	c.lines = bufio.NewReader(response.Body)
	return c, nil
}

// live is how many streams of a conversation have caught up with it.
func (e *edge) live(id string) (n int) {
	e.hub.mu.Lock()
	t := e.hub.topics[id]
	e.hub.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.followers {
		if f.live {
			n++
		}
	}
	return n
}

func (e *edge) follow(id string, after uint64) *client {
	e.t.Helper()
	c, err := e.dial(id, after)
	require.NoError(e.t, err)
	e.t.Cleanup(c.close)
	require.Equal(e.t, 200, c.status)
	opening, err := c.next()
	require.NoError(e.t, err)
	require.Equal(e.t, "open", opening.comment)
	return c
}

func (c *client) readBuffer(t *testing.T, bytes int) {
	t.Helper()
	tcp, ok := c.conn.(*net.TCPConn)
	require.True(t, ok)
	require.NoError(t, tcp.SetReadBuffer(bytes))
}

func (c *client) close() { _ = c.conn.Close() }

// next reads a frame as the standard says it is to be read.
func (c *client) next() (frame, error) {
	var f frame
	var data []string
	for {
		line, err := c.lines.ReadString('\n')
		if err != nil {
			return f, err
		}
		line = strings.TrimSuffix(line, "\n")
		if line == "" && f == (frame{comment: "ping"}) && !c.pings {
			f = frame{}
			continue
		}
		if line == "" {
			f.data = strings.Join(data, "\n")
			return f, nil
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "":
			f.comment = value
		case "id":
			f.id, err = strconv.ParseUint(value, 10, 64)
			if err != nil {
				return f, err
			}
		case "event":
			f.event = value
		case "data":
			data = append(data, value)
		case "retry":
		default:
			return f, fmt.Errorf("unknown line %q", line)
		}
	}
}

func (c *client) expect(t *testing.T, event, data string, id uint64) {
	t.Helper()
	f, err := c.next()
	require.NoError(t, err)
	require.Equal(t, frame{id: id, event: event, data: data}, f)
}

package convapi_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/entity"
	"parley/httpedge"
	"parley/httpedge/convapi"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/conversationpb"
	"parley/proto/nodepb"
)

// canned answers as fast as a client could, so that what is measured is the edge.
type canned struct {
	entity.Client
	state    *nodepb.StateReply
	messages *nodepb.MessagesReply
	list     *conversationpb.ConversationsReply
	events   *nodepb.EventsReply
}

func (c *canned) Read(_ context.Context, query proto.Message) (proto.Message, error) {
	switch query.(type) {
	case *nodepb.StateQuery:
		return c.state, nil
	case *nodepb.MessagesQuery:
		return c.messages, nil
	case *conversationpb.ConversationsQuery:
		return c.list, nil
	default:
		return c.events, nil
	}
}

type answering struct {
	endpoint.Runtime
	created, turned *conversationpb.Reply
}

func (a *answering) Ask(_ context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
	if command.GetSend() != nil {
		return a.turned, nil
	}
	return a.created, nil
}

func benchAPI() *convapi.API {
	talk := endpointtest.Talk(conv1, "ann", 20)
	for _, message := range talk.Messages {
		message.Content = "The quick brown fox jumps over the lazy dog, then asks \"what next?\" and waits for an answer.\n" +
			"A second line of about the same length as the first one, so that a message has some two hundred bytes."
	}
	list := &conversationpb.ConversationsReply{Total: 10_000}
	for i := range 20 {
		state := endpointtest.Talk(fmt.Sprintf("conv_%021d", i), "ann", 0).State
		state.Title = "A conversation about this and that"
		list.Conversations = append(list.Conversations, state)
	}
	turned := turn(conversationpb.StopReason_END_TURN)
	return convapi.New(convapi.DefaultConfig(), convapi.Parts{
		Entities: &canned{
			state:    &nodepb.StateReply{State: talk.State},
			messages: &nodepb.MessagesReply{State: talk.State, Messages: talk.Messages}, list: list,
			events: &nodepb.EventsReply{Events: talk.Events, LastSeq: 20},
		},
		Runtime: &answering{created: stateReply(talk.State), turned: turnReply(turned)},
		Agents:  agents(), IDs: &endpointtest.IDs{},
	})
}

var benchRequests = []struct{ name, method, path, body string }{
	{"read_20_messages", "GET", "/api/agents/conversations/" + conv1, ""},
	{"list_20", "GET", "/api/agents/conversations?userId=ann&limit=20", ""},
	{"create", "POST", "/api/agents/conversations", `{"agentId":"assistant","userId":"ann","title":"Plans"}`},
	{"send", "POST", "/api/agents/conversations/" + conv1 + "/messages", `{"message":"hello there","stream":false}`},
	{"events", "GET", "/api/agents/conversations/" + conv1 + "/events?after=0", ""},
}

// BenchmarkHandler is the edge without sockets: routing, access, decoding, handler, encoding, headers, metrics.
func BenchmarkHandler(b *testing.B) {
	mux := endpoint.NewMux(endpoint.MuxConfig{
		Node: "n1", MaxPathBytes: 2048, MaxJSONDepth: 64, MaxStreams: 10, RequestTimeout: time.Minute,
		Authenticator: endpointtest.Authenticate(endpointtest.Off),
	})
	api := benchAPI()
	require.NoError(b, mux.Mount(api.BasePath(), api.Surface()))
	for _, r := range benchRequests {
		b.Run(r.name, func(b *testing.B) {
			var request fasthttp.Request
			request.Header.SetMethod(r.method)
			request.SetRequestURI(r.path)
			request.SetBodyString(r.body)
			rc := &fasthttp.RequestCtx{}
			rc.Init(&request, nil, nil)
			b.ReportAllocs()
			for b.Loop() {
				mux.Serve(rc)
				rc.ResetUserValues()
				rc.Response.Reset()
			}
		})
	}
}

// BenchmarkEdge is the edge over loopback sockets, 64 callers, the client on the same processors.
func BenchmarkEdge(b *testing.B) {
	listener, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	require.NoError(b, err)
	server, err := httpedge.New(httpedge.DefaultConfig(), httpedge.Parts{
		Listener: listener, Node: "n1", Authenticator: endpointtest.Authenticate(endpointtest.Off),
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	require.NoError(b, err)
	api := benchAPI()
	require.NoError(b, server.Mount(api.BasePath(), api.Surface()))
	require.NoError(b, server.Start())
	b.Cleanup(func() { require.NoError(b, server.Stop(context.Background())) })
	for _, r := range benchRequests {
		b.Run(r.name, func(b *testing.B) {
			request := []byte(r.method + " " + r.path + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" +
				"Content-Length: " + strconv.Itoa(len(r.body)) + "\r\n\r\n" + r.body)
			const callers = 64
			var left atomic.Int64
			left.Store(int64(b.N))
			var group sync.WaitGroup
			b.ResetTimer()
			for range callers {
				group.Go(func() {
					conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", listener.Addr().String())
					if err != nil {
						b.Error(err)
						return
					}
					defer func() { _ = conn.Close() }()
					reader := bufio.NewReaderSize(conn, 32<<10)
					for left.Add(-1) >= 0 {
						if err := roundTrip(conn, reader, request); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
		})
	}
}

func roundTrip(conn net.Conn, reader *bufio.Reader, request []byte) error {
	if _, err := conn.Write(request); err != nil {
		return err
	}
	length := 0
	for first := true; ; first = false {
		line, err := reader.ReadSlice('\n')
		switch {
		case err != nil:
			return err
		case first && !bytes.HasPrefix(line, []byte("HTTP/1.1 20")):
			return fmt.Errorf("unexpected %q", line)
		case len(line) == 2:
			_, err = io.CopyN(io.Discard, reader, int64(length))
			return err
		case bytes.HasPrefix(line, []byte("Content-Length: ")):
			length, err = strconv.Atoi(string(line[16 : len(line)-2]))
			if err != nil {
				return err
			}
		}
	}
}

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// streamFields is the members of the data of a frame of a streamed message.
func streamFields(event string) fields {
	common := fields{"type": exactly(event), "timestamp": epochMillis, "seq": integer}
	switch event {
	case "stream.start":
		return common.with(fields{"conversationId": idOf("conv"), "messageId": idOf("msg")})
	case "stream.text":
		return common.with(fields{"text": nonEmpty, "isFinal": boolean})
	case "stream.tool_call":
		return common.with(fields{"toolName": nonEmpty, "toolCallId": nonEmpty, "args": anyObject})
	case "stream.tool_result":
		return common.with(fields{"toolName": nonEmpty, "toolCallId": nonEmpty, "result": either(anyText, anyObject)})
	case "stream.error":
		return common.with(fields{"error": nonEmpty, "code": nonEmpty, "conversationId": idOf("conv"), "runId": idOf("run"), "messageId?": idOf("msg")})
	default:
		return common.with(fields{
			"conversationId": idOf("conv"), "messageId": idOf("msg"), "content": nonEmpty, "stopReason": exactly("end_turn"), "runId": idOf("run"), "title": nonEmpty,
			"usage": usageRecord(fields{"costUsd": nil}),
		})
	}
}

// streamed is a message's stream as a whole.
type streamed struct {
	start, last frame
	text        string
	pieces      int
}

// sayStreamed sends a message and reads its stream to the end. Every frame must be as document 2 has it.
func (p *process) sayStreamed(t *testing.T, id string) streamed {
	t.Helper()
	s := p.follow(t, "POST", "/conversations/"+id+"/messages", map[string]any{"message": "go", "stream": true})
	var all streamed
	var last float64
	for seq := 1; ; seq++ {
		f := s.frame()
		require.Empty(t, f.id, "no id line: these frames cannot be resumed")
		require.InDelta(t, seq, f.data.number("seq"), 0)
		require.GreaterOrEqual(t, f.data.number("timestamp"), last)
		last = f.data.number("timestamp")
		switch f.event {
		case "stream.start":
			require.Equal(t, 1, seq)
			all.start = f
		case "stream.text":
			require.NoError(t, object(streamFields(f.event))(f.data.v), f.raw)
			all.text += f.data.text("text")
			all.pieces++
		case "stream.tool_call", "stream.tool_result":
			require.NoError(t, object(streamFields(f.event))(f.data.v), f.raw)
		default:
			all.last = f
			s.ends()
			require.NoError(t, object(streamFields("stream.start").with(fields{"conversationId": exactly(id)}))(all.start.data.v), all.start.raw)
			return all
		}
	}
}

func TestSpecMessageStream(t *testing.T) {
	t.Parallel()
	p := open(t)
	stored := func(t *testing.T, id string) []tree {
		t.Helper()
		return p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).at("messages").list()
	}
	t.Run("start_text_done", func(t *testing.T) {
		id := p.newConversation(t, "words", "stream")
		all := p.sayStreamed(t, id)
		require.NoError(t, object(streamFields("stream.done").with(fields{
			"conversationId": exactly(id), "content": exactly("w1 w2 w3 w4 w5 w6 w7 w8"),
			"usage": exactly(map[string]int{"inputTokens": 1, "outputTokens": 8, "totalTokens": 9}),
		}))(all.last.data.v), all.last.raw)
		require.Equal(t, all.last.data.text("content"), all.text, "the pieces are the whole")
		require.Greater(t, all.pieces, 3, "they come as they are made")
		messages := stored(t, id)
		require.Equal(t, messages[0].text("id"), all.start.data.text("messageId"), "start names the stored user message")
		require.Equal(t, messages[1].text("id"), all.last.data.text("messageId"), "done names the stored answer")
		require.Equal(t, messages[1].text("content"), all.text)
		events := p.ask(t, "GET", "/conversations/"+id+"/events", nil).fits(200, eventsRecord(nil)).at("events").list()
		require.Equal(t, events[0].text("run_id"), all.last.data.text("runId"))
	})
	t.Run("first_piece_comes_before_the_end", func(t *testing.T) {
		id := p.newConversation(t, "slow", "stream")
		s := p.follow(t, "POST", "/conversations/"+id+"/messages", map[string]any{"message": "go", "stream": true})
		s.until("stream.text")
		require.Equal(t, "running", p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).text("conversation", "runtime", "status"))
		p.ask(t, "POST", "/conversations/"+id+"/cancel", nil).fits(200, anyObject)
		done := s.until("stream.done")
		s.ends()
		require.NoError(t, object(streamFields("stream.done").with(fields{"stopReason": exactly("cancelled"), "status": exactly("cancelled")}))(done.data.v), done.raw)
		require.Equal(t, stored(t, id)[1].text("content"), done.data.text("content"))
	})
	t.Run("model_that_breaks_in_the_middle", func(t *testing.T) {
		id := p.newConversation(t, "broken", "stream")
		all := p.sayStreamed(t, id)
		require.Equal(t, "one two", all.text)
		require.NoError(t, object(streamFields("stream.error").with(fields{
			"error": exactly("the model broke"), "code": exactly("provider_error"), "conversationId": exactly(id), "messageId": exactly(stored(t, id)[1].text("id")),
		}))(all.last.data.v), all.last.raw)
	})
	t.Run("model_that_says_nothing", func(t *testing.T) {
		id := p.newConversation(t, "mute", "stream")
		all := p.sayStreamed(t, id)
		require.Zero(t, all.pieces)
		require.NoError(t, object(streamFields("stream.error").with(fields{
			"error": exactly("the model refused"), "code": exactly("invalid_request"), "messageId": nil,
		}))(all.last.data.v), all.last.raw)
		require.Len(t, stored(t, id), 1)
	})
	for agent, reason := range map[string]string{"capped": "limit", "looping": "max_turns"} {
		t.Run("stream_of_"+agent, func(t *testing.T) {
			all := p.sayStreamed(t, p.newConversation(t, agent, "stream"))
			require.NoError(t, object(streamFields("stream.done").with(fields{"stopReason": exactly(reason), "status": exactly("incomplete")}))(all.last.data.v), all.last.raw)
			require.Equal(t, all.last.data.text("content"), all.text)
		})
	}
	t.Run("cost_is_told", func(t *testing.T) {
		all := p.sayStreamed(t, p.newConversation(t, "priced", "stream"))
		require.InDelta(t, 0.002, all.last.data.number("usage", "costUsd"), 0)
	})
	t.Run("refusals_before_the_first_frame_are_json", func(t *testing.T) {
		id := p.newConversation(t, "quick", "stream")
		post := func(id, body string) answer { return p.ask(t, "POST", "/conversations/"+id+"/messages", body) }
		post(id, `{"message":"","stream":true}`).refused(400, "VALIDATION_ERROR")
		post(id, `{"message":"x","stream":true,"metadata":[]}`).refused(400, "VALIDATION_ERROR")
		post(id, `{"message":"x","stream":true,"fileIds":["file_x"]}`).refused(403, "attachments_disabled")
		post("conv_AAAAAAAAAAAAAAAAAAAAA", `{"message":"x","stream":true}`).refused(404, "NOT_FOUND")
		require.Empty(t, stored(t, id))
	})
	t.Run("bytes_on_the_wire", func(t *testing.T) { bytesOnTheWire(t, p) })
}

// bytesOnTheWire reads a streamed message without any HTTP client, and then asks again on the same connection.
func bytesOnTheWire(t *testing.T, p *process) {
	t.Helper()
	id := p.newConversation(t, "quick", "stream")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.listen)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	const body = `{"message":"x","stream":true}`
	_, err = fmt.Fprintf(conn, "POST /api/agents/conversations/%s/messages HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: wire-1\r\nContent-Length: %d\r\n\r\n%s", id, len(body), body)
	require.NoError(t, err)
	reader := bufio.NewReader(conn)
	var head []string
	for {
		line, fault := reader.ReadString('\n')
		require.NoError(t, fault)
		if line == "\r\n" {
			break
		}
		head = append(head, strings.TrimSuffix(line, "\r\n"))
	}
	require.Equal(t, "HTTP/1.1 200 OK", head[0])
	require.Subset(t, head, []string{
		"Content-Type: text/event-stream", "Cache-Control: no-cache", "Connection: keep-alive", "X-Accel-Buffering: no",
		"X-Request-Id: wire-1", "X-Served-By: spec-1", "Transfer-Encoding: chunked",
	})
	text := string(dechunk(t, reader))
	require.Regexp(t, `^event: stream\.start\ndata: \{[^\n]*\}\n\n(event: stream\.text\ndata: \{[^\n]*\}\n\n)+event: stream\.done\ndata: \{[^\n]*\}\n\n$`, text)

	_, err = fmt.Fprintf(conn, "GET /api/agents/conversations/%s HTTP/1.1\r\nHost: localhost\r\n\r\n", id)
	require.NoError(t, err)
	response, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	require.Equal(t, http.StatusOK, response.StatusCode, "the connection serves the next request")
}

// dechunk reads a chunked body to its last chunk.
func dechunk(t *testing.T, reader *bufio.Reader) []byte {
	t.Helper()
	var text []byte
	for {
		var size int
		line, err := reader.ReadString('\n')
		require.NoError(t, err)
		_, err = fmt.Sscanf(line, "%x\r\n", &size)
		require.NoErrorf(t, err, "%q", line)
		chunk := make([]byte, size+len("\r\n"))
		_, err = io.ReadFull(reader, chunk)
		require.NoError(t, err)
		require.Equal(t, "\r\n", string(chunk[size:]))
		if size == 0 {
			return text
		}
		text = append(text, chunk[:size]...)
	}
}

func TestSpecEventStream(t *testing.T) {
	t.Parallel()
	p := open(t)
	id, _ := talked(t, p, "event stream", 2) // 8 events
	path := "/conversations/" + id + "/events/stream"
	page := p.ask(t, "GET", "/conversations/"+id+"/events", nil).text

	t.Run("replay_byte_for_byte", func(t *testing.T) {
		s := p.follow(t, "GET", path, nil)
		require.Equal(t, ": open", s.block())
		log := decode(t, page).at("events").list()
		for i, event := range log {
			block := s.block()
			head := fmt.Sprintf("id: %d\nevent: %s\ndata: ", i+1, event.text("type"))
			require.Truef(t, strings.HasPrefix(block, head), "%q", block)
			data := strings.TrimPrefix(block, head)
			require.Contains(t, page, data, "the data is the event of the page, byte for byte")
			require.Equal(t, event.v, decode(t, data).v)
		}
	})
	for _, c := range []struct {
		name, query, lastEventID string
		want                     []int
	}{
		{"from_the_beginning", "", "", []int{1, 2, 3, 4, 5, 6, 7, 8}},
		{"stream_after_0", "?after=0", "", []int{1, 2, 3, 4, 5, 6, 7, 8}},
		{"stream_after_a_seq", "?after=6", "", []int{7, 8}},
		{"last_event_id", "", "5", []int{6, 7, 8}},
		{"last_event_id_wins_over_after", "?after=1", "7", []int{8}},
		{"last_event_id_of_0_wins_too", "?after=7", "0", []int{1, 2, 3, 4, 5, 6, 7, 8}},
		{"after_the_newest", "?after=8", "", nil},
		{"far_after_the_newest", "?after=100000", "", nil},
		{"stream_of_one_type", "?types=agent.message", "", []int{3, 7}},
		{"stream_of_two_types", "?types=user.message,session.status_idle&after=1", "", []int{4, 5, 8}},
		{"stream_of_empty_types", "?types=", "6", []int{7, 8}},
		{"stream_of_unknown_types", "?types=nothing.such", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var headers []string
			if c.lastEventID != "" {
				headers = []string{"Last-Event-ID", c.lastEventID}
			}
			s := p.follow(t, "GET", path+c.query, nil, headers...)
			require.Equal(t, ": open", s.block())
			for _, seq := range c.want {
				require.Equal(t, seq, s.frame().seq(t))
			}
		})
	}
	t.Run("bad_last_event_id_is_400", func(t *testing.T) {
		for _, bad := range []string{"x", "-1", "1.5", "evt_1", "99999999999999999999"} {
			p.ask(t, "GET", path, nil, "Last-Event-ID", bad).refused(400, "VALIDATION_ERROR")
			p.ask(t, "GET", path+"?after=3", nil, "Last-Event-ID", bad).refused(400, "VALIDATION_ERROR")
		}
	})
	t.Run("unknown_conversation_is_json", func(t *testing.T) {
		p.ask(t, "GET", "/conversations/conv_AAAAAAAAAAAAAAAAAAAAA/events/stream", nil).refused(404, "NOT_FOUND")
	})
	t.Run("updates_come_live", func(t *testing.T) {
		quiet := p.newConversation(t, "quick", "event stream")
		s := p.follow(t, "GET", "/conversations/"+quiet+"/events/stream", nil)
		require.Equal(t, ": open", s.block())
		p.ask(t, "PATCH", "/conversations/"+quiet, `{"title":"x"}`).fits(200, anyObject)
		require.Equal(t, "session.updated", s.frame().event)
		p.ask(t, "DELETE", "/conversations/"+quiet, nil).empty(204)
		require.True(t, strings.HasPrefix(s.block(), ":"), "a comment says why")
		s.ends()
	})
	t.Run("connection_serves_the_next_request", func(t *testing.T) {
		gone := p.newConversation(t, "quick", "event stream")
		connections := &http.Transport{}
		defer connections.CloseIdleConnections()
		do := func(request *http.Request) *http.Response {
			response, err := (&http.Client{Transport: connections, Timeout: time.Minute}).Do(request)
			require.NoError(t, err)
			return response
		}
		s := do(p.newRequest(t, "GET", "/conversations/"+gone+"/events/stream", nil, nil))
		p.ask(t, "DELETE", "/conversations/"+gone, nil).empty(204)
		require.Contains(t, readAll(t, s), ": open")
		require.NoError(t, s.Body.Close())
		reused := false
		trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { reused = got.Reused }}
		request := p.newRequest(t, "POST", "/conversations", `{"agentId":"quick"}`, nil)
		answered := do(request.WithContext(httptrace.WithClientTrace(request.Context(), trace)))
		require.NoError(t, answered.Body.Close())
		require.Equal(t, http.StatusCreated, answered.StatusCode)
		require.True(t, reused, "a POST is not made again on another one")
	})
}

// liveFields is the members of a frame that is not stored.
func liveFields(event string, data fields) shape {
	return object(fields{"type": exactly(event), "data": object(data), "run_id": idOf("run"), "created_at": moment})
}

func TestSpecLiveStream(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := p.newConversation(t, "slow", "live")
	path := "/conversations/" + id + "/events/stream"
	early := p.follow(t, "GET", path, nil) // before the turn: no snapshot
	require.Equal(t, ": open", early.block())
	sender := p.follow(t, "POST", "/conversations/"+id+"/messages", map[string]any{"message": "go", "stream": true})
	question := sender.until("stream.start").data.text("messageId")
	sender.until("stream.text")
	run := p.running(t, id)

	// Followers that come in mid-turn, each with what it wants.
	late := p.follow(t, "GET", path, nil)
	resumed := p.follow(t, "GET", path, nil, "Last-Event-ID", "2")
	stored := p.follow(t, "GET", path+"?types=agent.message,session.status_idle", nil)
	snapshots := p.follow(t, "GET", path+"?types=agent.message.snapshot", nil)
	deltas := p.follow(t, "GET", path+"?types=agent.message.delta,session.status_idle", nil)
	head := late.peek(t, 3)
	for range 20 {
		sender.until("stream.text")
	}
	p.ask(t, "POST", "/conversations/"+id+"/cancel", nil).fits(200, anyObject)
	answered := p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).at("messages").list()[1].text("content")
	events := []string{"user.message", "session.status_running", "session.cancel_requested", "agent.message", "session.status_idle"}

	t.Run("follower_from_before_the_turn", func(t *testing.T) {
		seen := early.turn(t, run, question)
		require.False(t, seen.snapshot, "it heard everything from the beginning")
		require.Equal(t, answered, seen.text)
		require.Equal(t, events, seen.events)
	})
	t.Run("late_follower_gets_a_snapshot_first", func(t *testing.T) {
		require.Equal(t, ": open", head[0])
		require.True(t, strings.HasPrefix(head[1], "event: agent.message.snapshot\ndata: {"), head[1])
		require.True(t, strings.HasPrefix(head[2], "id: 1\nevent: user.message\n"), head[2])
		require.Equal(t, ": open", late.block())
		seen := late.turn(t, run, question)
		require.True(t, seen.snapshot)
		require.Equal(t, answered, seen.text, "snapshot and deltas are the whole")
		require.Equal(t, events, seen.events)
	})
	t.Run("resumed_follower_gets_a_snapshot_first", func(t *testing.T) {
		require.Equal(t, ": open", resumed.block())
		seen := resumed.turn(t, run, question)
		require.True(t, seen.snapshot)
		require.Equal(t, answered, seen.text)
		require.Equal(t, events[2:], seen.events)
	})
	t.Run("types_without_live_ones_get_no_snapshot", func(t *testing.T) {
		require.Equal(t, ": open", stored.block())
		require.Equal(t, "agent.message", stored.frame().event)
		require.Equal(t, "session.status_idle", stored.frame().event)
	})
	t.Run("snapshot_alone", func(t *testing.T) {
		require.Equal(t, ": open", snapshots.block())
		require.Equal(t, "agent.message.snapshot", snapshots.frame().event)
	})
	t.Run("deltas_bring_their_snapshot", func(t *testing.T) {
		require.Equal(t, ": open", deltas.block())
		seen := deltas.turn(t, run, question)
		require.True(t, seen.snapshot)
		require.Equal(t, answered, seen.text)
		require.Equal(t, []string{"session.status_idle"}, seen.events)
	})
	t.Run("nothing_live_is_stored", func(t *testing.T) {
		after := p.follow(t, "GET", path, nil)
		require.Equal(t, ": open", after.block())
		for i, event := range events {
			f := after.frame()
			require.Equal(t, event, f.event)
			require.Equal(t, i+1, f.seq(t))
		}
	})
}

// turnSeen is what a follower made of a turn.
type turnSeen struct {
	snapshot bool
	text     string
	events   []string
}

// turn reads a stream up to the end of a turn, and checks every live frame of it.
func (s *stream) turn(t *testing.T, run, question string) turnSeen {
	t.Helper()
	var seen turnSeen
	for {
		f := s.frame()
		require.Equal(t, run, f.data.text("run_id"))
		switch f.event {
		case "agent.message.snapshot":
			require.Empty(t, f.id)
			require.Falsef(t, seen.snapshot || len(seen.events) > 0, "not the first frame: %q", f.raw)
			require.NoError(t, liveFields(f.event, fields{
				"run_id": exactly(run), "text": anyText, "user_message": exactly(map[string]string{"content": "go", "message_id": question}),
			})(f.data.v), f.raw)
			seen.snapshot, seen.text = true, f.data.text("data", "text")
		case "agent.message.delta":
			require.Empty(t, f.id)
			require.NoError(t, liveFields(f.event, fields{"text": nonEmpty, "offset": exactly(len(seen.text))})(f.data.v), f.raw)
			seen.text += f.data.text("data", "text")
		default:
			require.NotEmpty(t, f.id)
			seen.events = append(seen.events, f.event)
			if f.event == "session.status_idle" {
				return seen
			}
		}
	}
}

func TestSpecStreamTypesAreEscaped(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := p.newConversation(t, "quick", "stream types")
	p.say(t, id, "line\nbreak\r\nid: 99\n\nevent: fake\ndata: {}\n\n")
	s := p.follow(t, "GET", "/conversations/"+id+"/events/stream?types="+url.QueryEscape("user.message , agent.message"), nil)
	require.Equal(t, ": open", s.block())
	first := s.frame()
	require.Equal(t, 1, first.seq(t))
	require.Equal(t, "line\nbreak\r\nid: 99\n\nevent: fake\ndata: {}\n\n", first.data.text("data", "content"))
	require.Equal(t, 3, s.frame().seq(t))
}

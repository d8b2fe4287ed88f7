package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"parley/actors/core/failure"
	"parley/httpedge/endpoint"
	"parley/httpedge/sse"
	"parley/proto/failurepb"
)

var errClientGone = errors.New("the client has left")

// head is the response's status and headers; those of the edge come between.
const (
	statusLine = "HTTP/1.1 200 OK\r\n"
	streamHead = "Content-Type: text/event-stream\r\n" +
		"Cache-Control: no-cache, no-transform\r\n" +
		"X-Accel-Buffering: no\r\n"
	inChunks  = "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n"
	plainly   = "Connection: close\r\n\r\n" // to a client of HTTP/1.0
	endMark   = "data: [DONE]\n\n"
	lastChunk = "0\r\n\r\n"
	pingText  = "ping"
)

// fullBuffer is how many bytes are held back at most while more chunks follow at once.
const fullBuffer = 16 << 10

// sendBuffer is what the kernel takes for a stream whose client does not read; it counts twice that much.
const sendBuffer = 64 << 10

// firstChunk is the room for a chunk behind the head.
const firstChunk = 512

// stream answers with the chunks of a model. It returns once the first one is there, or the call has failed.
func (a *API) stream(ctx context.Context, call *Call, out endpoint.Stream) error {
	if err := out.Admit(); err != nil {
		return err
	}
	if !a.begin() {
		return failure.New(failurepb.Code_UNAVAILABLE, failure.ServerShuttingDown)
	}
	bounded, release := context.WithTimeout(a.base, a.config.StreamTimeout)
	// It outlives the request.
	streamed, cancel := context.WithCancelCause(endpoint.WithCall(bounded, &endpoint.Call{Caller: call.Caller}))
	s := &stream{
		api: a, call: call, ctx: streamed, cancel: cancel,
		begun: make(chan struct{}), over: make(chan error, 1), conn: make(chan endpoint.Takeover, 1),
	}
	go func() {
		defer a.streams.Done()
		defer release()
		defer cancel(context.Canceled)
		s.run()
	}()
	select {
	case <-s.begun:
		err := out.Start(func(t endpoint.Takeover) { s.conn <- t })
		if err != nil {
			close(s.conn)
		}
		return err
	case err := <-s.over:
		return err
	case <-ctx.Done():
		close(s.conn)
		cancel(errClientGone) // nobody waits for it any more
		return ctx.Err()
	}
}

// stream is one streamed answer. Its goroutine is the only one that uses it, but for the channels and the writing.
type stream struct {
	api    *API
	call   *Call
	ctx    context.Context //nolint:containedctx // of the stream, which is one call
	cancel context.CancelCauseFunc
	begun  chan struct{}          // closed with the first chunk
	over   chan error             // the call failed before its first chunk
	conn   chan endpoint.Takeover // closed when none comes

	started bool
	take    endpoint.Takeover
	watch   *watch
	buffer  []byte
	room    int // of the buffer before the text

	mu struct { // chunks and pings
		sync.Mutex
		head  []byte    // of the response, until it is sent with what comes first
		wrote time.Time // last
	}
}

func (s *stream) run() {
	err := s.chat()
	if !s.started {
		if err == nil {
			err = errors.New("the model ended a stream that had not begun")
		}
		s.over <- err
		return
	}
	s.end(err)
}

// chat calls the model. A panic is a fault of this call, not of the process.
func (s *stream) chat() (err error) {
	defer func() {
		if caught := recover(); caught != nil {
			err = fmt.Errorf("panic: %v\n%s", caught, debug.Stack())
		}
	}()
	return s.api.models.ChatStream(s.ctx, s.call, s.emit)
}

// emit takes a chunk. With the first one the connection is taken over.
func (s *stream) emit(chunk []byte, more bool) error {
	if !s.started {
		s.started = true
		close(s.begun)
		if err := s.begin(); err != nil {
			return err
		}
	}
	if s.take.Conn == nil {
		return errClientGone
	}
	s.buffer = append(s.buffer, "data: "...)
	s.buffer = append(s.buffer, chunk...)
	s.buffer = append(s.buffer, '\n', '\n')
	if more && len(s.buffer) < fullBuffer {
		return nil
	}
	return s.flush("")
}

// begin waits for the connection. The head goes with the first chunk.
func (s *stream) begin() error {
	select {
	case s.take = <-s.conn:
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
	if s.take.Conn == nil {
		return errClientGone
	}
	framing := inChunks
	if s.take.Plain {
		framing = plainly
	}
	head := make([]byte, 0, len(statusLine)+len(s.take.Head)+len(streamHead)+len(framing)+firstChunk)
	s.mu.head = append(append(append(append(head, statusLine...), s.take.Head...), streamHead...), framing...)
	if tcp, ok := s.take.Conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // else the kernel takes megabytes for a client that does not read
	}
	s.mu.wrote = time.Now()
	s.buffer = sse.Begin(fullBuffer)
	s.room = len(s.buffer)
	s.watch = newWatch(s)
	return nil
}

// flush writes what is in the buffer as one piece of the body, and what follows the body.
func (s *stream) flush(tail string) error {
	if len(s.buffer) == s.room {
		return nil
	}
	piece := append(sse.Seal(s.buffer), tail...)
	s.buffer = s.buffer[:s.room]
	return s.write(piece)
}

func (s *stream) write(piece sse.Frame) error {
	if s.take.Plain {
		piece = sse.Unchunked(piece)
	}
	data := []byte(piece)
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(context.Cause(s.ctx), errClientGone) { // perhaps in the middle of a ping
		return errClientGone
	}
	if s.mu.head != nil {
		data = append(s.mu.head, data...)
		s.mu.head = nil
	}
	s.mu.wrote = time.Now()
	err := s.take.Conn.SetWriteDeadline(s.mu.wrote.Add(s.api.config.WriteTimeout))
	if err == nil {
		_, err = s.take.Conn.Write(data)
	}
	if err != nil {
		s.cancel(errClientGone)
		return errClientGone
	}
	return nil
}

// ping writes a comment after PingEvery without data, so that no proxy closes the stream as idle. It returns how long to wait before
// the next one.
func (s *stream) ping() time.Duration {
	every := s.api.config.PingEvery
	s.mu.Lock()
	left := every - time.Since(s.mu.wrote)
	s.mu.Unlock()
	if left > 0 {
		return left
	}
	_ = s.write(sse.Comment(pingText)) // whoever has left is noticed there
	return every
}

// refused ends the call when its caller has lost the permission for it.
func (s *stream) refused() bool {
	if s.take.Still == nil {
		return false
	}
	refused := s.take.Still()
	if refused != nil {
		s.cancel(refused)
	}
	return refused != nil
}

// end says how the stream ended, and gives the connection back.
func (s *stream) end(err error) {
	if s.take.Release == nil { // ended before the connection came: it comes, or the handler has failed
		s.abandon()
		return
	}
	defer s.take.Release()
	if s.take.Conn == nil {
		return
	}
	s.watch.stop()
	if refused, ok := errors.AsType[*failure.Failure](context.Cause(s.ctx)); ok && err != nil {
		err = refused
	}
	left := errors.Is(err, errClientGone)
	if err != nil && !left {
		s.report(err)
	}
	clean := false
	if !left {
		s.buffer = append(s.buffer, endMark...)
		clean = s.flush(lastChunk) == nil
	}
	if _, plain := s.take.Conn.(*net.TCPConn); clean && plain && s.take.Reuse != nil && s.ctx.Err() == nil {
		_ = s.take.Conn.SetDeadline(time.Time{}) // of a dead connection: the next read says so
		s.take.Reuse(s.take.Conn)
		return
	}
	_ = s.take.Conn.Close() // nothing depends on it any more
}

// abandon closes a connection that comes when the stream is over.
func (s *stream) abandon() {
	patience := time.NewTimer(s.api.config.WriteTimeout)
	defer patience.Stop()
	select {
	case take, comes := <-s.conn:
		if take.Conn != nil {
			_ = take.Conn.Close() // nothing depends on it any more
		}
		if comes {
			take.Release()
		}
	case <-patience.C:
	}
}

// report sends an error in mid-stream.
func (s *stream) report(err error) {
	problem := problemOf(err)
	if problem.Cause != nil {
		s.api.log.LogAttrs(s.ctx, slog.LevelWarn, "stream of a model ended with an error",
			slog.String("request", s.call.RequestID), slog.String("model", s.call.Model), slog.String("err", problem.Cause.Error()))
	}
	frame := struct {
		Error     ErrorFields `json:"error"`
		RequestID string      `json:"request_id"`
	}{bodyOf(problem), s.call.RequestID}
	encoded, _ := json.Marshal(frame) // texts always encode
	s.buffer = append(s.buffer, "data: "...)
	s.buffer = append(s.buffer, encoded...)
	s.buffer = append(s.buffer, '\n', '\n')
}

// watch detects that the client has closed the connection or lost its permission, and sends pings meanwhile. Data from the client
// is left unread: it is the next request.
type watch struct {
	conn net.Conn
	done chan struct{}

	mu struct {
		sync.Mutex
		stopped chan struct{}
	}
}

func newWatch(s *stream) *watch {
	w := &watch{conn: s.take.Conn, done: make(chan struct{})}
	w.mu.stopped = make(chan struct{})
	go func() {
		defer close(w.done)
		asked := false // the next request has come: what follows it is not seen
		for wait := s.api.config.PingEvery; w.arm(wait); wait = s.ping() {
			if s.refused() {
				return
			}
			if asked {
				w.sleep(wait)
				continue
			}
			came, err := endpoint.AwaitData(w.conn, 0)
			var timeout net.Error
			switch {
			case came:
				asked = true
			case !errors.As(err, &timeout) || !timeout.Timeout():
				s.cancel(errClientGone)
				return
			}
		}
	}()
	return w
}

// arm sets the deadline of the next check unless the watch is ending.
func (w *watch) arm(wait time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.mu.stopped:
		return false
	default:
		_ = w.conn.SetReadDeadline(time.Now().Add(wait)) // of a dead connection: the look says so
		return true
	}
}

// sleep waits, but not longer than the watch lasts.
func (w *watch) sleep(wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.mu.stopped:
	}
}

// stop ends the watch.
func (w *watch) stop() {
	w.mu.Lock()
	close(w.mu.stopped)
	_ = w.conn.SetReadDeadline(time.Unix(1, 0)) // of a dead connection: the look has ended
	w.mu.Unlock()
	<-w.done
}

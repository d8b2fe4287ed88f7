package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// streamChunk is the most data in one frame of a stream.
	streamChunk = 128 << 10
	// maxHead bounds the header of a snapshot and the request of a fetch.
	maxHead = 1 << 20
	// maxEnd bounds the error text at the end of a stream.
	maxEnd = 4 << 10
)

// RemoteError is what went wrong with a stream on the other node, in its words.
type RemoteError struct{ Text string }

// Error implements error.
func (e *RemoteError) Error() string { return e.Text }

// stream is one end of a long transfer over a link of its own. Each side sends data and one end, and pings so that the other knows it is
// alive while it has nothing to send.
type stream struct {
	l       *link
	timeout time.Duration

	mu   sync.Mutex // of what is written
	out  []byte     // the frame that is being filled, header included
	sent bool       // something since the last ping
	err  error      // of a write

	in   []byte // buffer of the frame that was read last
	rest []byte // of its data
	end  error  // nothing comes any more: io.EOF if all is well
}

func newStream(l *link, timeout time.Duration) *stream {
	out := make([]byte, headerSize, headerSize+streamChunk)
	return &stream{l: l, timeout: timeout, out: out}
}

// Write buffers data and sends it in frames.
func (s *stream) Write(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(p) > 0 && s.err == nil {
		step := min(len(p), cap(s.out)-len(s.out))
		s.out = append(s.out, p[:step]...)
		n, p = n+step, p[step:]
		if len(s.out) == cap(s.out) {
			s.flushLocked()
		}
	}
	return n, s.err
}

func (s *stream) flushLocked() {
	if len(s.out) > headerSize {
		seal(s.out, kindData)
		s.writeLocked(s.out)
		s.out = s.out[:headerSize]
	}
}

func (s *stream) writeLocked(frame []byte) {
	if s.err == nil {
		_, s.err = s.l.conn.Write(frame)
		s.sent = true
	}
}

// head sends what opens the stream.
func (s *stream) head(head []byte) error {
	if len(head) > maxHead {
		return fmt.Errorf("stream head of %d bytes, at most %d are allowed", len(head), maxHead)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeLocked(appendFrame(nil, kindHead, head))
	return s.err
}

// finish ends this side's data, with cause if that is why.
func (s *stream) finish(cause error) error {
	text := ""
	if cause != nil {
		text = cause.Error()
		text = text[:min(len(text), maxEnd)]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if cause == nil {
		s.flushLocked()
	}
	s.writeLocked(appendFrame(nil, kindEnd, []byte(text)))
	return s.err
}

// keepAlive sends what is buffered, or a ping, whenever nothing was sent for a while; it calls broken when that fails. The function
// returned ends it and waits.
func (s *stream) keepAlive(broken func()) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(pingEvery(s.timeout))
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				if s.ping() != nil {
					broken()
					return
				}
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

func (s *stream) ping() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushLocked()
	if !s.sent {
		var ping [headerSize]byte
		seal(ping[:], kindPing)
		s.writeLocked(ping[:])
	}
	s.sent = false
	return s.err
}

// readHead reads what opens the stream.
func (s *stream) readHead() ([]byte, error) {
	kind, head, err := s.next(maxHead)
	if err == nil && kind != kindHead {
		err = fmt.Errorf("%w: kind %d instead of a stream's head", errBadFrame, kind)
	}
	return head, err
}

// Read reads the other side's data. Its end is io.EOF, its failure a RemoteError.
func (s *stream) Read(p []byte) (int, error) {
	for len(s.rest) == 0 && s.end == nil {
		kind, payload, err := s.next(streamChunk)
		switch {
		case err != nil:
			s.end = err
		case kind == kindData:
			s.in, s.rest = payload, payload
		case kind == kindEnd && len(payload) == 0:
			s.end = io.EOF
		case kind == kindEnd:
			s.end = &RemoteError{Text: string(payload)}
		case kind != kindPing:
			s.end = fmt.Errorf("%w: kind %d in a stream", errBadFrame, kind)
		}
	}
	if len(s.rest) == 0 {
		return 0, s.end
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// next reads one frame, waiting for Timeout at most.
func (s *stream) next(limit int) (Kind, []byte, error) {
	if err := s.l.raw.SetReadDeadline(time.Now().Add(s.timeout)); err != nil {
		return 0, nil, err
	}
	kind, payload, err := readFrame(s.l.r, limit, s.in)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // only an end ends a stream
	}
	return kind, payload, err
}

// outcome reads to the end and returns what it says, nil if all is well.
func (s *stream) outcome() error {
	_, err := io.Copy(io.Discard, readerOnly{s})
	return err
}

// readerOnly hides Write from io.Copy.
type readerOnly struct{ io.Reader }

// SendSnapshot streams a snapshot to a node over a connection of its own. write produces the bytes, and is called once the node has taken the
// connection. It returns nil once OnSnapshot there has returned nil; its error comes back as a RemoteError.
func (t *Transport) SendSnapshot(ctx context.Context, to uint64, header []byte, write func(io.Writer) error) (err error) {
	defer func() { t.metrics.streams.WithLabelValues(purposeSnapshot, "client", outcome(err)).Inc() }()
	l, _, err := t.dialNode(ctx, to, purposeSnapshot)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, l.close)()
	defer t.atStop(l.close)()
	s := newStream(l, t.cfg.Timeout)
	if err = s.head(header); err != nil {
		l.close()
		return fmt.Errorf("snapshot to node %d: %w", to, err)
	}
	stop := s.keepAlive(l.close)
	result := make(chan error, 1)
	go func() {
		answer := s.outcome()
		if answer != nil {
			l.close() // ends the writing
		}
		result <- answer
	}()
	gaveUp := write(s)
	if s.broken() != nil {
		gaveUp = nil // it had to
	}
	sent := s.finish(gaveUp)
	answer := <-result
	l.close()
	stop()
	var remote *RemoteError
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case gaveUp != nil:
		err = gaveUp
	case errors.As(answer, &remote), sent == nil:
		err = answer
	default:
		err = sent
	}
	if err != nil {
		return fmt.Errorf("snapshot to node %d: %w", to, err)
	}
	return nil
}

// broken is the error of the connection, if it has one.
func (s *stream) broken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (t *Transport) serveSnapshot(ctx context.Context, l *link, from uint64) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := newStream(l, t.cfg.Timeout)
	header, err := s.readHead()
	if err != nil {
		return
	}
	stop := s.keepAlive(cancel)
	err = t.cfg.OnSnapshot(ctx, from, header, readerOnly{s})
	t.metrics.streams.WithLabelValues(purposeSnapshot, "server", outcome(err)).Inc()
	if s.finish(err) == nil {
		s.linger()
	}
	cancel()
	l.close()
	stop()
}

// linger waits until the other side has closed: closing while it sends would take back the end it has not read yet.
func (s *stream) linger() {
	if s.l.raw.SetReadDeadline(time.Now().Add(s.timeout)) == nil {
		_, _ = io.Copy(io.Discard, s.l.r)
	}
}

// Fetch sends a request to a node and returns what its OnFetch writes. Reading ends with io.EOF when OnFetch has returned nil, with a RemoteError when it
// has failed, and with another error when the connection broke. ctx bounds the reading too. Close it.
func (t *Transport) Fetch(ctx context.Context, to uint64, request []byte) (io.ReadCloser, error) {
	l, _, err := t.dialNode(ctx, to, purposeFetch)
	if err != nil {
		t.metrics.streams.WithLabelValues(purposeFetch, "client", outcome(err)).Inc()
		return nil, err
	}
	s := newStream(l, t.cfg.Timeout)
	if err := s.head(request); err != nil {
		l.close()
		t.metrics.streams.WithLabelValues(purposeFetch, "client", outcome(err)).Inc()
		return nil, fmt.Errorf("fetch from node %d: %w", to, err)
	}
	f := &fetched{t: t, s: s, node: to, cause: func() error { return context.Cause(ctx) }}
	f.release = []func() bool{context.AfterFunc(ctx, l.close), t.atStop(l.close)}
	f.stop = s.keepAlive(l.close)
	return f, nil
}

// fetched is the caller's end of a fetch.
type fetched struct {
	t       *Transport
	s       *stream
	node    uint64
	cause   func() error // of the end of the caller's context
	release []func() bool
	stop    func()
	once    sync.Once
}

// Read reads what OnFetch writes.
func (f *fetched) Read(p []byte) (int, error) {
	n, err := f.s.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	if cause := f.cause(); cause != nil {
		err = cause
	}
	return n, fmt.Errorf("fetch from node %d: %w", f.node, err)
}

// Close ends the fetch, wherever it is.
func (f *fetched) Close() error {
	f.once.Do(func() {
		for _, release := range f.release {
			release()
		}
		f.s.l.close()
		f.stop()
		var failed error
		if !errors.Is(f.s.end, io.EOF) {
			failed = errors.New("not read to its end")
		}
		f.t.metrics.streams.WithLabelValues(purposeFetch, "client", outcome(failed)).Inc()
	})
	return nil
}

func (t *Transport) serveFetch(ctx context.Context, l *link, from uint64) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := newStream(l, t.cfg.Timeout)
	request, err := s.readHead()
	if err != nil {
		return
	}
	stop := s.keepAlive(cancel)
	gone := make(chan struct{})
	go func() { // the caller only pings, until it closes
		defer close(gone)
		_ = s.outcome()
		cancel()
		l.close() // ends the writing
	}()
	err = t.cfg.OnFetch(ctx, from, request, s)
	t.metrics.streams.WithLabelValues(purposeFetch, "server", outcome(err)).Inc()
	if s.finish(err) == nil {
		<-gone // until then what it has not read yet must not be taken back
	}
	l.close()
	<-gone
	stop()
}

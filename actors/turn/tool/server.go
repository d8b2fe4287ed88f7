package tool

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/actors/stranger"
	"parley/proto/agentpb"
)

// server is one MCP server: its tools, and the session with it while there is one. A session is opened on demand, by
// one goroutine at a time. Its own goroutine ends it when it breaks, has been idle for long, or the Toolbox closes.
type server struct {
	pool  *pool
	spec  *agentpb.MCP
	id    [sha256.Size]byte
	users int // agents that use it; guarded by the pool

	mu struct {
		sync.Mutex
		offer    *offer           // the newest list; kept while the server is unreachable
		kept     *stranger.Answer // its memory
		gone     bool             // no agent uses the server any more
		listedAt time.Time
		session  *session
		trying   <-chan struct{} // closed when the current attempt has ended or timed out; nil = there is none
		changed  bool            // the server says that its list has changed
		failedAt time.Time       // when the newest attempt failed; zero if it did not
		failure  string          // why, for who edits an agent
		older    bool            // the next attempt uses the older protocol from the start
	}
}

// session is one connection to a server. calls and used are guarded by the server.
type session struct {
	*mcp.ClientSession
	calls  int
	used   time.Time
	broken chan struct{} // closed when the connection has broken
}

// olderProtocol is the newest version of the protocol that begins with a handshake.
const olderProtocol = "2025-11-25"

var (
	errServerGone = errors.New("the MCP server is out of reach")
	errKept       = errors.New("too many long lists of tools are kept")
)

func (s *server) logger() *slog.Logger {
	return s.pool.config.Logger.With(slog.String("mcp_server", s.spec.GetName()))
}

// ask returns the newest offer, or a channel to wait on until there may be one. An old offer is still used, while a new
// one is fetched for later turns, unless the server said that it has changed.
func (s *server) ask(tenant string) (*offer, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.changed:
		return nil, s.tryLocked(tenant)
	case s.mu.offer == nil || time.Since(s.mu.listedAt) >= s.pool.config.RefreshAfter:
		return s.mu.offer, s.tryLocked(tenant)
	}
	return s.mu.offer, nil
}

// problem says why the server cannot be reached, "" = it can.
func (s *server) problem() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.failure
}

func (s *server) current() *offer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.offer
}

// tryLocked ensures that an attempt to connect and list is in progress, and returns a channel that is closed at its
// end; nil if it is too early for another attempt. What it takes of memory is a tenant's.
func (s *server) tryLocked(tenant string) <-chan struct{} {
	if s.mu.trying != nil {
		return s.mu.trying
	}
	if !s.mu.failedAt.IsZero() && time.Since(s.mu.failedAt) < s.pool.config.RetryAfter {
		return nil
	}
	limit := cmp.Or(time.Duration(s.spec.GetConnectTimeoutMs())*time.Millisecond, s.pool.config.ConnectTimeout)
	// Not under the context of the first caller: others wait for it, too.
	ctx, cancel := context.WithTimeout(stranger.Of(s.pool.ctx, tenant), limit)
	if !s.pool.start(func() { s.try(ctx, cancel, tenant) }) {
		cancel()
		return nil
	}
	s.mu.trying = ctx.Done()
	return s.mu.trying
}

// try connects, unless there is a session, and lists the tools. Its cleanup may take some seconds longer than its
// timeout; nobody waits for that.
func (s *server) try(ctx context.Context, cancel context.CancelFunc, tenant string) {
	defer cancel()
	opened, answer := s.pool.config.Answers.Open(ctx)
	defer answer.Close()
	s.mu.Lock()
	s.mu.changed = false // what changes from here on is listed again
	s.mu.Unlock()
	offer, err := s.connectAndList(opened)
	if errors.Is(err, mcp.ErrSessionMissing) {
		offer, err = s.connectAndList(opened)
	}
	if why := answer.Err(); err != nil && why != nil {
		err = why
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.trying = nil
	if err == nil && (s.mu.offer == nil || s.mu.offer.content != offer.content) {
		err = s.keepLocked(offer, tenant)
	}
	if err != nil {
		s.mu.failedAt = time.Now()
		s.mu.failure = withoutURLs(&redactedError{err, s.secrets(nil)})
		// A server that only supports the older protocol should refuse the newer one; some do not answer instead.
		s.mu.older = !s.mu.older && errors.Is(err, context.DeadlineExceeded)
		if s.pool.ctx.Err() == nil {
			s.logger().Warn("an MCP server is out of reach", slog.String("err", s.mu.failure))
		}
		return
	}
	s.mu.failedAt, s.mu.failure, s.mu.listedAt = time.Time{}, "", time.Now()
}

// keepLocked replaces the offer if there is memory to keep it.
func (s *server) keepLocked(made *offer, tenant string) error {
	_, kept := s.pool.lists.Open(stranger.Of(s.pool.ctx, tenant))
	if !kept.Keep(int64(made.size)) {
		kept.Close()
		return errKept
	}
	s.mu.kept.Close()
	if s.mu.offer, s.mu.kept = made, kept; s.mu.gone {
		kept.Close() // a turn that still uses it keeps it, and ends
	}
	s.logger().Info("an MCP server lists its tools", slog.Int("tools", len(made.tools)))
	return nil
}

// forget gives the memory of the offer back: no agent uses the server any more.
func (s *server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.gone = true
	s.mu.kept.Close()
}

func (s *server) connectAndList(ctx context.Context) (*offer, error) {
	open := s.acquire()
	if open == nil {
		connected, err := s.connect(ctx)
		if err != nil {
			return nil, fmt.Errorf("connect: %w", err)
		}
		open = connected
	}
	offer, err := list(ctx, open.ClientSession)
	s.leave(open)
	if err != nil {
		s.drop(open)
		err = fmt.Errorf("list tools: %w", err)
	}
	return offer, err
}

// client is who calls a server.
func client() *mcp.Implementation { return &mcp.Implementation{Name: "parley", Version: "1"} }

// connect opens a session, in use by the caller, and starts its goroutine.
func (s *server) connect(ctx context.Context) (*session, error) { //nolint:contextcheck // a session's goroutines end with it, not with who opens it
	inner, over, err := s.transport()
	if err != nil {
		return nil, err
	}
	transport := &wire{Transport: inner, http: over}
	made := mcp.NewClient(client(), &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{}, // no requests by the server
		// A server cannot ask for input during a call: people are asked by pending actions.
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	})
	made.AddSendingMiddleware(slim)
	made.AddReceivingMiddleware(s.hear)
	options := &mcp.ClientSessionOptions{}
	s.mu.Lock()
	if s.mu.older {
		options.ProtocolVersion = olderProtocol
	}
	s.mu.Unlock()
	connected, err := made.Connect(ctx, transport, options)
	if err != nil {
		if transport.conn != nil {
			_ = transport.conn.Close() // the client library does not in all cases
		}
		sweep(inner)
		return nil, err
	}
	open := &session{ClientSession: connected, calls: 1, used: time.Now(), broken: make(chan struct{})}
	s.mu.Lock()
	s.mu.session = open
	s.mu.Unlock()
	life, stop := context.WithCancel(s.pool.ctx)
	kept := s.pool.start(func() { s.supervise(open, inner) }) &&
		s.pool.start(func() {
			defer stop()
			defer close(open.broken)
			_ = connected.Wait() // its calls have got the error
		})
	if kept {
		kept = s.pool.start(func() { s.listen(life, open, transport) })
	} else {
		stop()
	}
	if !kept { // the pool has closed meanwhile
		s.drop(open)
		end(connected, inner)
		return nil, errServerGone
	}
	return open, nil
}

// supervise ends a session when it breaks, is idle for long, or the pool closes.
func (s *server) supervise(open *session, transport mcp.Transport) {
	tick := time.NewTicker(max(s.pool.config.IdleTimeout/4, time.Millisecond))
	defer tick.Stop()
	for s.wanted(open) {
		select {
		case <-open.broken:
			s.drop(open)
		case <-s.pool.ctx.Done():
			s.drop(open)
		case <-tick.C:
		}
	}
	end(open.ClientSession, transport)
}

// wanted reports whether a session is to be kept; an idle one is not.
func (s *server) wanted(open *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.session != open {
		return false
	}
	if open.calls == 0 && time.Since(open.used) >= s.pool.config.IdleTimeout {
		s.mu.session = nil
		return false
	}
	return true
}

// acquire returns the session, if there is one, for a use that ends with leave.
func (s *server) acquire() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.session != nil {
		s.mu.session.calls++
	}
	return s.mu.session
}

func (s *server) leave(open *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	open.calls--
	open.used = time.Now()
}

// drop takes a session out of use; its goroutine ends it.
func (s *server) drop(open *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.session == open {
		s.mu.session = nil
	}
}

// call runs a tool, on a new session if there is none.
func (s *server) call(ctx context.Context, params *mcp.CallToolParams) (*callResult, error) {
	open, err := s.reach(ctx)
	if err != nil {
		return nil, err
	}
	defer s.leave(open)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	//nolint:contextcheck // the end of the pool ends the call; else the end of the session would wait for it
	defer context.AfterFunc(s.pool.ctx, cancel)()
	ctx, answer := withReply(ctx)
	_, err = open.CallTool(ctx, params)
	if errors.Is(err, mcp.ErrSessionMissing) || s.broke(err) {
		s.drop(open)
	}
	if err != nil {
		return nil, err
	}
	return readResult(answer.result)
}

// broke reports whether an error says that the connection is over: of a process, also where its end was met first.
func (s *server) broke(err error) bool {
	return errors.Is(err, mcp.ErrConnectionClosed) ||
		s.spec.GetUrl() == "" && (errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed))
}

// reach returns a session for a use, waiting for one to be opened if necessary.
func (s *server) reach(ctx context.Context) (*session, error) {
	for range 2 { // a session may break between the end of the attempt and its use
		if open := s.acquire(); open != nil {
			return open, nil
		}
		s.mu.Lock()
		ended := s.tryLocked(stranger.TenantOf(ctx)) //nolint:contextcheck // a try belongs to the pool
		s.mu.Unlock()
		if ended == nil {
			return nil, errServerGone
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if open := s.acquire(); open != nil {
		return open, nil
	}
	return nil, errServerGone
}

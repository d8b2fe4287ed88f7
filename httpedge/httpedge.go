package httpedge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"parley/actors/core/failure"
	"parley/httpedge/accept"
	"parley/httpedge/endpoint"
)

// Parts are the server's dependencies.
type Parts struct {
	Listener      net.Listener
	Node          string // sent as X-Served-By
	Authenticator endpoint.Authenticator
	Limiter       endpoint.Limiter     // nil = no limits per caller
	Idempotency   endpoint.Idempotency // nil = Idempotency-Key is ignored
	Auditor       endpoint.Auditor     // nil = there is no audit trail
	Logger        *slog.Logger
	Registerer    prometheus.Registerer // nil = no metrics
}

// Server answers HTTP requests. Mount the surfaces, then Start.
type Server struct {
	config   Config
	mux      *endpoint.Mux
	auditor  endpoint.Auditor // of surfaces with a Permit
	http     *fasthttp.Server
	listener *listener
	metrics  *metrics
	log      *slog.Logger

	mu      sync.Mutex
	started bool
	stopped bool
	serving sync.WaitGroup // the accept loop, and connections returned by streams
	done    chan struct{}  // closed when the accept loop has ended
	err     error          // the reason, unless it was Stop
}

// New returns a server for a listener, which it then owns.
func New(config Config, parts Parts) (*Server, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("http config: %w", err)
	}
	if parts.Listener == nil || parts.Authenticator == nil || parts.Logger == nil {
		return nil, errors.New("http server needs a listener, an authenticator and a logger")
	}
	s := &Server{config: config, auditor: parts.Auditor, log: parts.Logger, done: make(chan struct{})}
	s.mux = endpoint.NewMux(endpoint.MuxConfig{
		Node:           parts.Node,
		MaxPathBytes:   config.MaxPathBytes,
		MaxJSONDepth:   config.MaxJSONDepth,
		MaxStreams:     config.MaxStreams,
		MaxBodyBytes:   config.MaxBodyBytes,
		MaxLargeBodies: config.MaxLargeBodies,
		MaxTransfers:   config.MaxTransfers,
		RequestTimeout: config.RequestTimeout,
		ReadTimeout:    config.ReadTimeout,
		WriteTimeout:   config.WriteTimeout,
		RecheckEvery:   config.RecheckEvery,
		CORS:           config.CORS,
		Site:           config.Site,
		Authenticator:  parts.Authenticator,
		Limiter:        parts.Limiter,
		Idempotency:    parts.Idempotency,
		Observer:       s,
		Taken:          func(conn net.Conn) { s.listener.forget(conn) }, // fasthttp's StateHijacked may come when it is back already
		Reuse:          s.serveAgain,
		Part:           s.part,
		Credentials:    config.Credentials,
		Proxies:        config.Proxies,
	})
	bounds := bounds{connections: config.MaxConnections, sockets: config.MaxSockets, streams: s.mux.Streams}
	s.listener = newListener(parts.Listener, parts.Logger, bounds, func(dst []byte) []byte {
		return s.mux.AppendUnavailable(dst, failure.TooManyConnections)
	})
	if config.Proxies.Announced {
		s.listener.proxies = config.Proxies.Trusted
	}
	s.metrics = newMetrics(parts.Registerer, s)
	// The listener counts connections; this only has to be out of its way, also for those that streams have
	// given back.
	const slack = 1 << 16
	s.http = &fasthttp.Server{
		Handler:         s.mux.Serve,
		HeaderReceived:  s.headerReceived,
		ErrorHandler:    s.refuseBroken,
		ConnState:       s.connState,
		Logger:          quiet{parts.Logger},
		Concurrency:     config.MaxConnections + config.MaxStreams + slack,
		ReadBufferSize:  config.MaxHeaderBytes,
		WriteBufferSize: config.WriteBufferBytes,
		ReadTimeout:     config.ReadTimeout,
		IdleTimeout:     config.IdleTimeout,
		WriteTimeout:    config.WriteTimeout,
		// The mux reads bodies, each within its route's limit. The size only bounds what fasthttp reads ahead.
		StreamRequestBody:             true,
		MaxRequestBodySize:            1,
		KeepHijackedConns:             true,
		NoDefaultServerHeader:         true,
		NoDefaultContentType:          true,
		DisablePreParseMultipartForm:  true,
		SecureErrorLogMessage:         true,
		CloseOnShutdown:               true,
		DisableHeaderNamesNormalizing: false,
	}
	return s, nil
}

// Mount adds a surface under a base path. It must be called before Start.
func (s *Server) Mount(prefix string, surface endpoint.Surface) error {
	if surface.Permit != nil && surface.Auditor == nil {
		surface.Auditor = s.auditor
	}
	return s.mux.Mount(prefix, surface)
}

// Start accepts connections.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started || s.stopped {
		return errors.New("http server was started or stopped before")
	}
	if len(s.mux.Routes()) == 0 {
		return errors.New("http server has no routes")
	}
	s.started = true
	s.metrics.routes(s.mux.Routes())
	s.serving.Go(func() {
		defer close(s.done)
		if err := s.http.Serve(s.listener); err != nil && !s.listener.closed() {
			s.err = fmt.Errorf("accept connections: %w", err)
			s.log.Error("http server ended", slog.Any("err", err))
		}
	})
	return nil
}

// Done is closed when the server no longer accepts connections; Err then says why, nil after Stop.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err is the reason why the server stopped by itself. It may be called once Done is closed.
func (s *Server) Err() error { return s.err }

// Addr is the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Stop accepts no more connections, answers further requests with 503, waits for those under way until ctx ends, ends
// their contexts when it does, and closes all connections. It does not end event streams: stop their hub first.
// It may be called twice and before Start.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	already, started := s.stopped, s.started
	s.stopped = true
	s.mu.Unlock()
	s.mux.Refuse() // first, so that once the port is closed no request gets through on an open connection
	if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		s.log.Warn("close listener", slog.Any("err", err))
	}
	if already || !started {
		s.mux.Abort()
		return nil
	}
	drained := s.mux.Drain(ctx)
	s.mux.Abort()
	// Handlers whose context has just ended may still answer; connections that are between requests are closed.
	const grace = time.Second
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if drained != nil {
		_ = s.mux.Drain(last) // its error would only repeat drained
	}
	if err := s.http.ShutdownWithContext(last); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		s.log.Debug("shut down connections", slog.Any("err", err))
	}
	s.listener.closeAll()
	s.serving.Wait()
	if drained != nil {
		return fmt.Errorf("stop http server: requests were cut off: %w", drained)
	}
	return nil
}

// serveAgain serves a connection that an event stream has returned.
func (s *Server) serveAgain(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		_ = conn.Close() // no request is pending on it
		return
	}
	s.listener.adopt(conn)
	s.serving.Go(func() {
		// fasthttp treats it as a new connection, whose first request must arrive at once.
		if came, err := endpoint.AwaitData(conn, s.config.IdleTimeout); err != nil || !came {
			s.listener.forget(conn)
			_ = conn.Close() // as between any two requests
			return
		}
		if err := s.http.ServeConn(conn); err != nil {
			s.log.Debug("connection ended", slog.String("reason", reason(err)))
		}
	})
}

// part closes a connection after its last answer, while the client may still be sending.
func (s *Server) part(conn net.Conn) {
	s.mu.Lock()
	stopped := s.stopped
	if !stopped {
		s.serving.Add(1)
		s.listener.adopt(conn)
	}
	s.mu.Unlock()
	if stopped {
		_ = conn.Close()
		return
	}
	defer s.serving.Done()
	defer s.listener.forget(conn)
	linger(conn, patience)
}

func (s *Server) connState(conn net.Conn, state fasthttp.ConnState) {
	switch state {
	case fasthttp.StateActive, fasthttp.StateIdle:
		s.listener.turn(conn, state)
	case fasthttp.StateClosed:
		s.listener.forget(conn)
		s.mux.ConnClosed(conn)
	default:
	}
}

// headerReceived is called before any of the body is read.
func (s *Server) headerReceived(header *fasthttp.RequestHeader) fasthttp.RequestConfig {
	s.mux.Foresee(header)
	return fasthttp.RequestConfig{}
}

// refuseBroken answers a request that could not be read. The rest of a header that is too large is read first,
// within bounds: closing a socket with unread data would reset it, and the client would never see the
// answer.
func (s *Server) refuseBroken(rc *fasthttp.RequestCtx, err error) {
	var small *fasthttp.ErrSmallBuffer
	if errors.As(err, &small) {
		const (
			patience = 500 * time.Millisecond
			most     = 8 << 20
		)
		if rc.Conn().SetReadDeadline(time.Now().Add(patience)) == nil {
			_, _ = io.CopyN(io.Discard, rc.Conn(), most) // the answer follows in any case
		}
	}
	if errors.Is(err, accept.ErrNoHeader) {
		s.log.Warn("request refused", slog.Any("err", err)) // of a trusted proxy: who set it up has to know
	}
	s.mux.RefuseBroken(rc, err)
}

// quiet is fasthttp's logger for broken connections, which do not concern an operator. The messages contain parts of requests,
// credentials among them: only the reason is logged.
type quiet struct{ log *slog.Logger }

// Printf implements fasthttp.Logger.
func (q quiet) Printf(format string, args ...any) {
	if !q.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	said := make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case error:
			said[i] = reason(arg)
		case net.Addr, int, uint32:
			said[i] = arg
		default:
			said[i] = "..."
		}
	}
	q.log.Debug("connection trouble", slog.String("detail", fmt.Sprintf(format, said...)))
}

// reason says why a connection ended, without any data that was sent on it.
func reason(err error) string {
	var network *net.OpError
	var system syscall.Errno
	switch {
	case errors.As(err, &network): // addresses
		return network.Error()
	case errors.As(err, &system):
		return system.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF.Error()
	default:
		return "request could not be read or answered"
	}
}

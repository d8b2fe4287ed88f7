package opsapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"parley/httpedge/accept"
)

// Config is about the operations listener. Start from DefaultConfig.
type Config struct {
	// RemotePprof shows profiles to other addresses than loopback, too. Default false.
	RemotePprof bool
	// RemoteAdmin lets other addresses than loopback drain nodes and take backups, too. Default false: there is no
	// other check of who asks.
	RemoteAdmin bool
	// Hosts are names of the machine: over loopback the listener answers to localhost, addresses and these, and to no page of a
	// browser but its own.
	Hosts []string
	// MaxConnections bounds open connections; further ones wait to be accepted. Default 64: probes, a scraper and a
	// person need few, and more would be taken from the public side.
	MaxConnections int
	// Timeout bounds an answer; profiles and traces get the time that they are asked for on top. Default 10 s.
	Timeout time.Duration
	// MaxProfile bounds the duration of a profile or trace. Default 2 min.
	MaxProfile time.Duration
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{MaxConnections: 64, Timeout: 10 * time.Second, MaxProfile: 2 * time.Minute}
}

// Parts are the surface's dependencies.
type Parts struct {
	// Listener is served from Start until Stop, which closes it.
	Listener net.Listener
	// Ready returns nil when the node takes traffic, otherwise the reason. It must not block.
	Ready func() error
	// Gatherer provides the metrics of /metrics.
	Gatherer prometheus.Gatherer
	// Version is shown as JSON by /version. nil = the build information of the binary.
	Version any
	Admin   Admin
	Logger  *slog.Logger
}

// Server is the operations surface. It cannot be started again after Stop.
type Server struct {
	config  Config
	parts   Parts
	server  *http.Server
	started atomic.Bool
	served  chan struct{} // closed when the accepting goroutine has ended
	stop    sync.Once

	backingUp atomic.Bool
}

// New returns a server that does not serve yet.
func New(config Config, parts Parts) (*Server, error) {
	if config.MaxConnections < 1 || config.Timeout <= 0 || config.MaxProfile < 0 {
		return nil, errors.New("operations surface needs positive limits")
	}
	if parts.Listener == nil || parts.Ready == nil || parts.Gatherer == nil || parts.Logger == nil {
		return nil, errors.New("operations surface lacks a part")
	}
	if parts.Version == nil {
		parts.Version = buildVersion()
	}
	s := &Server{config: config, parts: parts, served: make(chan struct{})}
	s.server = &http.Server{
		Handler:           s.guarded(s.routes()),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      config.Timeout + config.MaxProfile, // the outer bound; each route sets its own deadline
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(parts.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Start serves until Stop.
func (s *Server) Start() error {
	if !s.started.CompareAndSwap(false, true) {
		return errors.New("operations surface was started before")
	}
	go func() {
		defer close(s.served)
		patient := accept.New(s.parts.Listener, "operations", s.parts.Logger, nil)
		err := s.server.Serve(limitListener(patient, s.config.MaxConnections))
		if !errors.Is(err, http.ErrServerClosed) {
			s.parts.Logger.Error("operations listener ended", slog.Any("err", err))
		}
	}()
	return nil
}

// Stop waits for running requests until the context ends, then aborts them. The listener is closed in any
// case.
func (s *Server) Stop(ctx context.Context) error {
	var err error
	s.stop.Do(func() {
		if !s.started.CompareAndSwap(false, true) {
			if err = s.server.Shutdown(ctx); err != nil {
				err = errors.Join(err, s.server.Close())
			}
			<-s.served
			return
		}
		err = s.parts.Listener.Close()
	})
	return err
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	bounded := func(handler http.Handler) http.Handler { return deadline(s.config.Timeout, handler) }
	profile := func(handler http.HandlerFunc) http.Handler {
		return s.localOnly(s.config.RemotePprof, "ops.remote_pprof", bounded(handler))
	}
	timed := func(handler http.HandlerFunc) http.Handler {
		return s.localOnly(s.config.RemotePprof, "ops.remote_pprof", s.forSeconds(handler))
	}

	mux.Handle("GET /healthz", bounded(http.HandlerFunc(healthz)))
	mux.Handle("GET /readyz", bounded(http.HandlerFunc(s.readyz)))
	mux.Handle("GET /version", bounded(http.HandlerFunc(s.version)))
	mux.Handle("GET /metrics", bounded(promhttp.HandlerFor(s.parts.Gatherer, promhttp.HandlerOpts{
		MaxRequestsInFlight: 4, Timeout: s.config.Timeout, EnableOpenMetrics: true,
	})))
	s.adminRoutes(mux, bounded)
	mux.Handle("GET /debug/pprof/", profile(pprof.Index))
	mux.Handle("GET /debug/pprof/cmdline", profile(pprof.Cmdline))
	mux.Handle("GET /debug/pprof/symbol", profile(pprof.Symbol))
	mux.Handle("GET /debug/pprof/profile", timed(pprof.Profile))
	mux.Handle("GET /debug/pprof/trace", timed(pprof.Trace))
	return http.MaxBytesHandler(mux, maxAccountBody)
}

func healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := s.parts.Ready(); err != nil {
		writeJSON(w, http.StatusServiceUnavailable, map[string]any{"ready": false, "reason": err.Error()})
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"ready": true})
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.parts.Version)
}

// buildVersion is the build information in this binary.
func buildVersion() map[string]string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return map[string]string{"version": "unknown"}
	}
	version := map[string]string{"version": build.Main.Version, "go": build.GoVersion}
	for _, setting := range build.Settings {
		switch setting.Key {
		case "vcs.revision":
			version["revision"] = setting.Value
		case "vcs.time":
			version["time"] = setting.Value
		case "vcs.modified":
			version["modified"] = setting.Value
		}
	}
	return version
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		http.Error(w, "no JSON form", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // it does not matter if the client has left
}

// deadline bounds the writing of an answer.
func deadline(timeout time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout)); err != nil {
			http.Error(w, "no deadline", http.StatusInternalServerError)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// forSeconds extends the deadline by the requested duration of a profile, at most MaxProfile.
func (s *Server) forSeconds(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seconds := 30.0 // what net/http/pprof takes at most without the field
		if given := r.FormValue("seconds"); given != "" {
			parsed, err := strconv.ParseFloat(given, 64)
			if err != nil || !(parsed >= 0 && parsed <= s.config.MaxProfile.Seconds()) {
				http.Error(w, fmt.Sprintf("seconds must be between 0 and %.0f", s.config.MaxProfile.Seconds()), http.StatusBadRequest)
				return
			}
			seconds = parsed
		}
		deadline(s.config.Timeout+time.Duration(seconds*float64(time.Second)), next).ServeHTTP(w, r)
	})
}

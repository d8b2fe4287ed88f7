package opsapi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/proto/failurepb"
)

// Admin is what an operator can see and do beyond this node. A nil member is answered with 404.
type Admin struct {
	// Status returns what this node knows of the cluster, as a value for encoding/json.
	Status func(ctx context.Context) (any, error)
	// Drain makes a node hand over its leaderships and replicas permanently; drain false reverses that. It returns when the
	// request is recorded, long before it is carried out: Status shows the progress.
	Drain func(ctx context.Context, node string, drain bool) error
	// Backup writes a copy of the whole cluster's state. An error after the first byte aborts the answer, so that
	// a partial backup is not mistaken for a complete one. Only one runs at a time.
	Backup func(ctx context.Context, w io.Writer) error
	// Audit reads the whole audit trail of a tenant, as lines of JSON.
	Audit func(ctx context.Context, tenantID string) (io.ReadCloser, error)
	// Accounts returns the tenants, projects, users and API tokens, nil until the node has them.
	Accounts func() *identity.Accounts
}

func (s *Server) adminRoutes(mux *http.ServeMux, bounded func(http.Handler) http.Handler) {
	local := func(handler http.HandlerFunc) http.Handler {
		return s.localOnly(s.config.RemoteAdmin, "ops.remote_admin", notFromPages(handler))
	}
	admin := s.parts.Admin
	if admin.Status != nil {
		mux.Handle("GET /v1/status", bounded(http.HandlerFunc(s.status)))
	}
	if admin.Drain != nil {
		mux.Handle("POST /v1/nodes/{name}/drain", bounded(local(s.drain(true))))
		mux.Handle("DELETE /v1/nodes/{name}/drain", bounded(local(s.drain(false))))
	}
	if admin.Backup != nil {
		mux.Handle("GET /v1/backup", local(s.backup))
	}
	if admin.Audit != nil {
		mux.Handle("GET /v1/tenants/{tenant}/audit", local(s.audit))
	}
	if admin.Accounts != nil {
		s.accountRoutes(mux, bounded, local)
	}
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), s.config.Timeout)
	defer cancel()
	status, err := s.parts.Admin.Status(ctx)
	if err != nil {
		refuse(w, err)
		return
	}
	writeJSON(w, http.StatusOK, status)
}

func (s *Server) drain(drain bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), s.config.Timeout)
		defer cancel()
		name := r.PathValue("name")
		if err := s.parts.Admin.Drain(ctx, name, drain); err != nil {
			refuse(w, err)
			return
		}
		s.parts.Logger.Info("node's state was changed by an operator", slog.String("node", name), slog.Bool("drain", drain))
		writeJSON(w, http.StatusOK, map[string]any{"node": name, "draining": drain})
	}
}

// backup streams a backup. Each write must be taken by the client within the configured time; the whole may take longer.
func (s *Server) backup(w http.ResponseWriter, r *http.Request) {
	if !s.backingUp.CompareAndSwap(false, true) {
		refuse(w, failure.New(failurepb.Code_UNAVAILABLE, failure.BackupRunning))
		return
	}
	defer s.backingUp.Store(false)
	body := &patient{out: w, control: http.NewResponseController(w), timeout: s.config.Timeout}
	if err := s.parts.Admin.Backup(r.Context(), body); err != nil {
		s.parts.Logger.Error("backup failed", slog.Any("err", err))
		if !body.begun {
			refuse(w, err)
			return
		}
		panic(http.ErrAbortHandler) //nolint:forbidigo // the server's way to cut an answer off
	}
}

// audit streams the audit trail of a tenant. One that is cut off has no last line, which whoever checks it misses.
func (s *Server) audit(w http.ResponseWriter, r *http.Request) {
	rows, err := s.parts.Admin.Audit(r.Context(), r.PathValue("tenant"))
	if err != nil {
		refuse(w, err)
		return
	}
	body := &patient{out: w, control: http.NewResponseController(w), timeout: s.config.Timeout}
	_, err = io.Copy(body, rows)
	if err = errors.Join(err, rows.Close()); err != nil {
		s.parts.Logger.Warn("export of an audit trail failed", slog.Any("err", err))
		panic(http.ErrAbortHandler) //nolint:forbidigo // the server's way to cut an answer off
	}
}

// patient sets a new deadline for every write of a long answer.
type patient struct {
	out     http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	begun   bool
}

// Write implements io.Writer.
func (p *patient) Write(data []byte) (int, error) {
	if !p.begun {
		p.begun = true
		p.out.Header().Set("Content-Type", "application/octet-stream")
		p.out.Header().Set("Cache-Control", "no-store")
	}
	if err := p.control.SetWriteDeadline(time.Now().Add(p.timeout)); err != nil {
		return 0, err
	}
	return p.out.Write(data)
}

// refuse writes an error with its full text: callers here are operators.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	var refused *failure.Failure
	switch {
	case errors.As(err, &refused):
		status = statusOf(refused.Code)
	case errors.Is(err, context.DeadlineExceeded):
		status = http.StatusServiceUnavailable
	}
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, status, map[string]string{"error": err.Error()})
}

func statusOf(code failurepb.Code) int {
	switch code {
	case failurepb.Code_VALIDATION:
		return http.StatusBadRequest
	case failurepb.Code_FORBIDDEN:
		return http.StatusForbidden
	case failurepb.Code_NOT_FOUND:
		return http.StatusNotFound
	case failurepb.Code_CONFLICT, failurepb.Code_ALREADY_EXISTS:
		return http.StatusConflict
	case failurepb.Code_QUOTA_REACHED:
		return http.StatusTooManyRequests
	case failurepb.Code_UNAVAILABLE:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}

// notFromPages refuses requests that a browser sends on behalf of a page: any page in an operator's browser can reach loopback.
func notFromPages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
			http.Error(w, "not for pages", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// localOnly admits only requests from this machine, unless a setting admits all. The Host header must name loopback as well:
// a foreign name that resolves to loopback (DNS rebinding) comes from a page in the operator's browser.
func (s *Server) localOnly(open bool, setting string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		remote, err := netip.ParseAddrPort(r.RemoteAddr)
		if !open && (err != nil || !remote.Addr().Unmap().IsLoopback() || !namesLoopback(r.Host)) {
			http.Error(w, "for loopback only ("+setting+")", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// namesLoopback says whether a Host header can only mean this machine.
func namesLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}

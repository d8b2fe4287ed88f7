package opsapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"

	"parley/actors/machine"
	"parley/proto/failurepb"
)

// People is how an operator makes tenants, projects, users and API tokens. What is asked and answered is JSON, in the words
// of `parley tenant`, `parley user` and `parley token`.
type People interface {
	List(ctx context.Context, kind PeopleKind, tenant string) (any, error)
	Create(ctx context.Context, kind PeopleKind, body json.RawMessage) (any, error)
	Update(ctx context.Context, kind PeopleKind, id string, body json.RawMessage) (any, error)
	Delete(ctx context.Context, kind PeopleKind, id string) error
}

// PeopleKind is what there is of: its name in the path.
type PeopleKind string

// The kinds of People.
const (
	Tenants  PeopleKind = "tenants"
	Projects PeopleKind = "projects"
	Users    PeopleKind = "users"
	Tokens   PeopleKind = "tokens"
)

// maxPeopleBody bounds what an operator says about one of them.
const maxPeopleBody = 64 << 10

func (s *Server) peopleRoutes(mux *http.ServeMux, bounded func(http.Handler) http.Handler, local func(http.HandlerFunc) http.Handler) {
	people := s.parts.Admin.People
	for _, kind := range []PeopleKind{Tenants, Projects, Users, Tokens} {
		handle := func(pattern string, do func(ctx context.Context, r *http.Request, body []byte) (int, any, error)) {
			mux.Handle(pattern, bounded(local(s.people(kind, do))))
		}
		handle("GET /v1/"+string(kind), func(ctx context.Context, r *http.Request, _ []byte) (int, any, error) {
			found, err := people.List(ctx, kind, r.URL.Query().Get("tenant"))
			return http.StatusOK, found, err
		})
		handle("POST /v1/"+string(kind), func(ctx context.Context, _ *http.Request, body []byte) (int, any, error) {
			made, err := people.Create(ctx, kind, body)
			return http.StatusCreated, made, err
		})
		handle("PATCH /v1/"+string(kind)+"/{id}", func(ctx context.Context, r *http.Request, body []byte) (int, any, error) {
			changed, err := people.Update(ctx, kind, r.PathValue("id"), body)
			return http.StatusOK, changed, err
		})
		handle("DELETE /v1/"+string(kind)+"/{id}", func(ctx context.Context, r *http.Request, _ []byte) (int, any, error) {
			return http.StatusOK, map[string]bool{"deleted": true}, people.Delete(ctx, kind, r.PathValue("id"))
		})
	}
}

// people reads a small body, does it in time, and writes down that it was done. What was made may hold a secret: it is not
// logged.
func (s *Server) people(kind PeopleKind, do func(context.Context, *http.Request, []byte) (int, any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), s.config.Timeout)
		defer cancel()
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPeopleBody))
		if err != nil {
			var large *http.MaxBytesError
			if errors.As(err, &large) {
				err = machine.Fail(failurepb.Code_VALIDATION, "the body is larger than %d bytes", maxPeopleBody)
			}
			refuse(w, err)
			return
		}
		status, answer, err := do(ctx, r, body)
		if err != nil {
			refuse(w, err)
			return
		}
		if r.Method != http.MethodGet {
			s.parts.Logger.Info("records were changed by an operator", slog.String("kind", string(kind)), slog.String("method", r.Method))
		}
		w.Header().Set("Cache-Control", "no-store")
		writeJSON(w, status, answer)
	}
}

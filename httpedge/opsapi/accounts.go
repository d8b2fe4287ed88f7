package opsapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"

	"parley/actors/core/access"
	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/proto/failurepb"
)

// maxAccountBody bounds the body of an operator's request about an account, in bytes.
const maxAccountBody = 64 << 10

// accountInput is the body of an operator's create and update requests. Each kind of account reads the fields that it has.
type accountInput struct {
	Name               string            `json:"name"`
	Slug               string            `json:"slug"`
	Tier               string            `json:"tier"`
	Owner              string            `json:"owner"`
	TenantID           string            `json:"tenantId"`
	Key                string            `json:"key"`
	Email              string            `json:"email"`
	Role               string            `json:"role"`
	ServicePermissions map[string]string `json:"servicePermissions"`
	UserID             string            `json:"userId"`
	ProjectID          string            `json:"projectId"`
	Label              string            `json:"label"`
	ExpiresAt          string            `json:"expiresAt"`
}

func readAccount(body []byte) (*accountInput, error) {
	in := &accountInput{}
	if len(body) > 0 {
		if err := json.Unmarshal(body, in); err != nil {
			return nil, invalid(failure.BadAccountBody).Param("problem", err)
		}
	}
	for service, level := range in.ServicePermissions {
		if _, ok := access.ParseLevel(level); !ok {
			return nil, invalid(failure.NoSuchLevel).Param("service", service).Param("level", level)
		}
	}
	return in, nil
}

func invalid(reason failure.Reason) *failure.Failure {
	return failure.New(failurepb.Code_VALIDATION, reason)
}

// account is one kind of account: its name in the paths, and what the routes do. An operator may do everything.
type account struct {
	name   string
	list   func(a *identity.Accounts, tenantID string) (any, error)
	create func(ctx context.Context, a *identity.Accounts, in *accountInput) (any, error)
	update func(ctx context.Context, a *identity.Accounts, id string, in *accountInput) (any, error)
	remove func(ctx context.Context, a *identity.Accounts, id string) error
}

func accountKinds() []account {
	operator := identity.Operator()
	return []account{
		{
			"tenants", listTenants, createTenant, updateTenant,
			func(ctx context.Context, a *identity.Accounts, id string) error {
				return a.DeleteTenant(ctx, operator, id)
			},
		},
		{
			"projects", listProjects, createProject, updateProject,
			func(ctx context.Context, a *identity.Accounts, id string) error {
				return a.DeleteProject(ctx, operator, id)
			},
		},
		{
			"users", listUsers, createUser, updateUser,
			func(ctx context.Context, a *identity.Accounts, id string) error {
				return a.DeleteUser(ctx, operator, id)
			},
		},
		{
			"tokens", listTokens, createToken, func(context.Context, *identity.Accounts, string, *accountInput) (any, error) {
				return nil, invalid(failure.TokensFixed)
			},
			func(ctx context.Context, a *identity.Accounts, id string) error {
				return a.DeleteToken(ctx, operator, "", id)
			},
		},
	}
}

func (s *Server) accountRoutes(mux *http.ServeMux, bounded func(http.Handler) http.Handler, local func(http.HandlerFunc) http.Handler) {
	for _, kind := range accountKinds() {
		handle := func(pattern string, status int, do accountHandler) {
			mux.Handle(pattern, bounded(local(s.accountRoute(kind.name, status, do))))
		}
		path := "/v1/" + kind.name
		handle("GET "+path, http.StatusOK, func(r *http.Request, a *identity.Accounts, _ []byte) (any, error) {
			return kind.list(a, r.URL.Query().Get("tenant"))
		})
		handle("POST "+path, http.StatusCreated, func(r *http.Request, a *identity.Accounts, body []byte) (any, error) {
			in, err := readAccount(body)
			if err != nil {
				return nil, err
			}
			return kind.create(r.Context(), a, in)
		})
		handle("PATCH "+path+"/{id}", http.StatusOK, func(r *http.Request, a *identity.Accounts, body []byte) (any, error) {
			in, err := readAccount(body)
			if err != nil {
				return nil, err
			}
			return kind.update(r.Context(), a, r.PathValue("id"), in)
		})
		handle("DELETE "+path+"/{id}", http.StatusOK, func(r *http.Request, a *identity.Accounts, _ []byte) (any, error) {
			return map[string]bool{"deleted": true}, kind.remove(r.Context(), a, r.PathValue("id"))
		})
	}
}

type accountHandler func(r *http.Request, a *identity.Accounts, body []byte) (any, error)

// accountRoute reads a small body, calls the handler within the deadline, and logs that an account was changed, but not the
// answer, which may hold a secret.
func (s *Server) accountRoute(kind string, status int, do accountHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), s.config.Timeout)
		defer cancel()
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAccountBody))
		if err != nil {
			if _, large := errors.AsType[*http.MaxBytesError](err); large {
				err = invalid(failure.BodyTooLarge).Param("most", maxAccountBody)
			}
			refuse(w, err)
			return
		}
		accounts := s.parts.Admin.Accounts()
		if accounts == nil {
			refuse(w, failure.New(failurepb.Code_UNAVAILABLE, failure.NodeStarting))
			return
		}
		answer, err := do(r.WithContext(ctx), accounts, body)
		if err != nil {
			refuse(w, err)
			return
		}
		if r.Method != http.MethodGet {
			s.parts.Logger.Info("records were changed by an operator", slog.String("kind", kind), slog.String("method", r.Method))
		}
		w.Header().Set("Cache-Control", "no-store")
		writeJSON(w, status, answer)
	}
}

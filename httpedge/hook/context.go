package hook

import (
	"context"
	"net/http"
	"unicode"
	"unicode/utf8"

	"parley/actors/core/failure"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// person describes a caller to hooks.
type person struct {
	UserID     string `json:"userId,omitempty"`
	Identified bool   `json:"identified"`
	ProjectID  string `json:"projectId"`
}

func personOf(caller endpoint.Caller) person {
	return person{UserID: caller.UserID, Identified: caller.Identified, ProjectID: caller.ProjectID}
}

// Authenticator calls resolveContext for the user of callers that inner admits without identifying them. It returns
// inner itself when the hook is off.
func (h *Hooks) Authenticator(inner endpoint.Authenticator) endpoint.Authenticator {
	if h.context == nil {
		return inner
	}
	return &authenticator{inner: inner, hook: h.context, headers: h.headers}
}

type authenticator struct {
	inner   endpoint.Authenticator
	hook    *hookClient
	headers []string
}

type contextQuestion struct {
	Hook     string            `json:"hook"`
	Method   string            `json:"method"`
	Path     string            `json:"path"`
	RemoteIP string            `json:"remoteIp"`
	Headers  map[string]string `json:"headers"`
	Query    map[string]string `json:"query"`
}

// Authenticate implements endpoint.Authenticator. A caller that the application does not name is anonymous: with this
// hook, neither the request's own claim nor the trust of a server without authentication counts.
func (a *authenticator) Authenticate(ctx context.Context, request endpoint.Request) (endpoint.Caller, *failure.Failure) {
	caller, refused := a.inner.Authenticate(ctx, request)
	if refused != nil || caller.Identified {
		return caller, refused
	}
	caller.UserID, caller.Trusted = "", false
	got, err := a.hook.ask(ctx, a.question(request))
	switch {
	case err != nil && a.hook.lenient():
		return caller, nil
	case err != nil:
		return endpoint.Caller{}, failure.New(failurepb.Code_UNAVAILABLE, failure.CallerNotEstablished)
	case got.status == http.StatusUnauthorized:
		return endpoint.Caller{}, denied(failurepb.Code_AUTH_REQUIRED, got, failure.AuthenticationRequired)
	case got.denied():
		return endpoint.Caller{}, denied(failurepb.Code_FORBIDDEN, got, failure.AccessDenied)
	case got.UserID == nil || *got.UserID == "":
		return caller, nil
	case !validUserID(*got.UserID):
		return endpoint.Caller{}, failure.New(failurepb.Code_UNAVAILABLE, failure.CallerNotEstablished)
	}
	caller.UserID, caller.Identified = endpoint.OutsideUser(*got.UserID), true
	return caller, nil
}

func (a *authenticator) question(request endpoint.Request) *contextQuestion {
	question := &contextQuestion{
		Hook: resolveContext, Method: request.Method(), Path: request.Path(), RemoteIP: request.RemoteIP(),
		Headers: map[string]string{}, Query: map[string]string{},
	}
	for _, name := range a.headers {
		if value := request.Header(name); value != "" {
			question.Headers[name] = value
		}
	}
	if claimed := request.Query("userId"); claimed != "" {
		question.Query["userId"] = claimed
	}
	return question
}

// denied is the failure for an application's no.
func denied(code failurepb.Code, got *answer, otherwise failure.Reason) *failure.Failure {
	if got != nil && got.Message != "" {
		return failure.Verbatim(code, got.Message)
	}
	return failure.New(code, otherwise)
}

// validUserID applies the same rules as authentication by token.
func validUserID(userID string) bool {
	const longest = 256
	if len(userID) > longest || !utf8.ValidString(userID) {
		return false
	}
	for _, r := range userID {
		if unicode.IsControl(r) {
			return false
		}
	}
	return true
}

package token

import (
	"bytes"
	"context"
	"strings"

	"parley/actors/core/access"
	"parley/actors/core/identity"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// first accepts API tokens in front of a surface's own authentication.
type first struct {
	tokens      *Authenticator
	permissions Permissions
	next        endpoint.Authenticator
}

// First is for the conversation server: a request with an API token acts as the token's owner, in its tenant and project, if the
// token may read (GET, HEAD) or write agents. All other requests go to next. An API token begins with identity.TokenPrefix, or is
// the token of a record on this node: an operator may have chosen another form.
func First(tokens *Authenticator, permissions Permissions, next endpoint.Authenticator) endpoint.Authenticator {
	return &first{tokens: tokens, permissions: permissions, next: next}
}

// Authenticate returns who asks, or why that is not known.
func (f *first) Authenticate(ctx context.Context, request endpoint.Request) (endpoint.Caller, *machine.Failure) {
	header := peek(request)
	if !bytes.HasPrefix(header, []byte(scheme)) { // the usual case where nobody has to say who they are
		return f.next.Authenticate(ctx, request)
	}
	secret, failure := f.tokens.secret(header)
	if failure != nil {
		return f.next.Authenticate(ctx, request)
	}
	key := digestOf(secret)
	if !strings.HasPrefix(string(secret), identity.TokenPrefix) && !f.tokens.knows(&key) {
		return f.next.Authenticate(ctx, request)
	}
	caller, failure := f.tokens.identify(ctx, &key)
	if failure != nil {
		return endpoint.Caller{}, failure
	}
	if failure = f.permissions.Check(ctx, caller, access.Agents, levelOf(request.Method()), sent{request}); failure != nil {
		return endpoint.Caller{}, failure
	}
	return caller, nil
}

// Watch asks the authenticator that accepted the caller.
func (f *first) Watch(caller endpoint.Caller, route *endpoint.Route) func() *machine.Failure {
	if caller.Grant != nil {
		return f.tokens.watch(caller, need{service: access.Agents, level: levelOf(route.Method)})
	}
	if next, ok := f.next.(endpoint.Watcher); ok {
		return next.Watch(caller, route)
	}
	return nil
}

// levelOf is the permission level that a method needs on the conversation server.
func levelOf(method string) access.Level {
	if method == "GET" || method == "HEAD" {
		return access.Read
	}
	return access.Write
}

// knows says whether this node has a token's record.
func (a *Authenticator) knows(key *digest) bool {
	if a.cache.get(key) != nil {
		return true
	}
	_, ok := a.records.Get(identity.Tokens, identity.TokenKey(key[:]))
	return ok
}

// Always401 is for surfaces that answer 401 to every fault of a token (document 3, 1.3: routes in the style of OpenAI).
func Always401(tokens *Authenticator) endpoint.Authenticator { return unauthorized{tokens} }

type unauthorized struct{ tokens *Authenticator }

// Watch is Authenticator's, with every fault of a token as 401.
func (u unauthorized) Watch(caller endpoint.Caller, route *endpoint.Route) func() *machine.Failure {
	service, level := needOf(route)
	return u.tokens.watch(caller, need{service: service, level: level, path: route.Path, only401: true})
}

// Authenticate returns the caller, or a 401.
func (u unauthorized) Authenticate(ctx context.Context, request endpoint.Request) (endpoint.Caller, *machine.Failure) {
	caller, failure := u.tokens.Authenticate(ctx, request)
	return caller, as401(failure)
}

// as401 turns a refusal into a 401, except when authentication is unavailable; nil stays nil.
func as401(failure *machine.Failure) *machine.Failure {
	if failure == nil || failure.Code == failurepb.Code_UNAVAILABLE {
		return failure
	}
	known := failure.WithCode(failurepb.Code_AUTH_REQUIRED)
	known.Details = nil // the title is for the other surface
	return known
}

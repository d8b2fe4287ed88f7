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

// first lets API tokens in where another authentication is at home.
type first struct {
	tokens *Authenticator
	next   endpoint.Authenticator
}

// First is for the conversation server: whoever presents an API token is who it says, in its tenant and project, if it may read
// (GET, HEAD) or write agents. All others are next's. An API token is what begins with identity.TokenPrefix, or is the token of a
// record that
// this node has: an operator may have chosen it otherwise.
func First(tokens *Authenticator, next endpoint.Authenticator) endpoint.Authenticator {
	return &first{tokens: tokens, next: next}
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
	if failure = permitted(caller.Grant, access.Agents, levelOf(request.Method()), ""); failure != nil {
		return endpoint.Caller{}, failure
	}
	return caller, nil
}

// Watch is the one of whoever let the caller in.
func (f *first) Watch(caller endpoint.Caller, row *endpoint.Row) func() *machine.Failure {
	if caller.Grant != nil {
		return f.tokens.watch(caller, need{service: access.Agents, level: levelOf(row.Method)})
	}
	if next, ok := f.next.(endpoint.Watcher); ok {
		return next.Watch(caller, row)
	}
	return nil
}

// levelOf is what a method takes on the conversation server.
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

// Always401 is for surfaces on which whatever is wrong with a token is 401 (document 3, 1.3: routes in the style of OpenAI).
func Always401(tokens *Authenticator) endpoint.Authenticator { return unauthorized{tokens} }

type unauthorized struct{ tokens *Authenticator }

// Watch is as Authenticator's, in these words.
func (u unauthorized) Watch(caller endpoint.Caller, row *endpoint.Row) func() *machine.Failure {
	service, level := needOf(row)
	return u.tokens.watch(caller, need{service: service, level: level, path: row.Path, only401: true})
}

// Authenticate returns who asks, or that it is not known.
func (u unauthorized) Authenticate(ctx context.Context, request endpoint.Request) (endpoint.Caller, *machine.Failure) {
	caller, failure := u.tokens.Authenticate(ctx, request)
	return caller, as401(failure)
}

// as401 says that it is not known who asks, unless nobody can say; of nil nil.
func as401(failure *machine.Failure) *machine.Failure {
	if failure == nil || failure.Code == failurepb.Code_UNAVAILABLE {
		return failure
	}
	known := failure.WithCode(failurepb.Code_AUTH_REQUIRED)
	known.Details = nil // they are a title of the other surface
	return known
}

package endpoint

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/failurepb"
)

type someone string

func (s someone) Authenticate(_ context.Context, request Request) (Caller, *machine.Failure) {
	peeker, ok := request.(HeaderPeeker)
	if !ok || len(peeker.PeekHeader("Authorization")) == 0 {
		return Caller{}, failure.Verbatim(failurepb.Code_NOT_FOUND, "who?")
	}
	return Caller{UserID: string(s)}, nil
}

func TestSurfaceHasItsOwnRules(t *testing.T) {
	var seen struct {
		caller  Caller
		headers map[string]string
		agent   string
		key     string
		late    context.Context //nolint:containedctx // looked at when the handler has returned
	}
	handle := func(ctx context.Context, _ *struct{}) (*struct{}, error) {
		seen.caller, seen.late = CallerFrom(ctx), ctx
		seen.headers = PrefixedHeaders(ctx, "X-Service-Hdr-")
		seen.agent = RequestFrom(ctx).Header("User-Agent")
		seen.key = RequestKey(ctx)
		return &struct{}{}, nil
	}
	mux := newTestMux(t)
	refusals := map[failurepb.Code]Refusal{
		failurepb.Code_FORBIDDEN: {Status: 403, Code: "no"},
		failurepb.Code_NOT_FOUND: {Status: 404, Code: "unknown"},
	}
	require.NoError(t, mux.Mount("/own", Surface{
		Name: "own", Refusals: refusals,
		Routes: []Route{
			On("GET /open", "things:read", handle, Idempotent()),
			On("GET /shut", "things:admin", handle),
			On("GET /public", "things:admin", handle, Public()),
		},
		AppendProblem: func(dst []byte, problem *Problem) []byte { return append(dst, problem.Message...) },
		Authenticator: someone("ann"),
		Permit: func(ctx context.Context, caller Caller, route *Route) *machine.Failure {
			_, bounded := ctx.Deadline()
			require.True(t, bounded)
			require.Equal(t, "ann", caller.UserID)
			if route.Access == "things:admin" {
				return failure.Verbatim(failurepb.Code_FORBIDDEN, "may not")
			}
			return nil
		},
		Headers: SecurityHeaders(),
	}))
	for path, status := range map[string]int{"/own/open": 404, "/own/shut": 404, "/own/public": 200, "/own/none": 404} {
		rc := ask(mux, "GET", path, "")
		require.Equal(t, status, rc.Response.StatusCode(), path)
		require.Equal(t, "DENY", string(rc.Response.Header.Peek("X-Frame-Options")), path)
	}
	rc := ask(mux, "GET", "/own/shut", "", "Authorization", "x")
	require.Equal(t, 403, rc.Response.StatusCode())
	rc = ask(mux, "GET", "/own/open", "", "Authorization", "x", "User-Agent", "tester", "x-service-hdr-x-tenant", "a", "X-Service-Hdr-", "no name")
	require.Equal(t, 200, rc.Response.StatusCode(), "%s", rc.Response.Body())
	require.Equal(t, "ann", seen.caller.UserID)
	require.Equal(t, map[string]string{"X-Tenant": "a"}, seen.headers)
	require.Equal(t, "tester", seen.agent)
	require.Empty(t, seen.key)
	require.Nil(t, RequestFrom(seen.late), "the request is over")
	require.Nil(t, PrefixedHeaders(seen.late, "X-"))
	route := mux.Routes()[0].Route
	require.Equal(t, "Idempotency-Key", route.Params()[0].Name)
	rc = ask(mux, "GET", "/x/none", "")
	require.Empty(t, rc.Response.Header.Peek("X-Frame-Options"), "another surface's")
}

// TestCountAgain: a handler that carries out several calls has each of them permitted and counted as a request.
func TestCountAgain(t *testing.T) {
	mux := newTestMux(t)
	left := 2
	handle := func(ctx context.Context, _ *struct{}) (*struct{}, error) {
		if err := CountAgain(ctx); err != nil {
			return nil, err
		}
		return &struct{}{}, nil
	}
	require.NoError(t, mux.Mount("/own", Surface{
		Name: "own", Refusals: map[failurepb.Code]Refusal{failurepb.Code_QUOTA_REACHED: {Status: 429, Code: "used_up"}},
		Routes:        []Route{On("GET /twice", "things:read", handle)},
		AppendProblem: func(dst []byte, problem *Problem) []byte { return append(dst, problem.Message...) },
		Authenticator: someone("ann"),
		Permit: func(_ context.Context, caller Caller, _ *Route) *machine.Failure {
			require.Equal(t, "ann", caller.UserID)
			if left--; left < 0 {
				return failure.Verbatim(failurepb.Code_QUOTA_REACHED, "used up")
			}
			return nil
		},
	}))
	require.Equal(t, 200, ask(mux, "GET", "/own/twice", "", "Authorization", "x").Response.StatusCode())
	left = 1
	require.Equal(t, 429, ask(mux, "GET", "/own/twice", "", "Authorization", "x").Response.StatusCode())
	require.NoError(t, CountAgain(t.Context()), "nobody asks")
}

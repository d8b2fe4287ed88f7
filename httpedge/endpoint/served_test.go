package endpoint

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/failurepb"
)

type oneIn struct {
	ID string `path:"id"`
}

func servedMux(t *testing.T, handle func(ctx context.Context, in *oneIn) (*Empty, error), options ...Option) *Mux {
	t.Helper()
	mux := newTestMux(t, On("GET /a/{id}", "a:read", handle, append(options, Status(204))...))
	mux.config.Node = "edge"
	return mux
}

func TestServedByNamesWhoAnswered(t *testing.T) {
	cases := []struct {
		name   string
		handle func(ctx context.Context, in *oneIn) (*Empty, error)
		want   string
	}{
		{"nobody_noted", func(context.Context, *oneIn) (*Empty, error) { return nil, nil }, "edge"}, //nolint:nilnil // 204
		{"noted", func(ctx context.Context, _ *oneIn) (*Empty, error) {
			ServedBy(ctx, "owner")
			return nil, nil //nolint:nilnil // 204
		}, "owner"},
		{"last_word_counts", func(ctx context.Context, _ *oneIn) (*Empty, error) {
			ServedBy(ctx, "old owner")
			ServedBy(ctx, "new owner")
			ServedBy(ctx, "")
			return nil, nil //nolint:nilnil // 204
		}, "new owner"},
		{"apart", func(ctx context.Context, _ *oneIn) (*Empty, error) {
			ServedBy(Apart(ctx), "one of several")
			return nil, nil //nolint:nilnil // 204
		}, "edge"},
		{"refusal", func(ctx context.Context, _ *oneIn) (*Empty, error) {
			ServedBy(ctx, "owner")
			return nil, failure.Verbatim(failurepb.Code_NOT_FOUND, "no")
		}, "owner"},
		{"panic", func(ctx context.Context, _ *oneIn) (*Empty, error) {
			ServedBy(ctx, "owner")
			panic("broken")
		}, "owner"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			rc := ask(servedMux(t, c.handle), "GET", "/x/a/1", "")
			require.Equal(t, c.want, string(rc.Response.Header.Peek(headerServedBy)))
		})
	}
	ServedBy(t.Context(), "nobody listens")
	ServedStale(t.Context())
	require.False(t, StaleAllowed(t.Context()))
	require.Equal(t, t.Context(), Apart(t.Context()))
}

func TestReadConsistency(t *testing.T) {
	cases := []struct {
		name, header  string
		options       []Option
		status        int
		allowed, told string
	}{
		{"default", "", []Option{StaleReads()}, 204, "", ""},
		{"fresh", "fresh", []Option{StaleReads()}, 204, "", ""},
		{"stale", "stale", []Option{StaleReads()}, 204, "yes", "true"},
		{"unknown_word", "eventual", []Option{StaleReads()}, 400, "", ""},
		{"route_without", "stale", nil, 204, "", ""},
		{"route_without_any_word", "eventual", nil, 204, "", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			allowed := ""
			mux := servedMux(t, func(ctx context.Context, _ *oneIn) (*Empty, error) {
				if StaleAllowed(ctx) && StaleAllowed(Apart(ctx)) {
					allowed = "yes"
					ServedStale(ctx)
				}
				return nil, nil //nolint:nilnil // 204
			}, c.options...)
			rc := ask(mux, "GET", "/x/a/1", "", headerConsistency, c.header)
			require.Equal(t, c.status, rc.Response.StatusCode())
			require.Equal(t, c.allowed, allowed)
			require.Equal(t, c.told, string(rc.Response.Header.Peek(headerReadStale)))
		})
	}
}

func TestEveryRefusalForNowSaysWhenToComeBack(t *testing.T) {
	full := func() *machine.Failure {
		return failure.Verbatim(failurepb.Code_QUOTA_REACHED, "too many background runs are queued in this project")
	}
	for _, c := range []struct {
		name   string
		err    error
		status int
		after  string
	}{
		{"queue", full().With("maxQueued", 3), 429, "5"},
		{"month", full().With("retryAfter", 86400), 429, "86400"},
		{"from_another_node", full().With("retryAfter", 7.0), 429, "7"},
		{"provider", &Problem{Status: 429, Code: "insufficient_quota"}, 429, "5"},
		{"rate", failure.Verbatim(failurepb.Code_RATE_LIMITED, "slow down"), 429, "1"},
		{"no_owner", failure.Verbatim(failurepb.Code_UNAVAILABLE, "the conversation has no owner right now"), 503, "1"},
		{"provider_away", &Problem{Status: 503, Code: "provider_unavailable"}, 503, "5"},
		{"provider_says", &Problem{Status: 503, Code: "provider_unavailable", RetryAfter: 1500 * time.Millisecond}, 503, "2"},
		{"broken", errors.New("broken"), 500, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			mux := servedMux(t, func(context.Context, *oneIn) (*Empty, error) { return nil, c.err })
			rc := ask(mux, "GET", "/x/a/1", "")
			require.Equal(t, c.status, rc.Response.StatusCode())
			require.Equal(t, c.after, string(rc.Response.Header.Peek("Retry-After")))
		})
	}
}

package dashboard

import (
	"context"
	"time"

	"parley/actors/core/failure"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// Attempts counts attempts for the whole cluster.
type Attempts interface {
	// Take counts an attempt at what name says, or says when attempts are allowed again. An error says that it was not counted.
	Take(ctx context.Context, name string, limit Limit) (allowed bool, again time.Time, err error)
}

// Limit is how many attempts there may be within a window of time.
type Limit struct {
	Most   int
	Window time.Duration
}

// Limits are those of this surface.
type Limits struct {
	Login    Limit // of one address
	Account  Limit // sign-ins to the accounts of one email, from anywhere
	Register Limit // of one address
	Founded  Limit // companies that are registered, in all
	Code     Limit // codes of a second factor that are tried for one user
	Reset    Limit // resets of a password that are asked for, from one address, and for one email
	Mails    Limit // that people ask for who are not signed in, in all
}

// attempt counts an attempt of the caller's address, before anything is looked up or hashed.
func (a *API) attempt(ctx context.Context, what string, limit Limit, refused failure.Reason) error {
	return a.take(ctx, what+"/address/"+a.Sessions.Client(ctx), limit, refused)
}

// take refuses with 429 what is above a limit, and with 503 what cannot be counted: else a cut-off node could be guessed at.
func (a *API) take(ctx context.Context, name string, limit Limit, refused failure.Reason) error {
	allowed, again, err := a.Attempts.Take(ctx, name, limit)
	if err != nil || allowed {
		return err
	}
	if headers, ok := endpoint.RequestFrom(ctx).(endpoint.Headers); ok {
		headers.AnswerHeader("X-RateLimit-Remaining", "0")
		headers.AnswerHeader("X-RateLimit-Reset", again.UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	seconds := max(1, int((time.Until(again)+time.Second-1)/time.Second))
	return failure.New(failurepb.Code_RATE_LIMITED, refused).With("retryAfter", seconds)
}

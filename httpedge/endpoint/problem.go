package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"parley/actors/core/failure"
	"parley/actors/core/follow"
	"parley/actors/machine"
	"parley/proto/failurepb"
)

// Problem is an answer that is not a success, ready to be rendered.
type Problem struct {
	Status  int
	Code    string
	Message string // safe to show
	Details map[string]any
	// RetryAfter is sent as a header, in whole seconds; 0 = not known, see RetrySeconds.
	RetryAfter time.Duration
	// Ran says that what was asked for was carried out, and may have been paid for, before its outcome was refused: the refusal is
	// the answer to a repetition with the same Idempotency-Key.
	Ran bool
	// Cause is what broke, for the log; nil for a refusal.
	Cause error
}

func (p *Problem) Error() string { return fmt.Sprintf("%d %s: %s", p.Status, p.Code, p.Message) }

// Unwrap gives the log what broke.
func (p *Problem) Unwrap() error { return p.Cause }

// Refusal is how a surface answers one failure code.
type Refusal struct {
	Status int
	Code   string
}

// Surface is one API: a base path's worth of routes, and how it words what goes wrong.
type Surface struct {
	Name   string
	Routes []Route
	// Refusals maps every failure code to a status and a code on the wire.
	Refusals map[failurepb.Code]Refusal
	// Wording words failures; nil = the default words.
	Wording *failure.Wording
	// AppendProblem renders the body of an error.
	AppendProblem func(dst []byte, problem *Problem) []byte
	// Guard refuses requests before anybody is asked who they are, on public routes too; nil = none is refused.
	Guard func(request Request) *machine.Failure
	// Authenticator establishes who asks; nil = the mux's.
	Authenticator Authenticator
	// Permit refuses what the caller may not do; nil = everybody may. It is asked after authentication and before limits and
	// the handler, except on public routes, and may wait until ctx ends.
	Permit func(ctx context.Context, caller Caller, route *Route) *machine.Failure
	// Auditor keeps the trail of what is changed; nil = there is none.
	Auditor Auditor
	// Headers are added to every answer of the surface.
	Headers []Header
}

// Header is a header field of an answer.
type Header struct{ Name, Value string }

// SecurityHeaders are what the Client API says to browsers with every answer, besides X-Content-Type-Options which the edge
// always sends (document 3, 1.1).
func SecurityHeaders() []Header {
	return []Header{
		{"X-Frame-Options", "DENY"},
		{"X-XSS-Protection", "1; mode=block"},
		{"Referrer-Policy", "strict-origin-when-cross-origin"},
		{"Permissions-Policy", "camera=(), microphone=(self), geolocation=()"},
		{"Strict-Transport-Security", "max-age=31536000; includeSubDomains"},
	}
}

// Codes for what document 2 leaves out; the surfaces share them.
const (
	codePathTooLong   = "path_too_long"
	codeHeaderTooLong = "header_too_large"
	codeTimeout       = "request_timeout"
	codeBadRange      = "range_not_satisfiable"
)

// internal is all that a caller learns of something that broke.
func internal() *failure.Failure { return failure.New(failurepb.Code_INTERNAL, failure.Internal) }

// problem turns what a handler returned into what is answered.
func (s *Surface) problem(err error) *Problem {
	var problem *Problem
	if errors.As(err, &problem) {
		return problem
	}
	var refused *machine.Failure
	if errors.As(err, &refused) {
		return s.refusal(refused)
	}
	if follow.IsUnavailable(err) {
		p := s.refusal(failure.New(failurepb.Code_UNAVAILABLE, failure.TemporarilyUnavailable))
		p.Cause = err
		return p
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		p := s.refusal(failure.New(failurepb.Code_UNAVAILABLE, failure.NotFinishedInTime))
		p.Cause = err
		return p
	}
	p := s.refusal(internal())
	p.Cause = err
	return p
}

func (s *Surface) refusal(refused *machine.Failure) *Problem {
	known, ok := s.Refusals[refused.Code]
	if !ok {
		broken := s.Refusals[failurepb.Code_INTERNAL]
		return &Problem{
			Status: broken.Status, Code: broken.Code, Message: s.Wording.Text(internal()),
			Cause: fmt.Errorf("failure code without a mapping: %w", refused),
		}
	}
	problem := &Problem{
		Status: known.Status, Code: known.Code,
		Message: s.Wording.Text(refused), Details: s.Wording.Details(refused), RetryAfter: retryAfter(refused),
	}
	if refused.Code == failurepb.Code_INTERNAL {
		problem.Cause = refused
		problem.Message = s.Wording.Text(internal())
		problem.Details = nil
	}
	return problem
}

const (
	// whenUnknown is when to ask again where nobody knows when there is room, or what is away comes back: runs in line take seconds to
	// minutes, and so do providers.
	whenUnknown   = 5 * time.Second
	maxRetryAfter = 366 * 24 * time.Hour
)

// SaysWhen says whether an answer of this status tells when to ask again: no 429 and no 503 goes without it.
func SaysWhen(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// RetrySeconds is what the header Retry-After says; 0 = it is not sent.
func (p *Problem) RetrySeconds() int {
	after := p.RetryAfter
	if after <= 0 && SaysWhen(p.Status) {
		after = whenUnknown
	}
	return int((max(after, 0) + time.Second - 1) / time.Second)
}

// retryAfter says when it makes sense to ask again. A failure may say so itself, in details.retryAfter seconds.
func retryAfter(refused *machine.Failure) time.Duration {
	switch seconds := refused.Details["retryAfter"].(type) {
	case int:
		if seconds > 0 {
			return time.Duration(seconds) * time.Second
		}
	case float64: // the failure comes from another node
		if seconds > 0 {
			return time.Duration(min(seconds, maxRetryAfter.Seconds()) * float64(time.Second))
		}
	}
	switch refused.Code {
	case failurepb.Code_UNAVAILABLE, failurepb.Code_RATE_LIMITED:
		return time.Second
	case failurepb.Code_STORAGE_FULL:
		return 10 * time.Second
	case failurepb.Code_STORAGE_FAILED:
		return 30 * time.Second
	default:
		return 0
	}
}

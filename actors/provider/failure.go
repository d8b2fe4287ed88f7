package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"parley/actors/deliver"
)

// Reasons of a Failure, for errors.Is.
var (
	ErrFirstToken = errors.New("no first token in time")
	ErrIdle       = errors.New("no further chunk in time")
	ErrTotal      = errors.New("answer not complete in time")

	ErrStreamSize = errors.New("response is longer than allowed")
	ErrLineSize   = errors.New("a line of the response is longer than allowed")
	ErrEventSize  = errors.New("an event of the response is longer than allowed")
	ErrEventShape = errors.New("an event of the response nests too deep or has too many values")
	ErrAnswerSize = errors.New("answer is longer than allowed")

	ErrCut        = errors.New("stream ended before the answer did")
	ErrUnreadable = errors.New("answer cannot be understood")
	ErrRedirect   = errors.New("redirects are not followed")
)

// Class is what a failure means, whatever the provider calls it.
type Class int

// Classes of failures.
const (
	Other            Class = iota // a refusal of no known kind
	Unnamed                       // an error document without a status, of no known kind
	ContextLength                 // the request is longer than the model's context window
	ContentPolicy                 // refused for what it says
	Credentials                   // the key is missing or wrong
	Forbidden                     // the key must not do that
	Quota                         // the account has used up its quota
	Payment                       // 402
	RateLimited                   // too many requests
	RequestTimeout                // 408
	Timeout                       // no answer, or none to its end, in time: by our clock or by that of a gateway before the provider
	Unreachable                   // no connection
	Cut                           // the connection ended before the answer did
	NotFound                      // no such model
	Invalid                       // 400
	Conflict                      // 409
	Unprocessable                 // 422
	ServerError                   // 5xx
	Overloaded                    // 503, 529
	TooLarge                      // the answer exceeds a limit of ours
	Costly                        // an event that is too costly to decode
	Unreadable                    // the answer is not of the form that it should have
	ForbiddenAddress              // the address guard does not let the call through
	Redirected                    // redirects are not followed
	CircuitOpen                   // not called: the service has failed too often
)

// Failure is a failed attempt. Its texts are safe to show.
type Failure struct {
	Class             Class
	Status            int    // of HTTP; 0 = none was given
	InStream          bool   // reported in an answer, and not by the status of one
	Kind, Code, Param string // the provider's own names for it; not redacted: IsName says whether they look like names
	Message           string // the provider's words, "" = none
	After             time.Duration
	Retry             string // the X-Should-Retry header: true, false or nothing
	// Final says that the surface wants no further attempt.
	Final  bool
	Reason error // what broke, if it was not the provider that said so
}

var _ Verdict = (*Failure)(nil)

// Error implements error, for logs.
func (f *Failure) Error() string {
	text := fmt.Sprintf("model provider: class %d", f.Class)
	if f.Status > 0 {
		text += ", status " + strconv.Itoa(f.Status)
	}
	for _, part := range []string{f.Kind, f.Code} {
		if IsName(part) {
			text += ", " + part
		}
	}
	if f.Message != "" {
		text += ": " + f.Message
	}
	if f.Reason != nil {
		text += ": " + f.Reason.Error()
	}
	return text
}

// Unwrap gives the reason.
func (f *Failure) Unwrap() error { return f.Reason }

// Again implements Verdict. What took too long by our own clock is not tried again: nobody waits as long once more without being
// asked.
func (f *Failure) Again() bool {
	if f.Final || f.Class == Quota {
		return false
	}
	if f.Retry != "" {
		return f.Retry == "true"
	}
	switch f.Class {
	case Unnamed, RateLimited, RequestTimeout, Unreachable, Cut, Conflict, ServerError, Overloaded:
		return true
	case Timeout:
		return f.Status > 0
	default:
		return false
	}
}

// Pause implements Verdict.
func (f *Failure) Pause() time.Duration { return f.After }

// Outage implements Verdict.
func (f *Failure) Outage() bool {
	return slices.Contains([]Class{Timeout, Unreachable, Cut, ServerError, Overloaded}, f.Class)
}

// Unanswered says that the provider neither answered nor refused: it may have done what it was asked, and charge for it.
func (f *Failure) Unanswered() bool {
	return slices.Contains([]Class{Timeout, Unreachable, Cut, TooLarge, Costly, Unreadable}, f.Class)
}

// Judge makes a Failure of any error of an attempt. What it does not know is taken for an answer that cannot be read.
func Judge(err error, secrets Redactor) *Failure {
	if known, ok := errors.AsType[*Failure](err); ok {
		return known
	}
	reason := &redacted{text: secrets.Clean(err.Error(), maxWords), err: err}
	switch {
	case IsTimeLimit(err):
		return &Failure{Class: Timeout, Reason: reason}
	case errors.Is(err, ErrEventShape):
		return &Failure{Class: Costly, Reason: reason}
	case exceeds(err):
		return &Failure{Class: TooLarge, Reason: reason}
	case errors.Is(err, ErrCut):
		return &Failure{Class: Cut, Reason: reason}
	case errors.Is(err, deliver.ErrForbiddenAddress):
		return &Failure{Class: ForbiddenAddress, Reason: reason}
	case errors.Is(err, ErrRedirect), errors.Is(err, deliver.ErrRedirect):
		return &Failure{Class: Redirected, Reason: reason}
	}
	return &Failure{Class: Unreadable, Reason: reason}
}

// redacted is an error whose text is safe to show. It matches what the error matched, and does not unwrap to it.
type redacted struct {
	text string
	err  error
}

func (r *redacted) Error() string { return r.text }

// Is implements errors.Is.
func (r *redacted) Is(target error) bool { return errors.Is(r.err, target) }

// IsTimeLimit says whether an error, or the cause of a context, is a limit of time.
func IsTimeLimit(err error) bool {
	return errors.Is(err, ErrFirstToken) || errors.Is(err, ErrIdle) || errors.Is(err, ErrTotal) || errors.Is(err, context.DeadlineExceeded)
}

// exceeds says whether an answer was read no further because of its size or shape.
func exceeds(err error) bool {
	return slices.ContainsFunc([]error{ErrStreamSize, ErrLineSize, ErrEventSize, ErrEventShape, ErrAnswerSize}, func(limit error) bool {
		return errors.Is(err, limit)
	})
}

// retryAfter reads how long a provider wants to be left alone: Retry-After-Ms, or Retry-After in seconds or as a date.
func retryAfter(header http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(header.Get("Retry-After-Ms"), 64); err == nil {
		return seconds(ms / 1000)
	}
	value := header.Get("Retry-After")
	if s, err := strconv.ParseFloat(value, 64); err == nil {
		return seconds(s)
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// seconds turns a number from outside into a duration: not below zero, not above a day.
func seconds(s float64) time.Duration {
	day := (24 * time.Hour).Seconds()
	if !(s > 0) {
		return 0
	}
	return time.Duration(min(s, day) * float64(time.Second))
}

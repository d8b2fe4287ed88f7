package model

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"parley/actors/core/letters"
	"parley/actors/provider"
	"parley/actors/stranger"
)

// maxShownText is how many bytes of a provider's own words an error repeats.
const maxShownText = 400

// errToolName is an answer that cannot be used.
var errToolName = &Error{Code: CodeProviderError, Message: "the model asked for a tool without a name"}

// invalid is a request that this package refuses by itself.
func invalid(format string, args ...any) *Error {
	return &Error{Code: CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
}

// crowded is an answer that there is no memory for.
func crowded(why error) *Error {
	if errors.Is(why, stranger.ErrBusy) {
		return &Error{Code: CodeOverloaded, Message: why.Error(), Retryable: true, Err: why}
	}
	return &Error{Code: CodeProviderError, Message: why.Error(), Err: why}
}

// codes are what classes of failures are called in turns. Those that are missing are provider_error.
//
//nolint:gochecknoglobals // a constant table
var codes = map[provider.Class]string{
	provider.ContextLength: CodeInvalidRequest, provider.ContentPolicy: CodeInvalidRequest, provider.NotFound: CodeInvalidRequest,
	provider.Invalid: CodeInvalidRequest, provider.Unprocessable: CodeInvalidRequest, provider.ForbiddenAddress: CodeInvalidRequest,
	provider.Credentials: CodeAuthentication, provider.Forbidden: CodeAuthentication,
	provider.Quota: CodeRateLimited, provider.RateLimited: CodeRateLimited,
	provider.RequestTimeout: CodeProviderTimeout, provider.Timeout: CodeProviderTimeout,
	provider.Overloaded: CodeOverloaded, provider.Cut: CodeCut,
}

// worded is an error of a call as the turn is told of it.
func (c *caller) worded(err error, this *call) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		own := *known // each call its own: whether it may be repeated is noted in it
		return &own
	}
	failed := provider.Judge(err, this.secrets)
	worded := &Error{
		Code: codes[failed.Class], Message: wording(failed, this.host), Err: failed,
		Retryable: failed.Again() || failed.Class == provider.Timeout || failed.Class == provider.CircuitOpen,
	}
	switch {
	case worded.Code != "":
	case failed.Class == provider.Other && failed.Status >= http.StatusBadRequest:
		worded.Code = CodeInvalidRequest
	default:
		worded.Code = CodeProviderError
	}
	if failed.Again() && failed.After > c.config.MaxRetryAfter {
		worded.Message += fmt.Sprintf(" (it asks to wait %s)", failed.After.Round(time.Second))
	}
	return worded
}

// wording says what went wrong. What a provider says about credentials is not repeated: it may quote a part of them.
func wording(failed *provider.Failure, host string) string {
	where := fmt.Sprintf("answered with status %d", failed.Status)
	switch {
	case failed.InStream:
		where = "reported an error in mid-stream"
	case failed.Status == 0:
		where = "answered with an error"
	}
	switch failed.Class {
	case provider.Timeout:
		switch {
		case failed.Status > 0:
		case errors.Is(failed, provider.ErrFirstToken):
			return "the model provider sent no first token in time"
		case errors.Is(failed, provider.ErrIdle):
			return "the model provider stalled in mid-answer"
		default:
			return "the model provider took too long for the whole answer"
		}
	case provider.Unreachable:
		return "the model provider could not be reached"
	case provider.Cut:
		if errors.Is(failed, provider.ErrCut) {
			return "the connection to the model provider was cut before the answer was complete"
		}
		return "the model provider closed the connection without an answer"
	case provider.TooLarge, provider.Costly:
		return "the answer of the model provider is too large: " + failed.Reason.Error()
	case provider.Redirected:
		return "the model provider answered with a redirect, which is not followed"
	case provider.ForbiddenAddress:
		return "Refusing outbound request to private/loopback host: " + host // document 3, 14.1
	case provider.CircuitOpen:
		return "the model provider has failed too often and is left alone for a while"
	case provider.Unreadable:
		if failed.Message != "" {
			return "the model provider sent something that cannot be understood: " + letters.Shorten(failed.Message, maxShownText)
		}
		return "the model provider sent something that cannot be understood"
	case provider.Credentials, provider.Forbidden:
		return "the model provider refused the credentials (" + where + ")"
	default: // in the provider's own words
	}
	if failed.Message == "" {
		return "the model provider " + where
	}
	return "the model provider " + where + ": " + letters.Shorten(failed.Message, maxShownText)
}

// scriptFailure is the failure that a script asks for.
type scriptFailure struct {
	failure *Error
	again   bool
}

var _ provider.Verdict = (*scriptFailure)(nil)

// Error implements error.
func (f *scriptFailure) Error() string { return f.failure.Error() }

// Unwrap gives the failure in its words.
func (f *scriptFailure) Unwrap() error { return f.failure }

// Again implements provider.Verdict.
func (f *scriptFailure) Again() bool { return f.again }

// Pause implements provider.Verdict.
func (f *scriptFailure) Pause() time.Duration { return 0 }

// Outage implements provider.Verdict.
func (f *scriptFailure) Outage() bool { return false }

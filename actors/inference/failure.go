package inference

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"time"

	"parley/actors/core/letters"
	"parley/actors/provider"
	"parley/actors/stranger"
	"parley/proto/agentpb"
)

// Error is a failed call as an OpenAI client is told of it (document 3, 10.4). It is safe to show.
type Error struct {
	Status            int
	Type, Code, Param string // Param may be empty
	Message           string
	RetryAfter        time.Duration // 0 = not said
	Err               error         // for the log; holds no secret either
	Ran               bool          // the model answered, and was paid for it
}

func (e *Error) Error() string { return strconv.Itoa(e.Status) + " " + e.Code + ": " + e.Message }

// Unwrap gives the log what caused it.
func (e *Error) Unwrap() error { return e.Err }

// Types of errors on the wire.
const (
	typeInvalid     = "invalid_request_error"
	typeNotFound    = "not_found_error"
	typeServer      = "server_error"
	typeOutputLimit = "output_token_limit_exceeded"
)

// answer is what a class of failures becomes on the wire: a row of the table of document 3, 10.4.
type answer struct {
	status            int // 0 = the provider's
	kind, code, param string
	message           string // in place of the provider's words
	own               bool   // the provider's code comes first
	final             bool   // no further attempt is made
}

//nolint:gochecknoglobals // a constant table
var answers = map[provider.Class]answer{
	provider.ContextLength:    {400, typeInvalid, "context_length_exceeded", "messages", "", true, true},
	provider.ContentPolicy:    {400, typeInvalid, "content_policy_violation", "", "", true, true},
	provider.Credentials:      {401, "authentication_error", "invalid_api_key", "", textCredentials, true, true},
	provider.Forbidden:        {403, "permission_error", "permission_denied", "", "", true, true},
	provider.Quota:            {429, "rate_limit_error", "insufficient_quota", "", "", true, true},
	provider.RateLimited:      {429, "rate_limit_error", "rate_limit_exceeded", "", "", true, false},
	provider.RequestTimeout:   {408, typeServer, "provider_timeout", "", "", true, false},
	provider.Timeout:          {504, typeServer, "provider_timeout", "", "", true, false},
	provider.Unreachable:      {503, typeServer, "provider_unavailable", "", "", false, false},
	provider.Cut:              {503, typeServer, "provider_unavailable", "", "", false, false},
	provider.CircuitOpen:      {503, typeServer, "provider_unavailable", "", textLeftAlone, false, true},
	provider.ForbiddenAddress: {400, typeInvalid, "invalid_request", "model", textElsewhere, false, true}, // to call again is of no use
	provider.Redirected:       {503, typeServer, "provider_unavailable", "", textElsewhere, false, true},
	provider.NotFound:         {404, typeNotFound, "model_not_found", "model", "", true, true},
	provider.Invalid:          {400, typeInvalid, "invalid_request", "", "", true, true},
	provider.Conflict:         {409, "conflict_error", "conflict", "", "", true, true},
	provider.Unprocessable:    {422, "unprocessable_entity_error", "unprocessable_entity", "", "", true, true},
	provider.ServerError:      {0, typeServer, "provider_error", "", "", true, false},
	provider.Overloaded:       {0, typeServer, "provider_error", "", "", true, false},
	provider.TooLarge:         {502, typeServer, "provider_error", "", "the answer of the model provider is larger than allowed", true, true},
	provider.Unreadable:       {502, typeServer, "provider_error", "", "The answer of the model provider cannot be understood", true, true},
	provider.Costly:           {502, typeServer, "provider_error", "", "The answer of the model provider cannot be understood", true, true},
	provider.Unnamed:          {500, typeServer, "inference_error", "", "", true, true},
	provider.Payment:          {500, typeServer, "inference_error", "", "", true, true},
	provider.Other:            {500, typeServer, "inference_error", "", "", true, true},
}

// Messages in place of the provider's words.
const (
	textCredentials = "The model provider refused the credentials that this server has for it"
	textLeftAlone   = "The model provider has failed too often and is left alone for a while"
	textElsewhere   = "The model's base URL leads to where this server does not go"
)

// crowded is the error of an answer that there is no memory for.
func crowded(why error) *Error {
	if errors.Is(why, stranger.ErrBusy) {
		return &Error{Status: http.StatusServiceUnavailable, Type: typeServer, Code: "provider_unavailable", Message: why.Error(), Err: why}
	}
	return &Error{Status: http.StatusBadGateway, Type: typeServer, Code: "provider_error", Message: why.Error(), Err: why}
}

// worded is the error that the caller gets for a failed call.
func worded(err error, callee *agentpb.Model) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	failed := provider.Judge(err, provider.RedactorOf(callee))
	row := answers[failed.Class]
	e := &Error{
		Status: cmp.Or(row.status, failed.Status), Type: row.kind, Code: row.code, Param: row.param,
		Message: row.message, RetryAfter: failed.After, Err: failed,
	}
	if e.Status > 599 { // no status of HTTP
		e.Status = http.StatusBadGateway
	}
	if row.own && provider.IsName(failed.Code) {
		e.Code = failed.Code
	}
	if provider.IsName(failed.Param) {
		e.Param = failed.Param
	}
	switch {
	case e.Message != "" && failed.Class == provider.Unreadable && failed.Message != "":
		e.Message += ": " + failed.Message
	case e.Message != "":
	case failed.Message != "":
		e.Message = failed.Message
	case failed.Class == provider.Timeout && failed.Status == 0:
		e.Message = "The model provider did not answer in time"
	case failed.Class == provider.Unreachable || failed.Class == provider.Cut:
		e.Message = "The model provider is not available"
	case failed.Status > 0 && !failed.InStream:
		e.Message = "The model provider answered with status " + strconv.Itoa(failed.Status)
	default:
		e.Message = "The model call failed"
	}
	return e
}

// badAddress is a model whose base URL cannot be called.
func badAddress(err error) *Error { return worded(fromModel(err), nil) }

// unreadable is the error for a malformed answer.
func unreadable() error {
	return &provider.Failure{Class: provider.Unreadable, Reason: provider.ErrUnreadable}
}

// invalid is the error for a request that is refused before any provider is called.
func invalid(param, message string) *Error {
	return &Error{Status: http.StatusBadRequest, Type: typeInvalid, Code: "invalid_request", Param: param, Message: message}
}

// cutShort is the error for an answer that used up its tokens before it had any content.
func cutShort() *Error {
	return &Error{
		Status: http.StatusUnprocessableEntity, Type: typeOutputLimit, Code: typeOutputLimit, Param: "max_completion_tokens", Ran: true,
		Message: "The model used up its output tokens before it answered: raise max_completion_tokens",
	}
}

// shorten cuts a name from the request to the length that an error quotes.
func shorten(text string) string { return letters.Head(text, 128) }

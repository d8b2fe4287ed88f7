package inference

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"parley/actors/deliver"
	"parley/actors/machine/rawjson"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
)

// Error is a failed call as an OpenAI client is told of it (document 3, 10.4). It is safe to show.
type Error struct {
	Status              int
	Type, Code, Param   string // Param may be empty
	Message             string
	RetryAfter          time.Duration // 0 = not said
	Err                 error         // for the log; holds no secret either
	ours, again, outage bool
	unanswered          bool // the provider neither answered nor refused
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

// maxMessage is how many bytes of a provider's words an error repeats.
const maxMessage = 2000

var (
	errTimeout = errors.New("no answer in time")
	errIdle    = errors.New("no further chunk in time")
	errSize    = errors.New("answer is larger than allowed")
	errShape   = errors.New("answer cannot be understood")

	errStreamTime = fmt.Errorf("%w: the stream did not end", errTimeout)

	errRedirect = errors.New("redirects are not followed")
)

// signal is what is known of a failure.
type signal struct {
	status               int // 0 = none
	kind, code, param    string
	message              string
	timeout, unreachable bool
	after                time.Duration
	cause                error
}

var (
	contextWording = regexp.MustCompile(`(?i)context[ _]?(length|window)|maximum context|prompt is too long|too many (input )?tokens|input is too long`)
	policyWording  = regexp.MustCompile(`(?i)content[ _](policy|filter|management)|content_filtered|safety system|responsible ai`)
	keyWording     = regexp.MustCompile(`(?i)(invalid|incorrect|missing|expired|no)[ _]?api[ _]?key|api[ _]key.{0,20}(invalid|incorrect|missing)|invalid[ _]authentication`)
	quotaWording   = regexp.MustCompile(`(?i)insufficient[ _]quota|exceeded your current quota|billing`)
	modelWording   = regexp.MustCompile(`(?i)model[ _]not[ _]found|model .{0,80}(does not exist|not found)|no such model`)
	requestWording = regexp.MustCompile(`(?i)invalid[ _](request|parameter|value|type)|validation|unsupported[ _](parameter|value)|missing required`)
	namePattern    = regexp.MustCompile(`^[a-zA-Z0-9_.\-]{1,64}$`)
)

// Error makes a signal what a reader of answers returns; broken words it.
func (s *signal) Error() string { return "the provider reported an error" }

// outcome is one row of the table: what a signal means to the caller.
type outcome struct {
	status             int
	kind, code, param  string
	fixed              string // in place of the provider's words
	ownCode, repeating bool   // the provider's code comes first; another attempt may help
}

// classify is the table of document 3, 10.4, in its order: the first that fits.
func (s *signal) classify() outcome {
	words := s.code + " " + s.kind + " " + s.message
	refused := s.status == 0 || s.status == http.StatusBadRequest || s.status == http.StatusUnprocessableEntity ||
		s.status == http.StatusRequestEntityTooLarge
	switch {
	case (refused || s.status == http.StatusForbidden) && !s.timeout && contextWording.MatchString(words):
		return outcome{status: 400, kind: typeInvalid, code: "context_length_exceeded", param: "messages", ownCode: true}
	case (refused || s.status == http.StatusForbidden) && !s.timeout && policyWording.MatchString(words):
		return outcome{status: 400, kind: typeInvalid, code: "content_policy_violation", ownCode: true}
	case s.status == http.StatusUnauthorized || (refused && keyWording.MatchString(words)):
		return outcome{
			status: 401, kind: "authentication_error", code: "invalid_api_key", ownCode: true,
			fixed: "The model provider refused the credentials that this server has for it",
		}
	case s.status == http.StatusForbidden:
		return outcome{status: 403, kind: "permission_error", code: "permission_denied", ownCode: true}
	case s.status == http.StatusTooManyRequests && quotaWording.MatchString(words):
		return outcome{status: 429, kind: "rate_limit_error", code: "insufficient_quota", ownCode: true}
	case s.status == http.StatusTooManyRequests:
		return outcome{status: 429, kind: "rate_limit_error", code: "rate_limit_exceeded", ownCode: true, repeating: true}
	case s.status == http.StatusRequestTimeout:
		return outcome{status: 408, kind: typeServer, code: "provider_timeout", ownCode: true, repeating: true}
	case s.timeout || s.status == http.StatusGatewayTimeout:
		return outcome{status: 504, kind: typeServer, code: "provider_timeout", ownCode: true, repeating: true}
	case s.unreachable:
		return outcome{status: 503, kind: typeServer, code: "provider_unavailable", repeating: true}
	case s.status == http.StatusNotFound || (refused && modelWording.MatchString(words)):
		return outcome{status: 404, kind: typeNotFound, code: "model_not_found", param: "model", ownCode: true}
	case s.status == http.StatusBadRequest || (s.status == 0 && requestWording.MatchString(words)):
		return outcome{status: 400, kind: typeInvalid, code: "invalid_request", ownCode: true}
	case s.status == http.StatusConflict:
		return outcome{status: 409, kind: "conflict_error", code: "conflict", ownCode: true}
	case s.status == http.StatusUnprocessableEntity:
		return outcome{status: 422, kind: "unprocessable_entity_error", code: "unprocessable_entity", ownCode: true}
	case s.status >= http.StatusInternalServerError:
		return outcome{status: s.status, kind: typeServer, code: "provider_error", ownCode: true, repeating: true}
	default:
		return outcome{status: 500, kind: typeServer, code: "inference_error", ownCode: true}
	}
}

// toError words a failure for the caller.
func (s *signal) toError(callee *agentpb.Model) *Error {
	row := s.classify()
	e := &Error{
		Status: row.status, Type: row.kind, Code: row.code, Param: row.param, Err: s.cause,
		RetryAfter: s.after, again: row.repeating,
		outage:     s.unreachable || s.timeout || s.status >= http.StatusInternalServerError,
		unanswered: s.unreachable || s.timeout || s.status == http.StatusGatewayTimeout,
	}
	if e.Status > 599 { // no status of HTTP
		e.Status = http.StatusBadGateway
	}
	if row.ownCode && namePattern.MatchString(s.code) && !strings.HasPrefix(s.code, "sk-") {
		e.Code = s.code
	}
	if namePattern.MatchString(s.param) {
		e.Param = s.param
	}
	switch {
	case row.fixed != "":
		e.Message = row.fixed
	case s.message != "":
		e.Message = model.Redact(callee, s.message, maxMessage)
	case s.timeout:
		e.Message = "The model provider did not answer in time"
	case s.unreachable:
		e.Message = "The model provider is not available"
	case s.status > 0:
		e.Message = "The model provider answered with status " + strconv.Itoa(s.status)
	default:
		e.Message = "The model call failed"
	}
	return e
}

// readSignal finds what an error document says: {"error":{message,type,code,param}}, {"error":"..."}, {"message"}, {"detail"}.
func readSignal(status int, document []byte) *signal {
	s := &signal{status: status}
	if !json.Valid(document) {
		return s
	}
	outer, err := rawjson.Object(document)
	if err != nil {
		return s
	}
	inner, err := rawjson.Object(outer.Get("error"))
	if err != nil {
		inner = outer
		s.message = outer.Text("error")
	}
	if s.message == "" {
		s.message = inner.Text("message")
	}
	if s.message == "" {
		s.message = outer.Text("detail")
	}
	s.kind, s.code, s.param = inner.Text("type"), inner.Text("code"), inner.Text("param")
	if number, err := strconv.Atoi(string(inner.Get("code"))); err == nil && status == 0 && number >= 400 && number < 600 {
		s.status = number
	}
	if s.status == 0 {
		s.status = statusOf(s.kind + " " + s.code)
	}
	return s
}

// statusOf gives the kinds of error that are named in mid-stream the status they have elsewhere; 0 = not known.
func statusOf(kind string) int {
	for _, known := range []struct {
		word   string
		status int
	}{
		{"rate_limit", 429},
		{"insufficient_quota", 429},
		{"authentication", 401},
		{"invalid_api_key", 401},
		{"permission", 403},
		{"not_found", 404},
		{"timeout", 504},
		{"overloaded", 503},
		{"unavailable", 503},
		{"invalid_request", 400},
		{"server_error", 502},
	} {
		if strings.Contains(kind, known.word) {
			return known.status
		}
	}
	return 0
}

// fromModel words an error of package model.
func fromModel(err error, callee *agentpb.Model) *Error {
	failed, ok := errors.AsType[*model.Error](err)
	if !ok {
		return broken(err, callee)
	}
	s := &signal{message: failed.Message, cause: failed}
	switch failed.Code {
	case model.CodeProviderTimeout:
		s.timeout = true
	case model.CodeRateLimited:
		s.status = http.StatusTooManyRequests
	case model.CodeOverloaded:
		s.status = http.StatusServiceUnavailable
	case model.CodeInvalidRequest:
		s.status = http.StatusBadRequest
	case model.CodeAuthentication:
		s.status = http.StatusUnauthorized
	case model.CodeCut:
		s.unreachable = true
	default:
		s.status = http.StatusBadGateway
	}
	e := s.toError(callee)
	e.again = false // package model has tried
	return e
}

// broken is a call that ended without an answer that could be read.
func broken(err error, callee *agentpb.Model) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	if said, ok := errors.AsType[*signal](err); ok {
		return said.toError(callee)
	}
	s := &signal{cause: errors.New(model.Redact(callee, err.Error(), maxMessage))}
	switch {
	case errors.Is(err, errTimeout), errors.Is(err, errIdle), errors.Is(err, context.DeadlineExceeded):
		s.timeout = true
	case errors.Is(err, errSize):
		s.status, s.message = http.StatusBadGateway, "the answer of the model provider is larger than allowed"
		e := s.toError(callee)
		e.again, e.outage, e.unanswered = false, false, true
		return e
	case errors.Is(err, deliver.ErrForbiddenAddress), errors.Is(err, errRedirect):
		s.unreachable, s.message = true, "The model's base URL leads to where this server does not go"
		e := s.toError(callee)
		e.again, e.outage, e.unanswered = false, false, false
		return e
	case errors.Is(err, errShape):
		s.message = "The answer of the model provider cannot be understood"
		e := s.toError(callee)
		e.unanswered = true
		return e
	default:
		s.unreachable = true
	}
	return s.toError(callee)
}

// invalid is a request that is refused here.
func invalid(param, message string) *Error {
	return &Error{Status: http.StatusBadRequest, Type: typeInvalid, Code: "invalid_request", Param: param, Message: message, ours: true}
}

// cutShort is an answer that used up its tokens before it said anything.
func cutShort() *Error {
	return &Error{
		Status: http.StatusUnprocessableEntity, Type: typeOutputLimit, Code: typeOutputLimit, Param: "max_completion_tokens",
		Message: "The model used up its output tokens before it answered: raise max_completion_tokens",
	}
}

// retryAfter reads how long a provider wants to be left alone.
func retryAfter(header http.Header) time.Duration {
	const day = 24 * 60 * 60
	if ms, err := strconv.ParseFloat(header.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(min(ms, day*1000) * float64(time.Millisecond))
	}
	if s, err := strconv.ParseFloat(header.Get("Retry-After"), 64); err == nil && s > 0 {
		return time.Duration(min(s, day) * float64(time.Second))
	}
	return 0
}

// shorten cuts a name of the caller's to what an error repeats.
func shorten(text string) string { return model.Head(text, 128) }

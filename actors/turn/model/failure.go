package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

var (
	errFirstToken = errors.New("no first token in time")
	errIdle       = errors.New("no further chunk in time")
	errTotalTime  = errors.New("answer not complete in time")
	errStreamSize = errors.New("response is longer than allowed")
	errLineSize   = errors.New("a line of the response is longer than allowed")
	errEventSize  = errors.New("an event of the response is longer than allowed")
	errEventShape = errors.New("an event of the response nests too deep or has too many values")
	errAnswerSize = errors.New("answer is longer than allowed")
	errToolName   = errors.New("a tool call has no name")
	errCut        = errors.New("stream ended before the answer did")
	errRedirect   = errors.New("redirects are not followed")
)

// attemptFault is a failed attempt: what the caller would be told, and what it means for another attempt.
type attemptFault struct {
	failure *Error
	again   bool          // another attempt now may help
	after   time.Duration // the provider asked for this pause; 0 = it did not say
}

func (f *attemptFault) Error() string { return f.failure.Error() }

func (f *attemptFault) Unwrap() error { return f.failure }

// fault builds an attemptFault. What is worth another attempt now is also worth one later.
func fault(code, message string, again bool, cause error) *attemptFault {
	return &attemptFault{failure: &Error{Code: code, Message: message, Retryable: again, Err: cause}, again: again}
}

// invalid is a request that this package refuses by itself.
func invalid(format string, args ...any) *attemptFault {
	return fault(CodeInvalidRequest, fmt.Sprintf(format, args...), false, nil)
}

// asFault makes sure that an attempt's error is one that may be shown. Adapters return attemptFaults; anything else is a
// client's complaint about the stream or the request, whose words are for the log.
func asFault(err error, secrets redactor) *attemptFault {
	if known, ok := errors.AsType[*attemptFault](err); ok {
		return known
	}
	cause := errors.New(secrets.clean(err.Error()))
	switch {
	case errors.Is(err, errFirstToken):
		return late("the model provider sent no first token in time", cause)
	case errors.Is(err, errIdle):
		return late("the model provider stalled in mid-answer", cause)
	case errors.Is(err, errTotalTime):
		return late("the model provider took too long for the whole answer", cause)
	case tooLarge(err), errors.Is(err, errAnswerSize):
		return fault(CodeProviderError, "the answer of the model provider is too large: "+err.Error(), false, cause)
	case errors.Is(err, errToolName):
		return fault(CodeProviderError, "the model asked for a tool without a name", false, cause)
	case errors.Is(err, errCut):
		return fault(CodeCut, "the connection to the model provider was cut before the answer was complete", true, cause)
	default:
		return fault(CodeProviderError, "the model provider sent something that cannot be understood", false, cause)
	}
}

// tooLarge says that a response was read no further because of what it is.
func tooLarge(err error) bool {
	return errors.Is(err, errStreamSize) || errors.Is(err, errLineSize) || errors.Is(err, errEventSize) || errors.Is(err, errEventShape)
}

// late is a time limit that was reached. Nobody waits as long again without being asked, so it is not tried again here.
func late(message string, cause error) *attemptFault {
	timeout := fault(CodeProviderTimeout, message, false, cause)
	timeout.failure.Retryable = true
	return timeout
}

// complaint is what a provider said about a failure, in whatever form: a status, a kind of error, some words.
type complaint struct {
	status  int    // 0 = in mid-stream
	kind    string // the provider's own name for it
	message string // already clean
	after   time.Duration
	retry   string // the x-should-retry header: true, false or nothing
}

// statusOf gives the kinds of error that providers name in mid-stream the status they have elsewhere.
func statusOf(kind string) int {
	switch {
	case strings.Contains(kind, "overloaded"):
		return http.StatusServiceUnavailable
	case strings.Contains(kind, "rate_limit"), kind == "insufficient_quota":
		return http.StatusTooManyRequests
	case strings.Contains(kind, "authentication"), strings.Contains(kind, "permission"), kind == "invalid_api_key":
		return http.StatusUnauthorized
	case strings.Contains(kind, "timeout"):
		return http.StatusRequestTimeout
	case strings.HasPrefix(kind, "invalid_"), strings.Contains(kind, "not_found"), strings.Contains(kind, "context_length"):
		return http.StatusBadRequest
	default:
		return http.StatusInternalServerError
	}
}

// fault maps what the provider said. What it says about credentials is not repeated: it may quote a part of them.
func (c complaint) fault() *attemptFault {
	status := c.status
	where := fmt.Sprintf("answered with status %d", status)
	if status == 0 {
		status = statusOf(c.kind)
		where = "reported an error in mid-stream"
	}
	text := "the model provider " + where
	if c.message != "" && status != http.StatusUnauthorized && status != http.StatusForbidden {
		text += ": " + c.message
	}
	code, again := CodeProviderError, false
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		code, text = CodeAuthentication, "the model provider refused the credentials ("+where+")"
	case status == http.StatusTooManyRequests:
		code, again = CodeRateLimited, c.kind != "insufficient_quota"
	case status == http.StatusRequestTimeout:
		code, again = CodeProviderTimeout, true
	case status == http.StatusConflict:
		again = true
	case status == http.StatusServiceUnavailable || status == statusOverloaded:
		code, again = CodeOverloaded, true
	case status >= http.StatusInternalServerError:
		again = true
	case status >= http.StatusBadRequest && status != http.StatusPaymentRequired:
		code = CodeInvalidRequest
	}
	if c.retry != "" {
		again = c.retry == "true"
	}
	result := fault(code, text, again, fmt.Errorf("status %d, kind %q", c.status, c.kind))
	result.after = c.after
	return result
}

// statusOverloaded is a status of the Messages API that net/http has no name for.
const statusOverloaded = 529

// readComplaint finds kind and message in the error documents of the providers and of servers that imitate them:
// {"error":{"message","type","code"}}, {"error":"..."}, {"message"}, {"detail"}, or the inner object alone.
func readComplaint(document []byte, secrets redactor) complaint {
	var outer struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
	}
	if json.Unmarshal(document, &outer) != nil {
		return complaint{}
	}
	var inner struct {
		Message string          `json:"message"`
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
	}
	if json.Unmarshal(outer.Error, &inner) != nil || (inner.Message == "" && inner.Type == "") {
		inner.Message, inner.Type, inner.Code = outer.Message, outer.Type, outer.Code
	}
	if inner.Message == "" {
		inner.Message = firstText(outer.Error, outer.Detail)
	}
	kind := secrets.clean(firstText(inner.Code))
	if !isName(kind) {
		kind = secrets.clean(inner.Type)
	}
	if !isName(kind) {
		kind = ""
	}
	return complaint{kind: kind, message: secrets.clean(inner.Message)}
}

// firstText is the first of the values that is a JSON string.
func firstText(values ...json.RawMessage) string {
	for _, value := range values {
		var text string
		if json.Unmarshal(value, &text) == nil && text != "" {
			return text
		}
	}
	return ""
}

// isName says whether kind looks like the name of an error: it is logged as it is.
func isName(kind string) bool {
	if kind == "" || len(kind) > 64 {
		return false
	}
	for i := range len(kind) {
		c := kind[i]
		if c != '_' && c != '.' && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// retryAfter reads how long a provider wants to be left alone: retry-after-ms, or Retry-After in seconds or as a date.
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

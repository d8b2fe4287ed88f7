package provider

import (
	"net/http"
	"regexp"
	"strings"
)

var (
	contextWording = regexp.MustCompile(`(?i)context[ _]?(length|window)|maximum context|prompt is too long|too many (input )?tokens|input is too long`)
	policyWording  = regexp.MustCompile(`(?i)content[ _](policy|filter|management)|content_filtered|safety system|responsible ai`)
	keyWording     = regexp.MustCompile(`(?i)(invalid|incorrect|missing|expired|no)[ _]?api[ _]?key|api[ _]key.{0,20}(invalid|incorrect|missing)|invalid[ _]authentication`)
	quotaWording   = regexp.MustCompile(`(?i)insufficient[ _-]*(quota|balance|credits?|funds)|exceeded your (current |monthly )?quota|quota[ _]exhausted|` +
		`(credit|account) balance|out of credits|billing`)
	modelWording   = regexp.MustCompile(`(?i)model[ _]not[ _]found|model .{0,80}(does not exist|not found)|no such model`)
	requestWording = regexp.MustCompile(`(?i)invalid[ _](request|parameter|value|type)|validation|unsupported[ _](parameter|value)|missing required`)
	namePattern    = regexp.MustCompile(`^[a-zA-Z0-9_.\-]{1,64}$`)
)

// statusOverloaded is a status of the Messages API that net/http has no name for.
const statusOverloaded = 529

// IsName says whether a provider's name for a failure looks like one, and not like a text or a key.
func IsName(name string) bool {
	return namePattern.MatchString(name) && !strings.HasPrefix(name, "sk-")
}

// classify is the table of statuses and wordings (document 3, 10.4): the first that fits.
func (f *Failure) classify(message string) Class {
	words := f.Code + " " + f.Kind + " " + message
	refused := f.Status == 0 || f.Status == http.StatusBadRequest || f.Status == http.StatusUnprocessableEntity ||
		f.Status == http.StatusRequestEntityTooLarge
	worded := refused || f.Status == http.StatusForbidden
	switch {
	case (worded || f.Status == http.StatusTooManyRequests || f.Status == http.StatusPaymentRequired) && quotaWording.MatchString(words):
		return Quota
	case worded && contextWording.MatchString(words):
		return ContextLength
	case worded && policyWording.MatchString(words):
		return ContentPolicy
	case f.Status == http.StatusUnauthorized || (refused && keyWording.MatchString(words)):
		return Credentials
	case f.Status == http.StatusNotFound || (refused && modelWording.MatchString(words)):
		return NotFound
	case f.Status == 0 && requestWording.MatchString(words):
		return Invalid
	case f.Status >= http.StatusInternalServerError && f.Status != http.StatusServiceUnavailable &&
		f.Status != http.StatusGatewayTimeout && f.Status != statusOverloaded:
		return ServerError
	}
	return map[int]Class{
		0: Unnamed, http.StatusForbidden: Forbidden, http.StatusPaymentRequired: Payment, http.StatusTooManyRequests: RateLimited,
		http.StatusRequestTimeout: RequestTimeout, http.StatusGatewayTimeout: Timeout, http.StatusBadRequest: Invalid,
		http.StatusConflict: Conflict, http.StatusUnprocessableEntity: Unprocessable,
		http.StatusServiceUnavailable: Overloaded, statusOverloaded: Overloaded,
	}[f.Status] // else Other
}

// statusOf gives the kinds of errors that are named without a status the one they have elsewhere; 0 = not known.
func statusOf(kind string) int {
	for _, known := range []struct {
		word   string
		status int
	}{
		{"rate_limit", http.StatusTooManyRequests},
		{"insufficient_quota", http.StatusTooManyRequests},
		{"authentication", http.StatusUnauthorized},
		{"invalid_api_key", http.StatusUnauthorized},
		{"permission", http.StatusForbidden},
		{"not_found", http.StatusNotFound},
		{"timeout", http.StatusGatewayTimeout},
		{"overloaded", http.StatusServiceUnavailable},
		{"unavailable", http.StatusServiceUnavailable},
		{"invalid_", http.StatusBadRequest},
		{"context_length", http.StatusBadRequest},
		{"server_error", http.StatusBadGateway},
	} {
		if strings.Contains(kind, known.word) {
			return known.status
		}
	}
	return 0
}

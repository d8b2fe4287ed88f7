package gateway

import (
	"encoding/json"
	"errors"
	"net/http"

	"parley/actors/core/failure"
	"parley/actors/core/guardrail"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// Types of errors, as the clients know them (document 3, 1.3 and 10.4).
const (
	typeInvalid = "invalid_request_error"
	typeServer  = "server_error"
)

// wording is how this surface words failures: a body that is no JSON object as document 3, 10.1 does, and
// names of fields between backticks.
func wording() *failure.Wording {
	return &failure.Wording{Own: func(reason failure.Reason) string {
		switch reason {
		case failure.BodyNotJSON, failure.BodyNotAnObject:
			return "Invalid JSON body"
		case failure.Required:
			return "`{field}` is required"
		case failure.ControlCharacters:
			return "`{field}` must not hold control characters"
		case failure.EitherOr:
			return "`{field}` must be {one} or {other}"
		case failure.Internal:
			return "Internal server error"
		default:
			return ""
		}
	}}
}

// refusals is how this surface answers every failure of the edge. What models refuse comes as a Problem.
func refusals() map[failurepb.Code]endpoint.Refusal {
	invalid := endpoint.Refusal{Status: http.StatusBadRequest, Code: "invalid_request"}
	down := endpoint.Refusal{Status: http.StatusServiceUnavailable, Code: "unavailable"}
	return map[failurepb.Code]endpoint.Refusal{
		failurepb.Code_VALIDATION:           invalid,
		failurepb.Code_INVALID_REQUEST:      invalid,
		failurepb.Code_AUTH_REQUIRED:        {Status: http.StatusUnauthorized, Code: "invalid_api_key"},
		failurepb.Code_IDENTITY_REQUIRED:    {Status: http.StatusUnauthorized, Code: "invalid_api_key"},
		failurepb.Code_FORBIDDEN:            {Status: http.StatusForbidden, Code: "permission_denied"},
		failurepb.Code_LICENSE_REQUIRED:     {Status: http.StatusForbidden, Code: "license_required"},
		failurepb.Code_NOT_FOUND:            {Status: http.StatusNotFound, Code: "not_found"},
		failurepb.Code_MODEL_NOT_FOUND:      {Status: http.StatusNotFound, Code: "model_not_found"},
		failurepb.Code_METHOD_NOT_ALLOWED:   {Status: http.StatusMethodNotAllowed, Code: "method_not_allowed"},
		failurepb.Code_IDEMPOTENCY_CONFLICT: {Status: http.StatusConflict, Code: "idempotency_conflict"},
		failurepb.Code_CONFLICT:             {Status: http.StatusConflict, Code: "conflict"},
		failurepb.Code_TOO_LARGE:            {Status: http.StatusRequestEntityTooLarge, Code: "body_too_large"},
		failurepb.Code_RATE_LIMITED:         {Status: http.StatusTooManyRequests, Code: "rate_limit_exceeded"},
		failurepb.Code_QUOTA_REACHED:        {Status: http.StatusTooManyRequests, Code: "quota_reached"},
		failurepb.Code_INTERNAL:             {Status: http.StatusInternalServerError, Code: "internal_error"},
		failurepb.Code_UNAVAILABLE:          down,
		failurepb.Code_SECRETS_UNAVAILABLE:  down,

		failurepb.Code_AUTHORIZATION_UNAVAILABLE: {Status: http.StatusServiceUnavailable, Code: "authorization_unavailable"},
		failurepb.Code_STORAGE_FULL:              {Status: http.StatusInsufficientStorage, Code: "storage_full"},
		failurepb.Code_STORAGE_FAILED:            down,
	}
}

// ErrorBody is the body of an error.
type ErrorBody struct {
	Error ErrorFields `json:"error"`
}

// ErrorFields are the fields of an error.
type ErrorFields struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Code    *string `json:"code"`
	Param   *string `json:"param"`

	Reason     string `json:"reason,omitempty"`     // of the permission engine
	DecisionID string `json:"decisionId,omitempty"` // under which its decision is kept

	GuardrailKey string              `json:"guardrail_key,omitempty"` // of the guardrail that blocked
	Action       string              `json:"action,omitempty"`
	Findings     []guardrail.Finding `json:"findings,omitempty"`
}

// typeOf is the type of an error that does not say its own. A missing or wrong token is the caller's mistake, as in the
// original.
func typeOf(status int) string {
	switch {
	case status == http.StatusForbidden:
		return "permission_error"
	case status == http.StatusNotFound:
		return "not_found_error"
	case status == http.StatusConflict:
		return "conflict_error"
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status >= http.StatusInternalServerError:
		return typeServer
	default:
		return typeInvalid
	}
}

func appendProblem(dst []byte, p *endpoint.Problem) []byte {
	encoded, _ := json.Marshal(ErrorBody{Error: bodyOf(p)}) // texts always encode
	return append(dst, encoded...)
}

func bodyOf(p *endpoint.Problem) ErrorFields {
	body := ErrorFields{Message: p.Message, Type: typeOf(p.Status)}
	if own, ok := p.Details["type"].(string); ok && own != "" {
		body.Type = own
	}
	if param, ok := p.Details["param"].(string); ok && param != "" {
		body.Param = &param
	}
	body.Reason, _ = p.Details["reason"].(string)
	body.DecisionID, _ = p.Details["decisionId"].(string)
	body.GuardrailKey, _ = p.Details["guardrail_key"].(string)
	body.Action, _ = p.Details["action"].(string)
	body.Findings, _ = p.Details["findings"].([]guardrail.Finding)
	if p.Code != "" {
		body.Code = &p.Code
	}
	return body
}

// problemOf returns the problem for an error in mid-stream, which the edge no longer words.
func problemOf(err error) *endpoint.Problem {
	if problem, ok := errors.AsType[*endpoint.Problem](err); ok {
		return problem
	}
	if errors.Is(err, errStopping) {
		return &endpoint.Problem{Status: http.StatusServiceUnavailable, Code: "unavailable", Message: "The server is shutting down"}
	}
	if refused, ok := errors.AsType[*failure.Failure](err); ok {
		if refusal, known := refusals()[refused.Code]; known {
			return &endpoint.Problem{Status: refusal.Status, Code: refusal.Code, Message: wording().Text(refused)}
		}
	}
	broken := wording().Text(failure.New(failurepb.Code_INTERNAL, failure.Internal))
	return &endpoint.Problem{Status: http.StatusInternalServerError, Code: "internal_error", Message: broken, Cause: err}
}

// invalid refuses a request because of one of its fields.
func invalid(param string, reason failure.Reason) *failure.Failure {
	return failure.New(failurepb.Code_VALIDATION, reason).In(param).With("param", param)
}

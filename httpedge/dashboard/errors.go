package dashboard

import (
	"encoding/json"
	"net/http"

	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// refusals is how this surface answers failures.
func refusals() map[failurepb.Code]endpoint.Refusal {
	return map[failurepb.Code]endpoint.Refusal{
		failurepb.Code_VALIDATION:          {Status: http.StatusBadRequest, Code: "invalid_request"},
		failurepb.Code_AUTH_REQUIRED:       {Status: http.StatusUnauthorized, Code: "unauthorized"},
		failurepb.Code_IDENTITY_REQUIRED:   {Status: http.StatusUnauthorized, Code: "unauthorized"},
		failurepb.Code_FORBIDDEN:           {Status: http.StatusForbidden, Code: "forbidden"},
		failurepb.Code_LICENSE_REQUIRED:    {Status: http.StatusForbidden, Code: "license_required"},
		failurepb.Code_NOT_FOUND:           {Status: http.StatusNotFound, Code: "not_found"},
		failurepb.Code_METHOD_NOT_ALLOWED:  {Status: http.StatusMethodNotAllowed, Code: "method_not_allowed"},
		failurepb.Code_ALREADY_EXISTS:      {Status: http.StatusConflict, Code: "conflict"},
		failurepb.Code_CONFLICT:            {Status: http.StatusConflict, Code: "conflict"},
		failurepb.Code_TOO_LARGE:           {Status: http.StatusRequestEntityTooLarge, Code: "body_too_large"},
		failurepb.Code_RATE_LIMITED:        {Status: http.StatusTooManyRequests, Code: "rate_limited"},
		failurepb.Code_QUOTA_REACHED:       {Status: http.StatusTooManyRequests, Code: "quota_reached"},
		failurepb.Code_INTERNAL:            {Status: http.StatusInternalServerError, Code: "internal_error"},
		failurepb.Code_UNAVAILABLE:         {Status: http.StatusServiceUnavailable, Code: "unavailable"},
		failurepb.Code_SECRETS_UNAVAILABLE: {Status: http.StatusServiceUnavailable, Code: "secrets_unavailable"},
		failurepb.Code_STORAGE_FULL:        {Status: http.StatusInsufficientStorage, Code: "storage_full"},
		failurepb.Code_STORAGE_FAILED:      {Status: http.StatusServiceUnavailable, Code: "storage_failed"},
	}
}

// problem is the body of an error. Where a session is missing error is a title, and message says why (document 3, 1.3).
type problem struct {
	Error   string         `json:"error" doc:"For people; a title where message says more"`
	Message string         `json:"message,omitempty"`
	Code    string         `json:"code" doc:"For programs"`
	Details map[string]any `json:"details,omitempty"`

	RequiredLicense string `json:"requiredLicense,omitempty" doc:"What to do where the license lacks a feature"`
}

func appendProblem(dst []byte, p *endpoint.Problem) []byte {
	body := problem{Error: p.Message, Code: p.Code}
	for name, value := range p.Details {
		if title, isText := value.(string); name == "error" && isText {
			body.Error, body.Message = title, p.Message
			continue
		}
		if name == "requiredLicense" {
			body.RequiredLicense, _ = value.(string)
			continue
		}
		if body.Details == nil {
			body.Details = map[string]any{}
		}
		body.Details[name] = value
	}
	encoded, err := json.Marshal(body)
	if err != nil { // of details that no rule makes
		encoded, _ = json.Marshal(problem{Error: p.Message, Code: p.Code})
	}
	return append(dst, encoded...)
}

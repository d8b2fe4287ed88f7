package handler

import (
	"encoding/json"
	"net/http"

	"parley/actors/core/failure"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// Refusals is how this surface answers every failure (document 1, "Errors"). Codes that the document does not have are ours,
// for what it leaves out.
func Refusals() map[failurepb.Code]endpoint.Refusal {
	return map[failurepb.Code]endpoint.Refusal{
		failurepb.Code_VALIDATION:                 {Status: http.StatusBadRequest, Code: "invalid_request"},
		failurepb.Code_INVALID_REQUEST:            {Status: http.StatusBadRequest, Code: "invalid_request"},
		failurepb.Code_AGENT_NOT_ACTIVE:           {Status: http.StatusBadRequest, Code: "agent_not_active"},
		failurepb.Code_INVALID_METADATA:           {Status: http.StatusBadRequest, Code: "invalid_metadata"},
		failurepb.Code_INVALID_BUDGET:             {Status: http.StatusBadRequest, Code: "invalid_budget"},
		failurepb.Code_BUDGET_UNAVAILABLE:         {Status: http.StatusBadRequest, Code: "budget_unavailable"},
		failurepb.Code_INVALID_LIMIT:              {Status: http.StatusBadRequest, Code: "invalid_limit"},
		failurepb.Code_INVALID_STATUS:             {Status: http.StatusBadRequest, Code: "invalid_status"},
		failurepb.Code_INVALID_CURSOR:             {Status: http.StatusBadRequest, Code: "invalid_cursor"},
		failurepb.Code_AGENT_BACKGROUND_DISABLED:  {Status: http.StatusBadRequest, Code: "agent_background_disabled"},
		failurepb.Code_SESSION_CONFLICT:           {Status: http.StatusBadRequest, Code: "session_conflict"},
		failurepb.Code_INVALID_APPROVED_ARGS:      {Status: http.StatusBadRequest, Code: "invalid_approved_args"},
		failurepb.Code_INVALID_CLIENT_TOOL_RESULT: {Status: http.StatusBadRequest, Code: "invalid_client_tool_result"},
		failurepb.Code_GUARDRAIL_BLOCKED:          {Status: http.StatusBadRequest, Code: GuardrailBlock},
		failurepb.Code_AUTH_REQUIRED:              {Status: http.StatusUnauthorized, Code: "unauthorized"},
		failurepb.Code_IDENTITY_REQUIRED:          {Status: http.StatusUnauthorized, Code: "unauthorized"},
		failurepb.Code_BUDGET_REACHED:             {Status: http.StatusPaymentRequired, Code: "budget_reached"},
		failurepb.Code_FORBIDDEN:                  {Status: http.StatusForbidden, Code: "forbidden"},
		failurepb.Code_LICENSE_REQUIRED:           {Status: http.StatusForbidden, Code: "license_required"},
		failurepb.Code_BUDGET_OVERRIDE_FORBIDDEN:  {Status: http.StatusForbidden, Code: "budget_override_forbidden"},
		failurepb.Code_BUDGET_FORBIDDEN:           {Status: http.StatusForbidden, Code: "budget_forbidden"},
		failurepb.Code_ACTION_FORBIDDEN:           {Status: http.StatusForbidden, Code: "action_forbidden"},
		failurepb.Code_ACTION_DISABLED:            {Status: http.StatusForbidden, Code: "action_disabled"},
		failurepb.Code_ATTACHMENTS_DISABLED:       {Status: http.StatusForbidden, Code: "attachments_disabled"},
		failurepb.Code_GUARDRAIL_MISSING:          {Status: http.StatusForbidden, Code: "guardrail_missing"},
		failurepb.Code_NOT_FOUND:                  {Status: http.StatusNotFound, Code: "not_found"},
		failurepb.Code_AGENT_NOT_FOUND:            {Status: http.StatusNotFound, Code: "agent_not_found"},
		failurepb.Code_VERSION_NOT_FOUND:          {Status: http.StatusNotFound, Code: "agent_version_not_found"},
		failurepb.Code_MODEL_NOT_FOUND:            {Status: http.StatusNotFound, Code: "model_not_found"},
		failurepb.Code_SESSION_NOT_FOUND:          {Status: http.StatusNotFound, Code: "session_not_found"},
		failurepb.Code_RUN_NOT_FOUND:              {Status: http.StatusNotFound, Code: "run_not_found"},
		failurepb.Code_METHOD_NOT_ALLOWED:         {Status: http.StatusMethodNotAllowed, Code: "method_not_allowed"},
		failurepb.Code_AGENT_RUN_CONFLICT:         {Status: http.StatusConflict, Code: "agent_run_conflict"},
		failurepb.Code_CONVERSATION_BUSY:          {Status: http.StatusConflict, Code: "agent_run_conflict"},
		failurepb.Code_STALE_TURN:                 {Status: http.StatusConflict, Code: "agent_run_conflict"},
		failurepb.Code_ACTION_PENDING:             {Status: http.StatusConflict, Code: "action_pending"},
		failurepb.Code_ACTION_NOT_PENDING:         {Status: http.StatusConflict, Code: "action_not_pending"},
		failurepb.Code_NOTHING_TO_CONTINUE:        {Status: http.StatusConflict, Code: "nothing_to_continue"},
		failurepb.Code_INVALID_MESSAGE_TARGET:     {Status: http.StatusConflict, Code: "invalid_message_target"},
		failurepb.Code_TOO_MANY_FILES:             {Status: http.StatusConflict, Code: "too_many_files"},
		failurepb.Code_ALREADY_EXISTS:             {Status: http.StatusConflict, Code: "conflict"},
		failurepb.Code_CONFLICT:                   {Status: http.StatusConflict, Code: "conflict"},
		failurepb.Code_IDEMPOTENCY_CONFLICT:       {Status: http.StatusConflict, Code: "idempotency_conflict"},
		failurepb.Code_ACTION_EXPIRED:             {Status: http.StatusGone, Code: "action_expired"},
		failurepb.Code_TOO_LARGE:                  {Status: http.StatusRequestEntityTooLarge, Code: "body_too_large"},
		failurepb.Code_UNSUPPORTED_FILE_TYPE:      {Status: http.StatusUnsupportedMediaType, Code: "unsupported_file_type"},
		failurepb.Code_RATE_LIMITED:               {Status: http.StatusTooManyRequests, Code: "rate_limited"},
		failurepb.Code_QUOTA_REACHED:              {Status: http.StatusTooManyRequests, Code: "quota_reached"},
		failurepb.Code_INTERNAL:                   {Status: http.StatusInternalServerError, Code: "internal_error"},
		failurepb.Code_UNAVAILABLE:                {Status: http.StatusServiceUnavailable, Code: "unavailable"},
		failurepb.Code_SECRETS_UNAVAILABLE:        {Status: http.StatusServiceUnavailable, Code: "secrets_unavailable"},
		failurepb.Code_LIMIT_REACHED:              {Status: http.StatusConflict, Code: "limit_reached"},
		failurepb.Code_ENDPOINT_DISABLED:          {Status: http.StatusConflict, Code: "endpoint_disabled"},
		failurepb.Code_DELIVERY_PENDING:           {Status: http.StatusConflict, Code: "delivery_pending"},
		failurepb.Code_AUTHORIZATION_UNAVAILABLE:  {Status: http.StatusServiceUnavailable, Code: "authorization_unavailable"},
		failurepb.Code_STORAGE_FULL:               {Status: http.StatusInsufficientStorage, Code: "storage_full"},
		failurepb.Code_STORAGE_FAILED:             {Status: http.StatusServiceUnavailable, Code: "storage_failed"},
	}
}

// Wording is how this surface words failures: a conversation is a session, and names of fields are in snake_case.
func Wording() *failure.Wording {
	return &failure.Wording{Conversation: "session", Spell: spell, Own: func(reason failure.Reason) string {
		switch reason {
		case failure.RecordMissing:
			return "{noun:c} not found"
		case failure.RecordExists:
			return "A {noun} with this key already exists"
		default:
			return ""
		}
	}}
}

// spell is the surface's name of a field or detail of the rules.
func spell(name string) string {
	switch name {
	case "activeRunId":
		return "active_run_id"
	case "allowedMimeTypes":
		return "allowed_mime_types"
	case "approvedArgs":
		return "approved_args"
	case "callbackSecret":
		return "callback_secret"
	case "callbackUrl":
		return "callback_url"
	case "fileId":
		return "file_id"
	case "maxBytes":
		return "max_bytes"
	case "maxCostUsd":
		return "max_cost_usd"
	case "maxFileSize":
		return "max_file_size"
	case "maxFiles":
		return "max_files"
	case "maxQueued":
		return "max_queued"
	case "onReach":
		return "on_reach"
	case "pendingActionIds":
		return "pending_action_ids"
	case "retryAfter":
		return "retry_after"
	case "runtimeContext":
		return "runtime_context"
	case "spentUsd":
		return "spent_usd"
	default:
		return name
	}
}

// GuardrailBlock is the code of a text that a guardrail stops.
const GuardrailBlock = "guardrail_block"

// guardrailProblem is the body of that error, in the form of the gateway (document 3, 7.10 and 10.2).
type guardrailProblem struct {
	Error guardrailFields `json:"error"`
	Code  string          `json:"code"` // as every error of this surface has it
}

type guardrailFields struct {
	Message      string `json:"message"`
	Type         string `json:"type"`
	Code         string `json:"code"`
	GuardrailKey any    `json:"guardrail_key,omitempty"`
	Action       any    `json:"action,omitempty"`
	Findings     any    `json:"findings,omitempty"`
}

// problem is the body of an error. The numbers are of a budget that is used up. Where there is no token at all error is a title,
// and message says what is missing (document 3, 1.3).
type problem struct {
	Error      string         `json:"error"`
	Message    string         `json:"message,omitempty"`
	Code       string         `json:"code"`
	Reason     string         `json:"reason,omitempty"`     // of the permission engine
	DecisionID string         `json:"decisionId,omitempty"` // under which its decision is kept
	SpentUSD   *float64       `json:"spent_usd,omitempty"`
	MaxCostUSD *float64       `json:"max_cost_usd,omitempty"`
	Details    map[string]any `json:"details,omitempty"`

	RequiredLicense string `json:"requiredLicense,omitempty"` // of signed-in users: what to do where the license lacks a feature
}

// AppendProblem writes the body of an error.
func AppendProblem(dst []byte, p *endpoint.Problem) []byte {
	if p.Code == GuardrailBlock {
		encoded, err := json.Marshal(guardrailProblem{guardrailFields{
			p.Message, GuardrailBlock, GuardrailBlock, p.Details["guardrail_key"], p.Details["action"], p.Details["findings"],
		}, p.Code})
		if err == nil { // else of details that no rule makes
			return append(dst, encoded...)
		}
	}
	body := problem{Error: p.Message, Code: p.Code}
	details := make(map[string]any, len(p.Details))
	for name, value := range p.Details {
		number, isNumber := value.(float64)
		title, isText := value.(string)
		switch {
		case name == "error" && isText:
			body.Error, body.Message = title, p.Message
		case name == "reason" && isText:
			body.Reason = title
		case name == "decisionId" && isText:
			body.DecisionID = title
		case name == "requiredLicense" && isText:
			body.RequiredLicense = title
		case name == "spent_usd" && isNumber:
			body.SpentUSD = &number
		case name == "max_cost_usd" && isNumber:
			body.MaxCostUSD = &number
		default:
			details[name] = value
		}
	}
	if len(details) > 0 {
		body.Details = details
	}
	encoded, err := json.Marshal(body)
	if err != nil { // of details that no rule makes
		encoded, _ = json.Marshal(problem{Error: p.Message, Code: p.Code})
	}
	return append(dst, encoded...)
}

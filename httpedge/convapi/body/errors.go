package body

import (
	"encoding/json"

	"parley/actors/core/failure"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/wire"
	"parley/proto/failurepb"
)

// Problems maps every failure to a status and code (document 2, section A, "Errors"). Codes in lower case that the
// document does not define are additions, for cases that it leaves out.
func Problems() map[failurepb.Code]endpoint.Refusal {
	return map[failurepb.Code]endpoint.Refusal{
		failurepb.Code_VALIDATION:                 {Status: 400, Code: "VALIDATION_ERROR"},
		failurepb.Code_INVALID_BUDGET:             {Status: 400, Code: "invalid_budget"},
		failurepb.Code_BUDGET_UNAVAILABLE:         {Status: 400, Code: "budget_unavailable"},
		failurepb.Code_INVALID_APPROVED_ARGS:      {Status: 400, Code: "invalid_approved_args"},
		failurepb.Code_INVALID_CLIENT_TOOL_RESULT: {Status: 400, Code: "invalid_client_tool_result"},
		failurepb.Code_INVALID_REQUEST:            {Status: 400, Code: "INVALID_REQUEST"},
		failurepb.Code_INVALID_FEEDBACK:           {Status: 400, Code: "invalid_feedback"},
		failurepb.Code_GUARDRAIL_BLOCKED:          {Status: 400, Code: "guardrail_block"},
		failurepb.Code_AUTH_REQUIRED:              {Status: 401, Code: "AUTH_REQUIRED"},
		failurepb.Code_IDENTITY_REQUIRED:          {Status: 401, Code: "identity_required"},
		failurepb.Code_BUDGET_REACHED:             {Status: 402, Code: "budget_reached"},
		failurepb.Code_FORBIDDEN:                  {Status: 403, Code: "FORBIDDEN"},
		failurepb.Code_ACTION_DISABLED:            {Status: 403, Code: "action_disabled"},
		failurepb.Code_ACTION_FORBIDDEN:           {Status: 403, Code: "action_forbidden"},
		failurepb.Code_ATTACHMENTS_DISABLED:       {Status: 403, Code: "attachments_disabled"},
		failurepb.Code_EXPORT_DISABLED:            {Status: 403, Code: "export_disabled"},
		failurepb.Code_FEEDBACK_DISABLED:          {Status: 403, Code: "feedback_disabled"},
		failurepb.Code_BUDGET_FORBIDDEN:           {Status: 403, Code: "budget_forbidden"},
		failurepb.Code_GUARDRAIL_MISSING:          {Status: 403, Code: "guardrail_missing"},
		failurepb.Code_NOT_FOUND:                  {Status: 404, Code: "NOT_FOUND"},
		failurepb.Code_METHOD_NOT_ALLOWED:         {Status: 405, Code: "method_not_allowed"},
		failurepb.Code_ACTION_PENDING:             {Status: 409, Code: "action_pending"},
		failurepb.Code_ACTION_NOT_PENDING:         {Status: 409, Code: "action_not_pending"},
		failurepb.Code_CONVERSATION_BUSY:          {Status: 409, Code: "conversation_busy"},
		failurepb.Code_INVALID_MESSAGE_TARGET:     {Status: 409, Code: "invalid_message_target"},
		failurepb.Code_TOO_MANY_FILES:             {Status: 409, Code: "too_many_files"},
		failurepb.Code_NOTHING_TO_CONTINUE:        {Status: 409, Code: "nothing_to_continue"},
		failurepb.Code_STALE_TURN:                 {Status: 409, Code: "conversation_busy"},
		failurepb.Code_ALREADY_EXISTS:             {Status: 409, Code: "already_exists"},
		failurepb.Code_ACTION_EXPIRED:             {Status: 410, Code: "action_expired"},
		failurepb.Code_TOO_LARGE:                  {Status: 413, Code: "too_large"},
		failurepb.Code_UNSUPPORTED_FILE_TYPE:      {Status: 415, Code: "unsupported_file_type"},
		failurepb.Code_RATE_LIMITED:               {Status: 429, Code: "rate_limited"},
		failurepb.Code_INTERNAL:                   {Status: 500, Code: "SERVER_ERROR"},
		failurepb.Code_EXPORT_FORMAT_UNSUPPORTED:  {Status: 501, Code: "export_format_unsupported"},
		failurepb.Code_UNAVAILABLE:                {Status: 503, Code: "unavailable"},
		failurepb.Code_STORAGE_FULL:               {Status: 503, Code: "storage_full"},
		failurepb.Code_STORAGE_FAILED:             {Status: 503, Code: "storage_failed"},

		// Codes of the Client API: those that can occur here (an API token, a request limit), and the rest for completeness.
		failurepb.Code_INVALID_METADATA:          {Status: 400, Code: "VALIDATION_ERROR"},
		failurepb.Code_INVALID_LIMIT:             {Status: 400, Code: "VALIDATION_ERROR"},
		failurepb.Code_INVALID_STATUS:            {Status: 400, Code: "VALIDATION_ERROR"},
		failurepb.Code_INVALID_CURSOR:            {Status: 400, Code: "VALIDATION_ERROR"},
		failurepb.Code_SESSION_CONFLICT:          {Status: 400, Code: "VALIDATION_ERROR"},
		failurepb.Code_AGENT_NOT_ACTIVE:          {Status: 400, Code: "agent_not_active"},
		failurepb.Code_AGENT_BACKGROUND_DISABLED: {Status: 400, Code: "agent_background_disabled"},
		failurepb.Code_LICENSE_REQUIRED:          {Status: 403, Code: "license_required"},
		failurepb.Code_BUDGET_OVERRIDE_FORBIDDEN: {Status: 403, Code: "budget_forbidden"},
		failurepb.Code_AGENT_NOT_FOUND:           {Status: 404, Code: "NOT_FOUND"},
		failurepb.Code_SESSION_NOT_FOUND:         {Status: 404, Code: "NOT_FOUND"},
		failurepb.Code_RUN_NOT_FOUND:             {Status: 404, Code: "NOT_FOUND"},
		failurepb.Code_MODEL_NOT_FOUND:           {Status: 404, Code: "NOT_FOUND"},
		failurepb.Code_VERSION_NOT_FOUND:         {Status: 404, Code: "NOT_FOUND"},
		failurepb.Code_AGENT_RUN_CONFLICT:        {Status: 409, Code: "conversation_busy"},
		failurepb.Code_IDEMPOTENCY_CONFLICT:      {Status: 409, Code: "idempotency_conflict"},
		failurepb.Code_CONFLICT:                  {Status: 409, Code: "conflict"},
		failurepb.Code_QUOTA_REACHED:             {Status: 429, Code: "quota_reached"},
		failurepb.Code_SECRETS_UNAVAILABLE:       {Status: 503, Code: "secrets_unavailable"},
		failurepb.Code_LIMIT_REACHED:             {Status: 409, Code: "limit_reached"},
		failurepb.Code_ENDPOINT_DISABLED:         {Status: 409, Code: "endpoint_disabled"},
		failurepb.Code_DELIVERY_PENDING:          {Status: 409, Code: "delivery_pending"},
		failurepb.Code_AUTHORIZATION_UNAVAILABLE: {Status: 503, Code: "authorization_unavailable"},
	}
}

// Wording is how this surface words failures: as the rules do.
func Wording() *failure.Wording { return &failure.Wording{} }

// AppendProblem renders {error, code, message, details}: error and message hold the same text, because clients read
// one or the other (supplement, section 1).
func AppendProblem(dst []byte, problem *endpoint.Problem) []byte {
	dst = append(dst, `{"error":`...)
	dst = wire.AppendString(dst, problem.Message)
	dst = append(dst, `,"code":`...)
	dst = wire.AppendString(dst, problem.Code)
	dst = append(dst, `,"message":`...)
	dst = wire.AppendString(dst, problem.Message)
	if len(problem.Details) > 0 {
		if details, err := json.Marshal(problem.Details); err == nil {
			dst = append(dst, `,"details":`...)
			dst = append(dst, details...)
		}
	}
	return append(dst, '}')
}

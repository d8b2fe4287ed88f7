package failure

// Of callers: who asks, and what they may.
const (
	AuthenticationRequired    Reason = "authentication_required"
	AuthenticationUnavailable Reason = "authentication_unavailable"
	InvalidToken              Reason = "invalid_token"
	InvalidJWT                Reason = "invalid_jwt"
	InvalidIssuer             Reason = "invalid_issuer"
	InvalidAudience           Reason = "invalid_audience"
	TokenExpired              Reason = "token_expired"
	TokenNotYetValid          Reason = "token_not_yet_valid"
	TokenWithoutExpiry        Reason = "token_without_expiry"
	TokenWithoutUser          Reason = "token_without_user"
	BadUserID                 Reason = "bad_user_id"
	MalformedAuthorization    Reason = "malformed_authorization"
	APITokenMissing           Reason = "api_token_missing"
	APITokenUnknown           Reason = "api_token_unknown"
	APITokenExpired           Reason = "api_token_expired"
	APITokenWithoutTenant     Reason = "api_token_without_tenant"
	APITokenWithoutProject    Reason = "api_token_without_project"
	APITokenOfNoProject       Reason = "api_token_of_no_project"
	APITokenWithoutOwner      Reason = "api_token_without_owner"
	APITokenOwnerNoMember     Reason = "api_token_owner_no_member"
	TokenOwnerRole            Reason = "token_owner_role"
	PermissionMissing         Reason = "permission_missing"
	AuthorizationUnavailable  Reason = "authorization_unavailable"
	IncompleteDecisions       Reason = "incomplete_decisions"
	DecisionNotFound          Reason = "decision_not_found"
	BadAuditBatch             Reason = "bad_audit_batch"
	BadMeterBatch             Reason = "bad_meter_batch"
	AuditUnavailable          Reason = "audit_unavailable"
	AuditBusy                 Reason = "audit_busy"
	AuditTrimmed              Reason = "audit_trimmed"
	BadAuditTime              Reason = "bad_audit_time"
	ForeignCursor             Reason = "foreign_cursor"
	ForeignWebhookProject     Reason = "foreign_webhook_project"
	AccessWithoutLevel        Reason = "access_without_level"
	CallerNotEstablished      Reason = "caller_not_established"
	PermissionNotChecked      Reason = "permission_not_checked"
	NotPermitted              Reason = "not_permitted"
	TooManyRequests           Reason = "too_many_requests"
	TooManyStreams            Reason = "too_many_streams"
	RateLimitNotChecked       Reason = "rate_limit_not_checked"
	MonthUsedUp               Reason = "month_used_up"
	MonthNotCounted           Reason = "month_not_counted"
)

// callerWords are the default words of these reasons; empty for any other.
func callerWords(r Reason) string {
	switch r {
	case AuthenticationRequired:
		return "Authentication required"
	case AuthenticationUnavailable:
		return "Authentication is unavailable at the moment"
	case InvalidToken:
		return "Invalid token"
	case InvalidJWT:
		return "Invalid JWT format"
	case InvalidIssuer:
		return "Invalid issuer"
	case InvalidAudience:
		return "Invalid audience"
	case TokenExpired:
		return "Token expired"
	case TokenNotYetValid:
		return "Token not yet valid"
	case TokenWithoutExpiry:
		return "Token has no expiry"
	case TokenWithoutUser:
		return "No user ID in token"
	case BadUserID:
		return "userId must have at most {most} bytes and no control characters"
	case MalformedAuthorization:
		return "Missing or invalid Authorization header. Use: Bearer <token>"
	case APITokenMissing:
		return "Missing API token"
	case APITokenUnknown:
		return "Invalid API token"
	case APITokenExpired:
		return "API token has expired"
	case APITokenWithoutTenant:
		return "Tenant not found for token"
	case APITokenWithoutProject:
		return "Token project context is missing"
	case APITokenOfNoProject:
		return "API token is not scoped to a project"
	case APITokenWithoutOwner:
		return "API token owner is not available"
	case APITokenOwnerNoMember:
		return "API token owner is not a member of its project"
	case TokenOwnerRole:
		return "Forbidden: the token's owner has another role"
	case AuthorizationUnavailable:
		return "The permission engine could not decide"
	case IncompleteDecisions:
		return "a batch of decisions needs some, not too many, and a time to keep them"
	case ForeignCursor:
		return "after must be a nextCursor of this list"
	case ForeignWebhookProject:
		return "Webhooks can be created for projects within reach only"
	case BadAuditBatch:
		return "a batch of audit rows needs a tenant, a writer and a number, not too many rows, and a time to keep them"
	case BadMeterBatch:
		return "a batch of usage needs a number and some rows, not too many"
	case AuditUnavailable:
		return "The audit trail cannot be written at the moment, so nothing was changed"
	case AuditTrimmed:
		return "Old rows of the audit trail were removed during the export; ask again"
	case BadAuditTime:
		return "must be a time such as 2026-01-31T12:00:00Z"
	case AuditBusy:
		return "Too many changes are under way in this tenant"
	case DecisionNotFound:
		return "No such decision"
	case PermissionMissing:
		return "Forbidden: {service} requires {level} permission"
	case AccessWithoutLevel:
		return "access {access:q} of {path} names no level"
	case CallerNotEstablished:
		return "who asks cannot be established now, try again"
	case PermissionNotChecked:
		return "permission cannot be asked for now, try again"
	case NotPermitted:
		return "not permitted"
	case TooManyRequests:
		return "too many requests"
	case TooManyStreams:
		return "too many open streams"
	case RateLimitNotChecked:
		return "the rate limit cannot be checked now, try again"
	case MonthUsedUp:
		return "Rate limit exceeded for requests perMonth ({count}/{limit})"
	case MonthNotCounted:
		return "Rate limit enforcement unavailable"
	default:
		return ""
	}
}

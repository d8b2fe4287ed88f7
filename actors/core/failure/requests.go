package failure

// Of HTTP requests.
const (
	RouteNotFound              Reason = "route_not_found"
	MethodNotAllowed           Reason = "method_not_allowed"
	MalformedRequest           Reason = "malformed_request"
	FoldedHeader               Reason = "folded_header"
	RepeatedHeader             Reason = "repeated_header"
	TwoLengths                 Reason = "two_lengths"
	ForeignTarget              Reason = "foreign_target"
	UnknownHost                Reason = "unknown_host"
	ForeignOrigin              Reason = "foreign_origin"
	ForeignSite                Reason = "foreign_site"
	ContentTypeNotJSON         Reason = "content_type_not_json"
	BodyNotUTF8                Reason = "body_not_utf8"
	BodyTooDeep                Reason = "body_too_deep"
	BodyNotJSON                Reason = "body_not_json"
	BodyNotAnObject            Reason = "body_not_an_object"
	BodyTooLarge               Reason = "body_too_large"
	BodyTooLargeUnread         Reason = "body_too_large_unread"
	NumberOutOfRange           Reason = "number_out_of_range"
	WrongType                  Reason = "wrong_type"
	NotOneOf                   Reason = "not_one_of"
	NotWholeNumber             Reason = "not_whole_number"
	NotISODate                 Reason = "not_iso_date"
	BadInterval                Reason = "bad_interval"
	BadGroupBy                 Reason = "bad_group_by"
	BadPathEscape              Reason = "bad_path_escape"
	ParameterNotUTF8           Reason = "parameter_not_utf8"
	ParameterControlCharacters Reason = "parameter_control_characters"
	BadIdempotencyKey          Reason = "bad_idempotency_key"
	TemporarilyUnavailable     Reason = "temporarily_unavailable"
	NotFinishedInTime          Reason = "not_finished_in_time"
	Internal                   Reason = "internal"
	TooManyConnections         Reason = "too_many_connections"
	TooManyLargeRequests       Reason = "too_many_large_requests"
	TooManyUploads             Reason = "too_many_uploads"
	ServerStreamsFull          Reason = "server_streams_full"
	ServerShuttingDown         Reason = "server_shutting_down"
	ServerStopping             Reason = "server_stopping"
	CannotFollow               Reason = "cannot_follow"
)

// requestWords are the default words of these reasons; empty for any other.
func requestWords(r Reason) string {
	switch r {
	case RouteNotFound:
		return "Route not found: {method} {path}"
	case MethodNotAllowed:
		return "{method} is not allowed on {path}"
	case MalformedRequest:
		return "malformed HTTP request"
	case FoldedHeader:
		return "a header field must be one line"
	case RepeatedHeader:
		return "{header} must be there only once"
	case TwoLengths:
		return "Content-Length and Transfer-Encoding cannot be used together"
	case ForeignTarget:
		return "the request target and Host must name the same host"
	case UnknownHost:
		return "the server is not known by this name: {from}"
	case ForeignOrigin:
		return "pages of this origin may not call the server: {from}"
	case ForeignSite:
		return "pages of other sites may not call the server"
	case ContentTypeNotJSON:
		return "Content-Type must be application/json"
	case BodyNotUTF8:
		return "the body is not valid UTF-8"
	case BodyTooDeep:
		return "the body is nested deeper than {most} levels"
	case BodyNotJSON:
		return "the body is not valid JSON: {problem}"
	case BodyNotAnObject:
		return "the body must be a JSON object"
	case BodyTooLarge:
		return "the body is larger than {most} bytes"
	case BodyTooLargeUnread:
		return "the body is too large"
	case NumberOutOfRange:
		return "the body holds a number that is out of range: {number}"
	case WrongType:
		return "{name} must be {type}"
	case NotOneOf:
		return "{name} must be one of: {choices}"
	case NotWholeNumber:
		return "{name} must be a non-negative integer"
	case NotISODate:
		return "`{name}` must be an ISO date"
	case BadInterval:
		return "`interval` must be hour, day, or month"
	case BadGroupBy:
		return "`group_by` must be model, user, token, service, or agent"
	case BadPathEscape:
		return "the path holds a malformed escape"
	case ParameterNotUTF8:
		return "{source} {name:q} is not valid UTF-8"
	case ParameterControlCharacters:
		return "{source} {name:q} must not hold control characters"
	case BadIdempotencyKey:
		return "an Idempotency-Key is 1 to {most} printable ASCII characters"
	case TemporarilyUnavailable:
		return "temporarily unavailable, try again"
	case NotFinishedInTime:
		return "not finished in time; it may still be carried out"
	case Internal:
		return "Internal error"
	case TooManyConnections:
		return "too many connections"
	case TooManyLargeRequests:
		return "too many large requests at a time"
	case TooManyUploads:
		return "too many files are on their way"
	case ServerStreamsFull:
		return "too many open streams on this server"
	case ServerShuttingDown:
		return "the server is shutting down"
	case ServerStopping:
		return "the server is stopping"
	case CannotFollow:
		return "the {conversation} cannot be followed at the moment"
	default:
		return ""
	}
}

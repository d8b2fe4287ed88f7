package failure

// Of a field: what holds for fields of requests and records of any kind.
const (
	AtMostBytes       Reason = "at_most_bytes"
	AtMostCharacters  Reason = "at_most_characters"
	AtLeastCharacters Reason = "at_least_characters"
	OneToCharacters   Reason = "one_to_characters"
	ControlCharacters Reason = "control_characters"
	OutOfRange        Reason = "out_of_range"
	NumberAboveZero   Reason = "number_above_zero"
	MustBeString      Reason = "must_be_string"
	MustBeObject      Reason = "must_be_object"
	MustBeHTTPURL     Reason = "must_be_http_url"
	MustBeFutureTime  Reason = "must_be_future_time"
	NotJSON           Reason = "not_json"
	MalformedJSON     Reason = "malformed_json"
	WrongJSONType     Reason = "wrong_json_type"
	NoMoreBytes       Reason = "no_more_bytes"
	NumberUpTo        Reason = "number_up_to"
	WholeNumberUpTo   Reason = "whole_number_up_to"
	PositiveInteger   Reason = "positive_integer"
	MustBeBoolean     Reason = "must_be_boolean"
	MustBeStrings     Reason = "must_be_strings"
	EitherOr          Reason = "either_or"
	NotSupported      Reason = "not_supported"
	CannotGoWith      Reason = "cannot_go_with"
	NotTogether       Reason = "not_together"
	NeedsOther        Reason = "needs_other"
	AbsoluteHTTPURL   Reason = "absolute_httpurl"
	CallbackRefused   Reason = "callback_refused"
	UnknownField      Reason = "unknown_field"
)

// fieldWords are the default words of these reasons; empty for any other.
func fieldWords(r Reason) string {
	switch r {
	case AtMostBytes:
		return "{field} must have at most {most} bytes"
	case AtMostCharacters:
		return "{field} must be at most {most} characters"
	case AtLeastCharacters:
		return "{field} must be at least {least} characters"
	case OneToCharacters:
		return "{field} must be 1 to {most} characters"
	case ControlCharacters:
		return "{field} must not hold control characters"
	case OutOfRange:
		return "{field} must be between {least} and {most}"
	case NumberAboveZero:
		return "{field} must be a number above 0"
	case MustBeString:
		return "{field} must be a string"
	case MustBeObject:
		return "{field} must be an object"
	case MustBeHTTPURL:
		return "{field} must be an http or https URL without a user name"
	case MustBeFutureTime:
		return "{field} must be a date-time (ISO 8601) in the future"
	case NotJSON:
		return "{field} is not valid JSON"
	case MalformedJSON:
		return "{field} holds malformed JSON"
	case WrongJSONType:
		return "{field} has the wrong type"
	case NoMoreBytes:
		return "{field} must be at most {most} bytes"
	case NumberUpTo:
		return "{field} is a number from 0 to {most}"
	case WholeNumberUpTo:
		return "{field} must be a whole number from 1 to {most}"
	case PositiveInteger:
		return "{field} must be a positive integer"
	case MustBeBoolean:
		return "{field} must be true or false"
	case MustBeStrings:
		return "{field} and {other} must be strings"
	case EitherOr:
		return "{field} must be {one} or {other}"
	case NotSupported:
		return "{field} is not supported"
	case CannotGoWith:
		return "{field} cannot go with {other}"
	case NotTogether:
		return "{field} and {other} cannot be used together"
	case NeedsOther:
		return "{field} needs a {other}"
	case AbsoluteHTTPURL:
		return "{field} must be an absolute http or https URL"
	case CallbackRefused:
		return "{field} {problem}"
	case UnknownField:
		return "{field} has no field {name:q}"
	default:
		return ""
	}
}

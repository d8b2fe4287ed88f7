package protocol

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"parley/httpedge/endpoint/wire"
)

// Codes of errors: those of JSON-RPC, one of its range for servers, and those of A2A.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
	CodeRefused        = -32000 // a rule of the server: data says which
	CodeTaskNotFound   = -32001
	CodeNoPush         = -32003
	CodeUnsupported    = -32004
)

// Error is an error of the protocol.
type Error struct {
	Code    int
	Message string
	// Reason is the Client API's code of what was refused; "" = there is no data.
	Reason string
	// Details are shown with the reason. They marshal to JSON.
	Details map[string]any
}

func (e *Error) Error() string { return strconv.Itoa(e.Code) + " " + e.Message }

// With sets a detail.
func (e *Error) With(name string, value any) *Error {
	if e.Details == nil {
		e.Details = make(map[string]any, 1)
	}
	e.Details[name] = value
	return e
}

func invalidRequest(why string) *Error {
	return &Error{Code: CodeInvalidRequest, Message: "Invalid Request: " + why}
}

// InvalidParams says what is wrong with the parameters of a call.
func InvalidParams(format string, args ...any) *Error {
	return &Error{Code: CodeInvalidParams, Message: "Invalid params: " + fmt.Sprintf(format, args...)}
}

// TaskNotFound is said of every task that the caller cannot see.
func TaskNotFound() *Error { return &Error{Code: CodeTaskNotFound, Message: "Task not found"} }

// Unsupported says that an operation cannot be had for a task as it is.
func Unsupported(why string) *Error { return &Error{Code: CodeUnsupported, Message: why} }

// NotBegun is said of a call that was not carried out, because of others in its batch: it may be sent again.
func NotBegun(why string) *Error {
	failed := &Error{Code: CodeRefused, Message: "The call was not begun: " + why, Reason: "unavailable"}
	return failed.With("status", http.StatusServiceUnavailable)
}

// NoPush refuses push notifications while the card does, too.
func NoPush() *Error {
	return &Error{Code: CodeNoPush, Message: "Push notifications are not supported"}
}

// Internal is all that a caller learns of something that broke.
func Internal() *Error { return &Error{Code: CodeInternal, Message: "Internal error"} }

// append writes the error. Data is an object in 0.3, and a list of typed details in 1.0, whose clients read nothing else.
func (e *Error) append(dst []byte, version Version) []byte {
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.Code), 10)
	dst = wire.AppendMember(dst, `,"message":`, e.Message)
	if e.Reason == "" {
		return append(dst, '}')
	}
	data, err := json.Marshal(e.data(version))
	if err != nil { // of details that no rule makes
		return append(dst, '}')
	}
	dst = append(append(dst, `,"data":`...), data...)
	return append(dst, '}')
}

func (e *Error) data(version Version) any {
	if version == V03 {
		object := map[string]any{"code": e.Reason}
		for name, value := range e.Details {
			object[name] = value
		}
		return object
	}
	metadata := make(map[string]string, len(e.Details))
	for name, value := range e.Details {
		metadata[name] = text(value)
	}
	return []any{map[string]any{
		"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": strings.ToUpper(e.Reason), "domain": "parley", "metadata": metadata,
	}}
}

// text is a detail as the metadata of an ErrorInfo has it.
func text(value any) string {
	if plain, is := value.(string); is {
		return plain
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(encoded)
}

// AppendError writes the answer to a call that failed.
func AppendError(dst []byte, id json.RawMessage, version Version, failed *Error) []byte {
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
	dst = append(dst, `,"error":`...)
	return append(failed.append(dst, version), '}')
}

// AppendResult writes the answer to a call; result appends what it is.
func AppendResult(dst []byte, id json.RawMessage, result func(dst []byte) []byte) []byte {
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
	dst = append(dst, `,"result":`...)
	return append(result(dst), '}')
}

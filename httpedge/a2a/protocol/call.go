package protocol

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"parley/actors/machine/rawjson"
)

// Bounds of what is read. A batch is carried out one call after another, so it must be short.
const (
	maxDepth  = 64
	maxValues = 100_000
	maxBatch  = 20
	maxID     = 256 // bytes: each event of a stream repeats it
)

// Call is one JSON-RPC call.
type Call struct {
	ID     json.RawMessage // a string, a number or null; null where there is none
	Name   string          // of the method
	Params json.RawMessage // nil = none
	// Broken says why it is no call; the rest is as far as it could be read.
	Broken *Error
}

// Body is the calls of a request.
type Body struct {
	Calls []Call
	Batch bool // the answers come as an array, too
}

var null = json.RawMessage("null") //nolint:gochecknoglobals // a constant

// Read reads the body of a request. Whatever it is, there is at least one call, which may be broken.
func Read(body []byte) Body {
	switch {
	case !utf8.Valid(body) || !json.Valid(body):
		return only(&Error{Code: CodeParse, Message: "Parse error"})
	case !rawjson.Modest(body, maxDepth, maxValues):
		return only(invalidRequest("it nests deeper than " + strconv.Itoa(maxDepth) + " levels, or has too many values"))
	}
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); trimmed[0] != '[' {
		return Body{Calls: []Call{readCall(trimmed)}}
	}
	var several []json.RawMessage
	if json.Unmarshal(body, &several) != nil || len(several) == 0 {
		return only(invalidRequest("a batch holds at least one call"))
	}
	if len(several) > maxBatch {
		return only(invalidRequest("a batch holds at most " + strconv.Itoa(maxBatch) + " calls"))
	}
	read := Body{Batch: true, Calls: make([]Call, len(several))}
	for i, one := range several {
		read.Calls[i] = readCall(one)
	}
	return read
}

func only(broken *Error) Body { return Body{Calls: []Call{{ID: null, Broken: broken}}} }

// readCall reads valid JSON.
func readCall(raw []byte) Call {
	var in struct {
		Version json.RawMessage `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  json.RawMessage `json:"method"`
		Params  json.RawMessage `json:"params"`
	}
	call := Call{ID: null}
	if raw[0] != '{' || json.Unmarshal(raw, &in) != nil {
		call.Broken = invalidRequest("a call is an object")
		return call
	}
	if !isID(in.ID) {
		call.Broken = invalidRequest("id must be a string, a number or null")
		return call
	}
	if len(in.ID) > maxID {
		call.Broken = invalidRequest("id is longer than " + strconv.Itoa(maxID) + " bytes")
		return call
	}
	if len(in.ID) > 0 {
		call.ID = in.ID
	}
	switch {
	case string(in.Version) != `"2.0"`:
		call.Broken = invalidRequest(`jsonrpc must be "2.0"`)
	case len(in.Method) == 0 || in.Method[0] != '"' || json.Unmarshal(in.Method, &call.Name) != nil:
		call.Broken = invalidRequest("method must be a string")
	case len(in.Params) > 0 && in.Params[0] != '{' && in.Params[0] != '[' && string(in.Params) != "null":
		call.Broken = invalidRequest("params must be an object or an array")
	}
	call.Params = in.Params
	return call
}

func isID(raw []byte) bool {
	if len(raw) == 0 || string(raw) == "null" {
		return true
	}
	return raw[0] == '"' || raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9'
}

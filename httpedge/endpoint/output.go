package endpoint

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"

	"parley/actors/machine/rawjson"
)

// Appender is an output that writes its own JSON, for the routes where it counts.
type Appender interface {
	AppendJSON(dst []byte) []byte
}

// Statuser is an output that knows better than its route which status it has.
type Statuser interface {
	HTTPStatus() int
}

// ContentTyper is an output whose JSON is wrapped into another format, or none at all.
type ContentTyper interface {
	ContentType() string
}

// Empty is the output of a route that answers without a body (Status(204)).
type Empty struct{}

// File is the output of a route that answers with bytes.
type File struct {
	ContentType string
	Body        []byte // not copied: do not change it
	// Open, in place of Body, reads length bytes from offset on; a length below 0 is to the end. It is called at most
	// once, before anything is sent, so that its error is still answered as one. The handler's context lives until the
	// reader is closed, and the route's timeout is of all of it.
	Open func(offset, length int64) (io.ReadCloser, error)
	// Size is what Open has in all; -1 = not known before the end, then there are no ranges.
	Size int64
	// ETag lets clients keep the file; see NewFile. Empty = the answer is not to be kept.
	ETag string
	// Header holds further header fields, which win over those that are set by themselves.
	Header map[string]string
}

// NewFile returns a file that clients may keep as long as they ask whether it is still the same.
func NewFile(contentType string, body []byte) *File {
	sum := sha256.Sum256(body)
	return &File{
		ContentType: contentType, Body: body,
		ETag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`,
	}
}

// output is what a handler returned, its type forgotten.
type output struct {
	body any
	file *File
}

func newOutput[Out any](out *Out) output {
	if out == nil {
		return output{}
	}
	return output{body: out}
}

// appendBody encodes a result behind dst.
func appendBody(dst []byte, body any) ([]byte, error) {
	if a, ok := body.(Appender); ok {
		return a.AppendJSON(dst), nil
	}
	encoded, err := rawjson.AppendValue(dst, body)
	if err != nil {
		return dst, fmt.Errorf("encode result: %w", err)
	}
	return encoded, nil
}

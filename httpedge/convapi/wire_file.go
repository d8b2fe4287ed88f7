package convapi

import (
	"strconv"

	"parley/httpedge/endpoint/wire"
	"parley/proto/conversationpb"
)

// fileRecord is a file on the wire (document 2, "A. File").
type fileRecord struct{ file *conversationpb.File }

// AppendJSON implements endpoint.Appender.
func (r *fileRecord) AppendJSON(dst []byte) []byte { return appendFile(dst, r.file) }

// Described implements openapi.Described.
func (r *fileRecord) Described() (value any, nullable bool) { return fileSchema{}, false }

// fileEnvelope is {file}.
type fileEnvelope struct{ file *conversationpb.File }

// AppendJSON implements endpoint.Appender.
func (e *fileEnvelope) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"file":`...)
	return append(appendFile(dst, e.file), '}')
}

// Described implements openapi.Described.
func (e *fileEnvelope) Described() (value any, nullable bool) { return fileEnvelopeSchema{}, false }

// fileList is {files}.
type fileList struct{ files []*conversationpb.File }

// AppendJSON implements endpoint.Appender.
func (l *fileList) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"files":`...)
	return append(wire.AppendList(dst, l.files, appendFile), '}')
}

// Described implements openapi.Described.
func (l *fileList) Described() (value any, nullable bool) { return fileListSchema{}, false }

// successRecord is {success: true}.
type successRecord struct {
	Success bool `json:"success"`
}

func appendFile(dst []byte, file *conversationpb.File) []byte {
	dst = append(dst, `{"id":`...)
	dst = wire.AppendString(dst, file.GetId())
	dst = append(dst, `,"name":`...)
	dst = wire.AppendString(dst, file.GetName())
	dst = append(dst, `,"mimeType":`...)
	dst = wire.AppendString(dst, file.GetMimeType())
	dst = append(dst, `,"size":`...)
	dst = strconv.AppendInt(dst, file.GetSize(), 10)
	dst = append(dst, `,"storageKey":`...)
	dst = wire.AppendString(dst, file.GetStorageKey())
	dst = wire.AppendOptional(dst, `,"conversationId":`, file.GetConversationId())
	dst = wire.AppendOptional(dst, `,"userId":`, file.GetUserId())
	dst = wire.AppendOptional(dst, `,"agentId":`, file.GetAgentId())
	if file.GetExpiresAt() > 0 {
		dst = append(dst, `,"expiresAt":`...)
		dst = wire.AppendTime(dst, file.GetExpiresAt())
	}
	dst = append(dst, `,"metadata":`...)
	dst = wire.AppendObject(dst, file.GetMetadata())
	dst = append(dst, `,"createdAt":`...)
	dst = wire.AppendTime(dst, file.GetCreatedAt())
	return append(dst, '}')
}

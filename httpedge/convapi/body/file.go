package body

import (
	"strconv"

	"parley/httpedge/endpoint/wire"
	"parley/proto/conversationpb"
)

// FileRecord is a file on the wire (document 2, "A. File").
type FileRecord struct{ File *conversationpb.File }

// AppendJSON implements endpoint.Appender.
func (r *FileRecord) AppendJSON(dst []byte) []byte { return appendFile(dst, r.File) }

// Described implements openapi.Described.
func (r *FileRecord) Described() (value any, nullable bool) { return fileSchema{}, false }

// FileEnvelope is {file}.
type FileEnvelope struct{ File *conversationpb.File }

// AppendJSON implements endpoint.Appender.
func (e *FileEnvelope) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"file":`...)
	return append(appendFile(dst, e.File), '}')
}

// Described implements openapi.Described.
func (e *FileEnvelope) Described() (value any, nullable bool) { return fileEnvelopeSchema{}, false }

// FileList is {files}.
type FileList struct{ Files []*conversationpb.File }

// AppendJSON implements endpoint.Appender.
func (l *FileList) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"files":`...)
	return append(wire.AppendList(dst, l.Files, appendFile), '}')
}

// Described implements openapi.Described.
func (l *FileList) Described() (value any, nullable bool) { return fileListSchema{}, false }

// SuccessRecord is {success: true}.
type SuccessRecord struct {
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

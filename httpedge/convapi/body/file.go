package body

import (
	"encoding/json"
	"reflect"
	"sync"

	"parley/httpedge/resource"
	"parley/proto/conversationpb"
)

// Files declares files (document 2, "A. File").
var Files = sync.OnceValue(func() *resource.Object[*conversationpb.File, struct{}] { //nolint:gochecknoglobals // declared once, never changed
	type record = *conversationpb.File
	o := resource.New[record, struct{}]("file", "File")
	o.Text("id", record.GetId)
	o.Text("name", record.GetName)
	o.Text("mimeType", record.GetMimeType).Doc("Told from the bytes")
	o.Number("size", record.GetSize).Doc("Bytes")
	o.Text("storageKey", record.GetStorageKey)
	o.OptionalText("conversationId", record.GetConversationId)
	o.OptionalText("userId", record.GetUserId).Doc("Owner")
	o.OptionalText("agentId", record.GetAgentId)
	o.OptionalTime("expiresAt", record.GetExpiresAt)
	o.Document("metadata", record.GetMetadata)
	o.Time("createdAt", record.GetCreatedAt)
	return o
})

// FileEnvelope is {file}.
type FileEnvelope struct {
	File fileJSON `json:"file"`
}

// EnvelopeOf is the answer with a file that was stored.
func EnvelopeOf(file *conversationpb.File) *FileEnvelope {
	return &FileEnvelope{fileJSON{Files().JSON(file)}}
}

type fileJSON struct{ json.RawMessage }

// Described implements openapi.Described.
func (fileJSON) Described() (value any, nullable bool) {
	return reflect.Zero(Files().Type()).Interface(), false
}

package body

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/proto/conversationpb"
)

func drawFile(t *rapid.T) *conversationpb.File {
	return &conversationpb.File{
		Id: drawID.Draw(t, "id"), Name: drawText.Draw(t, "name"), MimeType: drawText.Draw(t, "type"),
		Size: rapid.Int64Range(0, 1<<50).Draw(t, "size"), StorageKey: drawText.Draw(t, "key"),
		ConversationId: drawText.Draw(t, "conversation"), UserId: drawText.Draw(t, "user"), AgentId: drawText.Draw(t, "agent"),
		ExpiresAt: rapid.OneOf(rapid.Just(int64(0)), drawTime).Draw(t, "expires"),
		Metadata:  []byte(drawObject.Draw(t, "metadata")), CreatedAt: drawTime.Draw(t, "created"),
	}
}

// fileSchema is a file as a data type, made the slow and plain way.
type fileSchema struct {
	ID             string          `json:"id"`
	Name           string          `json:"name"`
	MimeType       string          `json:"mimeType"`
	Size           int64           `json:"size"`
	StorageKey     string          `json:"storageKey"`
	ConversationID string          `json:"conversationId,omitempty"`
	UserID         string          `json:"userId,omitempty"`
	AgentID        string          `json:"agentId,omitempty"`
	ExpiresAt      *isoTime        `json:"expiresAt,omitempty"`
	Metadata       json.RawMessage `json:"metadata"`
	CreatedAt      isoTime         `json:"createdAt"`
}

func fileReference(f *conversationpb.File) fileSchema {
	out := fileSchema{
		ID: f.GetId(), Name: f.GetName(), MimeType: f.GetMimeType(), Size: f.GetSize(), StorageKey: f.GetStorageKey(),
		ConversationID: f.GetConversationId(), UserID: f.GetUserId(), AgentID: f.GetAgentId(),
		Metadata: json.RawMessage("{}"), CreatedAt: isoTime(f.GetCreatedAt()),
	}
	if len(f.GetMetadata()) > 0 {
		out.Metadata = f.GetMetadata()
	}
	if f.GetExpiresAt() > 0 {
		expires := isoTime(f.GetExpiresAt())
		out.ExpiresAt = &expires
	}
	return out
}

func TestFileOnTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one := drawFile(t)
		require.Equal(t, reference(t, fileReference(one)), string(Files().JSON(one)))
		require.JSONEq(t, `{"file":`+string(Files().JSON(one))+`}`, reference(t, EnvelopeOf(one)))
	})
}

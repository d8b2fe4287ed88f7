package convapi

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
		one, two := drawFile(t), drawFile(t)
		require.Equal(t, reference(t, fileReference(one)), string((&fileRecord{one}).AppendJSON(nil)))
		require.Equal(t, reference(t, fileEnvelopeSchema{fileReference(one)}), string((&fileEnvelope{one}).AppendJSON(nil)))
		require.Equal(t, reference(t, fileListSchema{[]fileSchema{fileReference(one), fileReference(two)}}),
			string((&fileList{[]*conversationpb.File{one, two}}).AppendJSON(nil)))
	})
}

// TestSniffing: the bytes decide; a client may only say which text a text is.
func TestSniffing(t *testing.T) {
	for _, c := range []struct{ head, declared, want string }{
		{"hello", "", "text/plain"},
		{"hello", "text/markdown; charset=utf-8", "text/markdown"},
		{"hello", "TEXT/CSV", "text/csv"},
		{"hello", "image/png", "text/plain"},
		{"hello", "application/pdf", "text/plain"},
		{"hello", "not a type", "text/plain"},
		{"%PDF-1.7 x", "text/plain", "application/pdf"},
		{"<!DOCTYPE html><p>", "text/plain", "text/html"},
		{`{"a":1}`, "text/plain", "application/json"},
		{"\x00\x01\x02\x03", "text/plain", "application/octet-stream"},
		{"\x89PNG\r\n\x1a\n", "text/csv", "image/png"},
		{"PK\x03\x04\x14\x00", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "application/zip"},
	} {
		require.Equal(t, c.want, sniff([]byte(c.head), c.declared), "%q as %q", c.head, c.declared)
	}
	require.True(t, accepts(nil, "a/b"))
	require.True(t, accepts([]string{"text/plain", "Image/*"}, "image/png"))
	require.True(t, accepts([]string{"*/*"}, "a/b"))
	require.False(t, accepts([]string{"image/*"}, "imagery/png"))
	require.False(t, accepts([]string{"image/png"}, "image/png2"))
}

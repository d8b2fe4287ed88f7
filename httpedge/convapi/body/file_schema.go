package body

import "encoding/json"

type fileSchema struct {
	ID             string          `json:"id"`
	Name           string          `json:"name"`
	MimeType       string          `json:"mimeType" doc:"Told from the bytes"`
	Size           int64           `json:"size" doc:"Bytes"`
	StorageKey     string          `json:"storageKey"`
	ConversationID string          `json:"conversationId,omitempty"`
	UserID         string          `json:"userId,omitempty" doc:"Owner"`
	AgentID        string          `json:"agentId,omitempty"`
	ExpiresAt      *isoTime        `json:"expiresAt,omitempty" format:"date-time"`
	Metadata       json.RawMessage `json:"metadata"`
	CreatedAt      isoTime         `json:"createdAt" format:"date-time"`
}

type fileEnvelopeSchema struct {
	File fileSchema `json:"file"`
}

type fileListSchema struct {
	Files []fileSchema `json:"files"`
}

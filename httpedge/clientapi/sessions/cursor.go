package sessions

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"parley/actors/core/failure"
	"parley/httpedge/endpoint"
	"parley/httpedge/turns"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// A cursor of the session list is opaque: base64 of a format byte, the creation time and the id of the last row read, and a
// checksum over these and the project, so that what the service did not issue is refused rather than misread.
const (
	cursorFormat = 1
	cursorSum    = 8 // bytes
)

func cursorText(caller endpoint.Caller, cursor *conversationpb.SessionCursor) string {
	raw := binary.AppendVarint([]byte{cursorFormat}, cursor.GetCreatedAt())
	raw = append(raw, cursor.GetId()...)
	return base64.RawURLEncoding.EncodeToString(append(raw, cursorChecksum(caller, raw)...))
}

func parseCursor(caller endpoint.Caller, text string) (*conversationpb.SessionCursor, *failure.Failure) {
	const longest = 256
	if text == "" {
		return nil, nil
	}
	wrong := failure.New(failurepb.Code_INVALID_CURSOR, failure.BadCursor).In("after")
	if len(text) > longest {
		return nil, wrong
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) <= 1+cursorSum || raw[0] != cursorFormat {
		return nil, wrong
	}
	payload, sum := raw[:len(raw)-cursorSum], raw[len(raw)-cursorSum:]
	createdAt, n := binary.Varint(payload[1:])
	if n <= 0 || !bytes.Equal(sum, cursorChecksum(caller, payload)) {
		return nil, wrong
	}
	id := string(payload[1+n:])
	if !turns.Plausible(id) {
		return nil, wrong
	}
	return &conversationpb.SessionCursor{CreatedAt: createdAt, Id: id}, nil
}

func cursorChecksum(caller endpoint.Caller, payload []byte) []byte {
	hash := sha256.New()
	for _, part := range []string{"session cursor", caller.TenantID, caller.ProjectID} {
		hash.Write([]byte(part))
		hash.Write([]byte{0})
	}
	hash.Write(payload)
	return hash.Sum(nil)[:cursorSum]
}

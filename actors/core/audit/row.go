package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"parley/actors/machine/rawjson"
	"parley/proto/auditpb"
)

// Outcomes of a request.
const (
	Success = "success"
	Failure = "failure"
	Denied  = "denied"  // refused by this server's own permissions
	Unknown = "unknown" // its node was gone before it could say
)

// MaxBatch bounds the rows, and the requests that begin, which are written at once.
const MaxBatch = 128

// Kinds of actors.
const (
	ActorUser   = "user"
	ActorToken  = "api_token"
	ActorSystem = "system"
)

// timeForm is RFC 3339 with milliseconds.
const timeForm = "2006-01-02T15:04:05.000Z"

// Time writes Unix milliseconds.
func Time(at int64) string { return time.UnixMilli(at).UTC().Format(timeForm) }

// Seal completes a row as the next one of a chain: its number, the hash of the row before, and its own hash.
func Seal(row *auditpb.Row, last *auditpb.Mark) {
	row.Number, row.Previous = last.GetNumber()+1, last.GetHash()
	sum := sha256.Sum256(canonical(members(row)))
	row.Hash = sum[:]
}

// AppendJSON appends a row as the API shows it: its canonical form with its hash.
func AppendJSON(dst []byte, row *auditpb.Row) []byte {
	all := members(row)
	all[memberHash] = hex.EncodeToString(row.GetHash())
	return append(dst, canonical(all)...)
}

const (
	memberHash     = "hash"
	memberPrevious = "previousHash"
	memberNumber   = "seq"
)

// members are what a row's JSON object has but its hash. Members of later releases are left out where they are empty: the form of a
// row that was written earlier stays.
func members(row *auditpb.Row) map[string]any {
	all := map[string]any{
		"id": row.GetId(), memberNumber: row.GetNumber(), "createdAt": Time(row.GetCreatedAt()), "startedAt": Time(row.GetStartedAt()),
		"tenantId": row.GetTenantId(), "projectId": nullable(row.GetProjectId()), "requestId": row.GetRequestId(),
		"actorType": row.GetActorType(), "actorUserId": nullable(row.GetActorUserId()), "actorEmail": nullable(row.GetActorEmail()),
		"actorRole": nullable(row.GetActorRole()), "apiTokenId": nullable(row.GetApiTokenId()),
		"service": row.GetService(), "action": row.GetAction(), "event": row.GetMethod() + " " + row.GetRoute(),
		"method": row.GetMethod(), "path": row.GetPath(), "statusCode": nil, "outcome": row.GetOutcome(),
		"ipAddress": nullable(row.GetIpAddress()), "userAgent": nullable(row.GetUserAgent()),
		"resourceType": nullable(row.GetResourceType()), "resourceId": nullable(row.GetResourceId()),
		"metadata": metadata(row), memberPrevious: hex.EncodeToString(row.GetPrevious()),
	}
	if status := row.GetStatusCode(); status != 0 {
		all["statusCode"] = status
	}
	return all
}

func metadata(row *auditpb.Row) map[string]any {
	changes := make([]any, 0, len(row.GetChanges()))
	for _, change := range row.GetChanges() {
		changes = append(changes, map[string]any{
			"record": change.GetRecord(), "id": change.GetId(), "before": object(change.GetBefore()), "after": object(change.GetAfter()),
		})
	}
	all := map[string]any{"changes": changes}
	if row.GetCount() > 1 {
		all["count"] = row.GetCount()
	}
	if row.GetTruncated() {
		all["truncated"] = true
	}
	return all
}

// object is a JSON object as Show writes it; null for none.
func object(text string) any {
	var value map[string]any
	if text == "" || decode([]byte(text), &value) != nil {
		return nil
	}
	return value
}

func nullable(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// canonical encodes a decoded JSON object: its members in order, and numbers as they were written.
func canonical(members map[string]any) []byte {
	out, err := rawjson.AppendValue(nil, members)
	if err != nil {
		return nil // texts, numbers and objects of them always encode
	}
	return out
}

func decode(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("decode a row: %w", err)
	}
	return nil
}

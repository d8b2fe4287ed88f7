package clientapi

import (
	"parley/httpedge/endpoint/wire"
	"parley/proto/runpb"
)

const objectRun = "agent.run"

// runRecord is a background run on the wire.
type runRecord struct {
	run    *runpb.State
	result *responseRecord // nil = none yet
}

func newRunRecord(reply *runpb.Reply) *runRecord {
	run := reply.GetRun()
	record := &runRecord{run: run}
	if result := reply.GetResult(); result != nil {
		record.result = &responseRecord{
			session: run.GetConversationId(), agent: run.GetAgentId(), turn: result,
			previous: run.GetPreviousResponseId(), version: max(run.GetAgentVersion(), 0),
		}
	}
	return record
}

// AppendJSON implements endpoint.Appender.
func (r *runRecord) AppendJSON(dst []byte) []byte {
	run := r.run
	dst = append(dst, `{"id":`...)
	dst = wire.AppendString(dst, run.GetId())
	dst = append(dst, `,"object":"`+objectRun+`"`...)
	dst = wire.AppendMember(dst, `,"status":`, runStatus(run.GetStatus()))
	dst = wire.AppendMember(dst, `,"agent":`, run.GetAgentId())
	dst = wire.AppendMember(dst, `,"session_id":`, run.GetConversationId())
	dst = appendTimeOrNull(dst, `,"created_at":`, run.GetCreatedAt())
	dst = appendTimeOrNull(dst, `,"started_at":`, run.GetStartedAt())
	dst = appendTimeOrNull(dst, `,"completed_at":`, run.GetEndedAt())
	dst = append(dst, `,"result":`...)
	if r.result != nil {
		dst = r.result.AppendJSON(dst)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"error":`...)
	if run.GetError() == nil {
		return append(dst, "null}"...)
	}
	dst = append(dst, `{"type":`...)
	dst = wire.AppendString(dst, run.GetError().GetType())
	dst = wire.AppendMember(dst, `,"message":`, run.GetError().GetMessage())
	return append(dst, '}', '}')
}

// Described implements openapi.Described.
func (r *runRecord) Described() (value any, nullable bool) { return runSchema{}, false }

func runStatus(status runpb.Status) string {
	switch status {
	case runpb.Status_RUNNING:
		return "running"
	case runpb.Status_REQUIRES_ACTION:
		return "requires_action"
	case runpb.Status_SUCCEEDED:
		return "succeeded"
	case runpb.Status_FAILED:
		return "failed"
	case runpb.Status_CANCELED:
		return "canceled"
	default:
		return "queued"
	}
}

// appendTimeOrNull writes a time, null for 0.
func appendTimeOrNull(dst []byte, label string, unixMilli int64) []byte {
	dst = append(dst, label...)
	if unixMilli == 0 {
		return append(dst, "null"...)
	}
	return wire.AppendTime(dst, unixMilli)
}

type runSchema struct {
	ID          string          `json:"id"`
	Object      string          `json:"object" enum:"agent.run"`
	Status      string          `json:"status" enum:"queued,running,requires_action,succeeded,failed,canceled"`
	Agent       string          `json:"agent" doc:"Agent key"`
	SessionID   string          `json:"session_id"`
	CreatedAt   isoTime         `json:"created_at" format:"date-time"`
	StartedAt   *isoTime        `json:"started_at" format:"date-time"`
	CompletedAt *isoTime        `json:"completed_at" format:"date-time"`
	Result      *responseSchema `json:"result" doc:"What the run has come to, as a response; null before"`
	Error       *runErrorSchema `json:"error" doc:"Why it failed"`
}

type runErrorSchema struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

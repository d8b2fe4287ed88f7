package render

import (
	"net/url"
	"strconv"

	"parley/httpedge/endpoint/wire"
	"parley/proto/runpb"
)

const objectRun = "agent.run"

// Run is a background run on the wire.
type Run struct {
	run    *runpb.State
	result *Response // nil = none yet
}

// NewRun returns the record of a run, with its result where it has one.
func NewRun(reply *runpb.Reply) *Run {
	run := reply.GetRun()
	record := &Run{run: run}
	if result := reply.GetResult(); result != nil {
		record.result = &Response{
			Session: run.GetConversationId(), Agent: run.GetAgentId(), Turn: result,
			Previous: run.GetPreviousResponseId(), Version: max(run.GetAgentVersion(), 0),
		}
	}
	return record
}

// AppendJSON implements endpoint.Appender.
func (r *Run) AppendJSON(dst []byte) []byte {
	run := r.run
	dst = append(dst, `{"id":`...)
	dst = wire.AppendString(dst, run.GetId())
	dst = append(dst, `,"object":"`+objectRun+`"`...)
	dst = wire.AppendMember(dst, `,"status":`, run.GetStatus().WireName())
	dst = wire.AppendMember(dst, `,"agent":`, run.GetAgentId())
	dst = wire.AppendMember(dst, `,"session_id":`, run.GetConversationId())
	dst = AppendTimeOrNull(dst, `,"created_at":`, run.GetCreatedAt())
	dst = AppendTimeOrNull(dst, `,"started_at":`, run.GetStartedAt())
	dst = AppendTimeOrNull(dst, `,"completed_at":`, run.GetEndedAt())
	dst = appendCallback(append(dst, `,"callback":`...), run.GetCallback())
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
func (r *Run) Described() (value any, nullable bool) { return runSchema{}, false }

// appendCallback writes the delivery state of the newest callback, null for a run without callbacks.
func appendCallback(dst []byte, callback *runpb.Callback) []byte {
	if callback == nil {
		return append(dst, "null"...)
	}
	told := callback.GetTold()
	dst = append(dst, `{"url":`...)
	dst = wire.AppendString(dst, ShownURL(callback.GetUrl()))
	dst = append(dst, `,"signed":`...)
	dst = strconv.AppendBool(dst, len(callback.GetSealedSecret()) > 0)
	dst = wire.AppendMember(dst, `,"status":`, callbackStatus(told.GetStatus()))
	dst = wire.AppendNullable(dst, `,"event":`, told.GetEvent())
	dst = wire.AppendNullable(dst, `,"event_id":`, told.GetEventId())
	dst = append(dst, `,"attempts":`...)
	dst = strconv.AppendUint(dst, uint64(told.GetAttempts()), 10)
	dst = AppendTimeOrNull(dst, `,"last_attempt_at":`, told.GetLastAt())
	dst = wire.AppendNullable(dst, `,"last_error":`, told.GetError())
	return append(dst, '}')
}

func callbackStatus(status runpb.Telling) string {
	switch status {
	case runpb.Telling_DELIVERED:
		return "delivered"
	case runpb.Telling_GIVEN_UP:
		return "failed"
	default:
		return "pending"
	}
}

// ShownURL is an address without the parts that may hold secrets.
func ShownURL(text string) string {
	target, err := url.Parse(text)
	if err != nil {
		return ""
	}
	target.User, target.RawFragment, target.Fragment = nil, "", ""
	if target.RawQuery != "" {
		target.RawQuery = "..."
	}
	return target.String()
}

type runSchema struct {
	ID          string          `json:"id"`
	Object      string          `json:"object" enum:"agent.run"`
	Status      string          `json:"status" enum:"queued,running,requires_action,succeeded,failed,canceled"`
	Agent       string          `json:"agent" doc:"Agent key"`
	SessionID   string          `json:"session_id"`
	CreatedAt   ISOTime         `json:"created_at" format:"date-time"`
	StartedAt   *ISOTime        `json:"started_at" format:"date-time"`
	CompletedAt *ISOTime        `json:"completed_at" format:"date-time"`
	Callback    *callbackSchema `json:"callback" doc:"How far the newest change of state was told; null without callback_url"`
	Result      *ResponseSchema `json:"result" doc:"What the run has come to, as a response; null before"`
	Error       *runErrorSchema `json:"error" doc:"Why it failed"`
}

type callbackSchema struct {
	URL           string   `json:"url" doc:"Without a user, and without what its query says"`
	Signed        bool     `json:"signed"`
	Status        string   `json:"status" enum:"pending,delivered,failed"`
	Event         *string  `json:"event" doc:"The newest change of state; null before there is one"`
	EventID       *string  `json:"event_id"`
	Attempts      int      `json:"attempts" doc:"Made, the one under way included"`
	LastAttemptAt *ISOTime `json:"last_attempt_at" format:"date-time" doc:"When the newest began, or what came of it was known"`
	LastError     *string  `json:"last_error" doc:"What came of the newest that failed"`
}

type runErrorSchema struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

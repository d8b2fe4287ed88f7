package actors

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/deliver"
	"parley/actors/run"
	"parley/proto/runpb"
)

// runsAgent is the User-Agent of run callbacks (document 3, section 8.4).
const runsAgent = "service-runs/1.0"

// runCallback is what a run's address is told (document 1, "Run callbacks").
type runCallback struct {
	ID             string          `json:"id"`
	Event          string          `json:"event"`
	CreatedAt      string          `json:"createdAt"`
	RunID          string          `json:"runId"`
	TenantID       string          `json:"tenantId,omitempty"`
	ProjectID      string          `json:"projectId,omitempty"`
	ConversationID string          `json:"conversationId,omitempty"`
	Data           runCallbackData `json:"data"`
}

type runCallbackData struct {
	RunID          string            `json:"runId"`
	ConversationID string            `json:"conversationId"`
	AgentKey       string            `json:"agentKey"`
	Status         string            `json:"status"`
	Error          *runCallbackError `json:"error,omitempty"`
}

type runCallbackError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func newRunCallback(of *runpb.State, call *runpb.Call) runCallback {
	_, status, _ := strings.Cut(call.GetEvent(), ".")
	body := runCallback{
		ID: call.GetEventId(), Event: call.GetEvent(), RunID: of.GetId(), TenantID: of.GetTenantId(), ProjectID: of.GetProjectId(),
		ConversationID: of.GetConversationId(), CreatedAt: time.UnixMilli(call.GetAt()).UTC().Format(callbackTime),
		Data: runCallbackData{
			RunID: of.GetId(), ConversationID: of.GetConversationId(), AgentKey: of.GetAgentId(), Status: status,
		},
	}
	if of.GetStatus() == runpb.Status_FAILED && status == "failed" {
		body.Data.Error = &runCallbackError{Type: of.GetError().GetType(), Message: of.GetError().GetMessage()}
	}
	return body
}

func (r *Runs) post(at Entity, e run.Post) {
	r.callbacks.try(at, attempt{
		number: e.Call.GetAttempt(),
		send:   func(ctx context.Context) (*deliver.Answer, error) { return r.send(ctx, e) },
		report: func(came posted) proto.Message {
			return &runpb.Command{RunId: at.ID, Body: &runpb.Command_Posted{Posted: &runpb.Posted{
				EventId: e.Call.GetEventId(), Attempt: e.Call.GetAttempt(), Ok: came.delivered, Hopeless: came.hopeless,
				Error: came.failed,
			}}}
		},
	})
}

// send posts the call. What should be signed is not sent unsigned.
func (r *Runs) send(ctx context.Context, e run.Post) (*deliver.Answer, error) {
	body, err := json.Marshal(newRunCallback(e.Run, e.Call))
	if err != nil {
		return nil, err
	}
	post := deliver.Post{URL: e.Run.GetCallback().GetUrl(), Body: body, Header: map[string]string{
		"User-Agent": runsAgent, "X-Service-Event": e.Call.GetEvent(), "X-Service-Event-Id": e.Call.GetEventId(),
	}}
	if sealed := e.Run.GetCallback().GetSealedSecret(); len(sealed) > 0 {
		secret, err := r.config.OpenSecret(sealed, runpb.SecretAbout(e.Run.GetId()))
		if err != nil {
			return nil, errors.New("the secret of the callback cannot be opened")
		}
		post.Secret = string(secret)
	}
	return r.config.Poster.Post(ctx, post)
}

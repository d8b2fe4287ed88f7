package actors

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/deliver"
	"parley/actors/run"
	"parley/proto/deliverypb"
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

func newRunCallback(of *runpb.State, call *deliverypb.Delivery) runCallback {
	_, status, _ := strings.Cut(call.GetEvent(), ".")
	body := runCallback{
		ID: call.GetId(), Event: call.GetEvent(), RunID: of.GetId(), TenantID: of.GetTenantId(), ProjectID: of.GetProjectId(),
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
	r.config.Deliveries.make(at, attempt{
		delivery: e.Call, url: e.Run.GetCallback().GetUrl(), poster: r.config.Poster, outcomes: r.outcomes,
		post: func() (deliver.Post, error) { return r.compose(e) },
		report: func(report *deliverypb.Report) proto.Message {
			return &runpb.Command{RunId: at.ID, Body: &runpb.Command_Posted{Posted: report}}
		},
	})
}

// compose makes the message of a callback. What should be signed is not sent unsigned.
func (r *Runs) compose(e run.Post) (deliver.Post, error) {
	body, err := json.Marshal(newRunCallback(e.Run, e.Call))
	if err != nil {
		return deliver.Post{}, err
	}
	post := deliver.Post{URL: e.Run.GetCallback().GetUrl(), Body: body, Header: map[string]string{
		"User-Agent": runsAgent, "X-Service-Event": e.Call.GetEvent(), "X-Service-Event-Id": e.Call.GetId(),
	}}
	if sealed := e.Run.GetCallback().GetSealedSecret(); len(sealed) > 0 {
		secret, err := r.config.OpenSecret(sealed, runpb.SecretAbout(e.Run.GetId()))
		if err != nil {
			return deliver.Post{}, errors.New("the secret of the callback cannot be opened")
		}
		post.Secret = string(secret)
	}
	return post, nil
}

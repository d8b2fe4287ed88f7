package run

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/delivery"
	"parley/actors/kit"
	"parley/proto/deliverypb"
	"parley/proto/runpb"
)

// userAgent is the User-Agent of run callbacks (document 3, section 8.4).
const userAgent = "service-runs/1.0"

// callbackBody is what is posted to a run's callback address (document 1, "Run callbacks").
type callbackBody struct {
	ID             string       `json:"id"`
	Event          string       `json:"event"`
	CreatedAt      string       `json:"createdAt"`
	RunID          string       `json:"runId"`
	TenantID       string       `json:"tenantId,omitempty"`
	ProjectID      string       `json:"projectId,omitempty"`
	ConversationID string       `json:"conversationId,omitempty"`
	Data           callbackData `json:"data"`
}

type callbackData struct {
	RunID          string         `json:"runId"`
	ConversationID string         `json:"conversationId"`
	AgentKey       string         `json:"agentKey"`
	Status         string         `json:"status"`
	Error          *callbackError `json:"error,omitempty"`
}

type callbackError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func newCallbackBody(of *runpb.State, call *deliverypb.Delivery) callbackBody {
	_, status, _ := strings.Cut(call.GetEvent(), ".")
	body := callbackBody{
		ID: call.GetId(), Event: call.GetEvent(), RunID: of.GetId(), TenantID: of.GetTenantId(), ProjectID: of.GetProjectId(),
		ConversationID: of.GetConversationId(), CreatedAt: time.UnixMilli(call.GetAt()).UTC().Format(delivery.TimeFormat),
		Data: callbackData{
			RunID: of.GetId(), ConversationID: of.GetConversationId(), AgentKey: of.GetAgentId(), Status: status,
		},
	}
	if of.GetStatus() == runpb.Status_FAILED && status == "failed" {
		body.Data.Error = &callbackError{Type: of.GetError().GetType(), Message: of.GetError().GetMessage()}
	}
	return body
}

func (c Config) post(at kit.Ref, e Post) {
	c.Callbacks.Send(at, delivery.Attempt{
		Delivery: e.Call, URL: e.Run.GetCallback().GetUrl(), Tenant: e.Run.GetTenantId(),
		Compose: func() (delivery.Message, error) { return c.compose(e) },
		Report: func(report *deliverypb.Report) proto.Message {
			return &runpb.Command{RunId: at.ID, Body: &runpb.Command_Posted{Posted: report}}
		},
	})
}

// compose makes the message of a callback. What should be signed is not sent unsigned.
func (c Config) compose(e Post) (delivery.Message, error) {
	body, err := json.Marshal(newCallbackBody(e.Run, e.Call))
	if err != nil {
		return delivery.Message{}, err
	}
	message := delivery.Message{Body: body, Header: map[string]string{
		"User-Agent": userAgent, "X-Service-Event": e.Call.GetEvent(), "X-Service-Event-Id": e.Call.GetId(),
	}}
	if sealed := e.Run.GetCallback().GetSealedSecret(); len(sealed) > 0 {
		secret, err := c.OpenSecret(sealed, runpb.SecretAbout(e.Run.GetId()))
		if err != nil {
			return delivery.Message{}, errors.New("the secret of the callback cannot be opened")
		}
		message.Secret = string(secret)
	}
	return message, nil
}

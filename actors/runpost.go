package actors

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"

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
		ConversationID: of.GetConversationId(), CreatedAt: time.UnixMilli(call.GetAt()).UTC().Format("2006-01-02T15:04:05.000Z"),
		Data: runCallbackData{
			RunID: of.GetId(), ConversationID: of.GetConversationId(), AgentKey: of.GetAgentId(), Status: status,
		},
	}
	if of.GetStatus() == runpb.Status_FAILED && status == "failed" {
		body.Data.Error = &runCallbackError{Type: of.GetError().GetType(), Message: of.GetError().GetMessage()}
	}
	return body
}

// post makes one attempt to call back, and tells the run what came of it. Without a place it is not made: it counts as
// lost, and the next one is due soon.
func (r *Runs) post(at Entity, e run.Post) {
	if !r.spare(r.posts, func(ctx context.Context) { r.callBack(ctx, at, e) }) {
		r.callbacks.WithLabelValues("crowded").Inc()
	}
}

func (r *Runs) callBack(ctx context.Context, at Entity, e run.Post) {
	posted := &runpb.Posted{EventId: e.Call.GetEventId(), Attempt: e.Call.GetAttempt()}
	answer, err := r.send(ctx, e)
	outcome, status := "failed", 0
	switch {
	case ctx.Err() != nil:
		return // nobody knows: the next owner tries again
	case err == nil && answer.OK():
		posted.Ok, outcome = true, "delivered"
	case errors.Is(err, deliver.ErrForbiddenAddress):
		posted.Hopeless, outcome = true, "forbidden"
	}
	r.callbacks.WithLabelValues(outcome).Inc()
	if answer != nil {
		status = answer.Status
	}
	if !posted.GetOk() {
		r.config.Logger.Info("a run's callback was not taken", slog.String("run", at.ID), slog.Int("status", status),
			slog.Uint64("attempt", uint64(posted.GetAttempt())), slog.Any("err", err))
	}
	_, err = at.Ask(ctx, &runpb.Command{RunId: at.ID, Body: &runpb.Command_Posted{Posted: posted}})
	if err != nil && ctx.Err() == nil {
		r.config.Logger.Warn("what came of a run's callback is not stored", slog.String("run", at.ID), slog.Any("err", err))
	}
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

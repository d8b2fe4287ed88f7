// Package ratings delivers ratings of answers to the feedback hooks of the agent and of the server.
package ratings

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"parley/actors/conversation"
	"parley/actors/deliver"
	"parley/actors/delivery"
	"parley/cmd/parley/config"
	"parley/cmd/parley/node/registry"
)

// maxTellings bounds the ratings that are being delivered or wait for their next attempt.
const maxTellings = 256

// ratings delivers ratings of answers to the agent's feedback hook and to the server's. The rating itself is stored in any case;
// a delivery that fails after all attempts is logged, one pending at a crash is lost.
type ratings struct {
	agents         *registry.Registry
	server         config.Hook
	guarded, plain *deliver.Poster // the operator's own hook may have any address
	log            *slog.Logger

	places chan struct{}
	life   context.Context //nolint:containedctx // of all deliveries, until stopped
	end    context.CancelFunc
	wg     sync.WaitGroup
}

// New returns what delivers ratings to the agents' hooks, through the guard, and to the server's.
func New(c *config.Config, agents *registry.Registry, guard *deliver.Guard, log *slog.Logger) (*ratings, error) {
	everywhere := deliver.NewGuard(deliver.GuardConfig{Allow: []netip.Prefix{
		netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0),
	}})
	timeout := c.Hooks.OnFeedback.Timeout
	guarded, err := deliver.NewPoster(deliver.PosterConfig{Guard: guard, Timeout: timeout})
	if err != nil {
		return nil, err
	}
	plain, err := deliver.NewPoster(deliver.PosterConfig{Guard: everywhere, Timeout: timeout})
	if err != nil {
		return nil, err
	}
	r := &ratings{
		agents: agents, server: c.Hooks.OnFeedback, guarded: guarded, plain: plain, log: log,
		places: make(chan struct{}, maxTellings),
	}
	r.life, r.end = context.WithCancel(context.Background())
	return r, nil
}

// Stop cancels all deliveries and waits for them.
func (r *ratings) Stop(context.Context) {
	r.end()
	r.wg.Wait()
}

// ratingJSON is the request body of a feedback hook.
type ratingJSON struct {
	Type           string       `json:"type"`
	ConversationID string       `json:"conversationId"`
	MessageID      string       `json:"messageId"`
	AgentID        string       `json:"agentId"`
	RunID          string       `json:"runId,omitempty"`
	Feedback       feedbackJSON `json:"feedback"`
}

type feedbackJSON struct {
	Rating    *string  `json:"rating"` // up, down, or null: withdrawn
	Reasons   []string `json:"reasons,omitempty"`
	Comment   string   `json:"comment,omitempty"`
	UserID    string   `json:"userId,omitempty"`
	CreatedAt string   `json:"createdAt"`
	UpdatedAt string   `json:"updatedAt"`
}

// isoTime formats Unix milliseconds as ISO 8601 in UTC.
func isoTime(at int64) string { return time.UnixMilli(at).UTC().Format("2006-01-02T15:04:05.000Z") }

// TellFeedback implements actors.FeedbackListener.
func (r *ratings) TellFeedback(told conversation.TellFeedback) {
	rated := told.Feedback
	body := ratingJSON{
		Type: "message.feedback", ConversationID: told.ConversationID, MessageID: told.Message.GetId(),
		AgentID: told.AgentID, RunID: told.Message.GetRunId(),
		Feedback: feedbackJSON{
			Reasons: rated.GetReasons(), Comment: rated.GetComment(), UserID: rated.GetUserId(),
			CreatedAt: isoTime(rated.GetCreatedAt()), UpdatedAt: isoTime(rated.GetUpdatedAt()),
		},
	}
	if rating := rated.GetRating(); rating != "" {
		body.Feedback.Rating = &rating
	}
	text, err := json.Marshal(body)
	if err != nil {
		r.log.Error("rating has no JSON form", slog.Any("err", err))
		return
	}
	if agent, found := r.agents.Agent(told.ProjectID, told.AgentID); found && agent.GetFeedbackHook() != nil {
		own := agent.GetFeedbackHook()
		r.tell(r.guarded, deliver.Post{URL: own.GetUrl(), Secret: own.GetSecret(), Body: text}, told)
	}
	if r.server.URL != "" {
		r.tell(r.plain, deliver.Post{URL: r.server.URL, Secret: r.server.Secret.Reveal(), Body: text}, told)
	}
}

func (r *ratings) tell(poster *deliver.Poster, post deliver.Post, about conversation.TellFeedback) {
	select {
	case r.places <- struct{}{}:
	default:
		r.log.Warn("rating not delivered: too many are waiting", slog.String("conversation", about.ConversationID))
		return
	}
	r.wg.Go(func() {
		defer func() { <-r.places }()
		for attempt := 1; ; attempt++ {
			answer, err := poster.Post(r.life, post)
			if err == nil && answer.OK() {
				return
			}
			pause, again := delivery.Backoff(uint32(attempt), maxTellAttempts)
			if !again {
				r.log.Warn("rating not delivered", slog.String("conversation", about.ConversationID), slog.Int("attempts", attempt), slog.Any("err", err))
				return
			}
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-r.life.Done():
				timer.Stop()
				return
			}
		}
	})
}

// maxTellAttempts bounds the attempts to deliver a rating to a hook.
const maxTellAttempts = 5

package node

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"parley/actors/conversation"
	"parley/actors/deliver"
	"parley/actors/delivery"
	"parley/actors/turn/tool"
	"parley/cmd/parley/config"
	"parley/httpedge/export"
	"parley/httpedge/hook"
)

// newGuard is the door through which calls go out for agents and their users.
func newGuard(c *config.Config) (*deliver.Guard, error) {
	allowed, err := c.Outbound.Prefixes()
	if err != nil {
		return nil, err
	}
	return deliver.NewGuard(deliver.GuardConfig{Allow: allowed, AllowHosts: c.Outbound.AllowHosts}), nil
}

// checkCallback judges the address of a callback when it is given. The texts follow the name of a field.
func checkCallback(guard *deliver.Guard) func(ctx context.Context, url string) error {
	return func(ctx context.Context, url string) error {
		err := guard.Judge(ctx, url)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, deliver.ErrForbiddenAddress):
			return errors.New("leads to an address that is not allowed")
		}
		return errors.New("must be an absolute http or https URL without a user")
	}
}

// newTools makes what the agents' tools run with.
func (n *Node) newTools() (*tool.Toolbox, error) {
	box, err := tool.New(tool.Config{
		Guard: n.outbound.guard, Timeout: n.config.Tools.Timeout, MaxResult: int(n.config.Tools.MaxResult), Logger: n.log,
	})
	if err != nil {
		return nil, err
	}
	n.later(func(context.Context) { box.Close() })
	return box, nil
}

// newPrinter finds the browser that makes PDF. Nil: none is configured.
func newPrinter(c *config.Config) (export.Printer, error) {
	if c.Export.Chromium == "" {
		return nil, nil //nolint:nilnil // no printer is a way to run
	}
	return export.NewChromium(export.ChromiumConfig{
		Path: c.Export.Chromium, Timeout: c.Export.Timeout, MaxConcurrent: c.Export.MaxConcurrent,
		NoSandbox: c.Export.NoSandbox,
	})
}

func hookConfig(c *config.Config) hook.Config {
	endpoint := func(h config.Hook) hook.Endpoint {
		return hook.Endpoint{URL: h.URL, Secret: h.Secret.Reveal(), Timeout: h.Timeout, OnError: h.OnError}
	}
	return hook.Config{
		ResolveContext: endpoint(c.Hooks.ResolveContext), RateLimit: endpoint(c.Hooks.RateLimit),
		AuthorizeBudget: endpoint(c.Hooks.AuthorizeBudget), AuthorizeResolve: endpoint(c.Hooks.AuthorizeResolve),
		Headers: []string{c.Auth.HeaderName, "Cookie"},
	}
}

// maxTellings bounds the ratings that are being told, or wait for their next attempt.
const maxTellings = 256

// ratings tells those who want to know that an answer was rated: the agent's own hook, and the server's. A rating is
// stored in any case; one that cannot be told after all attempts, or that is lost with the process, is only logged.
type ratings struct {
	agents         *registry
	server         config.Hook
	guarded, plain *deliver.Poster // the server's own hook is the operator's word: it may lead anywhere
	log            *slog.Logger

	places chan struct{}
	life   context.Context //nolint:containedctx // of all attempts, until stopped
	end    context.CancelFunc
	wg     sync.WaitGroup
}

func newRatings(c *config.Config, agents *registry, guard *deliver.Guard, log *slog.Logger) (*ratings, error) {
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

// stop ends all attempts and waits for them.
func (r *ratings) stop(context.Context) {
	r.end()
	r.wg.Wait()
}

// ratingJSON is what a hook hears.
type ratingJSON struct {
	Type           string       `json:"type"`
	ConversationID string       `json:"conversationId"`
	MessageID      string       `json:"messageId"`
	AgentID        string       `json:"agentId"`
	RunID          string       `json:"runId,omitempty"`
	Feedback       feedbackJSON `json:"feedback"`
}

type feedbackJSON struct {
	Rating    *string  `json:"rating"` // up, down, or null: taken back
	Reasons   []string `json:"reasons,omitempty"`
	Comment   string   `json:"comment,omitempty"`
	UserID    string   `json:"userId,omitempty"`
	CreatedAt string   `json:"createdAt"`
	UpdatedAt string   `json:"updatedAt"`
}

// isoTime writes Unix milliseconds as all records do.
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
		r.log.Warn("rating not told: too many are waiting", slog.String("conversation", about.ConversationID))
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
				r.log.Warn("rating not told", slog.String("conversation", about.ConversationID), slog.Int("attempts", attempt), slog.Any("err", err))
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

// maxTellAttempts is how often a hook is told of a rating.
const maxTellAttempts = 5

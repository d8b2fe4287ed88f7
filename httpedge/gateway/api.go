package gateway

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"parley/actors/machine/rawjson"
	"parley/httpedge/endpoint"
	"parley/proto/decisionpb"
)

// Models calls the models of a project. An error is an *endpoint.Problem, whose details may hold "type" and "param"; any other is
// a fault.
type Models interface {
	// Chat, Embed and Moderate return the JSON of the answer. They end when ctx does.
	Chat(ctx context.Context, call *Call) ([]byte, error)
	Embed(ctx context.Context, call *Call) ([]byte, error)
	// Moderate asks a model of category moderation.
	Moderate(ctx context.Context, call *Call) ([]byte, error)
	// ChatStream passes the JSON of each chunk to emit, from one goroutine; more means that the next chunk follows at once. An
	// error of emit ends the call. An error before the first chunk means that the whole call has failed.
	ChatStream(ctx context.Context, call *Call, emit func(chunk []byte, more bool) error) error
}

// Call is one request to a model.
type Call struct {
	Caller    endpoint.Caller
	RequestID string // request_id of the answer
	Model     string
	Body      rawjson.Fields // may be kept until the call ends
	Cache     *Cache         // nil = the model answers itself, and its answer is not kept
}

// Cache is what a caller wants of answers that are kept, and learns of them.
type Cache struct {
	Fresh bool // the model answers itself; its answer is kept in the place of an older one
	Hit   bool // said by Chat: the answer is one that was kept
}

// API holds the handlers of the gateway.
type API struct {
	config Config
	models Models
	rails  Rails // nil = there are no guardrails
	keep   func(context.Context, *decisionpb.Verdict)
	log    *slog.Logger

	base    context.Context //nolint:containedctx // parent of every stream; ended by Stop
	stop    context.CancelCauseFunc
	mu      sync.Mutex
	stopped bool
	streams sync.WaitGroup
}

var errStopping = errors.New("the server is shutting down")

// New returns the API. The configuration must be valid. Nil models serve only to read the routes.
func New(config Config, models Models, log *slog.Logger) *API {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	a := &API{config: config, models: models, log: log}
	a.base, a.stop = context.WithCancelCause(context.Background())
	return a
}

// cutWait bounds the wait for streams that were cut off.
const cutWait = time.Second

// Stop refuses new streams, waits for the running ones until ctx ends, and then cuts them off. It may be called more than once.
func (a *API) Stop(ctx context.Context) error {
	a.mu.Lock()
	a.stopped = true
	a.mu.Unlock()
	done := make(chan struct{})
	go func() {
		a.streams.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		a.stop(errStopping)
		cut, cancel := context.WithTimeout(context.WithoutCancel(ctx), cutWait)
		defer cancel()
		select {
		case <-done:
		case <-cut.Done():
			return ctx.Err()
		}
	}
	a.stop(errStopping)
	return nil
}

// begin counts a new stream; false while the API is stopping.
func (a *API) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return false
	}
	a.streams.Add(1)
	return true
}

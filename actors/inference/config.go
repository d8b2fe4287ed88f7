package inference

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/core/quota"
	"parley/actors/machine/rawjson"
	"parley/actors/provider"
	"parley/actors/stranger"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/directorypb"
)

// Config is the settings of model calls for the gateway.
type Config struct {
	// RequestTimeout bounds a call, retries included; of a stream the wait for its first chunk and for each further one.
	// Default 2 m.
	RequestTimeout time.Duration
	// StreamTimeout bounds a stream as a whole, whatever comes in it and however fast its reader is. Default 30 m.
	StreamTimeout time.Duration
	// MaxAttempts is how often a call is made at most. Default 3.
	MaxAttempts int
	// RetryDelay is the first pause before a call is made again; it doubles, up to RetryMax, and up to half of it is
	// taken off. Default 200 ms, 5 s.
	RetryDelay, RetryMax time.Duration
	// BreakerThreshold is how many failures in a row make a provider be left alone for BreakerReset; 0 = never. Default 5, 30 s.
	BreakerThreshold int
	BreakerReset     time.Duration
	// MaxConcurrent bounds the calls under way; others are refused. Default 4096.
	MaxConcurrent int
	// MaxAnswerBytes bounds an answer that is held in memory, MaxChunkBytes one event of a stream, MaxStreamBytes all of a
	// stream. Default 32 MiB, 2 MiB, 64 MiB.
	MaxAnswerBytes, MaxStreamBytes int64
	MaxChunkBytes                  int
	// MaxCacheBytes bounds the answers that are kept of models whose records say so; 0 = none are. Default 64 MiB.
	MaxCacheBytes int64
}

// DefaultConfig returns the settings in force unless configured otherwise.
func DefaultConfig() Config {
	return Config{
		RequestTimeout: 2 * time.Minute, StreamTimeout: 30 * time.Minute, MaxAttempts: 3, RetryDelay: 200 * time.Millisecond, RetryMax: 5 * time.Second,
		BreakerThreshold: 5, BreakerReset: 30 * time.Second, MaxConcurrent: 4096,
		MaxAnswerBytes: 32 << 20, MaxStreamBytes: 64 << 20, MaxChunkBytes: 2 << 20,
		MaxCacheBytes: 64 << 20,
	}
}

// Validate says what is wrong with the settings.
func (c Config) Validate() error {
	var errs []error
	if c.RequestTimeout <= 0 || c.RetryDelay <= 0 || c.RetryMax < c.RetryDelay {
		errs = append(errs, errors.New("inference: request_timeout and retry_delay must be positive, retry_max at least retry_delay"))
	}
	if c.StreamTimeout < c.RequestTimeout {
		errs = append(errs, errors.New("inference: stream_timeout must be at least request_timeout"))
	}
	if c.BreakerThreshold < 0 || (c.BreakerThreshold > 0 && c.BreakerReset <= 0) {
		errs = append(errs, errors.New("inference: breaker_threshold must not be negative, breaker_reset must be positive"))
	}
	if c.MaxCacheBytes < 0 {
		errs = append(errs, errors.New("inference: max_cache_bytes must not be negative"))
	}
	if c.MaxAttempts < 1 || c.MaxConcurrent < 1 || c.MaxAnswerBytes < 1 || c.MaxStreamBytes < 1 || c.MaxChunkBytes < 1 {
		errs = append(errs, errors.New("inference: max_attempts, max_concurrent and the size limits must be at least 1"))
	}
	return errors.Join(errs...)
}

// Catalog finds models.
type Catalog interface {
	// Model returns what calling a project's model needs, and its record.
	Model(projectID, key string) (*agentpb.Model, *directorypb.Model, bool)
}

// Parts is what a Caller needs of the rest of the node.
type Parts struct {
	Catalog   Catalog
	Providers model.Providers // of those that are not relayed; their owner closes them
	// Circuits are shared with the turns; nil = own ones, as the configuration says.
	Circuits *provider.Circuits
	// Book records every call that was made, once. It must not block.
	Book func(Usage)
	// Door lets calls in that budgets and rates allow; nil = nothing bounds them.
	Door quota.Door
	// Client reaches those that are relayed: the addresses are of tenants, so it should go through a guard. Redirects are not
	// followed, whatever it says of them.
	Client *http.Client
	// Answers is the memory for answers, shared with the turns; nil = an own budget of the default size.
	Answers    *stranger.Budget
	Logger     *slog.Logger          // nil = nobody listens
	Registerer prometheus.Registerer // nil = nobody collects
}

// Usage is what one call consumed.
type Usage struct {
	TenantID, ProjectID, UserID, TokenID string
	Model                                string // key of the record
	Routing                              string // key of the dynamic model that chose it, "" = none did
	Service                              string // chat, embeddings, moderations, audio.speech, audio.transcriptions, audio.translations
	Failed                               bool
	CacheHit                             bool // the answer was one that was kept: nothing was consumed
	InputTokens, OutputTokens            int64
	CachedInputTokens                    int64 // part of the input
	AudioMillis, Characters              int64 // that were heard or spoken
	CostNanoUSD                          int64
	// Priced is false when the model has no price, or when the provider did not say what was consumed: then the numbers are
	// estimates.
	Priced bool
}

// Services, as usage names them.
const (
	ServiceChat        = "chat"
	ServiceEmbeddings  = "embeddings"
	ServiceModerations = "moderations"

	ServiceSpeech         = "audio.speech"
	ServiceTranscriptions = "audio.transcriptions"
	ServiceTranslations   = "audio.translations"
)

// Call is one request.
type Call struct {
	TenantID, ProjectID, UserID, TokenID string
	// RequestID is the request_id of the answer.
	RequestID string
	Model     string         // key of the record
	Routing   string         // key of the dynamic model that has chosen it
	Body      rawjson.Fields // the request's body; its values are kept until the call ends
	Inside    bool           // it is made for a call that is on its way itself (quota.Call.Inside)
	Cache     *Cache         // nil = the model answers itself, and its answer is not kept
	Booked    func(Usage)    // is told what is booked for this call, before it returns: of a dynamic model several times; nil = nobody asks
}

// Cache is what a caller wants of kept answers, and learns of them.
type Cache struct {
	Fresh bool // the model answers itself; its answer is kept in the place of an older one
	Hit   bool // said by Chat: the answer is one that was kept
}

// Caller makes calls. It is safe for concurrent use.
type Caller struct {
	config   Config
	parts    Parts
	client   *http.Client
	executor *provider.Executor
	running  atomic.Int64
	refused  provider.Learned // parameters that models were seen to refuse
	paces    paces
	cache    *cache
}

// New returns a Caller. The configuration must be valid.
func New(config Config, parts Parts) *Caller {
	if parts.Answers == nil {
		parts.Answers = stranger.New(stranger.Default)
	}
	if parts.Logger == nil {
		parts.Logger = slog.New(slog.DiscardHandler)
	}
	if parts.Circuits == nil {
		parts.Circuits = provider.NewCircuits(config.BreakerThreshold, config.BreakerReset)
	}
	if parts.Book == nil {
		parts.Book = func(Usage) {}
	}
	c := &Caller{config: config, parts: parts, client: parts.Client, executor: provider.New(provider.Config{
		RetryBase: config.RetryDelay, RetryMax: config.RetryMax, MaxRetryAfter: config.RetryMax, Circuits: parts.Circuits,
		Metrics: "parley_gateway", Label: "service", Logger: parts.Logger, Registerer: parts.Registerer,
	}), cache: newCache(config.MaxCacheBytes, parts.Registerer)}
	return c
}

// enter reserves a place among the concurrent calls; leave frees it.
func (c *Caller) enter() (leave func(), failed *Error) {
	if c.running.Add(1) > int64(c.config.MaxConcurrent) {
		c.running.Add(-1)
		return nil, &Error{
			Status: http.StatusServiceUnavailable, Type: typeServer, Code: "overloaded",
			Message: "too many calls at a time on this server, try again", RetryAfter: time.Second,
		}
	}
	return func() { c.running.Add(-1) }, nil
}

// open reserves a place for a call and finds its model. leave frees the place.
func (c *Caller) open(call *Call, service string, categories ...string) (leave func(), t *target, failed *Error) {
	if leave, failed = c.enter(); failed != nil {
		return nil, nil, failed
	}
	if t, failed = c.find(call, service, categories...); failed != nil {
		leave()
		return nil, nil, failed
	}
	return leave, t, nil
}

// target is the model that a call is made to.
type target struct {
	model     *agentpb.Model
	record    *directorypb.Model
	settings  settings
	key       string
	service   string
	projectID string
	made      *provider.Call
	refused   *provider.Learned
	paid      paid
	dearest   int64       // what is held at least: another model may run in its place
	without   []string    // parameters that the provider refuses in this call
	sounds    sound       // what a call is charged for whose provider may have heard it
	sent      atomic.Bool // a connection to the provider took what is asked, and it was not refused
	keeps     *keptKey    // under which the answer is kept; nil = it is not
}

// find looks up a model that supports the service, and begins a call to it.
func (c *Caller) find(call *Call, service string, categories ...string) (*target, *Error) {
	t, failed := c.lookup(call, service, categories...)
	if failed == nil {
		c.start(call, t)
	}
	return t, failed
}

// start begins a call to a model.
func (c *Caller) start(call *Call, t *target) {
	attrs := []slog.Attr{slog.String("model", t.key)}
	if call.Routing != "" {
		attrs = append(attrs, slog.String("routing", call.Routing))
	}
	t.made = c.executor.Start(provider.Call{Name: t.service, Attrs: attrs})
}

func (c *Caller) lookup(call *Call, service string, categories ...string) (*target, *Error) {
	callee, record, ok := c.parts.Catalog.Model(call.ProjectID, call.Model)
	if !ok || callee == nil {
		return nil, &Error{
			Status: http.StatusNotFound, Type: typeNotFound, Code: "model_not_found", Param: "model",
			Message: "Model `" + shorten(call.Model) + "` not found",
		}
	}
	t := &target{refused: &c.refused, model: callee, record: record, key: call.Model, service: service}
	category := record.GetCategory()
	if !slices.Contains(categories, category) {
		return nil, wrongCategory(call.Model, category, service)
	}
	t.settings = readSettings(record.GetSettings())
	t.projectID = call.ProjectID
	return t, nil
}

func wrongCategory(key, category, service string) *Error {
	return &Error{
		Status: http.StatusBadRequest, Type: typeInvalid, Code: "invalid_request", Param: "model",
		Message: "Model `" + shorten(key) + "` is of category " + category + ", which " + service + " cannot use",
	}
}

// relayed says whether the model's provider is OpenAI-compatible, so that requests are passed through.
func (t *target) relayed() bool { return t.model.GetProvider() == agentpb.Provider_OPENAI }

// guard returns a context that ends with our time-out error when the call takes too long.
func (c *Caller) guard(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.config.RequestTimeout, provider.ErrTotal)
}

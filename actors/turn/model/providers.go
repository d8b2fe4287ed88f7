package model

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/deliver"
	"parley/actors/provider"
	"parley/actors/stranger"
	"parley/proto/agentpb"
)

// Config sets the limits of model calls. A field that is zero takes its default; agentpb.Model overrides the three time limits
// and the retries for one agent.
type Config struct {
	// FirstTokenTimeout is how long a provider may take from the request to the first piece of the answer; default 60 s. Lower
	// frees a turn sooner from a dead provider, higher leaves room for long thought. Agent: first_token_timeout_ms.
	FirstTokenTimeout time.Duration
	// IdleTimeout is how long a provider may be silent in mid-answer; default 60 s. Agent: idle_timeout_ms.
	IdleTimeout time.Duration
	// TotalTimeout bounds one call, retries included; default 10 min. Agent: total_timeout_ms.
	TotalTimeout time.Duration

	// MaxRetries is how often a call is tried again before its first token; default 2, -1 = never. More rides out longer
	// trouble and makes the caller wait longer for the bad news. Agent: max_retries (0 = this, negative = never).
	MaxRetries int
	// RetryBase is the first pause before a retry; it doubles each time; default 500 ms. A random half of it is taken off.
	RetryBase time.Duration
	// RetryMax is the longest pause that doubling leads to; default 8 s.
	RetryMax time.Duration
	// MaxRetryAfter is the longest pause a provider may ask for with Retry-After; default 30 s. When it asks for more, the call
	// fails at once and says so.
	MaxRetryAfter time.Duration

	// MaxStreamBytes bounds the bytes of one response; default 64 MiB. A chunk of a few letters takes some 300 bytes on the wire.
	MaxStreamBytes int64
	// MaxLineBytes bounds one line of a response, and one event, which is lines up to an empty one: it is held in memory; default
	// 2 MiB. The last event of the Responses API repeats the whole answer in one line.
	MaxLineBytes int
	// MaxAnswerBytes bounds text and tool calls of one answer, which become one record; default 1 MiB.
	MaxAnswerBytes int

	// DialTimeout bounds connecting to a provider; default 10 s.
	DialTimeout time.Duration
	// TLSHandshakeTimeout bounds the handshake; default 10 s.
	TLSHandshakeTimeout time.Duration
	// ResponseHeaderTimeout is a backstop behind FirstTokenTimeout, for the whole process; default 10 min. Many servers send
	// their headers only with the first token.
	ResponseHeaderTimeout time.Duration
	// IdleConnTimeout closes connections that nobody used for so long; default 90 s.
	IdleConnTimeout time.Duration
	// MaxIdleConnsPerHost is how many unused connections to one provider are kept; default 64. More saves handshakes
	// after a burst and holds more sockets.
	MaxIdleConnsPerHost int
	// MaxConnsPerHost bounds the connections to one provider; default 4096. When all are in use a call waits for one within its first
	// token timeout.
	MaxConnsPerHost int
	// Proxy is the HTTP proxy for all providers; default none. The proxy variables of the environment are not read.
	Proxy *url.URL
	// Guard is the way to connected agents and to the models of tenants (agentpb.Model.guarded), which have a client of their own.
	// nil = one without exceptions: no private address can be reached.
	Guard *deliver.Guard

	// Answers is the memory for answers; nil = an own budget of the default size.
	Answers *stranger.Budget

	// WordsPerSecond is the pace of the scripted provider's canned replies; default 25.
	WordsPerSecond float64

	// Circuits keep calls away from services that failed too often, together with other callers of the process; default: none do.
	Circuits *provider.Circuits

	// Jitter gives numbers in [0,1) for the pauses between retries; default math/rand. Tests set it.
	Jitter func() float64
	// Logger hears of retries; default: nobody.
	Logger *slog.Logger
	// Registerer takes the metrics; default: they are counted and not registered.
	Registerer prometheus.Registerer
}

// DefaultConfig is the Config in which every default is written out.
func DefaultConfig() Config { return Config{}.withDefaults() }

func (c Config) withDefaults() Config {
	orDuration := func(field *time.Duration, value time.Duration) {
		if *field <= 0 {
			*field = value
		}
	}
	orDuration(&c.FirstTokenTimeout, time.Minute)
	orDuration(&c.IdleTimeout, time.Minute)
	orDuration(&c.TotalTimeout, 10*time.Minute)
	orDuration(&c.RetryBase, 500*time.Millisecond)
	orDuration(&c.RetryMax, 8*time.Second)
	orDuration(&c.MaxRetryAfter, 30*time.Second)
	orDuration(&c.DialTimeout, 10*time.Second)
	orDuration(&c.TLSHandshakeTimeout, 10*time.Second)
	orDuration(&c.ResponseHeaderTimeout, 10*time.Minute)
	orDuration(&c.IdleConnTimeout, 90*time.Second)
	orInt := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	orInt(&c.MaxRetries, 2)
	orInt(&c.MaxLineBytes, 2<<20)
	orInt(&c.MaxAnswerBytes, 1<<20)
	orInt(&c.MaxIdleConnsPerHost, 64)
	orInt(&c.MaxConnsPerHost, 4096)
	if c.MaxStreamBytes == 0 {
		c.MaxStreamBytes = 64 << 20
	}
	if c.Answers == nil {
		c.Answers = stranger.New(stranger.Default)
	}
	if c.WordsPerSecond == 0 {
		c.WordsPerSecond = 25
	}
	if c.Guard == nil {
		c.Guard = deliver.NewGuard(deliver.GuardConfig{})
	}
	if c.Circuits == nil {
		c.Circuits = provider.NewCircuits(0, 0)
	}
	if c.Jitter == nil {
		c.Jitter = rand.Float64
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate says what is wrong with the Config, nil when nothing is. New takes a Config that Validate passed.
func (c Config) Validate() error {
	durations := []struct {
		name  string
		value time.Duration
	}{
		{"first_token_timeout", c.FirstTokenTimeout},
		{"idle_timeout", c.IdleTimeout},
		{"total_timeout", c.TotalTimeout},
		{"retry_base", c.RetryBase},
		{"retry_max", c.RetryMax},
		{"max_retry_after", c.MaxRetryAfter},
		{"dial_timeout", c.DialTimeout},
		{"tls_handshake_timeout", c.TLSHandshakeTimeout},
		{"response_header_timeout", c.ResponseHeaderTimeout},
		{"idle_conn_timeout", c.IdleConnTimeout},
	}
	var problems []error
	for _, duration := range durations {
		if duration.value < 0 {
			problems = append(problems, errors.New("model: "+duration.name+" is negative"))
		}
	}
	if c.MaxStreamBytes < 0 || c.MaxLineBytes < 0 || c.MaxAnswerBytes < 0 {
		problems = append(problems, errors.New("model: a size limit is negative"))
	}
	if c.MaxIdleConnsPerHost < 0 || c.MaxConnsPerHost < 0 {
		problems = append(problems, errors.New("model: a connection limit is negative"))
	}
	if c.MaxRetries < -1 {
		problems = append(problems, errors.New("model: max_retries is below -1"))
	}
	if c.WordsPerSecond != 0 && !(c.WordsPerSecond >= 0.01 && c.WordsPerSecond <= 1e6) {
		problems = append(problems, errors.New("model: words_per_second is not between 0.01 and 1000000"))
	}
	return errors.Join(problems...)
}

// Providers holds the adapter of each kind of model service. All share one HTTP transport, and the guard's.
type Providers map[agentpb.Provider]Provider

// New builds all adapters.
func New(config Config) Providers {
	config = config.withDefaults()
	calls := newCaller(config)
	client, guarded := newHTTPClient(config), config.Guard.Direct()
	over := func(kind agentpb.Provider, speak dialect) Provider {
		return &network{caller: calls, client: client, guarded: guarded, name: providerName(kind), dialect: speak, refused: &provider.Learned{}}
	}
	return Providers{
		agentpb.Provider_SCRIPTED:         &scripted{caller: calls},
		agentpb.Provider_OPENAI:           over(agentpb.Provider_OPENAI, openAIChat{}),
		agentpb.Provider_OPENAI_RESPONSES: over(agentpb.Provider_OPENAI_RESPONSES, openAIResponses{}),
		agentpb.Provider_ANTHROPIC:        over(agentpb.Provider_ANTHROPIC, anthropicMessages{}),
		agentpb.Provider_CONNECTED:        newConnected(calls, config.Guard),
	}
}

// Close closes the connections that no call is using, except those of the guard. Calls that run are their contexts'
// business. It is safe twice.
func (p Providers) Close() {
	for _, adapter := range p {
		if over, ok := adapter.(*network); ok {
			over.client.CloseIdleConnections()
		}
	}
}

// Home is where a kind of provider is called that no other URL is known of, "" = nowhere.
func Home(kind agentpb.Provider) string {
	switch kind {
	case agentpb.Provider_OPENAI:
		return openAIChat{}.home()
	case agentpb.Provider_OPENAI_RESPONSES:
		return openAIResponses{}.home()
	case agentpb.Provider_ANTHROPIC:
		return anthropicMessages{}.home()
	default:
		return ""
	}
}

// providerName is the name of a provider in metrics and logs, as the configuration spells it.
func providerName(kind agentpb.Provider) string {
	switch kind {
	case agentpb.Provider_SCRIPTED:
		return "scripted"
	case agentpb.Provider_OPENAI:
		return "openai"
	case agentpb.Provider_OPENAI_RESPONSES:
		return "openai_responses"
	case agentpb.Provider_ANTHROPIC:
		return "anthropic"
	case agentpb.Provider_CONNECTED:
		return "connected"
	default:
		return "unknown"
	}
}

// newHTTPClient is the one HTTP client of all providers. Bodies are not compressed: a proxy that packs a stream delays it, and
// unpacking would need a limit of its own. Redirects end a call, since they could carry a key to another host.
func newHTTPClient(config Config) *http.Client {
	dialer := &net.Dialer{Timeout: config.DialTimeout, KeepAlive: 30 * time.Second}
	transport := &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    config.TLSHandshakeTimeout,
		ResponseHeaderTimeout:  config.ResponseHeaderTimeout,
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        config.IdleConnTimeout,
		MaxIdleConns:           4 * config.MaxIdleConnsPerHost,
		MaxIdleConnsPerHost:    config.MaxIdleConnsPerHost,
		MaxConnsPerHost:        config.MaxConnsPerHost,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
	}
	if config.Proxy != nil {
		transport.Proxy = http.ProxyURL(config.Proxy)
	}
	return &http.Client{Transport: transport}
}

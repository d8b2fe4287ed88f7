package turn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/core/quota"
	"parley/actors/turn/document"
	"parley/actors/turn/model"
	"parley/actors/turn/tool"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// Agents finds the agent that a turn runs.
type Agents interface {
	// Agent returns an agent of a project as its given version has it: 0 = the published one, or the draft while none was
	// published; catalog.DraftVersion = the draft.
	Agent(projectID, id string, version int64) (*agentpb.Agent, bool)
}

// History reads earlier messages and the turn's steps.
type History interface {
	// Before visits the messages numbered below a number, newest first, until visit returns false. The messages are
	// only read.
	Before(ctx context.Context, conversationID string, number uint64, visit func(*conversationpb.Message) bool) error
	// Steps are the journalled steps of a turn, in order. They are only read.
	Steps(ctx context.Context, conversationID, runID string) ([]*conversationpb.Step, error)
}

// Tools makes the tools of an agent ready. The error says what is wrong with the agent's definition.
type Tools interface {
	Open(ctx context.Context, agent *agentpb.Agent) (tool.Set, error)
}

// Files gives the bytes of stored files.
type Files interface {
	Open(ctx context.Context, fileID string) (io.ReadCloser, error)
}

// Images keeps images of tools for as long as a turn may wait for a person. Files opens them.
type Images interface {
	Keep(ctx context.Context, job *Job, mimeType string, data []byte) (*conversationpb.FileRef, error)
	Drop(ctx context.Context, fileID string) error
}

// Documents makes text of a tenant's document: at most limit bytes of it. The error may say that there is none in this type, or
// that there was no time for it.
type Documents func(ctx context.Context, tenant, mimeType string, r io.Reader, limit int) (string, error)

// Opener decrypts sealed data about a subject: runtime contexts. Its error contains nothing of the data.
type Opener func(sealed []byte, about string) ([]byte, error)

// Publisher carries a run's text to the conversation's followers.
type Publisher interface {
	Begin(at Place, runID string, userMessage *conversationpb.Message) Output
}

// Output is the text of one run as it grows. Safe for concurrent use.
type Output interface {
	// Write appends a piece and publishes it, unless the output is sealed. It does not block.
	Write(piece string)
	// Seal ends the text and returns the whole of it. Nothing is published afterwards.
	Seal() string
	// Cut ends the text at the last published byte; unpublished text is dropped. After Seal it does nothing.
	Cut()
	// Release seals the output of a run that will not be reported.
	Release()
}

// Config is what a Runner needs. Zero values mean the defaults; Agents, History, Providers and Publisher are required.
type Config struct {
	Agents    Agents
	History   History
	Providers map[agentpb.Provider]model.Provider
	Publisher Publisher
	Tools     Tools     // nil = agents have none
	Files     Files     // nil = models are told of files by name only
	Images    Images    // nil = images of tools last as long as the turn runs in one process
	Documents Documents // nil = document.Text
	Open      Opener    // nil = turns with a runtime context cannot run
	Guard     Guard     // nil = agents with a shield or a guardrail cannot run
	// Door lets model calls in that budgets and rates of their project allow; nil = nothing bounds them.
	Door quota.Door

	// MaxConcurrent bounds the turns of this node at one time, each a goroutine with its context window (tens of KB
	// with a real model): a turn above it is refused with ErrOverloaded. Default 50,000.
	MaxConcurrent int
	// MaxRounds bounds the model calls of one turn where the agent sets no max_turns. Default 10.
	MaxRounds int
	// MaxText bounds the text of one turn, in bytes: a model that says more is cut off with stop reason limit. It must
	// fit into a log entry. Default 512 KiB.
	MaxText int
	// Timeout bounds a turn from start to report. The agent's own timeouts bound each model call. Default 15 min.
	Timeout time.Duration
	// ReportTimeout bounds one try to report. Default 10 s.
	ReportTimeout time.Duration

	// MeterTokens is how many tokens of output a model call may get ahead of what the budget has granted: less spends less
	// when a call is lost, more asks the journal less often. Default 256.
	MeterTokens int
	// MaxToolResult bounds the result of one tool call, in bytes; the rest is cut. Default 64 KiB.
	MaxToolResult int
	// MaxTurnResults bounds arguments and results of all the tool calls of a turn, in bytes: they become part of one
	// message. Default 1 MiB.
	MaxTurnResults int
	// MaxParallelTools bounds the tool calls of a turn that run at one time. Default 8.
	MaxParallelTools int
	// ToolTimeout bounds one tool call whose policy does not. Default 60 s.
	ToolTimeout time.Duration
	// TitleTimeout bounds the making of a title. Default 20 s.
	TitleTimeout time.Duration

	// Logger; nil = silent.
	Logger *slog.Logger
	// Registerer for metrics; nil = none.
	Registerer prometheus.Registerer
}

func (c *Config) setDefaults() {
	orDefault(&c.MaxConcurrent, 50_000)
	orDefault(&c.MaxRounds, 10)
	orDefault(&c.MaxText, 512<<10)
	orDefault(&c.Timeout, 15*time.Minute)
	orDefault(&c.ReportTimeout, 10*time.Second)
	orDefault(&c.MeterTokens, 256)
	orDefault(&c.MaxToolResult, 64<<10)
	orDefault(&c.MaxTurnResults, 1<<20)
	orDefault(&c.MaxParallelTools, 8)
	orDefault(&c.ToolTimeout, time.Minute)
	orDefault(&c.TitleTimeout, 20*time.Second)
	if c.Documents == nil {
		c.Documents = document.Text
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func orDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

func (c *Config) validate() error {
	if c.Agents == nil || c.History == nil || c.Providers == nil || c.Publisher == nil {
		return errors.New("turn: Agents, History, Providers and Publisher are required")
	}
	limits := []struct {
		name  string
		value int64
	}{
		{"MaxConcurrent", int64(c.MaxConcurrent)},
		{"MaxRounds", int64(c.MaxRounds)},
		{"MaxText", int64(c.MaxText)},
		{"Timeout", int64(c.Timeout)},
		{"ReportTimeout", int64(c.ReportTimeout)},
		{"MeterTokens", int64(c.MeterTokens)},
		{"MaxToolResult", int64(c.MaxToolResult)},
		{"MaxTurnResults", int64(c.MaxTurnResults)},
		{"MaxParallelTools", int64(c.MaxParallelTools)},
		{"ToolTimeout", int64(c.ToolTimeout)},
		{"TitleTimeout", int64(c.TitleTimeout)},
	}
	for _, limit := range limits {
		if limit.value < 0 {
			return fmt.Errorf("turn: %s must not be negative", limit.name)
		}
	}
	return nil
}

type metrics struct {
	running   prometheus.Gauge
	started   prometheus.Counter
	ended     *prometheus.CounterVec
	abandoned prometheus.Counter
	reports   prometheus.Counter
	first     prometheus.Histogram
	tools     *prometheus.HistogramVec
}

// newMetrics registers the runner's metrics; a nil registerer keeps them private.
func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "parley_turn_running_turns", Help: "Turns that run on this node, reporting included.",
		}),
		started: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_turn_started_total", Help: "Turns that were started.",
		}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_turn_ended_total", Help: "Turns that ended, by stop reason.",
		}, []string{"stop_reason"}),
		abandoned: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_turn_abandoned_total", Help: "Turns that were left to the next owner of their shard.",
		}),
		reports: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_turn_report_retries_total", Help: "Reports that had to be repeated.",
		}),
		first: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "parley_turn_first_text_seconds", Help: "Time from the start of a turn to its first text.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 18),
		}),
	}
	m.tools = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "parley_turn_tool_seconds", Help: "Time of a tool's run, by how it ended.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 17),
	}, []string{"outcome"})
	if registerer != nil {
		registerer.MustRegister(m.running, m.started, m.ended, m.abandoned, m.reports, m.first, m.tools)
	}
	return m
}

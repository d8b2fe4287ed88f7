package actors

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// IDs mints ids.
type IDs interface {
	// NewID mints an id of a kind ("msg", "run") that belongs to a shard. Safe for concurrent use.
	NewID(kind string, shard uint32) string
}

// Config is what a System needs. Zero values mean the defaults; Node, Journal, Kinds and IDs are required.
type Config struct {
	// Node names this process in turn leases. Required.
	Node string
	// Journal stores the entities. Required.
	Journal Journal
	// Kinds are the entities that can live here. Required.
	Kinds []Kind
	// IDs mints ids for the rules. Required.
	IDs IDs
	// Outbox says who is told of what; its zero value: nobody of anything.
	Outbox OutboxConfig
	// LiveStreams carries the live streams; needed for Follow. Nil means an own one with defaults.
	LiveStreams *LiveStreams

	// IdleAfter is how long an entity without work stays active. Longer saves loads, shorter saves memory (about
	// 2.5 KB each). Default 60 s.
	IdleAfter time.Duration
	// MaxActive bounds the active entities of one shard: above it the least recently used idle one goes. Busy ones may
	// exceed it. Default 4096.
	MaxActive int
	// AppendTimeout bounds one append. After it the outcome is unknown, and the caller gets UnknownOutcomeError. Longer
	// rides out slow disks and elections, shorter frees callers. Default 5 s.
	AppendTimeout time.Duration
	// LoadTimeout bounds one read of a head record. Default 5 s.
	LoadTimeout time.Duration
	// MaxInFlight bounds the commands of one shard that are queued or being decided. Default 16384.
	MaxInFlight int
	// MaxQueued bounds the commands queued for one entity. Default 256.
	MaxQueued int
	// MaxWaiters bounds the callers that wait for one entity's turn to end. Default 64.
	MaxWaiters int
	// StreamLease is how long after the newest proof of ownership text is still published. It must be well below
	// conversation.Limits.TakeoverSilence, by which the next owner knows that this one is silent. Longer rides out
	// slower networks without a pause in the text. Default 1 s.
	StreamLease time.Duration
	// RecoverConcurrency bounds the entities that are recovered at the same time after a change of owner, over all
	// shards: more finds interrupted turns sooner, and starts their model calls in a bigger burst. Default 64.
	RecoverConcurrency int

	// RecoverEvery is the interval of the search for turns that are open and not running. Shorter finds sooner what an
	// append with an unknown outcome left open; each search reads a list. Default 15 s.
	RecoverEvery time.Duration
	// DueEvery is the interval of the search for entities that are due. Shorter is more punctual; each search reads one row
	// per shard and kind. Default 1 s.
	DueEvery time.Duration

	// Logger; nil = silent.
	Logger *slog.Logger
	// Registerer for metrics; nil = none.
	Registerer prometheus.Registerer
}

func (c *Config) setDefaults() {
	orDefault(&c.IdleAfter, time.Minute)
	orDefault(&c.MaxActive, 4096)
	orDefault(&c.AppendTimeout, 5*time.Second)
	orDefault(&c.LoadTimeout, 5*time.Second)
	orDefault(&c.MaxInFlight, 16384)
	orDefault(&c.MaxQueued, 256)
	orDefault(&c.MaxWaiters, 64)
	orDefault(&c.RecoverConcurrency, 64)
	orDefault(&c.StreamLease, time.Second)
	orDefault(&c.RecoverEvery, 15*time.Second)
	orDefault(&c.DueEvery, time.Second)
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
	if c.Node == "" || c.Journal == nil || c.IDs == nil || len(c.Kinds) == 0 {
		return errors.New("actors: Node, Journal, IDs and Kinds are required")
	}
	for _, kind := range c.Kinds {
		if kind.Machine == nil {
			return errors.New("actors: a Kind needs a Machine")
		}
		if (kind.Due.List == "") != (kind.Due.Command == nil) {
			return errors.New("actors: a Kind's Due needs a List and a Command")
		}
	}
	limits := []struct {
		name  string
		value int64
	}{
		{"IdleAfter", int64(c.IdleAfter)},
		{"MaxActive", int64(c.MaxActive)},
		{"AppendTimeout", int64(c.AppendTimeout)},
		{"LoadTimeout", int64(c.LoadTimeout)},
		{"MaxInFlight", int64(c.MaxInFlight)},
		{"MaxQueued", int64(c.MaxQueued)},
		{"MaxWaiters", int64(c.MaxWaiters)},
		{"RecoverConcurrency", int64(c.RecoverConcurrency)},
		{"StreamLease", int64(c.StreamLease)},
		{"RecoverEvery", int64(c.RecoverEvery)},
		{"DueEvery", int64(c.DueEvery)},
	}
	for _, limit := range limits {
		if limit.value < 0 {
			return fmt.Errorf("actors: %s must not be negative", limit.name)
		}
	}
	return nil
}

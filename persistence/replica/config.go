package replica

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
)

// Config configures a Driver. Zero values of optional fields take the default given at the field.
type Config struct {
	// Node is this node's number. Required, and never reused for another store: the store records it and refuses any
	// other.
	Node NodeID
	// DB holds the log rows and the state. Required; opened and closed by the caller, after Stop. Its Options.Logger
	// must not end the process on Fatalf: it either panics or calls Driver.Fail, which both fail the store.
	DB *pebble.DB
	// Groups are the groups a NEW store begins with. Empty for a node that joins others: its replicas are created when
	// the leader of a group sends it a message. Ignored for an existing store.
	Groups []GroupID
	// Peers are the voters of the groups a NEW store begins with; they must be the same on every node. Default: this node alone.
	Peers []NodeID
	// MaxGroup is the highest group number; messages for higher ones are dropped. Default: the highest of Groups and of
	// the store. At most 65,535.
	MaxGroup GroupID
	// Machine applies committed entries. Required.
	Machine StateMachine
	// Transport carries messages to other nodes. Nil for a node that is alone.
	Transport Transport

	// OnLeader is called when this node becomes the leader of a group (leader true: everything committed before its
	// term has been applied) and when it no longer is (false: term is that of the lost leadership). Calls come in order
	// from the raft loop: it must not block, nor call the driver and wait. Optional.
	OnLeader func(group GroupID, term uint64, leader bool)
	// OnChange is called when the leader or members of a group, or this node's replicas, have changed: a reason to call
	// Status. Changes that come together are reported once. It must not block. Optional.
	OnChange func()
	// OnSnapshot is called when a snapshot has replaced a group's state, so caches built from it are invalid. It must
	// not block. Optional.
	OnSnapshot func(group GroupID)
	// OnFatal is called once, with the reason, when the store fails. It must not call Stop and wait. Optional.
	OnFatal func(error)
	// Writable is called before a proposal is accepted; its error refuses the proposal (a full disk, for instance). It
	// must be cheap. Optional.
	Writable func() error

	// KeyPrefix starts every row of the driver. Default "r". It must lie outside every Span of the Machine.
	KeyPrefix []byte
	// FS and SpoolDir are where a snapshot from another node is stored until it is installed. Without SpoolDir none is
	// accepted. FS defaults to the real file system.
	FS       vfs.FS
	SpoolDir string

	// TickInterval is raft's unit of time. Default 50ms. A shorter one detects a dead leader sooner, and mistakes a
	// slow one for dead.
	TickInterval time.Duration
	// ElectionTicks without a message from the leader start an election. Default 10 (500ms to 1s at the default tick).
	ElectionTicks int
	// HeartbeatTicks are the ticks between heartbeats. Default 2: four of the five in an election timeout may be lost.
	HeartbeatTicks int

	// SnapshotEntries and SnapshotBytes bound a log: past either, it is cut below the applied index. Defaults 20,000
	// and 64 MiB. Larger bounds let a follower be away for longer without needing a snapshot; smaller ones use less
	// disk.
	SnapshotEntries uint64
	SnapshotBytes   uint64
	// KeepEntries are kept behind a cut for followers that lag a little. Default 5,000; must be less than
	// SnapshotEntries.
	KeepEntries uint64
	// SnapshotRate bounds each snapshot that is sent or installed, in bytes per second; two are sent at a time. Default
	// 64 MiB. A higher rate completes a new replica sooner, a lower one disturbs the others less.
	SnapshotRate int
	// TailBytes of each group's log are kept in memory to serve followers and the apply goroutine. Default 2 MiB.
	TailBytes int

	// MaxPending bounds the unanswered proposals of a group; more are refused with ErrBusy. Default 8,192.
	MaxPending int
	// MaxProposalBytes bounds one proposal. Default 16 MiB, at most 32 MiB: a row must fit in a frame of a snapshot.
	MaxProposalBytes int
	// MaxInbox bounds the messages from other nodes that wait for the raft loop; more are dropped, and raft sends them
	// again. Default 16,384.
	MaxInbox int

	// Logger receives what an operator should know. Default: nothing is logged.
	Logger *slog.Logger
	// Registerer receives the metrics. Optional.
	Registerer prometheus.Registerer
}

const (
	defaultTickInterval     = 50 * time.Millisecond
	defaultElectionTicks    = 10
	defaultHeartbeatTicks   = 2
	defaultSnapshotEntries  = 20_000
	defaultSnapshotBytes    = 64 << 20
	defaultKeepEntries      = 5_000
	defaultSnapshotRate     = 64 << 20
	defaultTailBytes        = 2 << 20
	defaultMaxPending       = 8_192
	defaultMaxProposalBytes = 16 << 20
	defaultMaxInbox         = 16_384
	defaultKeyPrefix        = "r"

	maxMaxGroup GroupID = 1<<16 - 1
)

func (c *Config) setDefaults() {
	setDefault(&c.TickInterval, defaultTickInterval)
	setDefault(&c.ElectionTicks, defaultElectionTicks)
	setDefault(&c.HeartbeatTicks, defaultHeartbeatTicks)
	setDefault(&c.SnapshotEntries, defaultSnapshotEntries)
	setDefault(&c.SnapshotBytes, defaultSnapshotBytes)
	setDefault(&c.KeepEntries, min(defaultKeepEntries, c.SnapshotEntries/4))
	setDefault(&c.SnapshotRate, defaultSnapshotRate)
	setDefault(&c.TailBytes, defaultTailBytes)
	setDefault(&c.MaxPending, defaultMaxPending)
	setDefault(&c.MaxProposalBytes, defaultMaxProposalBytes)
	setDefault(&c.MaxInbox, defaultMaxInbox)
	if len(c.KeyPrefix) == 0 {
		c.KeyPrefix = []byte(defaultKeyPrefix)
	}
	if len(c.Peers) == 0 {
		c.Peers = []NodeID{c.Node}
	}
	if len(c.Groups) > 0 {
		c.MaxGroup = max(c.MaxGroup, slices.Max(c.Groups))
	}
	if c.FS == nil {
		c.FS = vfs.Default
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Writable == nil {
		c.Writable = func() error { return nil }
	}
	if c.OnLeader == nil {
		c.OnLeader = func(GroupID, uint64, bool) {}
	}
	if c.OnSnapshot == nil {
		c.OnSnapshot = func(GroupID) {}
	}
	if c.OnChange == nil {
		c.OnChange = func() {}
	}
	if c.OnFatal == nil {
		c.OnFatal = func(error) {}
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c *Config) validate() error {
	switch {
	case c.Node == 0:
		return errors.New("node must not be 0")
	case c.DB == nil:
		return errors.New("db is required")
	case c.Machine == nil:
		return errors.New("machine is required")
	case slices.Contains(c.Peers, 0):
		return errors.New("peers must not hold 0")
	case c.TickInterval < time.Millisecond:
		return fmt.Errorf("tick interval %v is below 1ms", c.TickInterval)
	case c.HeartbeatTicks < 1 || c.ElectionTicks <= c.HeartbeatTicks:
		return fmt.Errorf("election ticks %d must exceed heartbeat ticks %d", c.ElectionTicks, c.HeartbeatTicks)
	case c.KeepEntries >= c.SnapshotEntries:
		return fmt.Errorf("keep entries %d must be below snapshot entries %d", c.KeepEntries, c.SnapshotEntries)
	case c.TailBytes < 0 || c.SnapshotRate < 1 || c.MaxPending < 1 || c.MaxProposalBytes < 1 || c.MaxInbox < 1:
		return errors.New("bounds must be positive")
	case c.MaxGroup > maxMaxGroup:
		return fmt.Errorf("group %d is above %d", c.MaxGroup, maxMaxGroup)
	case c.MaxProposalBytes > 32<<20:
		return fmt.Errorf("max proposal bytes %d exceed 32 MiB", c.MaxProposalBytes)
	case c.Transport == nil && slices.ContainsFunc(c.Peers, func(p NodeID) bool { return p != c.Node }):
		return errors.New("peers need a transport")
	}
	return c.validateSpans()
}

func (c *Config) validateSpans() error {
	groups := slices.Sorted(slices.Values(c.Groups))
	if len(slices.Compact(slices.Clone(groups))) < len(groups) {
		return errors.New("a group is listed twice")
	}
	end := prefixEnd(c.KeyPrefix)
	for g := range c.MaxGroup + 1 {
		lo, hi := c.Machine.Span(g)
		if bytes.Compare(lo, hi) >= 0 {
			return fmt.Errorf("span of group %d is empty", g)
		}
		if (end == nil || bytes.Compare(lo, end) < 0) && bytes.Compare(c.KeyPrefix, hi) < 0 {
			return fmt.Errorf("span of group %d overlaps the key prefix %q", g, c.KeyPrefix)
		}
	}
	return nil
}

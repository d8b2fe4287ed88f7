package persistence

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
)

// Options configures a store. Zero means the default named beside the field.
type Options struct {
	// Dir is the data directory. Required; made if it does not exist.
	Dir string
	// FS holds Dir. Default the real file system; tests give one that can crash.
	FS vfs.FS
	// Shards is the number of conversation shards, 1..1024. Default 16 in a new directory, in an old one what it was
	// made with; anything else is refused there. More shards spread over more nodes, and cost a log each.
	Shards int
	// NodeID is this node's number for ever. Default a random one, kept in Dir. Another than Dir's is refused.
	NodeID uint64
	// ClusterID is the cluster that a new directory belongs to. Default a random one: a cluster begins. Another than an
	// old directory's is refused.
	ClusterID string
	// Join says that a new directory holds no shard yet: the cluster's leaders send it what it is to hold. Otherwise it
	// holds all of them, with this node as their only voter. An old directory holds what it held.
	Join bool
	// Transport carries the logs' messages to other nodes. Nil is right for a node that stays alone.
	Transport Transport

	// CacheBytes of table blocks are kept in memory. Default 128 MiB. What does not fit is read from the disk. While nobody
	// reads, 8 MiB of them are.
	CacheBytes int64
	// MemtableBytes is the size of a write buffer. Default 16 MiB. Larger means fewer flushes, more memory (up to four
	// of them under load, two for good) and a longer restart, which reads the write-ahead log of the unflushed ones.
	MemtableBytes int64
	// MaxOpenFiles bounds the tables that are kept open, at least 8. Default 512. Descriptors are shared with sockets.
	MaxOpenFiles int
	// SpareFiles is how many file descriptors are held back, for the files that must be opened when the rest of the
	// process has taken all others. Default none.
	SpareFiles int

	// MinFreeBytes is the free space below which writes are refused. Default 256 MiB. They are accepted again a quarter
	// above it.
	MinFreeBytes int64
	// ReserveBytes are kept in a file that is given up when the disk is full in spite of MinFreeBytes (others write to
	// it too), so that the log can end its write. Default 32 MiB, at most half of MinFreeBytes; negative for none.
	ReserveBytes int64
	// SpaceInterval is how often free space is looked at. Default 500 ms; what can be written meanwhile should be well
	// below MinFreeBytes.
	SpaceInterval time.Duration
	// FreeBytes says how much space is free. Default asks FS; a file system that cannot say has no watermark.
	FreeBytes func() (uint64, error)

	// SnapshotEntries and SnapshotBytes bound a shard's log: past either it is cut. Defaults 20,000 and 64 MiB.
	SnapshotEntries uint64
	SnapshotBytes   int64
	// KeepEntries stay behind a cut, for nodes that were away for a moment. Default a quarter of SnapshotEntries, at
	// most 5,000.
	KeepEntries uint64
	// SnapshotRate bounds each copy of a shard that is sent to another node or taken from one, in bytes per second; two
	// are sent at a time. Default 16 MiB. Larger has a new copy sooner, smaller disturbs less meanwhile.
	SnapshotRate int64
	// MaxPending bounds the unanswered writes of a shard; more get ErrBusy. Default 8,192.
	MaxPending int
	// MaxProposalBytes bounds one write. Default 16 MiB.
	MaxProposalBytes int
	// TickInterval is the logs' unit of time; a leader is missed after ten. Default 50 ms.
	TickInterval time.Duration

	// SweepInterval is how often blobs are looked for that are due to be removed, and sums that are old. Default a minute.
	SweepInterval time.Duration
	// OldSums says which sums are old at a time, and removed: members below before, of names that begin with prefix. Empty
	// before = none. Default none are.
	OldSums func(now time.Time) (prefix, before string)
	// Now is the clock by which blobs are due and sums old. Default the system's.
	Now func() time.Time

	// OnLeader hears that this node leads a group (leader true; epoch is the term, everything earlier is applied) or
	// no longer does. It is called in order and must not block.
	OnLeader func(group uint32, epoch uint64, leader bool)
	// OnChange hears that leaders or members of a group, or the replicas that are here, changed: a reason to look at
	// Replicas. It must not block.
	OnChange func()
	// OnFileBytes hears how many bytes of files the logs wrote. It must not block.
	OnFileBytes func(n int)
	// Logger takes what an operator should know. Default none.
	Logger *slog.Logger
	// Registerer takes the metrics. Default none.
	Registerer prometheus.Registerer
}

const (
	defaultShards        = 16
	maxShards            = 1024
	defaultCacheBytes    = 128 << 20
	defaultMemtableBytes = 16 << 20
	defaultMaxOpenFiles  = 512
	minOpenFiles         = 8
	defaultMinFreeBytes  = 256 << 20
	defaultReserveBytes  = 32 << 20
	defaultSpaceInterval = 500 * time.Millisecond
	defaultSnapshotRate  = 16 << 20
	defaultSweepInterval = time.Minute
)

func (o *Options) setDefaults() {
	setDefault(&o.FS, vfs.Default)
	setDefault(&o.CacheBytes, defaultCacheBytes)
	setDefault(&o.MemtableBytes, defaultMemtableBytes)
	setDefault(&o.MaxOpenFiles, defaultMaxOpenFiles)
	setDefault(&o.MinFreeBytes, defaultMinFreeBytes)
	setDefault(&o.ReserveBytes, min(defaultReserveBytes, o.MinFreeBytes/2))
	setDefault(&o.SpaceInterval, defaultSpaceInterval)
	setDefault(&o.SnapshotRate, defaultSnapshotRate)
	setDefault(&o.SweepInterval, defaultSweepInterval)
	if o.Now == nil {
		o.Now = time.Now
	}
	setDefault(&o.Logger, slog.New(slog.DiscardHandler))
	if o.FreeBytes == nil {
		fs, dir := o.FS, o.Dir
		o.FreeBytes = func() (uint64, error) {
			usage, err := fs.GetDiskUsage(dir)
			return usage.AvailBytes, err
		}
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (o *Options) validate() error {
	switch {
	case o.Dir == "":
		return errors.New("dir is required")
	case o.Shards < 0 || o.Shards > maxShards:
		return fmt.Errorf("shards must be 1..%d, not %d", maxShards, o.Shards)
	case o.Join && (o.ClusterID == "" || o.Transport == nil):
		return errors.New("joining needs a cluster id and a transport")
	case o.CacheBytes < 1<<20:
		return fmt.Errorf("cache bytes must be at least 1 MiB, not %d", o.CacheBytes)
	case o.MemtableBytes < 256<<10 || o.MemtableBytes > 2<<30:
		return fmt.Errorf("memtable bytes must be 256 KiB..2 GiB, not %d", o.MemtableBytes)
	case o.MaxOpenFiles < minOpenFiles:
		return fmt.Errorf("max open files must be at least %d, not %d", minOpenFiles, o.MaxOpenFiles)
	case o.SpareFiles < 0:
		return fmt.Errorf("spare files must not be negative, not %d", o.SpareFiles)
	case o.MinFreeBytes < 1<<20:
		return fmt.Errorf("min free bytes must be at least 1 MiB, not %d", o.MinFreeBytes)
	case o.ReserveBytes > o.MinFreeBytes/2:
		return fmt.Errorf("reserve bytes must be at most half of min free bytes, not %d", o.ReserveBytes)
	case o.SweepInterval < time.Millisecond:
		return fmt.Errorf("sweep interval must be at least 1ms, not %v", o.SweepInterval)
	case o.SpaceInterval < time.Millisecond:
		return fmt.Errorf("space interval must be at least 1ms, not %v", o.SpaceInterval)
	case o.SnapshotBytes < 0 || o.SnapshotRate < 0 || o.MaxPending < 0 || o.MaxProposalBytes < 0 || o.TickInterval < 0:
		return errors.New("bounds of the log must not be negative")
	}
	return nil
}

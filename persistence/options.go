package persistence

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
)

// Options configures a store. Zero means the default given at the field.
type Options struct {
	// Dir is the data directory. Required; created if it does not exist.
	Dir string
	// FS holds Dir. Default the real file system; tests use one that can crash.
	FS vfs.FS
	// Shards is the number of conversation shards, 1..1024. Default 16 in a new directory. An existing directory keeps
	// its number, and any other is refused. More shards spread over more nodes, and cost a log each.
	Shards int
	// NodeID is this node's permanent number. Default a random one, stored in Dir. A number other than Dir's is
	// refused.
	NodeID uint64
	// ClusterID is the cluster that a new directory belongs to. Default a random id, for a new cluster. An id other
	// than that of an existing directory is refused.
	ClusterID string
	// Level is the feature level that a new directory is at from the first: that of the backup which is restored into it.
	// Default 0. Ignored for an existing directory.
	Level uint32
	// Join makes a new directory start without shards: the cluster's leaders send it its replicas. Otherwise it starts
	// with all shards, with this node as their only voter. Ignored for an existing directory.
	Join bool
	// Transport carries the logs' messages to other nodes. Nil for a node that stays alone.
	Transport Transport

	// CacheBytes of table blocks are cached in memory. Default 128 MiB. While nobody reads, it is reduced to 8 MiB.
	CacheBytes int64
	// MemtableBytes is the size of a write buffer. Default 16 MiB; a node sets storage.memtable. Larger means fewer flushes, more memory (up to four
	// of them under load, two for good) and a longer restart, which reads the write-ahead log of the unflushed ones.
	MemtableBytes int64
	// MaxOpenFiles bounds the open table files, at least 8. Default 512. Sockets use descriptors, too.
	MaxOpenFiles int
	// SpareFiles is how many file descriptors are held in reserve, for files that must be opened when the process has
	// run out of descriptors. Default none.
	SpareFiles int

	// MinFreeBytes is the free space below which writes are refused. Default 256 MiB. They are accepted again a quarter
	// above it.
	MinFreeBytes int64
	// ReserveBytes is the size of a file that is deleted when the disk is full in spite of MinFreeBytes (other programs
	// write to it, too), so that the log can complete its write. Default 32 MiB, at most half of MinFreeBytes; negative
	// for none.
	ReserveBytes int64
	// SpaceInterval is how often free space is measured. Default 500 ms; what can be written in that time should be
	// well below MinFreeBytes.
	SpaceInterval time.Duration
	// FreeBytes returns the free space. Default asks FS; a file system that does not report it has no watermark.
	FreeBytes func() (uint64, error)

	// SnapshotEntries and SnapshotBytes bound a shard's log: past either it is cut. Defaults 20,000 and 64 MiB.
	SnapshotEntries uint64
	SnapshotBytes   int64
	// KeepEntries are kept behind a cut, for nodes that were away for a moment. Default a quarter of SnapshotEntries,
	// at most 5,000.
	KeepEntries uint64
	// SnapshotRate bounds each copy of a shard that is sent to another node or taken from one, in bytes per second; two
	// are sent at a time. Default 16 MiB. A higher rate completes a new copy sooner, a lower one disturbs other work
	// less.
	SnapshotRate int64
	// MaxPending bounds the unanswered writes of a shard; more get ErrBusy. Default 8,192.
	MaxPending int
	// MaxProposalBytes bounds one write. Default 16 MiB.
	MaxProposalBytes int
	// TickInterval is raft's unit of time; an election starts after ten without a leader. Default 50 ms.
	TickInterval time.Duration

	// SweepInterval is how often expired blobs and old sums are removed, and others packed. Default a minute.
	SweepInterval time.Duration
	// OldSums returns which sums are old at a time, and removed: members below before, in sums whose names begin with
	// prefix. An empty before means none, which is the default.
	OldSums func(now time.Time) (prefix, before string)
	// PackSums returns which sums are packed at a time. An empty Before means none, which is the default.
	PackSums func(now time.Time) Packing
	// Now is the clock for expired blobs and old sums. Default the system clock.
	Now func() time.Time

	// OnLeader is called when this node becomes the leader of a group (leader true; epoch is the term, and everything
	// earlier has been applied) and when it no longer is. Calls come in order. It must not block.
	OnLeader func(group uint32, epoch uint64, leader bool)
	// OnChange is called when the leader or members of a group, or this node's replicas, have changed: a reason to call
	// Replicas. It must not block.
	OnChange func()
	// OnFileBytes is called with the number of file bytes that the logs wrote. It must not block.
	OnFileBytes func(n int)
	// Logger receives what an operator should know. Default none.
	Logger *slog.Logger
	// Registerer receives the metrics. Default none.
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

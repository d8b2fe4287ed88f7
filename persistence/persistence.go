// Package persistence is the durable side of a node: journals of entities, their heads and items, lists, counters and
// the directory, replicated through one log per shard and kept in one Pebble.
//
// A [Store] is the entry point. A write is one logpb.Append: events, head and rows of one entity, all or nothing. It is
// refused unless the entity's seq and the owner's epoch match what the writer expects, and is acknowledged once it is
// durable on a majority and applied here. Reads see everything acknowledged before them, unless they may be stale
// ([WithStale]); a [View] is a consistent snapshot of a shard. Only a shard's leader reads and writes it; a [Transport]
// connects the nodes. [Store.PutChunk] stores pieces of files, which an append can commit. [Store.AddSums] adds to rows
// of numbers, as an append can; reads add them up over the shards. [Store.Backup] copies a shard, and [Restore] creates
// a new cluster from the copies.
//
// Below it: keys (layout of the rows), fsm (applies log entries), replica (the logs), index (lists and counters),
// directory (small records in memory), blob (bytes of files), backup (format of a copy). DESIGN.md describes how they
// fit together and what happens when a disk fails.
//
// Invariants:
//
//   - Nothing is acknowledged before it is durable, and nothing acknowledged is lost.
//   - A directory that is foreign, newer, corrupt or in use is refused with a reason, and never opened partially.
//   - After a failed write or sync nothing is written until restart. Reads go on where they can.
//   - Writes are refused before a full disk can endanger the log, and accepted again when there is room.
//   - Neither memory nor start-up time grows with the amount of stored data.
//
// The package does not interpret events, makes no decisions and retries nothing. It reports who leads a shard
// (Options.OnLeader) but not who owns it or should be a member of it, and it opens no connections.
package persistence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/directory"
	"parley/persistence/fsm"
	"parley/persistence/replica"
)

// Identity names the cluster and the node that a data directory belongs to.
type Identity struct {
	ClusterID string
	NodeID    uint64
	Shards    int
	Format    int
	Level     uint32 // feature level that the data may make use of: a release that has a lower one must not open it
}

// Store is one node's storage. Use Open.
type Store struct {
	opts         Options
	logger       *slog.Logger
	identity     Identity
	condition    *condition
	space        *space
	db           *pebble.DB
	driver       *replica.Driver
	directory    *directory.Directory
	metrics      *metrics
	blocks       *blockCache
	registration registration
	groups       []uint32 // the conversation shards
	sizes        sizes
	lock         io.Closer

	pieces pieceFlusher

	uses      uses
	wake      chan struct{} // signals tend, at most once
	confirmed atomic.Bool   // the cluster record is known and names this cluster
	life      lifecycle
}

// lifecycle is what Start and Stop need.
type lifecycle struct {
	mu      sync.Mutex
	started bool
	stopped bool
	level   uint32 // feature level in the identity file
	format  int    // in it, too
	cancel  context.CancelFunc
	tasks   sync.WaitGroup
}

// readsTimeout is how long Stop waits for reads in progress.
const readsTimeout = 10 * time.Second

// Open opens the data directory, creating it in an empty directory. It refuses a directory that it cannot use
// completely. Nothing runs before Start; Stop releases what Open acquired.
func Open(ctx context.Context, opts Options) (*Store, error) {
	opts.setDefaults()
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("storage options: %w", err)
	}
	s := &Store{opts: opts, logger: opts.Logger, wake: make(chan struct{}, 1)}
	s.pieces.flush = make(chan struct{}, 1)
	s.condition = newCondition(opts.Logger)
	s.space = newSpace(opts, s.condition)
	s.registration.to = opts.Registerer
	if err := s.open(ctx); err != nil {
		return nil, oneLine(errors.Join(err, s.close()))
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	dir, err := openDir(s.opts, identityDraft)
	if err != nil {
		return err
	}
	s.lock, s.identity, s.life.level, s.life.format = dir.lock, dir.identity, dir.identity.Level, dir.identity.Format
	for g := range uint32(s.identity.Shards) {
		s.groups = append(s.groups, g+1)
	}
	if err = ctx.Err(); err != nil {
		return err
	}
	s.blocks = newBlockCache(s.opts, s.identity.Shards)
	if s.db, err = openEngine(s.opts, s.condition, s.space, s.blocks, dir.isNew); err != nil {
		return err
	}
	s.directory = directory.New(s.db, (*directoryLog)(s))
	s.metrics = newMetrics(&s.registration, s)
	s.driver, err = s.openDriver(dir.isNew) //nolint:contextcheck // the driver lives until Stop, not until ctx ends
	if errors.Is(err, replica.ErrInconsistent) || pebble.IsCorruptionError(err) {
		return refuse(s.opts.Dir, err)
	}
	if err != nil {
		return fmt.Errorf("open logs: %w", err)
	}
	// The driver has completed any interrupted snapshot installation, so the directory's rows are complete only now.
	if err = s.directory.Refresh(); err != nil {
		return refuse(s.opts.Dir, err)
	}
	if err = s.checkCluster(); err != nil {
		return err
	}
	s.condition.onFailure(s.driver.Fail)
	if err = s.registration.err(); err != nil {
		return err
	}
	// Up to here a failed write could look like a success, see gate.
	if err = s.condition.failure(); err != nil {
		return refuse(s.opts.Dir, err)
	}
	if err = dir.settle(); err != nil {
		return err
	}
	s.space.check()
	return nil
}

func (s *Store) openDriver(isNew bool) (*replica.Driver, error) {
	machine := fsm.New(s.db, s.directory.Applied())
	machine.OnPieces = s.piecesWritten
	cfg := replica.Config{
		Node:             replica.NodeID(s.identity.NodeID),
		DB:               s.db,
		MaxGroup:         replica.GroupID(s.identity.Shards),
		Machine:          machine,
		OnLeader:         s.onLeader,
		OnChange:         s.opts.OnChange,
		OnSnapshot:       s.onSnapshot,
		OnFatal:          func(err error) { s.condition.record(err) },
		Writable:         s.condition.writable,
		FS:               s.opts.FS,
		SpoolDir:         s.opts.FS.PathJoin(s.opts.Dir, spoolDir),
		TickInterval:     s.opts.TickInterval,
		SnapshotEntries:  s.opts.SnapshotEntries,
		SnapshotBytes:    uint64(s.opts.SnapshotBytes),
		KeepEntries:      s.opts.KeepEntries,
		SnapshotRate:     int(s.opts.SnapshotRate),
		MaxPending:       s.opts.MaxPending,
		MaxProposalBytes: s.opts.MaxProposalBytes,
		Logger:           s.logger,
		Registerer:       &s.registration,
	}
	if s.opts.Transport != nil {
		cfg.Transport = messages{s.opts.Transport, s.logger}
	}
	if isNew && !s.opts.Join {
		for g := range replica.GroupID(s.identity.Shards + 1) {
			cfg.Groups = append(cfg.Groups, g)
		}
	}
	return replica.Open(cfg)
}

func (s *Store) onLeader(group replica.GroupID, term uint64, leader bool) {
	if group == fsm.Directory {
		s.signal()
	}
	if s.opts.OnLeader != nil {
		s.opts.OnLeader(uint32(group), term, leader)
	}
}

func (s *Store) onSnapshot(group replica.GroupID) {
	if group == fsm.Directory {
		s.directory.Invalidate()
		s.signal()
	}
}

func (s *Store) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Start starts the logs and the background tasks.
func (s *Store) Start() {
	s.life.mu.Lock()
	defer s.life.mu.Unlock()
	if s.life.started || s.life.stopped {
		return
	}
	s.life.started = true
	ctx, cancel := context.WithCancel(context.Background())
	s.life.cancel = cancel
	s.driver.Start()
	s.life.tasks.Go(func() { s.space.watch(ctx) })
	s.life.tasks.Go(func() { s.tend(ctx) })
	s.life.tasks.Go(func() { s.sweep(ctx) })
	s.life.tasks.Go(func() { s.blocks.watch(ctx) })
	s.pieces.done = make(chan struct{})
	go func() {
		defer close(s.pieces.done)
		s.flushPiecesWritten(ctx)
	}()
}

// tend does the work that callbacks must not do themselves: it confirms the cluster record and reloads the directory. A
// confirmation that fails, for instance because the disk is full, is retried.
func (s *Store) tend(ctx context.Context) {
	again := time.NewTimer(0)
	defer again.Stop()
	record, stop := s.directory.Watch(clusterCollection)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-record: // it may arrive through the log, last of all
		case <-again.C:
		}
		if err := s.directory.Refresh(); err != nil {
			s.condition.fail(err)
		}
		if err := s.confirmCluster(ctx); err != nil && ctx.Err() == nil {
			s.logger.Warn("cluster record is not confirmed", slog.Any("err", err))
			again.Reset(s.opts.SpaceInterval)
		}
	}
}

// Ready reports whether every shard that this node is a member of has a known leader, this node has applied everything
// it knew to be committed when it started, and its data has been confirmed to belong to this cluster. A joining node is
// not ready before it has received the directory.
func (s *Store) Ready() bool {
	return s.confirmed.Load() && s.driver.Ready() && s.condition.failure() == nil
}

// Settled is Ready without the condition on leaders, which this node may not hear of while others do.
func (s *Store) Settled() bool {
	return s.confirmed.Load() && s.driver.Settled() && s.condition.failure() == nil
}

// readyInterval is how often WaitReady checks.
const readyInterval = 2 * time.Millisecond

// WaitReady returns once Ready is true, or with the reason why it cannot become true.
func (s *Store) WaitReady(ctx context.Context) error {
	ticker := time.NewTicker(readyInterval)
	defer ticker.Stop()
	for !s.Ready() {
		if err := s.condition.failure(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for storage: %w", ctx.Err())
		case <-ticker.C:
		}
	}
	return nil
}

// Identity returns the cluster and the node that this store belongs to.
func (s *Store) Identity() Identity { return s.identity }

// Directory returns the small records that every node reads locally.
func (s *Store) Directory() *directory.Directory { return s.directory }

// Writable returns why writes are refused now (ErrFull, ErrFailed), or nil.
func (s *Store) Writable() error { return s.condition.writable() }

// FreeBytes is the disk's free space as last measured; 0 when the file system does not report it.
func (s *Store) FreeBytes() uint64 { return s.space.seen.Load() }

// Stop answers waiting calls, lets reads in progress end, and closes the directory. It may be called twice and before
// Start.
func (s *Store) Stop() {
	s.life.mu.Lock()
	defer s.life.mu.Unlock()
	if s.life.stopped {
		return
	}
	s.life.stopped = true
	if s.life.cancel != nil {
		s.life.cancel()
	}
	s.life.tasks.Wait()
	if err := s.close(); err != nil {
		s.logger.Error("storage was not closed cleanly", slog.Any("err", err))
	}
}

// close releases what has been acquired so far. In a failed store a goroutine may hang in the engine, so the wait for
// the engine is bounded; the directory then stays locked until the process ends, and nobody can open it while that
// goroutine lives.
func (s *Store) close() error {
	s.registration.close()
	if s.driver != nil {
		s.driver.Stop()
	}
	s.awaitFlusher()
	if !s.uses.close(readsTimeout) {
		return errors.New("reads are still in progress; the process must end")
	}
	var err error
	if s.db != nil {
		if err = closeEngine(s.db, s.condition); errors.Is(err, errHangs) {
			return err
		}
	}
	s.space.descriptors.end()
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// uses counts reads in progress, so that the database is not closed under them. It is a counter and not a lock:
// readers must not wait for each other.
type uses struct {
	n      atomic.Int64
	closed atomic.Bool
}

func (u *uses) enter() bool {
	u.n.Add(1)
	if u.closed.Load() {
		u.n.Add(-1)
		return false
	}
	return true
}

func (u *uses) leave() { u.n.Add(-1) }

// close refuses further reads and reports whether the present ones ended in time.
func (u *uses) close(timeout time.Duration) bool {
	u.closed.Store(true)
	for deadline := time.Now().Add(timeout); u.n.Load() != 0; {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(time.Millisecond)
	}
	return true
}

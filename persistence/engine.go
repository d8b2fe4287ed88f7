package persistence

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// engineFormat is pinned: a newer library must not upgrade the files by itself, since there is no way back. From this
// format on, the write-ahead log holds what it takes to tell a torn end from damage in the middle (see checkLogEnd).
const engineFormat = pebble.FormatValueSeparation

const (
	engineDir     = "db"
	blockBytes    = 16 << 10
	indexBytes    = 256 << 10
	bytesPerSync  = 512 << 10
	filterBits    = 10 // bits a key, about 1 % false positives
	memtables     = 4
	l0Compaction  = 4
	l0Stop        = 64
	l0FileTrigger = 500
	maxCompaction = 3
	baseBytes     = 64 << 20 // of the first level below 0

	// From this share of blocks full of tombstones on, a table is compacted only for that. With the engine's own tenth it would be
	// every table that a flush writes: list places come and go with each turn.
	tombstoneShare = 0.5

	separateBytes   = 64 << 10 // values from this size on are written beside the tables
	separateDepth   = 10
	separateRewrite = 5 * time.Minute // such files are not rewritten when they are younger,
	separateGarbage = 0.3             // and not while less than this share of them is garbage
)

// openEngine opens Pebble. Its fatal errors become the failure of the store. The cache is released when the engine is
// closed.
func openEngine(opts Options, c *condition, space *space, cache *blockCache, isNew bool) (db *pebble.DB, err error) {
	dir := opts.FS.PathJoin(opts.Dir, engineDir)
	defer cache.cache.Unref()
	logger := &engineLogger{logger: opts.Logger, condition: c}
	// The engine's own cache would hold 64 tables at least, more than a process with few descriptors has.
	tables := pebble.NewFileCache(max(1, min(runtime.GOMAXPROCS(0), opts.MaxOpenFiles/minOpenFiles)), opts.MaxOpenFiles)
	defer tables.Unref() // the engine has a reference of its own
	o := &pebble.Options{
		FS:                          &gate{FS: vfs.OnDiskFull(opts.FS, space.exhausted), condition: c, descriptors: space.descriptors},
		FormatMajorVersion:          engineFormat,
		ErrorIfExists:               isNew,
		ErrorIfNotExists:            !isNew,
		Logger:                      logger,
		EventListener:               logger.listener(),
		Cache:                       cache.cache,
		MemTableSize:                uint64(opts.MemtableBytes),
		MemTableStopWritesThreshold: memtables,
		L0CompactionThreshold:       l0Compaction,
		L0CompactionFileThreshold:   l0FileTrigger,
		L0StopWritesThreshold:       l0Stop,
		LBaseMaxBytes:               max(baseBytes, opts.MemtableBytes),
		FileCache:                   tables,
		BytesPerSync:                bytesPerSync,
		WALBytesPerSync:             bytesPerSync,
		CompactionConcurrencyRange: func() (lower, upper int) {
			return 1, max(1, min(runtime.GOMAXPROCS(0)-1, maxCompaction))
		},
	}
	for i := range o.Levels {
		o.Levels[i].BlockSize = blockBytes
		o.Levels[i].IndexBlockSize = indexBytes
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(filterBits)
		o.Levels[i].Compression = func() *sstable.CompressionProfile { return block.SnappyCompression }
	}
	o.Experimental.TombstoneDenseCompactionThreshold = tombstoneShare
	// Pieces of files lie beside the tables: a compaction does not write them again.
	o.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy {
		return pebble.ValueSeparationPolicy{
			Enabled: true, MinimumSize: separateBytes, MaxBlobReferenceDepth: separateDepth,
			RewriteMinimumAge: separateRewrite, TargetGarbageRatio: separateGarbage,
		}
	}
	// What reaches level 0 is rewritten soon: compressing it would cost a tenth of the processor under load.
	o.Levels[0].Compression = func() *sstable.CompressionProfile { return block.NoCompression }
	defer func() {
		if r := recover(); r != nil {
			db, err = nil, refuse(dir, fmt.Errorf("open storage: %v", r))
		}
	}()
	if !isNew {
		if err = checkLogEnd(opts.FS, dir); err != nil {
			return nil, refuse(dir, fmt.Errorf("open storage: %w", err))
		}
	}
	db, err = pebble.Open(dir, o)
	if err != nil {
		return nil, refuse(dir, fmt.Errorf("open storage: %w", err))
	}
	return db, nil
}

// engineTimeout bounds the close of a failed engine: a writer that was waiting for a flush when the flush failed waits
// for ever.
const engineTimeout = 3 * time.Second

var errHangs = errors.New("storage engine hangs in the failed storage; the process must end")

func closeEngine(db *pebble.DB, c *condition) error {
	if c.failure() == nil {
		return db.Close()
	}
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	timer := time.NewTimer(engineTimeout)
	defer timer.Stop()
	select {
	case err := <-closed:
		return err
	case <-timer.C:
		return errHangs
	}
}

// engineLogger receives Pebble's events: it logs what an operator should know, and reports fatal errors to the
// condition.
type engineLogger struct {
	logger    *slog.Logger
	condition *condition
}

// engineFailure is the panic value on our own goroutines where Pebble cannot return an error. The replica driver and
// openEngine recover it.
type engineFailure struct{ err error }

func (e engineFailure) Error() string { return e.err.Error() }

// Infof logs Pebble's routine messages at debug level.
func (l *engineLogger) Infof(format string, args ...any) {
	l.logger.Debug("storage engine", slog.String("text", fmt.Sprintf(format, args...)))
}

// Errorf logs what Pebble could not do. After a failure of the store it is silent.
func (l *engineLogger) Errorf(format string, args ...any) {
	if l.condition.failure() != nil {
		return
	}
	l.logger.Error("storage engine", slog.String("text", fmt.Sprintf(format, args...)))
}

// Fatalf is called where Pebble cannot go on and expects the process to end; it must not return. The gate prevents the
// known cases. On one of our own goroutines it panics, and the replica driver handles the panic; a goroutine of
// Pebble's (a flush, a compaction) is ended, which releases its locks. From then on the gate lets nothing be written,
// so no later work can build on what is half done.
func (l *engineLogger) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	l.condition.fail(err)
	if l.onOwnGoroutine() {
		panic(engineFailure{err}) //nolint:forbidigo // the caller cannot be told otherwise; recovered in openEngine and replica
	}
	runtime.Goexit()
}

// onOwnGoroutine reports whether a function of this program, other than this logger, is on the stack.
func (l *engineLogger) onOwnGoroutine() bool {
	pcs := make([]uintptr, 128)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, "parley/") && !strings.Contains(frame.Function, ".(*engineLogger).") {
			return true
		}
		if !more {
			return false
		}
	}
}

func (l *engineLogger) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			if l.condition.failure() == nil {
				l.logger.Warn("storage engine will try again", slog.Any("err", err))
			}
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			l.condition.fail(fmt.Errorf("%w: %s: %w", ErrCorrupt, info.Path, oneLine(info.Details)))
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			l.logger.Warn("writes are stalled", slog.String("reason", info.Reason))
		},
		WriteStallEnd: func() { l.logger.Info("writes go on") },
		PossibleAPIMisuse: func(info pebble.PossibleAPIMisuseInfo) {
			l.logger.Warn("storage engine is misused", slog.String("text", info.String()))
		},
	}
}

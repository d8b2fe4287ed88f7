// Package yardstick measures how many durable writes a disk completes for writers that each wait for their own write.
// Every durable operation of this project is compared with that number. It shares nothing with a store but the engine.
package yardstick

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/cockroachdb/pebble/v2"
)

// A batch is what one append writes: an event, a head and an index row, about 700 bytes together.
const (
	keysPerBatch  = 3
	valueBytes    = 220
	keyBytes      = 16
	BytesPerBatch = keysPerBatch * (keyBytes + valueBytes)
)

// Result of one measurement.
type Result struct {
	BatchesPerSecond, FsyncsPerSecond float64
	BatchP50, BatchP99, FsyncP50      time.Duration
}

// Measure runs writers at once for a duration, then one writer of raw fsyncs for as long, in a new folder below dir
// that it removes. Each writer writes at least once, however short the duration.
func Measure(ctx context.Context, dir string, writers int, duration time.Duration) (result *Result, err error) {
	folder, err := os.MkdirTemp(dir, "parley-yardstick-")
	if err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	result = &Result{}
	if err := measureBatches(ctx, filepath.Join(folder, "db"), writers, duration, result); err != nil {
		return nil, fmt.Errorf("synced batches: %w", err)
	}
	if err := measureFsync(ctx, filepath.Join(folder, "file"), duration, result); err != nil {
		return nil, fmt.Errorf("raw fsync: %w", err)
	}
	return result, nil
}

func measureBatches(ctx context.Context, dir string, writers int, duration time.Duration, result *Result) (err error) {
	db, err := pebble.Open(dir, &pebble.Options{MemTableSize: 64 << 20, Logger: silent{}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var all sync.WaitGroup
	var mu sync.Mutex
	total := histogram()
	var failed error
	start := time.Now()
	for writer := range writers {
		all.Go(func() {
			own, err := writeBatches(ctx, db, writer, start.Add(duration))
			mu.Lock()
			defer mu.Unlock()
			total.Merge(own)
			failed = errors.Join(failed, err)
		})
	}
	all.Wait()
	result.BatchesPerSecond = float64(total.TotalCount()) / time.Since(start).Seconds()
	result.BatchP50, result.BatchP99 = quantile(total, 50), quantile(total, 99)
	return failed
}

func writeBatches(ctx context.Context, db *pebble.DB, writer int, until time.Time) (*hdrhistogram.Histogram, error) {
	own := histogram()
	key, value := make([]byte, keyBytes), make([]byte, valueBytes)
	binary.BigEndian.PutUint32(key, uint32(writer))
	for n := uint64(0); ctx.Err() == nil; n++ {
		begin := time.Now()
		if n > 0 && begin.After(until) {
			break
		}
		batch := db.NewBatch()
		for part := range keysPerBatch {
			key[4] = byte(part)
			binary.BigEndian.PutUint64(key[8:], n)
			if err := batch.Set(key, value, nil); err != nil {
				return own, err
			}
		}
		if err := batch.Commit(pebble.Sync); err != nil {
			return own, err
		}
		record(own, time.Since(begin))
	}
	return own, nil
}

func measureFsync(ctx context.Context, name string, duration time.Duration, result *Result) (err error) {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	own := histogram()
	block := make([]byte, 4096)
	start := time.Now()
	for first := true; ctx.Err() == nil && (first || time.Since(start) < duration); first = false {
		begin := time.Now()
		if _, err := file.Write(block); err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return err
		}
		record(own, time.Since(begin))
	}
	result.FsyncsPerSecond = float64(own.TotalCount()) / time.Since(start).Seconds()
	result.FsyncP50 = quantile(own, 50)
	return nil
}

func histogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(time.Minute/time.Microsecond), 3)
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	// Clamped, so that it is never out of range.
	_ = h.RecordValue(min(max(int64(d/time.Microsecond), 1), int64(time.Minute/time.Microsecond)))
}

func quantile(h *hdrhistogram.Histogram, q float64) time.Duration {
	return time.Duration(h.ValueAtQuantile(q)) * time.Microsecond
}

// silent discards the engine's log messages; failures are returned as errors.
type silent struct{}

// Infof drops chatter.
func (silent) Infof(string, ...any) {}

// Errorf drops errors, which are returned as well.
func (silent) Errorf(string, ...any) {}

// Fatalf is called when the write-ahead log fails: the measurement is void.
func (silent) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...)) //nolint:forbidigo // there is nothing useful left to do
}

package main

import (
	"context"
	"time"

	"parley/bench"
	"parley/persistence/yardstick"
)

// runBench runs the load generator.
func runBench(ctx context.Context, args []string, s surroundings) int {
	return bench.Main(ctx, args, s.stdout, s.stderr, measureDisk)
}

// measureDisk measures the disk for `parley bench disk`.
func measureDisk(ctx context.Context, dir string, writers int, duration time.Duration) (*bench.DiskReport, error) {
	result, err := yardstick.Measure(ctx, dir, writers, duration)
	if err != nil {
		return nil, err
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return &bench.DiskReport{
		Writers: writers, BytesPerBatch: yardstick.BytesPerBatch, SecondsEachPart: duration.Seconds(),
		BatchesPerSec: result.BatchesPerSecond, BatchP50: ms(result.BatchP50), BatchP99: ms(result.BatchP99),
		FsyncsPerSec: result.FsyncsPerSecond, FsyncP50: ms(result.FsyncP50),
	}, nil
}

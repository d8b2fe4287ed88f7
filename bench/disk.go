package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// DiskReport is the disk's speed for concurrent writers, the reference for every durable operation.
type DiskReport struct {
	Writers         int     `json:"writers"`
	BatchesPerSec   float64 `json:"batchesPerSecond"` // batches of 3 keys, each durable before the next
	BatchP50        float64 `json:"batchP50Ms"`
	BatchP99        float64 `json:"batchP99Ms"`
	FsyncsPerSec    float64 `json:"fsyncsPerSecond"` // one file, 4 KiB written and synced, one writer
	FsyncP50        float64 `json:"fsyncP50Ms"`
	BytesPerBatch   int     `json:"bytesPerBatch"`
	SecondsEachPart float64 `json:"secondsEachPart"`
}

func diskMain(ctx context.Context, args []string, stdout, stderr io.Writer, disk Disk) int {
	set := flag.NewFlagSet("parley bench disk", flag.ContinueOnError)
	set.SetOutput(stderr)
	dir := set.String("dir", os.TempDir(), "directory on the disk to measure; a new folder in it is used and removed")
	writers := set.String("writers", "1,64,256", "writers at once, separated by commas")
	duration := set.Duration("duration", 3*time.Second, "time for each number")
	asJSON := set.Bool("json", false, "print JSON")
	if err := set.Parse(args); errors.Is(err, flag.ErrHelp) {
		return exitOK
	} else if err != nil {
		return exitUsage
	}
	var reports []*DiskReport
	for part := range strings.SplitSeq(*writers, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 || n > 10_000 || set.NArg() > 0 || *duration <= 0 {
			fmt.Fprintln(stderr, "parley bench disk: -writers takes numbers from 1 to 10000, -duration must be above 0")
			return exitUsage
		}
		report, err := disk(ctx, *dir, n, *duration)
		if err != nil {
			fmt.Fprintf(stderr, "parley bench disk: %v\n", err)
			return exitFailed
		}
		reports = append(reports, report)
		if !*asJSON {
			fmt.Fprintf(stdout, "%4d writers: %8.0f synced batches/s (3 keys, %d bytes), p50 %.3f ms, p99 %.3f ms; raw fsync %.0f/s, p50 %.3f ms\n",
				report.Writers, report.BatchesPerSec, report.BytesPerBatch, report.BatchP50, report.BatchP99, report.FsyncsPerSec, report.FsyncP50)
		}
	}
	if *asJSON {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		_ = encoder.Encode(reports) // plain numbers always encode
	}
	return exitOK
}

package configure

import (
	"context"
	"log/slog"
	"syscall"

	"parley/cmd/parley/config"
)

// Descriptors is each part's share of the process's file descriptors: clients could otherwise use up those that the store and
// the other nodes need. It matters when the limit is low.
type Descriptors struct {
	limit   int
	tables  int // of the store, that are kept open
	spare   int // reserved for the store
	ops     int // connections of the operations surface
	sockets int // connections of clients, streams included
}

// What else the process has open, and the bounds of the shares.
const (
	ownDescriptors     = 32 // listeners, logs, the store's log and directories, clients that are being refused
	clusterDescriptors = 16 // more listeners, and the first connections to other nodes
	leastShare         = 8
	mostSpare          = 32
	mostCalls          = 2048
	mostOps            = 64
	fewDescriptors     = 256
)

// shareDescriptors divides the limit. What no field names is left for other nodes and for calls to models, tools and hooks.
func shareDescriptors(limit int, c *config.Config) Descriptors {
	eighth := max(leastShare, limit/8)
	d := Descriptors{
		limit: limit, tables: min(eighth, c.Storage.MaxOpenFiles), spare: min(eighth, mostSpare), ops: min(eighth/2, mostOps),
	}
	own := ownDescriptors
	if c.Cluster.Enabled() {
		own += clusterDescriptors
	}
	d.sockets = max(leastShare, limit-own-d.tables-d.spare-d.ops-min(eighth, mostCalls))
	return d
}

// TakeDescriptors reads the limit of open files, which the Go runtime has raised to the hard limit, and divides it.
func TakeDescriptors(ctx context.Context, c *config.Config, log *slog.Logger) Descriptors {
	limit := 1 << 20 // when there is none
	var told syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &told); err == nil && told.Cur < uint64(limit) {
		limit = int(told.Cur)
	}
	d := shareDescriptors(limit, c)
	level := slog.LevelInfo
	if limit < fewDescriptors {
		level = slog.LevelWarn
	}
	log.Log(ctx, level, "file descriptors", slog.Int("limit", limit), slog.Int("clients", d.sockets), slog.Int("tables", d.tables))
	return d
}

package main

import (
	"context"
	"io"
	"log/slog"
	"time"

	"parley/cmd/parley/progress"
)

// How often a node that has joined looks how many copies it holds, and says so where there is no terminal.
const (
	lookAtCopies   = time.Second
	tellCopies     = 10 * time.Second
	copyingMessage = "copying shards"
)

// showCopies tells how far a node that has joined is with its share of the copies of shards: it serves meanwhile, and bears no part of
// the cluster's failures yet. On a terminal it is a bar, elsewhere lines of the log.
func showCopies(ctx context.Context, copies func() (held, share int), w io.Writer, log *slog.Logger) {
	var shown *progress.Bar
	if progress.IsTerminal(w) {
		shown = progress.New(w, progress.Things)
		defer shown.Close()
	}
	ticker := time.NewTicker(lookAtCopies)
	defer ticker.Stop()
	began := time.Now()
	told, counted, total := began, 0, 0
	for {
		held, share := copies()
		if share != total {
			shown.Begin(progress.Phase{Name: copyingMessage, Total: int64(share)})
			counted, total = 0, share
		}
		shown.Add(int64(held - counted))
		counted = held
		switch {
		case share > 0 && held >= share:
			log.Info("holds its share of the shards", slog.Int("copies", held), slog.Duration("took", time.Since(began).Round(time.Second)))
			return
		case shown == nil && time.Since(told) >= tellCopies:
			told = time.Now()
			log.Info(copyingMessage, slog.Int("held", held), slog.Int("share", share))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"parley/cmd/parley/config"
	"parley/cmd/parley/node"
)

// serve runs a node until ctx ends.
func serve(ctx context.Context, args []string, s surroundings) int {
	request, err := config.Load(args, s.environ)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return finish(s, config.WriteUsage(s.stdout))
	case err != nil:
		fmt.Fprintf(s.stderr, "parley serve: the configuration is not valid\n%v\n\nAll settings: parley serve -h\n", err)
		return exitUsage
	case request.Print:
		return finish(s, request.Config.Print(s.stdout))
	}
	tuneMemory(ctx)
	logger := newLogger(s.stderr, request.Config.Log)
	for _, name := range slices.Sorted(maps.Keys(request.Unknown)) {
		attrs := []any{slog.String("name", name)}
		if meant := request.Unknown[name]; meant != "" {
			attrs = append(attrs, slog.String("did_you_mean", meant))
		}
		logger.Warn("environment variable is not a setting", attrs...)
	}
	for _, warning := range request.Config.Warnings() {
		logger.Warn("setting is probably not meant", slog.String("why", warning))
	}
	var showing sync.WaitGroup
	defer showing.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	greet := func(n *node.Node) {
		writeBanner(s.stdout, request.Config, n)
		n.FirstToken(func(token string) { writeFirstToken(s.stdout, request.Config, n, token) })
		if n.HasJoined() {
			showing.Go(func() { showCopies(ctx, n.Copies, s.stderr, logger) })
		}
	}
	if err := node.Run(ctx, request.Config, logger, greet); err != nil {
		logger.Error("node failed", slog.Any("err", err))
		return exitFailed
	}
	return exitOK
}

func finish(s surroundings, err error) int {
	if err != nil {
		fmt.Fprintf(s.stderr, "parley: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// newLogger makes the process's logger from valid settings.
func newLogger(w io.Writer, settings config.Log) *slog.Logger {
	levels := map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	}
	options := &slog.HandlerOptions{Level: levels[settings.Level]}
	if settings.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// Command parley runs a node of the conversation server, and what belongs around it: load generator, route table.
// This package parses the sub-command, hands over, and turns the outcome into an exit code: 0, 1 (failed), 2 (usage).
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // the tool current_time knows zones on machines without a database of them

	"parley/actors/turn/document"
)

// Exit codes. Others script against them.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// privateMask lets nobody else read what any part of the process, or a process that it starts, writes: conversations, keys,
// pages on their way to paper. Libraries make their files as they like.
const privateMask = 0o077

// surroundings is what a command may touch of its process.
type surroundings struct {
	environ        []string
	stdout, stderr io.Writer
}

// command is one sub-command.
type command struct {
	name, summary string
	run           func(ctx context.Context, args []string, s surroundings) int
}

func commands() []command {
	return []command{
		{"serve", "run a node", serve},
		{"status", "print the nodes and shards of a cluster", status},
		{"node", "drain a node for good, or take it into use again", nodeCommand},
		tenants().command("list, make, change and delete tenants"),
		projects().command("list, make, change and delete projects"),
		users().command("list, make, change and delete users"),
		tokens().command("list, make and delete API tokens"),
		{"backup", "copy the state of a running cluster into a file", takeBackup},
		{"restore", "make a data directory out of a backup", restore},
		{"certs", "make certificates for the nodes of a cluster, for development", makeCerts},
		{"bench", "measure a running server", runBench},
		{"routes", "print every route with its handler, access and refusals", routes},
		{"version", "print the version", version},
	}
}

func main() {
	syscall.Umask(privateMask)
	os.Exit(run(untilSignal(), os.Args[1:], surroundings{environ: os.Environ(), stdout: os.Stdout, stderr: os.Stderr}))
}

// untilSignal returns a context that the first signal ends, and with it, gracefully, the command. A second signal ends
// the process at once, whenever it comes: the default is back before the context ends, so that whoever sees an effect of
// the first signal can count on it, and a second one that came before that is raised again.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2) // the first, and one that comes before the default is back
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		signal.Stop(signals)
		select {
		case second := <-signals:
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Signal(second)
			}
		default:
			cancel()
		}
	}()
	return ctx
}

func run(ctx context.Context, args []string, s surroundings) int {
	if len(args) == 0 {
		usage(s.stderr)
		return exitUsage
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		usage(s.stdout)
		return exitOK
	case "-version", "--version":
		return version(ctx, args[1:], s)
	case document.WorkerArgument: // how a node parses a document: in a process of its own, which may die of it
		return document.Work(args[1:], os.Stdin, s.stdout, s.stderr)
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(ctx, args[1:], s)
		}
	}
	fmt.Fprintf(s.stderr, "parley: no command %q\n\n", args[0])
	usage(s.stderr)
	return exitUsage
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Parley, a server for conversations with AI agents.\n\nUsage: parley COMMAND [flags]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-8s %s\n", c.name, c.summary)
	}
	fmt.Fprintf(w, "  %-8s %s\n", "help", "print this")
	fmt.Fprint(w, "\nFlags of a command: parley COMMAND -h. Exit codes: 0, 1 (failed), 2 (usage).\n")
}

// Command parley runs a node of the conversation server and its tools: operations, backup, load generator, route table.
// This package parses the sub-command, runs it, and returns an exit code: 0, 1 (failed), 2 (usage).
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	_ "time/tzdata" // time zones for the tool current_time on machines without a zone database

	"parley/actors/turn/document"
	"parley/cmd/parley/config"
	"parley/httpedge/password"
)

// Exit codes. Scripts rely on them.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// privateMask is the umask: only the owner may read files that the process or its children write, such as conversations, keys and
// pages to be printed. It also covers files that libraries create with wider modes.
const privateMask = 0o077

// surroundings are a command's arguments and streams.
type surroundings struct {
	environ        []string
	stdout, stderr io.Writer
}

// command is one sub-command.
type command struct {
	name, summary string
	run           func(ctx context.Context, args []string, s surroundings) int
	verbs         []string // what may come first among its arguments
}

// asksHelp says whether an argument asks a command for its help.
func asksHelp(arg string) bool {
	return arg == "-h" || arg == "-help" || arg == "--help"
}

func commands() []command {
	return []command{
		{"serve", "run a node", serve, nil},
		{"status", "print the nodes and shards of a cluster", status, nil},
		{"node", "drain a node for good, or take it into use again", nodeCommand, []string{"drain", "activate"}},
		tenants().command("list, make, change and delete tenants"),
		projects().command("list, make, change and delete projects"),
		users().command("list, make, change and delete users"),
		tokens().command("list, make and delete API tokens"),
		{"audit", "check the audit trail of a tenant", auditCommand, []string{"verify"}},
		{"backup", "copy the state of a running cluster into a file", takeBackup, nil},
		{"restore", "make a data directory out of a backup", restore, nil},
		{"certs", "make certificates for the nodes of a cluster, for development", makeCerts, nil},
		{"bench", "measure a running server", runBench, nil},
		{"routes", "print every route with its handler, access and refusals", routes, nil},
		{"completion", "print a script with which a shell completes commands and flags", completion, []string{"bash", "zsh", "fish"}},
		{"version", "print the version", version, nil},
	}
}

func main() {
	syscall.Umask(privateMask)
	os.Exit(run(untilSignal(), os.Args[1:], surroundings{environ: os.Environ(), stdout: os.Stdout, stderr: os.Stderr}))
}

// untilSignal returns a context that the first signal cancels, which ends the command gracefully. A second signal ends the process
// at once, with the exit code that a shell makes of it: its default action would be nothing where whoever started the process ignores
// it, as a script does with SIGINT for what it runs in the background.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2) // the first, and one that arrives before it is taken
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		const bySignal = 128
		code := bySignal
		if second, is := (<-signals).(syscall.Signal); is {
			code += int(second)
		}
		os.Exit(code)
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
		if len(args) > 1 && args[0] == "help" { // of a command
			return run(ctx, append(slices.Clone(args[1:]), "-h"), s)
		}
		usage(s.stdout)
		return exitOK
	case "-version", "--version":
		return version(ctx, args[1:], s)
	case document.WorkerArgument: // a node parses documents in a child process, which may crash
		return document.Work(args[1:], os.Stdin, s.stdout, s.stderr)
	case password.WorkerArgument: // a node hashes passwords in child processes of low priority
		return password.Work(os.Stdin, s.stdout)
	}
	var names []string
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(ctx, args[1:], s)
		}
		names = append(names, c.name)
	}
	fmt.Fprintf(s.stderr, "parley: no command %q%s\n\n", args[0], config.DidYouMean(args[0], names))
	usage(s.stderr)
	return exitUsage
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Parley, a server for conversations with AI agents.\n\nUsage: parley COMMAND [flags]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-10s %s\n", c.name, c.summary)
	}
	fmt.Fprintf(w, "  %-10s %s\n", "help", "print this, or the help of a command: parley help COMMAND")
	fmt.Fprint(w, "\nExit codes: 0, 1 (failed), 2 (usage).\n")
}

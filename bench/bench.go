// Package bench is the load harness: scenarios, an SSE client fleet that checks every stream, and a report.
//
// It drives HTTP only and imports nothing else of this project, so that it can be aimed at any server of the
// conversation server's API. Latencies are HDR histograms. With -rate the load is open: each request has a time at
// which it should start, and its latency counts from then, so that a slow server cannot hide its queue (no
// coordinated omission). A gap, duplicate or reorder in any stream fails the run.
//
// It measures one process against another; what it measures includes its own cost when both share the cores.
package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Exit codes of Main.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// Options are the settings of a run, as flags give them.
type Options struct {
	URLs         []string      // base URLs of the servers, without base path; requests spread over them
	BasePath     string        // base path of the conversation server; default /api/agents
	Token        string        // bearer token; empty = none
	Ops          string        // base URL of the ops listener, for server memory; empty = not asked
	Agent        string        // agent of the scenario; default depends on it
	User         string        // userId given when no token is
	Concurrency  int           // callers at once (create, turn, read, list) or streams or followers
	Duration     time.Duration // measured time after the warm-up, when Count is 0
	Count        int           // measured requests; 0 = by Duration
	WarmUp       time.Duration // load before measuring
	Rate         float64       // requests per second offered (open loop); 0 = closed loop
	Records      int           // conversations to prepare (turn, read, list, follow)
	Messages     int           // messages in each prepared conversation (read)
	MessageBytes int           // length of each message sent (turn); 0 = one word
	Rounds       int           // turns per stream (stream), events to send (follow)
	Ramp         time.Duration // time over which streams or followers are opened
	Settle       time.Duration // silence before the memory of idle followers is read (follow)
	Timeout      time.Duration // one request or stream
	JSON         bool          // print JSON instead of a table
	Quiet        bool          // no live progress
}

// Disk measures the yardstick of the disk below dir and is given by the command, which may know storage.
type Disk func(ctx context.Context, dir string, writers int, duration time.Duration) (*DiskReport, error)

type scenario struct {
	name, help string
	agent      string
	run        func(context.Context, *Options, *progress) (*Report, error)
}

func scenarios() []scenario {
	return []scenario{
		{"create", "create conversations", "bench-echo", runCreate},
		{"turn", "send messages, not streamed, each its own durable turn", "bench-echo", runTurn},
		{"read", "read conversations of -messages messages", "bench-echo", runRead},
		{"list", "list 20 of one user's -records conversations", "bench-echo", runList},
		{"stream", "send messages and stream the answers, -concurrency streams at once", "bench-stream", runStream},
		{"follow", "follow event streams with -concurrency followers on -records conversations: idle, then live", "bench-echo", runFollow},
	}
}

// Main runs `parley bench ARGS` and returns the exit code: 0, 1 (the run failed or a check did), 2 (usage).
func Main(ctx context.Context, args []string, stdout, stderr io.Writer, disk Disk) int {
	if len(args) == 0 {
		usage(stderr)
		return exitUsage
	}
	if args[0] == "disk" {
		return diskMain(ctx, args[1:], stdout, stderr, disk)
	}
	all := scenarios()
	at := slices.IndexFunc(all, func(s scenario) bool { return s.name == args[0] })
	if at < 0 {
		if args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
			usage(stdout)
			return exitOK
		}
		fmt.Fprintf(stderr, "parley bench: no scenario %q\n\n", args[0])
		usage(stderr)
		return exitUsage
	}
	chosen := all[at]
	options, err := parseOptions(chosen, args[1:], stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "parley bench %s: %v\n", chosen.name, err)
		return exitUsage
	}
	live := newProgress(stderr, options.Quiet || options.JSON)
	report, err := chosen.run(ctx, options, live)
	live.done()
	if err != nil {
		fmt.Fprintf(stderr, "parley bench %s: %v\n", chosen.name, err)
		return exitFailed
	}
	report.Scenario = chosen.name
	report.print(stdout, options.JSON)
	if report.failed() {
		return exitFailed
	}
	return exitOK
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "usage: parley bench SCENARIO [flags]")
	fmt.Fprintln(w)
	for _, s := range scenarios() {
		fmt.Fprintf(w, "  %-8s %s (agent %s)\n", s.name, s.help, s.agent)
	}
	fmt.Fprintf(w, "  %-8s %s\n", "disk", "the yardstick: raw synced batches of the storage engine, and raw fsync, on the same disk")
	fmt.Fprintln(w, "\nFlags of a scenario: parley bench SCENARIO -h. The agents are in bench/bench.yaml.")
}

func parseOptions(s scenario, args []string, stderr io.Writer) (*Options, error) {
	o := &Options{}
	set := flag.NewFlagSet("parley bench "+s.name, flag.ContinueOnError)
	set.SetOutput(stderr)
	var urls string
	set.StringVar(&urls, "url", "http://127.0.0.1:8080", "base URLs of the servers, separated by commas")
	set.StringVar(&o.BasePath, "base-path", "/api/agents", "base path of the conversation server")
	set.StringVar(&o.Token, "token", os.Getenv("PARLEY_BENCH_TOKEN"), "bearer token (or PARLEY_BENCH_TOKEN)")
	set.StringVar(&o.Ops, "ops-url", "", "base URL of the ops listener: report the server's memory and CPU too")
	set.StringVar(&o.Agent, "agent", s.agent, "agent")
	set.StringVar(&o.User, "user", "bench", "userId, where the server has no authentication")
	set.IntVar(&o.Concurrency, "concurrency", 64, "callers, streams or followers at once")
	set.DurationVar(&o.Duration, "duration", 10*time.Second, "measured time, without -count")
	set.IntVar(&o.Count, "count", 0, "measured requests, instead of -duration")
	set.DurationVar(&o.WarmUp, "warm-up", 2*time.Second, "load before measuring")
	set.Float64Var(&o.Rate, "rate", 0, "requests per second offered (open loop); 0 = as fast as answers come")
	set.IntVar(&o.Records, "records", 0, "conversations to prepare; 0 = the scenario's own number")
	set.IntVar(&o.Messages, "messages", 20, "messages in each prepared conversation (read)")
	set.IntVar(&o.MessageBytes, "message-bytes", 0, "length of each message sent (turn); 0 = one word")
	set.IntVar(&o.Rounds, "rounds", 0, "turns per stream, or events sent to followers; 0 = by -duration (stream), 5 (follow)")
	set.DurationVar(&o.Ramp, "ramp", time.Second, "time over which streams or followers are opened")
	set.DurationVar(&o.Settle, "settle", 0, "silence before the memory of idle followers is read (follow)")
	set.DurationVar(&o.Timeout, "timeout", 60*time.Second, "one request, or silence in one stream")
	set.BoolVar(&o.JSON, "json", false, "print JSON")
	set.BoolVar(&o.Quiet, "quiet", false, "no live progress")
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	o.URLs = strings.Split(urls, ",")
	o.BasePath = strings.TrimSuffix(o.BasePath, "/")
	switch {
	case set.NArg() > 0:
		return nil, fmt.Errorf("unexpected %q", set.Arg(0))
	case o.Concurrency < 1 || o.Concurrency > 200_000:
		return nil, errors.New("-concurrency must be 1 to 200000")
	case o.Count < 0 || o.Rate < 0 || o.Records < 0 || o.Messages < 0 || o.MessageBytes < 0 || o.Rounds < 0:
		return nil, errors.New("numbers must not be negative")
	case o.Count == 0 && o.Duration <= 0:
		return nil, errors.New("-duration must be above 0")
	case o.Timeout <= 0:
		return nil, errors.New("-timeout must be above 0")
	}
	return o, nil
}

// Package bench is the load harness: scenarios, an SSE client fleet that checks every stream, and a report.
//
// It only uses HTTP and imports nothing of the server, so it can test any server with the same API. Scenarios with
// several nodes start the nodes themselves (package nodes), inject faults, and finally compare every log with a ledger
// of what was sent and answered. Latencies are HDR histograms. With -rate the load is open: each request has a
// scheduled start, from which its latency counts, so that a slow server cannot hide its queue (no coordinated
// omission). A gap, duplicate or reorder in any stream fails the run.
//
// If harness and server share the cores, the results include the cost of the harness.
package bench

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"parley/bench/standin"
)

// Exit codes of Main.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// Options are the settings of a run, as given by flags.
type Options struct {
	URLs         []string      // base URLs of the servers, without base path; requests spread over them
	Ops          []string      // base URLs of their ops listeners, for the servers' memory; empty = not measured
	BasePath     string        // base path of the conversation server; default /api/agents
	ClientPath   string        // base path of the Client API; default /api/client/v1
	Token        string        // bearer token; empty = none
	Agent        string        // agent of the scenario; default depends on it
	User         string        // userId to send if there is no token
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
	Settle       time.Duration // silence before memory is read (follow, idle, soak)
	Timeout      time.Duration // one request or stream
	RetryFor     time.Duration // how long a request that a node could not answer is repeated; 0 = never
	// AttemptTimeout is how long a node has to answer before the next one is tried.
	AttemptTimeout time.Duration
	Nodes          int    // nodes to start; 0 = use URLs
	Dir            string // directory for their data and logs; empty = a temporary one, removed after success
	Binary         string // their executable; empty = this one
	From           string // the executable to upgrade from (upgrade)
	Network        bool   // each in a network of its own that can be cut (chaos)
	NodeFlags      string // additional flags for them, separated by blanks
	Seed           uint64 // of everything random; 0 = chosen and printed
	Faults         int    // faults to make (chaos), owners to kill (failover)
	Followers      int    // followers of each conversation (failover, chaos), in all (rolling)
	StateBytes     int64  // state before the fourth node joins (join)
	LogLevel       string // of the nodes that it starts
	Scenario       string // which part (webhooks)
	MaxMemory      int64  // most resident bytes of a node -settle after the load (soak); 0 = not checked
	JSON           bool   // print JSON instead of a table
	Quiet          bool   // no live progress

	environ []string        // additional environment of started nodes
	cluster *cluster        // the nodes that were started
	standin *standin.Server // their model and tools, if the scenario needs them
	exposed bool            // agents of nodes that it starts can be called over A2A
	guarded bool            // its agent has a twin with a shield
}

// Disk measures the speed of the disk below dir. The command supplies it, since only the command may import storage.
type Disk func(ctx context.Context, dir string, writers int, duration time.Duration) (*DiskReport, error)

type scenario struct {
	name, help string
	agent      string
	run        func(context.Context, *Options, *progress) (*Report, error)
	defaults   map[string]string // of its flags, where they differ from the common ones
	world      world             // the environment of its nodes
}

// world is the environment of a scenario's nodes.
type world int

const (
	worldPlain    world = iota // the agents of bench.yaml
	worldPeople                // people, money and files: the agents of people.yaml, with a model and tools that record their calls
	worldClient                // callers of the Client API: the agents of bench.yaml, and an API token
	worldGuarded               // the agents of bench.yaml, and one of them once more, with a shield
	worldA2A                   // the same as worldClient, with agents that others may call over A2A
	worldAccounts              // the agents of bench.yaml, and accounts that may sign in as often as they like
	worldHooks                 // the same as worldClient, with what the part of webhooks asks for
)

func scenarios() []scenario {
	return []scenario{
		{"create", "create conversations", "bench-echo", runCreate, nil, worldPlain},
		{"turn", "send messages, not streamed, each its own durable turn", "bench-echo", runTurn, nil, worldPlain},
		{"read", "read conversations of -messages messages", "bench-echo", runRead, nil, worldPlain},
		{"list", "list 20 of one user's -records conversations", "bench-echo", runList, nil, worldPlain},
		{"stream", "send messages and stream the answers, -concurrency streams at once", "bench-stream", runStream, nil, worldPlain},
		{"follow", "follow event streams with -concurrency followers on -records conversations: idle, then live", "bench-echo", runFollow, nil, worldPlain},
		{"soak", "create, follow, send and forget ever new conversations: nothing may grow, and the memory comes back", "bench-echo", runSoak, map[string]string{
			"nodes": "1", "rate": "1500", "duration": "4m", "settle": "60s", "warm-up": "0s", "max-memory": "200000000",
		}, worldPlain},
		{"forward", "what a request costs more at a node that must forward it", "bench-echo", runForward, map[string]string{
			"nodes": "3", "concurrency": "1", "records": "48", "count": "3000",
		}, worldPlain},
		{"cancel", "cancel running turns at a node that does not own them", "bench-slow", runCancel, map[string]string{
			"nodes": "3", "concurrency": "1", "records": "32", "count": "400", "warm-up": "0s",
		}, worldPlain},
		{"idle", "processor and memory of nodes that have nothing to do", "bench-echo", runIdle, map[string]string{
			"nodes": "3", "settle": "15s", "duration": "30s",
		}, worldPlain},
		{"failover", "kill owners: time to the next accepted command and the next event of each of their conversations", "bench-echo", runFailover, map[string]string{
			"nodes": "3", "records": "64", "rate": "100", "faults": "10", "followers": "2",
		}, worldPlain},
		{"rolling", "restart all nodes one after another under load", "bench-brief", runRolling, map[string]string{
			"nodes": "3", "records": "400", "rate": "200", "followers": "1000", "warm-up": "10s",
		}, worldPlain},
		{"upgrade", "restart all nodes one after another from the release of -from into this one, back, and again, under load", "bench-brief", runUpgrade, map[string]string{
			"nodes": "3", "records": "60", "rate": "60", "followers": "60", "retry-for": "1m",
		}, worldClient},
		{"join", "a fourth node joins a loaded cluster with -state-bytes of state", "bench-echo", runJoin, map[string]string{
			"nodes": "3", "records": "256", "rate": "100", "warm-up": "10s", "timeout": "3m",
		}, worldPlain},
		{"chaos", "a load, while nodes are killed, frozen, cut off and restarted; then everything is checked", "bench-brief", runChaos, map[string]string{
			"nodes": "3", "records": "200", "rate": "100", "followers": "3", "duration": "1m", "log-level": "info", "retry-for": "1m",
		}, worldPlain},
		{"budget", "send to one conversation until its budget is reached, again and again, while owners are killed", "bench-priced", runBudget, map[string]string{
			"nodes": "3", "count": "1000", "concurrency": "4", "faults": "5",
		}, worldPeople},
		{"resolve", "resolve pending actions after kill -9 of all nodes, and of an owner", "bench-asks", runResolve, map[string]string{
			"nodes": "3", "records": "24", "faults": "5",
		}, worldPeople},
		{"long", "send one more message to a conversation of -messages messages, and to a new one", "bench-window", runLong, map[string]string{
			"nodes": "1", "messages": "10000", "count": "1000", "concurrency": "1",
		}, worldPeople},
		{"upload", "store a file of -state-bytes and read it back: the memory that takes", "bench-files", runUpload, map[string]string{
			"nodes": "1", "state-bytes": "104857600", "count": "5", "concurrency": "1", "timeout": "5m",
		}, worldPeople},
		{"gateway", "chat completions through the gateway, and of the same model directly, in turns", "", runGateway, map[string]string{
			"nodes": "1", "rate": "500", "duration": "30s", "message-bytes": "200",
		}, worldClient},
		{"responses", "POST /agents/responses, and what the conversation server takes for the same, in turns", "bench-echo", runResponses, map[string]string{
			"nodes": "1", "duration": "40s",
		}, worldClient},
		{"a2a", "message/send of A2A, and what the conversation server takes for the same, in turns", "bench-echo", runA2A, map[string]string{
			"nodes": "1", "duration": "40s",
		}, worldA2A},
		{"webhooks", "cost, latency, rate, dead, kills, burst (-scenario): what events cost, and how they come to their receivers", "bench-echo", runWebhooks, map[string]string{
			"duration": "30s", "settle": "10s",
		}, worldHooks},
		{"logins", "turns while -count people sign in at once, and the same turns before, in rounds", "bench-echo", runLogins, map[string]string{
			"nodes": "1", "concurrency": "32", "rate": "100", "count": "64", "duration": "10s",
		}, worldAccounts},
		{"sessions", "list -records sessions of a project in pages of 100", "bench-echo", runSessions, map[string]string{
			"nodes": "3", "records": "100000", "concurrency": "4", "rate": "150", "duration": "30s",
		}, worldClient},
		{"spans", "report spans of OpenTelemetry, -records in a report, each report a trace of its own", "", runSpans, map[string]string{
			"nodes": "1", "concurrency": "16", "duration": "20s",
		}, worldClient},
		{"guarded", "stream answers of an agent with a shield, and of the same one without, in rounds: -count answers of each stream in each of -rounds", "bench-stream", runGuarded, map[string]string{
			"nodes": "1", "rounds": "8", "count": "4", "ramp": "200ms",
		}, worldGuarded},
		{"spending", "-count calls of a model at once against a daily budget that does for a part of them, while a node is killed", "", runSpending, map[string]string{
			"nodes": "3", "count": "1000", "concurrency": "1000", "timeout": "90s", "attempt-timeout": "90s",
		}, worldClient},
		{"audio", "transcribe a recording of -state-bytes, as a form and as base64: the memory that takes", "", runAudio, map[string]string{
			"nodes": "1", "state-bytes": "100000000", "count": "5", "concurrency": "1", "timeout": "5m", "settle": "60s",
		}, worldClient},
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
	report, err := runScenario(ctx, chosen, options, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "parley bench %s: %v\n", chosen.name, err)
		return exitFailed
	}
	report.print(stdout, options.JSON)
	if report.failed() {
		return exitFailed
	}
	return exitOK
}

// runScenario runs a scenario, on nodes of its own if requested.
func runScenario(ctx context.Context, chosen scenario, o *Options, stderr io.Writer) (report *Report, err error) {
	live := newProgress(stderr, o.Quiet || o.JSON)
	defer live.done()
	if chosen.world == worldPeople {
		if o.standin, err = standin.Start(ctx, 0); err != nil {
			return nil, err
		}
		defer func() { _ = o.standin.Close() }() // its error does not matter
	}
	if chosen.world == worldAccounts {
		o.NodeFlags += loginFlags
	}
	o.exposed, o.guarded = chosen.world == worldA2A, chosen.world == worldGuarded
	if chosen.world == worldClient || chosen.world == worldHooks || o.exposed {
		if err = o.needToken(); err != nil {
			return nil, err
		}
	}
	if o.Nodes > 0 {
		if o.cluster, err = startCluster(ctx, o, live); err != nil {
			return nil, err
		}
		defer func() { //nolint:contextcheck // cleaning up must not end with the caller
			kept := o.cluster.stop(err != nil || report.failed())
			live.done()
			if kept != "" {
				fmt.Fprintf(stderr, "parley bench %s: data and logs of the nodes are in %s\n", chosen.name, kept)
			}
		}()
	}
	report, err = chosen.run(ctx, o, live)
	if err != nil {
		return nil, err
	}
	report.Scenario = chosen.name
	return report, nil
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "usage: parley bench SCENARIO [flags]")
	fmt.Fprintln(w)
	for _, s := range scenarios() {
		fmt.Fprintf(w, "  %-9s %s (agent %s)\n", s.name, s.help, s.agent)
	}
	fmt.Fprintf(w, "  %-9s %s\n", "disk", "the yardstick: raw synced batches of the storage engine, and raw fsync, on the same disk")
	fmt.Fprintln(w, "\nFlags of a scenario: parley bench SCENARIO -h. The agents are in bench/bench.yaml and bench/people.yaml.")
}

func parseOptions(s scenario, args []string, stderr io.Writer) (*Options, error) {
	o := &Options{}
	set := flag.NewFlagSet("parley bench "+s.name, flag.ContinueOnError)
	set.SetOutput(stderr)
	var urls, ops string
	set.StringVar(&urls, "url", "http://127.0.0.1:8080", "base URLs of the servers, separated by commas")
	set.StringVar(&o.BasePath, "base-path", "/api/agents", "base path of the conversation server")
	set.StringVar(&o.ClientPath, "client-path", "/api/client/v1", "base path of the Client API")
	set.StringVar(&o.Token, "token", cmp.Or(os.Getenv("PARLEY_BENCH_TOKEN"), os.Getenv("PARLEY_TOKEN")), "bearer token (or PARLEY_BENCH_TOKEN, or PARLEY_TOKEN)")
	set.StringVar(&ops, "ops-url", "", "base URLs of the ops listeners, separated by commas: report the servers' memory and CPU too")
	set.StringVar(&o.Agent, "agent", s.agent, "agent")
	set.StringVar(&o.User, "user", "bench", "userId, where the server has no authentication")
	set.IntVar(&o.Concurrency, "concurrency", 64, "callers, streams or followers at once")
	set.DurationVar(&o.Duration, "duration", 10*time.Second, "measured time, without -count")
	set.IntVar(&o.Count, "count", 0, "measured requests, instead of -duration")
	set.DurationVar(&o.WarmUp, "warm-up", 2*time.Second, "load before measuring")
	set.Float64Var(&o.Rate, "rate", 0, "requests per second offered (open loop); 0 = as fast as answers come")
	set.IntVar(&o.Records, "records", 0, "conversations to prepare; 0 = the scenario's own number")
	set.IntVar(&o.Messages, "messages", 20, "messages in each prepared conversation (read), in the long one (long)")
	set.IntVar(&o.MessageBytes, "message-bytes", 0, "length of each message sent (turn); 0 = one word")
	set.IntVar(&o.Rounds, "rounds", 0, "turns per stream, events sent to followers, rounds (logins, guarded); 0 = by -duration (stream), 5 (follow), 3 (logins)")
	set.DurationVar(&o.Ramp, "ramp", time.Second, "time over which streams or followers are opened")
	set.DurationVar(&o.Settle, "settle", 0, "silence before memory is read (follow, idle, soak, audio)")
	set.DurationVar(&o.Timeout, "timeout", 60*time.Second, "one request, or silence in one stream")
	set.DurationVar(&o.RetryFor, "retry-for", 0, "how long a request that a node could not answer (503, connection lost) is repeated at the next; 0 = 10s with several nodes, else never")
	set.DurationVar(&o.AttemptTimeout, "attempt-timeout", 0, "time for one node to answer; 0 = 5s with several nodes, else -timeout")
	set.IntVar(&o.Nodes, "nodes", 0, "nodes to start for this run, instead of -url")
	set.StringVar(&o.Dir, "dir", "", "folder for data and logs of those nodes; default one that goes when all is well")
	set.StringVar(&o.Binary, "binary", "", "program of those nodes; default this one")
	set.StringVar(&o.From, "from", "", "program that the nodes are upgraded from (upgrade)")
	set.StringVar(&o.NodeFlags, "node-flags", "", "more flags of those nodes, separated by blanks")
	set.StringVar(&o.LogLevel, "log-level", "warn", "log level of those nodes")
	set.BoolVar(&o.Network, "network", false, "give each of those nodes a network of its own, so that partitions are possible (chaos; takes root)")
	set.Uint64Var(&o.Seed, "seed", 0, "seed of everything random (chaos, budget, spending); 0 = drawn and printed")
	set.IntVar(&o.Faults, "faults", 0, "faults to make (chaos; 0 = one in 8 s), owners to kill (failover, budget), rounds (resolve)")
	set.IntVar(&o.Followers, "followers", 0, "event streams: of each conversation (failover, chaos), in all (rolling)")
	set.Int64Var(&o.StateBytes, "state-bytes", 1<<30, "state to write before a node joins (join); size of the file (upload, audio)")
	set.Int64Var(&o.MaxMemory, "max-memory", 0, "bytes that may be resident in a node -settle after the load (soak); 0 = not asked")
	set.StringVar(&o.Scenario, "scenario", "", "which part (webhooks): cost, latency, rate, dead, kills or burst")
	set.BoolVar(&o.JSON, "json", false, "print JSON")
	set.BoolVar(&o.Quiet, "quiet", false, "no live progress")
	for name, value := range s.defaults {
		set.Lookup(name).DefValue = value
		if err := set.Set(name, value); err != nil {
			return nil, fmt.Errorf("default of -%s: %w", name, err)
		}
	}
	given := map[string]bool{}
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		given[name] = strings.HasPrefix(arg, "-")
	}
	if given["url"] && !given["nodes"] {
		o.Nodes = 0
	}
	if err := o.hookOptions(s, given["nodes"] || given["url"]); err != nil {
		return nil, err
	}
	o.URLs = strings.Split(urls, ",")
	if ops != "" {
		o.Ops = strings.Split(ops, ",")
	}
	several := len(o.URLs) > 1 || o.Nodes > 1
	if o.RetryFor == 0 && several {
		o.RetryFor = 10 * time.Second
	}
	if o.AttemptTimeout == 0 {
		o.AttemptTimeout = o.Timeout
		if several {
			o.AttemptTimeout = min(o.Timeout, 5*time.Second)
		}
	}
	o.BasePath, o.ClientPath = strings.TrimSuffix(o.BasePath, "/"), strings.TrimSuffix(o.ClientPath, "/")
	switch {
	case set.NArg() > 0:
		return nil, fmt.Errorf("unexpected %q", set.Arg(0))
	case o.Concurrency < 1 || o.Concurrency > 200_000:
		return nil, errors.New("-concurrency must be 1 to 200000")
	case o.Nodes < 0 || o.Nodes > 16:
		return nil, errors.New("-nodes must be 0 to 16")
	case o.Faults < 0 || o.Followers < 0 || o.StateBytes < 0 || o.MaxMemory < 0 || o.RetryFor < 0 || o.AttemptTimeout < 0:
		return nil, errors.New("numbers must not be negative")
	case o.Count < 0 || o.Rate < 0 || o.Records < 0 || o.Messages < 0 || o.MessageBytes < 0 || o.Rounds < 0:
		return nil, errors.New("numbers must not be negative")
	case o.Count == 0 && o.Duration <= 0:
		return nil, errors.New("-duration must be above 0")
	case o.Timeout <= 0:
		return nil, errors.New("-timeout must be above 0")
	}
	return o, nil
}

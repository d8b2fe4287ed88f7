package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"parley/cmd/parley/config"
	"parley/cmd/parley/node"
)

// operator calls the operations API of a running node.
type operator struct {
	base   string
	client *http.Client
}

// operatorFlags adds the flag with the address of the node to call.
func operatorFlags(flags *flag.FlagSet) *operator {
	o := &operator{client: &http.Client{}}
	base := os.Getenv("PARLEY_OPS")
	if base == "" {
		base = "http://127.0.0.1:8081"
	}
	flags.StringVar(&o.base, "ops", base, "`URL` of the operations listener of any node; also PARLEY_OPS")
	return o
}

// maxAnswer bounds an answer that is not a stream.
const maxAnswer = 64 << 20

// call makes a request and returns the body of the answer, which the caller closes. A failure becomes an error with the node's
// message.
func (o *operator) call(ctx context.Context, method, path string) (io.ReadCloser, error) {
	return o.callWith(ctx, method, path, http.NoBody)
}

func (o *operator) callWith(ctx context.Context, method, path string, body io.Reader) (io.ReadCloser, error) {
	base := o.base
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(base, "/")+path, body)
	if err != nil {
		return nil, fmt.Errorf("--ops: %w", err)
	}
	response, err := o.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("no node answers: %w", err)
	}
	if response.StatusCode < 300 {
		return response.Body, nil
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10)) // show as much as could be read
	_ = response.Body.Close()
	return nil, fmt.Errorf("the node answers %s: %s", response.Status, strings.TrimSpace(string(text)))
}

// errUsage is the error of an invalid command line.
var errUsage = errors.New("usage")

// operands are a command's arguments that are not flags.
type operands struct {
	named       string
	least, most int
}

// parse reads a command's flags, which may come before or after its operands. When it returns errUsage it has printed the reason.
func parse(flags *flag.FlagSet, args []string, s surroundings, takes operands) ([]string, error) {
	flags.SetOutput(io.Discard) // a failure is printed here, with what was probably meant
	usage := func(w io.Writer) {
		fmt.Fprintf(w, "Usage: parley %s [flags] %s\n\n", flags.Name(), takes.named)
		printFlags(flags, w)
	}
	var given []string
	for rest := args; ; given, rest = append(given, flags.Arg(0)), flags.Args()[1:] {
		if err := flags.Parse(rest); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				usage(s.stdout)
				return nil, err
			}
			fmt.Fprintf(s.stderr, "parley %s: %v\n", flags.Name(), config.FlagError(flags, err))
			usage(s.stderr)
			return nil, errUsage
		}
		if flags.NArg() == 0 {
			break
		}
	}
	if n := len(given); n < takes.least || n > takes.most {
		fmt.Fprintf(s.stderr, "parley %s takes %s, not %q\n", flags.Name(), cmp.Or(takes.named, "flags only"), given)
		usage(s.stderr)
		return nil, errUsage
	}
	return given, nil
}

// printFlags lists flags as they are written everywhere: with two dashes.
func printFlags(flags *flag.FlagSet, w io.Writer) {
	flags.VisitAll(func(f *flag.Flag) {
		takes, what := flag.UnquoteUsage(f)
		if takes != "" {
			takes = " " + takes
		}
		if f.DefValue != "" && f.DefValue != "false" {
			what += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(w, "  --%s%s\n      %s\n", f.Name, takes, what)
	})
}

// ended turns a command's error into its exit code.
func ended(s surroundings, err error) int {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.Is(err, errUsage):
		return exitUsage
	}
	return finish(s, err)
}

// status prints the cluster as a node sees it.
func status(ctx context.Context, args []string, s surroundings) int {
	flags := flag.NewFlagSet("status", flag.ContinueOnError)
	to := operatorFlags(flags)
	asJSON := flags.Bool("json", false, "print JSON")
	if _, err := parse(flags, args, s, operands{}); err != nil {
		return ended(s, err)
	}
	return ended(s, showStatus(ctx, to, *asJSON, s.stdout))
}

// statusTimeout bounds a request for the status, stepsTimeout the second request to the node that runs the placement loop.
const (
	statusTimeout = 15 * time.Second
	stepsTimeout  = 2 * time.Second
)

func (o *operator) status(ctx context.Context) (*node.Status, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	body, err := o.call(ctx, http.MethodGet, "/v1/status")
	if err != nil {
		return nil, nil, err
	}
	defer body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(body, maxAnswer))
	if err != nil {
		return nil, nil, fmt.Errorf("read status: %w", err)
	}
	found := &node.Status{}
	if err := json.Unmarshal(text, found); err != nil {
		return nil, nil, fmt.Errorf("decode status: %w", err)
	}
	return found, text, nil
}

func showStatus(ctx context.Context, from *operator, asJSON bool, w io.Writer) error {
	found, text, err := from.status(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		_, err = fmt.Fprintf(w, "%s\n", strings.TrimSpace(string(text)))
		return err
	}
	if found.Placer != found.Node {
		found.Steps = append(found.Steps, from.stepsOf(ctx, found.Placer, found.Nodes)...)
		slices.SortStableFunc(found.Steps, func(a, b node.StepStatus) int { return a.At.Compare(b.At) })
	}
	return writeStatus(w, found)
}

// stepsOf asks the node that runs the placement loop for its last steps, which only that node knows; none if it cannot be reached.
func (o *operator) stepsOf(ctx context.Context, placer string, members []node.Member) []node.StepStatus {
	at := slices.IndexFunc(members, func(m node.Member) bool { return m.Name == placer && m.Ops != "" })
	if at < 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stepsTimeout)
	defer cancel()
	found, _, err := (&operator{base: members[at].Ops, client: o.client}).status(ctx)
	if err != nil {
		return nil
	}
	return found.Steps
}

func writeStatus(w io.Writer, c *node.Status) error {
	fmt.Fprintf(w, "cluster %s as %s sees it (ready: %s, feature level %d)\n\n", c.Cluster, c.Node, c.Ready, c.Level)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tSTATE\tLEADS\tREPLICAS\tHTTP\tOPS\tDISK FREE\tHEARD\tFEATURE LEVEL")
	for i := range c.Nodes {
		n := &c.Nodes[i]
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\t%s\t%.1f GiB\t%.1f s ago\t%d\n",
			n.Name, n.State, n.Leads, n.Replicas, dash(n.HTTP), dash(n.Ops), float64(n.DiskFree)/(1<<30), n.Heard, n.Level)
	}
	fmt.Fprintln(table, "\t\t\t\t\t\t\t\t")
	fmt.Fprintln(table, "SHARD\tOWNER\tEPOCH\tVOTERS\tLEARNERS\tSIZE\tBEHIND\t")
	for i := range c.Shards {
		sh := &c.Shards[i]
		var behind uint64
		for _, lag := range sh.Lags {
			behind = max(behind, lag.Entries)
		}
		fmt.Fprintf(table, "%d\t%s\t%d\t%s\t%s\t%.1f MiB\t%d\t\n", sh.Shard, dash(sh.Owner), sh.Epoch,
			dash(strings.Join(sh.Voters, ",")), dash(strings.Join(sh.Learners, ",")), float64(sh.Bytes)/(1<<20), behind)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(c.Steps) > 0 {
		fmt.Fprintln(w, "\nlast steps of the placement loop:")
	}
	for _, step := range c.Steps {
		fmt.Fprintf(w, "  %s  %s", step.At.Local().Format(time.TimeOnly), step.Step)
		if step.Error != "" {
			fmt.Fprintf(w, "  (%s)", step.Error)
		}
		fmt.Fprintln(w)
	}
	return nil
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// nodeCommand drains or resumes one node of a cluster.
func nodeCommand(ctx context.Context, args []string, s surroundings) int {
	flags := flag.NewFlagSet("node", flag.ContinueOnError)
	to := operatorFlags(flags)
	wait := flags.Duration("wait", 10*time.Minute, "how long to wait until a drained node holds nothing; 0 = only ask for it")
	verb := ""
	if len(args) > 0 {
		verb = args[0]
	}
	if verb != "drain" && verb != "activate" {
		out, code := s.stderr, exitUsage
		if asksHelp(verb) {
			out, code = s.stdout, exitOK
		} else if verb != "" {
			fmt.Fprintf(out, "parley node: no %q%s\n", verb, config.DidYouMean(verb, []string{"drain", "activate"}))
		}
		fmt.Fprint(out, "Usage: parley node drain [flags] NAME     hand over all shards of a node, for good\n"+
			"       parley node activate [flags] NAME  take a drained node into use again\n\n")
		printFlags(flags, out)
		return code
	}
	names, err := parse(flags, args[1:], s, operands{"NAME", 1, 1})
	if err != nil {
		return ended(s, err)
	}
	return ended(s, to.setNode(ctx, verb, names[0], s.stdout, *wait))
}

func (o *operator) setNode(ctx context.Context, verb, name string, w io.Writer, wait time.Duration) error {
	method := http.MethodPost
	if verb == "activate" {
		method = http.MethodDelete
	}
	body, err := o.call(ctx, method, "/v1/nodes/"+url.PathEscape(name)+"/drain")
	if err != nil {
		return err
	}
	_ = body.Close()
	if verb != "drain" || wait == 0 {
		_, err = fmt.Fprintf(w, "%s: %s\n", name, verb)
		return err
	}
	return o.watchDrain(ctx, name, wait, w)
}

// watchDrain prints the progress of a drain until it is complete.
func (o *operator) watchDrain(ctx context.Context, name string, wait time.Duration, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	last := ""
	for {
		found, _, err := o.status(ctx)
		if err != nil {
			return err
		}
		line := ""
		for i := range found.Nodes {
			if n := &found.Nodes[i]; n.Name == name {
				line = fmt.Sprintf("%s: %s, leads %d shards, holds %d replicas", name, n.State, n.Leads, n.Replicas)
				if n.Replicas == 0 && n.Leads == 0 {
					_, err = fmt.Fprintf(w, "%s\n%s holds nothing any more and can be stopped\n", line, name)
					return err
				}
			}
		}
		if line != last {
			fmt.Fprintln(w, line)
			last = line
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s still holds replicas: is there another node that can take them? It goes on in the background: %w", name, ctx.Err())
		case <-ticker.C:
		}
	}
}

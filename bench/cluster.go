package bench

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"parley/bench/nodes"
)

// agents is the configuration of nodes that the harness starts.
//
//go:embed bench.yaml
var agents []byte

// cluster is the nodes that the harness has started.
type cluster struct {
	*nodes.Fleet
	dir  string
	temp bool // dir is the harness's own
}

// settleWithin is how long a cluster may take until all shards have all copies and owners are spread.
const settleWithin = 90 * time.Second

// startCluster starts the nodes of a run, waits until they have settled, and points the options at them.
func startCluster(ctx context.Context, o *Options, live *progress) (*cluster, error) {
	live.phase("starting nodes")
	binary := o.Binary
	if binary == "" {
		var err error
		if binary, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		if strings.HasSuffix(binary, ".test") {
			return nil, errors.New("a test's own program is no server: -binary is needed")
		}
	}
	c := &cluster{dir: o.Dir, temp: o.Dir == ""}
	var err error
	if c.temp {
		c.dir, err = os.MkdirTemp("", "parley-bench-")
	} else {
		c.dir, err = filepath.Abs(c.dir)
		err = errors.Join(err, os.MkdirAll(c.dir, 0o755))
	}
	if err != nil {
		return nil, fmt.Errorf("folder of the nodes: %w", err)
	}
	settings := filepath.Join(c.dir, "bench.yaml")
	text := agents
	switch {
	case o.standin != nil:
		text = peopleSettings(o.standin)
	case o.exposed: // a release that does not know the setting would not start, and is measured as well
		text = bytes.Replace(text, []byte("id: bench-echo\n"), []byte("id: bench-echo\n    exposed: true\n"), 1)
	case o.guarded: // the same
		text = withTwin(text, o.Agent)
	}
	if err = os.WriteFile(settings, text, 0o644); err != nil {
		return nil, fmt.Errorf("settings of the nodes: %w", err)
	}
	flags := []string{"--config", settings, "--log-level", o.LogLevel, "--http-max-connections", "30000", "--limits-streams-per-caller", "0"}
	c.Fleet, err = nodes.New(ctx, nodes.Config{
		Binary: binary, Dir: c.dir, Count: o.Nodes, Network: o.Network, Alone: o.Nodes == 1 && !o.Network,
		Flags: append(flags, strings.Fields(o.NodeFlags)...), Environ: o.environ, ReadyWithin: time.Minute,
	})
	if err != nil {
		return nil, err
	}
	for _, n := range c.Nodes() {
		n.Binary = o.From
	}
	if err = c.Start(ctx); err == nil {
		err = c.settle(ctx, settleWithin)
	}
	if err == nil { // else what is measured begins with what the release before can do
		_, err = c.levelled(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop()) //nolint:contextcheck // cleaning up must not end with the caller
	}
	o.URLs, o.Ops = c.URLs(), nil
	for _, n := range c.Nodes() {
		o.Ops = append(o.Ops, n.OpsURL())
	}
	return c, nil
}

// stop ends the nodes and returns the folder that was kept, if any.
func (c *cluster) stop(keep bool) string {
	if err := c.Stop(); err != nil {
		return c.dir
	}
	if c.temp && !keep {
		_ = os.RemoveAll(c.dir) // leftovers in a temporary directory do no harm
		return ""
	}
	return c.dir
}

// settle waits until every shard has an owner and all copies, and owners are spread over the running nodes.
func (c *cluster) settle(ctx context.Context, within time.Duration) error {
	return c.await(ctx, within, (*status).unsettled)
}

// replicate waits until every shard has an owner and all copies on the running nodes.
func (c *cluster) replicate(ctx context.Context, within time.Duration) error {
	return c.await(ctx, within, (*status).unreplicated)
}

func (c *cluster) await(ctx context.Context, within time.Duration, lacks func(s *status, alive []string) string) error {
	if len(c.Nodes()) == 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	missing := "nothing is known"
	for {
		for _, status := range c.look(ctx) {
			if missing = lacks(status, c.running()); missing == "" {
				return nil
			}
		}
		if !sleepUntil(ctx, time.Now().Add(100*time.Millisecond)) {
			return fmt.Errorf("the cluster does not settle within %v: %s", within, missing)
		}
	}
}

// levels are the feature level of the cluster, the lowest that a node tells, and the newest that all nodes have.
type levels struct{ cluster, newest uint32 }

func (c *cluster) levels(ctx context.Context) (levels, error) {
	found := levels{^uint32(0), ^uint32(0)}
	asked := 0
	for _, s := range c.look(ctx) {
		found.cluster, found.newest = min(found.cluster, s.Level), min(found.newest, s.newestLevel())
		asked++
	}
	if asked != len(c.Nodes()) {
		return found, fmt.Errorf("only %d nodes tell their feature level", asked)
	}
	return found, nil
}

// levelled waits until the feature level is the newest that all nodes have.
func (c *cluster) levelled(ctx context.Context) (level uint32, err error) {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	for {
		at, err := c.levels(ctx)
		if err != nil || at.cluster == at.newest {
			return at.cluster, err
		}
		if !sleepUntil(ctx, time.Now().Add(50*time.Millisecond)) {
			return 0, fmt.Errorf("the feature level stays %d, all nodes have %d", at.cluster, at.newest)
		}
	}
}

// look gets the status of the cluster from the running nodes, one after another, and skips those that do not answer.
func (c *cluster) look(ctx context.Context) iter.Seq2[*nodes.Node, *status] {
	return func(yield func(*nodes.Node, *status) bool) {
		for _, n := range c.Nodes() {
			if !n.Running() || n.Paused() {
				continue
			}
			if found, err := fetchStatus(ctx, n.OpsURL()); err == nil && !yield(n, found) {
				return
			}
		}
	}
}

// running returns the names of the running nodes.
func (c *cluster) running() []string {
	var names []string
	for _, n := range c.Nodes() {
		if n.Running() && !n.Paused() {
			names = append(names, n.Name)
		}
	}
	return names
}

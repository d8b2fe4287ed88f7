// Package nodes runs a fleet of server nodes as real processes on this machine, and injects faults: nodes are killed,
// frozen, stopped, restarted, lose their disk, or are partitioned.
//
// Each fleet has its own loopback addresses (127.x.y.N), so that fleets do not collide. With Config.Network each node
// has a network namespace of its own, connected by a bridge, and can be cut off from others in one direction or both;
// that needs root. A fleet removes what it created, and what killed fleets left behind.
//
// Of a node it knows the flags, /readyz of its operations address, and its process id. It does not check the nodes'
// responses.
package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Ports of every node, at its own address. They are below the kernel's ephemeral ports.
const (
	portHTTP    = 21080
	portOps     = 21081
	portCluster = 21090 // and the two after it
)

// maxNodes is the largest fleet; the last octet of the address distinguishes nodes.
const maxNodes = 64

// Config configures a fleet.
type Config struct {
	// Binary is the server's executable; it is run as `Binary serve FLAGS`.
	Binary string
	// Dir holds data, logs and certificates of the nodes. It must exist, and is kept when the fleet stops.
	Dir string
	// Count is how many nodes there are, n1 to nCount.
	Count int
	// Flags are additional flags of every node.
	Flags []string
	// Environ is added to this process's environment for every node.
	Environ []string
	// Alone omits the cluster flags: every node is a cluster of its own.
	Alone bool
	// Network gives each node a network of its own that can be cut; see Permitted.
	Network bool
	// ReadyWithin is how long a node may take from its start until it is ready. Default 30 s.
	ReadyWithin time.Duration
}

// Fleet is a set of nodes. Its methods are for one goroutine; those of its nodes may be called from any.
type Fleet struct {
	config  Config
	subnet  [3]byte
	network *network // nil without Config.Network
	nodes   []*Node
	doubles []*Node
}

// New prepares a fleet; no node runs yet. Stop it also when nothing was started.
func New(ctx context.Context, config Config) (*Fleet, error) {
	if config.Count < 1 || config.Count > maxNodes {
		return nil, fmt.Errorf("%d nodes: 1 to %d are possible", config.Count, maxNodes)
	}
	if config.ReadyWithin <= 0 {
		config.ReadyWithin = 30 * time.Second
	}
	f := &Fleet{config: config}
	var err error
	if config.Network {
		if f.network, err = newNetwork(ctx); err != nil {
			return nil, err
		}
		f.subnet = f.network.subnet
	} else if f.subnet, err = freeLoopback(ctx); err != nil {
		return nil, err
	}
	for range config.Count {
		if _, err := f.Add(ctx); err != nil {
			return nil, errors.Join(err, f.Stop()) //nolint:contextcheck // cleaning up must not end with the caller
		}
	}
	if f.network != nil && !config.Alone {
		if err := f.certify(ctx); err != nil {
			return nil, errors.Join(err, f.Stop()) //nolint:contextcheck // the same
		}
	}
	return f, nil
}

// freeLoopback returns a random loopback prefix without listeners.
func freeLoopback(ctx context.Context) ([3]byte, error) {
	const attempts = 20
	var err error
	for range attempts {
		subnet := [3]byte{127, byte(1 + rand.IntN(254)), byte(rand.IntN(256))}
		var listener net.Listener
		listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address(subnet, 1, portHTTP))
		if err == nil {
			return subnet, listener.Close()
		}
	}
	return [3]byte{}, fmt.Errorf("no free loopback address: %w", err)
}

func address(subnet [3]byte, number, port int) string {
	return fmt.Sprintf("%d.%d.%d.%d:%d", subnet[0], subnet[1], subnet[2], number, port)
}

// Add prepares one more node, which joins the others when it is started.
func (f *Fleet) Add(ctx context.Context) (*Node, error) {
	n, err := f.prepare(ctx, "")
	if err == nil {
		f.nodes = append(f.nodes, n)
	}
	return n, err
}

// Double prepares a second node with the name of another, with its own addresses and directory. It is not in Nodes;
// Stop ends it, too.
func (f *Fleet) Double(ctx context.Context, of *Node) (*Node, error) {
	n, err := f.prepare(ctx, of.Name)
	if err == nil {
		f.doubles = append(f.doubles, n)
	}
	return n, err
}

// prepare creates a node in the next free place, from which it gets its name if it has none.
func (f *Fleet) prepare(ctx context.Context, name string) (*Node, error) {
	number := len(f.nodes) + len(f.doubles) + 1
	place := "n" + strconv.Itoa(number)
	n := &Node{
		Name:    cmp.Or(name, place),
		Listen:  address(f.subnet, number, portHTTP),
		Ops:     address(f.subnet, number, portOps),
		Cluster: address(f.subnet, number, portCluster),
		Dir:     filepath.Join(f.config.Dir, place),
		fleet:   f,
	}
	n.Log = n.Dir + ".log"
	if f.network != nil {
		if err := f.network.add(ctx, n, place); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// certify has the server create certificates for the nodes, which it requires for addresses other than loopback.
func (f *Fleet) certify(ctx context.Context) error {
	args := append([]string{"certs", "-dir", f.certificates()}, f.possibleNames()...)
	command := exec.CommandContext(ctx, f.config.Binary, args...)
	command.Env = append(os.Environ(), f.config.Environ...)
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("parley %s: %w: %s", strings.Join(args, " "), err, text)
	}
	return nil
}

// spareNodes is for how many additional nodes a fleet has certificates.
const spareNodes = 4

func (f *Fleet) possibleNames() []string {
	var names []string
	for i := range f.config.Count + spareNodes {
		names = append(names, "n"+strconv.Itoa(i+1))
	}
	return names
}

func (f *Fleet) certificates() string { return filepath.Join(f.config.Dir, "certs") }

// flags returns the flags of a node.
func (f *Fleet) flags(n *Node) []string {
	flags := []string{"--node-name", n.Name, "--data-dir", n.Dir, "--listen", n.Listen, "--ops-listen", n.Ops}
	if !f.config.Alone {
		flags = append(flags, "--cluster-listen", n.Cluster, "--join", f.seeds())
	}
	if f.network != nil {
		flags = append(flags, "--auth-allow-insecure=true")
	}
	if f.network != nil && !f.config.Alone {
		certificates := f.certificates()
		flags = append(
			flags,
			"--cluster-tls-cert", filepath.Join(certificates, n.Name+".pem"),
			"--cluster-tls-key", filepath.Join(certificates, n.Name+"-key.pem"),
			"--cluster-tls-ca", filepath.Join(certificates, "ca.pem"),
			"--cluster-gossip-key-file", filepath.Join(certificates, "gossip.key"),
		)
	}
	return append(flags, f.config.Flags...)
}

// seeds returns the list of seed nodes: the initial nodes of the fleet.
func (f *Fleet) seeds() string {
	var addresses []string
	for i := range f.config.Count {
		addresses = append(addresses, address(f.subnet, i+1, portCluster))
	}
	return strings.Join(addresses, ",")
}

// Nodes returns all nodes in the order of their numbers, whether they run or not.
func (f *Fleet) Nodes() []*Node { return f.nodes }

// Node returns the node with a name, or nil.
func (f *Fleet) Node(name string) *Node {
	for _, n := range f.nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// URLs returns the base URLs of all nodes.
func (f *Fleet) URLs() []string {
	var urls []string
	for _, n := range f.nodes {
		urls = append(urls, n.URL())
	}
	return urls
}

// Start starts all nodes that are not running, in parallel, and waits until all are ready.
func (f *Fleet) Start(ctx context.Context) error {
	for _, n := range f.nodes {
		if n.Running() {
			continue
		}
		if err := n.Launch(); err != nil { //nolint:contextcheck // a process outlives the call that starts it
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, n := range f.nodes {
		group.Go(func() error { return n.AwaitReady(ctx) })
	}
	return group.Wait()
}

// Cut drops the packets from one node to another, not those in the other direction. Nothing is refused or reset.
func (f *Fleet) Cut(ctx context.Context, from, to *Node) error {
	if f.network == nil {
		return errors.New("nodes without networks of their own cannot be cut off")
	}
	return f.network.cut(ctx, from, to)
}

// Isolate cuts a node off from all others, in both directions. Clients still reach it.
func (f *Fleet) Isolate(ctx context.Context, n *Node) error {
	for _, other := range f.nodes {
		if other == n {
			continue
		}
		if err := errors.Join(f.Cut(ctx, n, other), f.Cut(ctx, other, n)); err != nil {
			return err
		}
	}
	return nil
}

// Heal undoes all cuts.
func (f *Fleet) Heal(ctx context.Context) error {
	if f.network == nil {
		return nil
	}
	return f.network.heal(ctx)
}

// Stop kills all nodes and removes the networks. It is safe to call twice. Data and logs stay.
func (f *Fleet) Stop() error {
	var failed error
	for _, n := range slices.Concat(f.nodes, f.doubles) {
		failed = errors.Join(failed, n.Kill())
	}
	if f.network != nil {
		failed = errors.Join(failed, f.network.remove())
		f.network = nil
	}
	return failed
}

// Logs returns the last lines of every node's log, for an error report.
func (f *Fleet) Logs(lines int) string {
	var b strings.Builder
	for _, n := range slices.Concat(f.nodes, f.doubles) {
		text, err := os.ReadFile(n.Log)
		if err != nil {
			continue // never started
		}
		all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
		fmt.Fprintf(&b, "--- %s (%s)\n%s\n", n.Name, n.Log, strings.Join(all[max(0, len(all)-lines):], "\n"))
	}
	return b.String()
}

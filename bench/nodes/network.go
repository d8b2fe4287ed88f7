package nodes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
)

// network is a bridge with a namespace for each node. All names contain this process's id, so that leftovers of a
// killed harness can be recognised, and letters that tell its networks apart.
type network struct {
	prefix     string // of bridge, links and namespaces
	subnet     [3]byte
	namespaces []string
	cuts       []way
}

// way is a node's route to another node's address.
type way struct{ namespace, address string }

// prefixAll begins every name; names of links have at most 15 characters.
const prefixAll = "ply"

// nowhere is an unused hardware address: frames to it are accepted by the bridge and dropped. Unlike a rejecting route
// it gives the sender no error, like a broken cable.
const nowhere = "02:00:00:00:de:ad"

// Permitted returns why this process cannot create networks for nodes, or nil.
func Permitted(ctx context.Context) error {
	if _, err := exec.LookPath("ip"); err != nil {
		return fmt.Errorf("partitions between nodes need the program ip (package iproute2): %w", err)
	}
	name := newPrefix()
	if err := ip(ctx, "netns", "add", name); err != nil {
		return fmt.Errorf("partitions between nodes need the right to make network namespaces (root): %w", err)
	}
	return errors.Join(ip(ctx, "netns", "exec", name, "true"), ip(ctx, "netns", "del", name))
}

func newNetwork(ctx context.Context) (*network, error) {
	if err := Permitted(ctx); err != nil {
		return nil, err
	}
	removeLeftovers(ctx)
	n := &network{prefix: newPrefix()}
	const attempts = 10
	for attempt := 1; ; attempt++ {
		n.subnet = [3]byte{10, byte(200 + rand.IntN(50)), byte(rand.IntN(256))}
		err := n.bridge(ctx)
		if err == nil {
			return n, nil
		}
		err = errors.Join(err, n.remove()) //nolint:contextcheck // cleaning up must not end with the caller
		if attempt == attempts {
			return nil, fmt.Errorf("make a bridge: %w", err)
		}
	}
}

// made counts the networks of this process.
var made atomic.Uint32 //nolint:gochecknoglobals // names of networks are of the process, as its id is

// newPrefix names a network of this process: no other one that it still has is named so.
func newPrefix() string {
	const letters = 26
	n := made.Add(1)
	return prefixAll + strconv.Itoa(os.Getpid()) + string([]rune{'a' + rune(n/letters%letters), 'a' + rune(n%letters)})
}

func (n *network) bridge(ctx context.Context) error {
	own := fmt.Sprintf("%d.%d.%d.254/24", n.subnet[0], n.subnet[1], n.subnet[2])
	taken, err := exec.CommandContext(ctx, "ip", "-o", "addr", "show", "to", own).Output()
	if err != nil {
		return fmt.Errorf("ask for %s: %w", own, err)
	}
	if len(taken) > 0 {
		return fmt.Errorf("%s is taken", own)
	}
	return ipAll(
		ctx,
		[]string{"link", "add", n.prefix, "type", "bridge", "forward_delay", "0", "stp_state", "0"},
		[]string{"addr", "add", own, "dev", n.prefix},
		[]string{"link", "set", n.prefix, "up"},
	)
}

// add creates the namespace of a node, named after its place in the fleet.
func (n *network) add(ctx context.Context, node *Node, place string) error {
	namespace := n.prefix + place
	if err := ip(ctx, "netns", "add", namespace); err != nil {
		return err
	}
	n.namespaces = append(n.namespaces, namespace)
	node.namespace = namespace
	err := ipAll(
		ctx,
		[]string{"link", "add", namespace, "type", "veth", "peer", "name", "eth0", "netns", namespace},
		[]string{"link", "set", namespace, "master", n.prefix, "up"},
		[]string{"-n", namespace, "addr", "add", node.host() + "/24", "dev", "eth0"},
		[]string{"-n", namespace, "link", "set", "eth0", "up"},
		[]string{"-n", namespace, "link", "set", "lo", "up"},
	)
	if err != nil {
		return fmt.Errorf("network of %s: %w", node.Name, err)
	}
	return nil
}

func (n *Node) host() string {
	host, _, _ := strings.Cut(n.Listen, ":")
	return host
}

func (n *network) cut(ctx context.Context, from, to *Node) error {
	if err := ip(ctx, "-n", from.namespace, "neigh", "replace", to.host(), "lladdr", nowhere, "dev", "eth0", "nud", "permanent"); err != nil {
		return err
	}
	n.cuts = append(n.cuts, way{from.namespace, to.host()})
	return nil
}

func (n *network) heal(ctx context.Context) error {
	var failed error
	seen := map[way]bool{}
	for _, c := range n.cuts {
		if seen[c] {
			continue
		}
		seen[c] = true
		failed = errors.Join(failed, ip(ctx, "-n", c.namespace, "neigh", "del", c.address, "dev", "eth0"))
	}
	n.cuts = nil
	return failed
}

// remove removes everything that was created, even after the fleet's context has ended.
func (n *network) remove() error {
	ctx := context.Background()
	var failed error
	for _, namespace := range n.namespaces {
		// Links end with the namespace that holds their other end, but not at once.
		failed = errors.Join(failed, ipUnless(ctx, "Cannot find device", "link", "del", namespace), ip(ctx, "netns", "del", namespace))
	}
	n.namespaces, n.cuts = nil, nil
	return errors.Join(failed, ipUnless(ctx, "Cannot find device", "link", "del", n.prefix))
}

// removeLeftovers removes what dead harnesses left behind, as far as possible.
func removeLeftovers(ctx context.Context) {
	spaces, err := exec.CommandContext(ctx, "ip", "netns", "list").Output()
	if err == nil {
		for line := range strings.Lines(string(spaces)) {
			if name, _, _ := strings.Cut(strings.TrimSpace(line), " "); leftover(name) {
				_ = ip(ctx, "netns", "del", name)
			}
		}
	}
	links, err := exec.CommandContext(ctx, "ip", "-o", "-br", "link", "show", "type", "bridge").Output()
	if err == nil {
		for line := range strings.Lines(string(links)) {
			if name, _, _ := strings.Cut(strings.TrimSpace(line), " "); leftover(name) {
				_ = ip(ctx, "link", "del", name)
			}
		}
	}
}

// leftover reports whether a name belongs to a harness that is no longer running.
func leftover(name string) bool {
	rest, ours := strings.CutPrefix(name, prefixAll)
	if !ours {
		return false
	}
	if end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		rest = rest[:end]
	}
	pid, err := strconv.Atoi(rest)
	if err != nil || pid == os.Getpid() {
		return false
	}
	_, err = os.Stat("/proc/" + strconv.Itoa(pid))
	return errors.Is(err, os.ErrNotExist)
}

func ipAll(ctx context.Context, commands ...[]string) error {
	for _, args := range commands {
		if err := ip(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

func ip(ctx context.Context, args ...string) error { return ipUnless(ctx, "", args...) }

// ipUnless runs the program ip, ignoring an error that contains the given text.
func ipUnless(ctx context.Context, fine string, args ...string) error {
	text, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput()
	if err == nil || fine != "" && strings.Contains(string(text), fine) {
		return nil
	}
	return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(text)))
}

package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/prometheus/client_golang/prometheus"
)

// Member is a node as gossip sees it.
type Member struct {
	Name    string
	Node    uint64 // identity of its data directory
	Boot    string // names the start of its process
	Cluster string
	// Addresses, host:port.
	PeerAddr, ActorAddr, HTTPAddr, OpsAddr string
	// Leaving means that it stops or is being drained: give it nothing new.
	Leaving bool
	// Version is the newest format of messages between nodes that it supports.
	Version uint32
	// Level is the newest feature level that its release has; 0 is a release that says nothing of levels.
	Level uint32
}

// Config configures a Membership. Bind, and Self with Name, Boot and Cluster, are required.
type Config struct {
	Self Member
	// Bind is the address (host:port, the host may be empty) for UDP and TCP.
	Bind string
	// Advertise is the address that others use; empty means Bind.
	Advertise string
	// Seeds are the addresses at which other nodes are looked for; this node's own may be among them.
	Seeds []string
	// Key encrypts the gossip: 16, 24 or 32 bytes; empty = not encrypted.
	Key []byte
	// Transport replaces the network, for tests; nil = the real one.
	Transport memberlist.Transport
	// OnChange is called after Members or Known have changed.
	OnChange func()
	// Refuse returns why a node of this cluster is not accepted as a member, nil = it is. It must not block. Nil accepts all.
	Refuse func(Member) error
	// OnConflict is called, at most once, when another live process has this node's name and keeps it: this process must
	// end. After that, Stop leaves silently, since an announcement would be taken to be about the other process.
	OnConflict func(error)
	// Named returns the node (Member.Node) that the cluster has on record under this node's name; 0 = none, or no node
	// answers. Of two live processes with the name, that one keeps it. Nil = there are no records.
	Named func(ctx context.Context) uint64
	// Probe is the interval at which one other member is probed. A dead member is detected after about four intervals. A
	// shorter interval detects it sooner and mistakes more slow nodes for dead ones. Default 500 ms.
	Probe time.Duration
	// Rejoin is the interval at which missing nodes are looked for. Default 5 s.
	Rejoin     time.Duration
	Logger     *slog.Logger          // nil = silent
	Registerer prometheus.Registerer // nil = no metrics
}

func (c *Config) setDefaults() {
	if c.Advertise == "" {
		c.Advertise = c.Bind
	}
	if c.Probe == 0 {
		c.Probe = 500 * time.Millisecond
	}
	if c.Rejoin == 0 {
		c.Rejoin = 5 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.OnChange == nil {
		c.OnChange = func() {}
	}
	if c.Refuse == nil {
		c.Refuse = func(Member) error { return nil }
	}
	if c.OnConflict == nil {
		c.OnConflict = func(error) {}
	}
	if c.Named == nil {
		c.Named = func(context.Context) uint64 { return 0 }
	}
}

func (c *Config) validate() error {
	switch {
	case c.Self.Name == "" || c.Self.Boot == "" || c.Self.Cluster == "":
		return errors.New("membership: Self.Name, Self.Boot and Self.Cluster are required")
	case c.Probe < 0 || c.Rejoin < 0:
		return errors.New("membership: Probe and Rejoin must not be negative")
	}
	switch len(c.Key) {
	case 0, 16, 24, 32:
	default:
		return fmt.Errorf("membership: a gossip key has 16, 24 or 32 bytes, not %d", len(c.Key))
	}
	return nil
}

// gossip makes the settings of memberlist. With the default times a dead node is gone
// after 2 to 3 s.
func (c *Config) gossip(ctx context.Context) (*memberlist.Config, error) {
	g := memberlist.DefaultLANConfig()
	g.Name = c.Self.Name
	g.Label = c.Self.Cluster
	g.SecretKey = c.Key
	g.Transport = c.Transport
	var err error
	if g.BindAddr, g.BindPort, err = address(ctx, c.Bind); err != nil {
		return nil, fmt.Errorf("membership: bind address: %w", err)
	}
	if g.AdvertiseAddr, g.AdvertisePort, err = address(ctx, c.Advertise); err != nil {
		return nil, fmt.Errorf("membership: advertised address: %w", err)
	}
	g.ProbeInterval = c.Probe
	g.ProbeTimeout = c.Probe * 2 / 5
	g.SuspicionMult = 3
	g.SuspicionMaxTimeoutMult = 2
	g.GossipInterval = 100 * time.Millisecond
	g.PushPullInterval = 10 * time.Second
	g.TCPTimeout = 2 * time.Second
	// A node that died may come back at another address as soon as it is known to be dead.
	g.DeadNodeReclaimTime = time.Millisecond
	return g, nil
}

// address splits host:port; the gossip wants the host as an IP.
func address(ctx context.Context, text string) (string, int, error) {
	host, portText, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, err //nolint:wrapcheck // it names the address, the caller says whose it is
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("port %q: %w", portText, err)
	}
	if host == "" {
		host = "0.0.0.0"
	}
	if net.ParseIP(host) == nil {
		found, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			return "", 0, fmt.Errorf("look up %q: %w", host, err)
		}
		host = found[0]
	}
	return host, int(port), nil
}

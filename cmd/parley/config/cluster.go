package config

import (
	"encoding/base64"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Cluster configures the connection to other nodes. Without cluster.listen the node is alone.
type Cluster struct {
	// Address (host:port) at which other nodes reach this one; empty for a node that stays alone. Three ports are used:
	// this one for membership (TCP and UDP), the next for the log, the one after it for forwarded requests. Anything but
	// loopback needs the certificates and the gossip key below.
	Listen string `key:"listen"`
	// Host at which other nodes reach this one, if it is not the one it listens on (0.0.0.0, or behind address
	// translation).
	Advertise string `key:"advertise"`
	// File of this node's certificate (PEM), valid for clients and servers. `parley certs` makes one for development.
	TLSCert string `key:"tls_cert"`
	// File of the certificate's private key.
	TLSKey string `key:"tls_key"`
	// File of the authority that signed the certificates of all nodes. No others are accepted.
	TLSCA string `key:"tls_ca"`
	// Key that encrypts membership messages: 16, 24 or 32 bytes in base64, the same on all nodes.
	GossipKey Secret `key:"gossip_key"`
	// File that holds the gossip key.
	GossipKeyFile string `key:"gossip_key_file"`
	// Copies of every shard: 1, 3, 5 or 7. With fewer nodes there are fewer copies, always an odd number.
	Replication int `key:"replication" default:"3"`
	// How long a node may be away before its copies are replaced on another node, if there is one without a copy.
	// Longer avoids copying after long restarts, shorter restores the lost copy sooner.
	ReplaceAfter time.Duration `key:"replace_after" default:"5m" range:"1s..720h"`
	// Time without a message from the owner of a shard after which another node takes over; it may take up to twice as
	// long. Shorter fails over sooner, and mistakes slow disks and networks for dead nodes.
	ElectionTimeout time.Duration `key:"election_timeout" default:"500ms" range:"100ms..1m"`
	// How long a request waits in all for its shard's owner to respond, before it gets 503.
	OwnerWait time.Duration `key:"owner_wait" default:"2s" range:"0s..1m"`
	// How long running turns may go on during a planned hand-over of their shard, before the next owner repeats their
	// unfinished step; new messages wait meanwhile.
	HandoverWait time.Duration `key:"handover_wait" default:"500ms" range:"0s..10m"`
	// Keeps the release before startable: as long as any node has this set, nothing is written that the release before does
	// not understand. Set it on all nodes, also on a node that is alone, before an upgrade that you may want to take back,
	// and remove it to finish the upgrade. Without it the upgrade is finished once all nodes have the new release.
	PreserveDowngrade bool `key:"preserve_downgrade"`
}

// Enabled reports whether the node is part of a cluster.
func (c *Cluster) Enabled() bool { return c.Listen != "" }

// Secured reports whether nodes authenticate each other.
func (c *Cluster) Secured() bool { return c.TLSCert != "" }

// Ports of the cluster address, counted from its own.
const (
	PeerPort  = 1
	ActorPort = 2
)

// Beside returns the address offset ports above the given one.
func Beside(address string, offset int) (string, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("address %q: %w", address, err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", fmt.Errorf("address %q: %w", address, err)
	}
	return net.JoinHostPort(host, strconv.FormatUint(port+uint64(offset), 10)), nil
}

// AdvertisedAddress is where other nodes reach this one.
func (c *Cluster) AdvertisedAddress() string {
	if c.Advertise == "" {
		return c.Listen
	}
	_, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return c.Listen
	}
	return net.JoinHostPort(c.Advertise, port)
}

func (c *Config) checkCluster(k *checker) {
	l := &c.Cluster
	if !l.Enabled() {
		if len(c.Join) > 0 {
			k.failf("join", "needs cluster.listen")
		}
		return
	}
	checkClusterAddress(k, "cluster.listen", l.Listen)
	for i, address := range c.Join {
		checkClusterAddress(k, fmt.Sprintf("join[%d]", i), address)
	}
	if !slices.Contains([]int{1, 3, 5, 7}, l.Replication) {
		k.failf("cluster.replication", "%d is not 1, 3, 5 or 7", l.Replication)
	}
	c.checkClusterSecurity(k)
}

func (c *Config) checkClusterSecurity(k *checker) {
	l := &c.Cluster
	files := []string{l.TLSCert, l.TLSKey, l.TLSCA}
	if l.Secured() && slices.Contains(files, "") || !l.Secured() && l.TLSKey+l.TLSCA != "" {
		k.failf("cluster.tls_cert", "tls_cert, tls_key and tls_ca are needed together")
	}
	if l.GossipKey != "" && l.GossipKeyFile != "" {
		k.failf("cluster.gossip_key_file", "set it or gossip_key, not both")
	}
	if l.GossipKey != "" {
		if _, err := DecodeGossipKey(l.GossipKey.Reveal()); err != nil {
			k.failf("cluster.gossip_key", "%w", err)
		}
	}
	addresses := append([]string{l.Listen, l.AdvertisedAddress()}, c.Join...)
	open := slices.ContainsFunc(addresses, func(address string) bool {
		host, _, err := net.SplitHostPort(address)
		return err == nil && !isLoopback(host)
	})
	if open && (!l.Secured() || l.GossipKey == "" && l.GossipKeyFile == "") {
		k.failf("cluster.listen", "nodes that are not all on loopback need cluster.tls_cert, tls_key, tls_ca and a gossip key (parley certs makes them for development)")
	}
}

func checkClusterAddress(k *checker, key, address string) {
	host, text, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		k.failf(key, "%q is not host:port", address)
		return
	}
	if port, err := strconv.ParseUint(text, 10, 16); err != nil || port == 0 || port > 65535-ActorPort {
		k.failf(key, "%q is not a port number from 1 to %d", text, 65535-ActorPort)
	}
}

// DecodeGossipKey decodes a gossip key.
func DecodeGossipKey(text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || !slices.Contains([]int{16, 24, 32}, len(key)) {
		return nil, fmt.Errorf("is not 16, 24 or 32 bytes in base64")
	}
	return key, nil
}

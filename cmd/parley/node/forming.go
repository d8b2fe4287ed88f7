package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/cluster/peer"
	"parley/cmd/parley/config"
	"parley/persistence"
	"parley/proto/nodepb"
)

// origin says how this node's store begins.
type origin struct {
	cluster string
	node    uint64
	shards  int
	join    bool // a new store holds nothing until the cluster gives it something
}

// How long a founder waits for a node that does not answer, in case it has a cluster; how long a pass over the nodes to
// join may take, and the pause between two; how often it is said that nobody was found.
const (
	foundWait  = 3 * time.Second
	greetWait  = 1500 * time.Millisecond
	greetPause = 100 * time.Millisecond
	greetTell  = 5 * time.Second
)

// beginnings finds out which cluster this node belongs to: its data directory's, else one that a node to be joined has,
// else a new one if this node is the one that founds.
func (n *Node) beginnings(ctx context.Context) (origin, error) {
	known, found, err := persistence.PeekIdentity(n.config.DataDir)
	if err != nil {
		return origin{}, err
	}
	if found {
		return origin{cluster: known.ClusterID, node: known.NodeID, shards: known.Shards}, nil
	}
	o := origin{node: persistence.NewNodeID(), shards: n.config.Storage.Shards}
	others, founds := n.others()
	if len(others) == 0 && !founds {
		return origin{}, errors.New("join names no other node, and this one is not the first of it")
	}
	started, told := time.Now(), time.Now()
	for {
		met, silent := n.greet(ctx, others, o.node)
		switch {
		case met != nil:
			n.log.Info("joining", slog.String("cluster", met.GetClusterId()), slog.String("through", met.GetName()))
			return origin{cluster: met.GetClusterId(), node: o.node, shards: int(met.GetShards()), join: true}, nil
		case founds && (silent == nil || time.Since(started) > foundWait):
			o.cluster = rand.Text()
			n.log.Info("founding a cluster", slog.String("cluster", o.cluster))
			return o, nil
		case !founds && time.Since(told) > greetTell:
			told = time.Now()
			n.log.Warn("waiting for a cluster to join", slog.Any("join", others), slog.Any("err", silent))
		}
		timer := time.NewTimer(greetPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return origin{}, fmt.Errorf("wait for a cluster to join: %w", ctx.Err())
		case <-timer.C:
		}
	}
}

// others are the nodes to join without this one, and whether this one founds when there is no cluster.
func (n *Node) others() (others []string, founds bool) {
	self := n.config.Cluster.AdvertisedAddress()
	for _, address := range n.config.Join {
		if address != self {
			others = append(others, address)
		}
	}
	return others, len(n.config.Join) == 0 || n.config.Join[0] == self
}

// greet asks each node for its cluster. silent is why the last one without an answer gave none.
func (n *Node) greet(ctx context.Context, addresses []string, node uint64) (met *nodepb.Hello, silent error) {
	ctx, cancel := context.WithTimeout(ctx, greetWait)
	defer cancel()
	hello := n.hello(origin{node: node})
	for _, address := range addresses {
		at, err := config.Beside(address, config.PeerPort)
		if err != nil {
			silent = err
			continue
		}
		answer, err := peer.Greet(ctx, n.dial, n.clientTLS, at, proto.CloneOf(hello))
		switch {
		case err != nil:
			silent = fmt.Errorf("%s: %w", address, err)
		case answer.GetClusterId() != "":
			return answer, silent
		}
	}
	return nil, silent
}

func (n *Node) hello(o origin) *nodepb.Hello {
	return &nodepb.Hello{
		ClusterId: o.cluster, Name: n.config.Node.Name, Node: o.node, Shards: uint32(o.shards), DiskFormat: persistence.DirFormat,
	}
}

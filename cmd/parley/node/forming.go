package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/feature"
	"parley/cluster/peer"
	"parley/cmd/parley/config"
	"parley/persistence"
	"parley/proto/nodepb"
)

// origin is the identity with which this node opens its store.
type origin struct {
	cluster string
	node    uint64
	shards  int
	join    bool // a new store stays empty until the cluster places replicas on it
}

const (
	// foundWait is how long a founder waits for nodes that do not answer: they may already be a cluster.
	foundWait = 3 * time.Second
	// greetWait bounds one round of greetings to the nodes of join, greetPause is the pause between two rounds.
	greetWait  = 1500 * time.Millisecond
	greetPause = 100 * time.Millisecond
	// greetTell is how often a node that has found no cluster logs that.
	greetTell = 5 * time.Second
	// kinWait is how long a node with data waits for the cluster ids of the other nodes: as long as a greeting may take, since
	// they may be busy.
	kinWait = 3 * time.Second
)

// beginnings determines the cluster of this node: that of its data directory, else that of a node named in join, else a new one
// if this node is the founder.
func (n *Node) beginnings(ctx context.Context) (origin, error) {
	known, found, err := persistence.PeekIdentity(n.config.DataDir)
	if err != nil {
		return origin{}, err
	}
	if found {
		o := origin{cluster: known.ClusterID, node: known.NodeID, shards: known.Shards}
		return o, n.checkKin(ctx, o)
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
		case met != nil && met.GetClusterLevel() > uint32(feature.Newest):
			return origin{}, tooNew(met.GetClusterLevel(), "cluster "+met.GetClusterId())
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

// others returns the nodes of join without this one, and whether this node founds the cluster if there is none.
func (n *Node) others() (others []string, founds bool) {
	self := n.config.Cluster.AdvertisedAddress()
	for _, address := range n.config.Join {
		if address != self {
			others = append(others, address)
		}
	}
	return others, len(n.config.Join) == 0 || n.config.Join[0] == self
}

// greet asks each node for its cluster. silent is the error of the last node that did not answer.
func (n *Node) greet(ctx context.Context, addresses []string, node uint64) (met *nodepb.Hello, silent error) {
	ctx, cancel := context.WithTimeout(ctx, greetWait)
	defer cancel()
	hello := n.hello(origin{node: node})
	for _, address := range addresses {
		answer, err := n.greetOne(ctx, address, hello)
		switch {
		case err != nil:
			silent = fmt.Errorf("%s: %w", address, err)
		case answer.GetClusterId() != "":
			return answer, silent
		}
	}
	return nil, silent
}

func (n *Node) greetOne(ctx context.Context, address string, hello *nodepb.Hello) (*nodepb.Hello, error) {
	at, err := config.Beside(address, config.PeerPort)
	if err != nil {
		return nil, err
	}
	return peer.Greet(ctx, n.network.dial, n.network.clientTLS, at, proto.CloneOf(hello))
}

// checkKin refuses a data directory whose cluster differs from that of most nodes of join: this node would serve its data in
// parallel to them. One node of the same cluster is enough to start. Nodes that do not answer are not counted, since a whole
// cluster may be restarting; if its founder lost its disk and founded another cluster, the others must still start.
func (n *Node) checkKin(ctx context.Context, o origin) error {
	others, _ := n.others()
	hello := n.hello(origin{node: o.node})
	heard := make(chan *nodepb.Hello, len(others))
	var asked sync.WaitGroup
	defer asked.Wait()
	ctx, cancel := context.WithTimeout(ctx, kinWait)
	defer cancel()
	for _, address := range others {
		asked.Go(func() {
			answer, err := n.greetOne(ctx, address, hello)
			if err != nil && ctx.Err() == nil {
				n.log.Debug("no greeting", slog.String("address", address), slog.Any("err", err))
			}
			heard <- answer
		})
	}
	strangers := make([]string, 0, len(others))
	for range others {
		answer := <-heard
		switch of := answer.GetClusterId(); of {
		case "":
		case o.cluster:
			if level := answer.GetClusterLevel(); level > uint32(feature.Newest) {
				return tooNew(level, "cluster "+of)
			}
			return nil
		default:
			strangers = append(strangers, fmt.Sprintf("%s belongs to cluster %s", answer.GetName(), of))
		}
	}
	if 2*len(strangers) <= len(others) {
		return nil
	}
	slices.Sort(strangers)
	return fmt.Errorf("%s, the data directory %s to cluster %s", strings.Join(strangers, ", "), n.config.DataDir, o.cluster)
}

func (n *Node) hello(o origin) *nodepb.Hello {
	return &nodepb.Hello{
		ClusterId: o.cluster, Name: n.config.Node.Name, Node: o.node, Shards: uint32(o.shards), DiskFormat: persistence.DirFormat,
		Level: uint32(feature.Newest), ClusterLevel: uint32(n.features.Level()),
	}
}

package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/feature"
	"parley/cluster"
	"parley/cluster/membership"
	"parley/persistence"
	"parley/proto/nodepb"
)

// The record of the cluster's feature level, in the directory.
const (
	featuresCollection = "features"
	featuresKey        = "cluster"
)

// levelEvery is how often a node checks whether the feature level can rise, until it is the newest of its release.
const levelEvery = 250 * time.Millisecond

// levelTimeout bounds one attempt to raise the level.
const levelTimeout = 5 * time.Second

// errTooNew means that the data or the cluster uses features that this release lacks.
var errTooNew = errors.New("start a newer release")

func tooNew(level uint32, what string) error {
	return fmt.Errorf("this release has feature level %d, %s is at level %d: %w", feature.Newest, what, level, errTooNew)
}

// tooNewHere is tooNew for this node's own data.
func tooNewHere(level uint32, what string) error {
	return fmt.Errorf("%w, or restore a backup from before the upgrade into an empty directory", tooNew(level, what))
}

func levelGauge(gate *feature.Gate) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "parley_cluster_feature_level", Help: "Feature level of the cluster, as this node knows it.",
	}, func() float64 { return float64(gate.Level()) })
}

// checkLevel refuses a data directory that uses features which this release lacks, before anything is changed in it.
func (n *Node) checkLevel(context.Context) error {
	known, found, err := persistence.PeekIdentity(n.config.DataDir)
	if err != nil || !found {
		return nil //nolint:nilerr // opening the directory reports what is wrong with it
	}
	if known.Level > uint32(feature.Newest) {
		return tooNewHere(known.Level, n.config.DataDir)
	}
	n.features.Raise(feature.Level(known.Level))
	return nil
}

// acceptedLevel is the highest feature level that this node accepts.
func (n *Node) acceptedLevel() uint32 {
	if n.config.Cluster.PreserveDowngrade {
		return uint32(n.features.Level())
	}
	return uint32(feature.Newest)
}

// refuseMember keeps nodes whose release is too old for the cluster out of the gossip.
func (n *Node) refuseMember(m membership.Member) error {
	if level := n.features.Level(); m.Level < uint32(level) {
		return fmt.Errorf("its release has feature level %d, the cluster is at level %d", m.Level, level)
	}
	return nil
}

// startLevel makes this node follow the cluster's feature level. A single node raises its own before it serves.
func (n *Node) startLevel(ctx context.Context) error {
	if n.links == nil {
		return n.raiseAlone(ctx)
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	n.later(func(context.Context) { end(); <-done })
	go func() {
		defer close(done)
		n.followLevel(life)
	}()
	return nil
}

// raiseAlone marks the data directory before the level is recorded: no crash leaves a record that an older release comes upon only
// once it has opened the directory.
func (n *Node) raiseAlone(ctx context.Context) error {
	if err := n.adoptLevel(); err != nil {
		return err
	}
	level := n.acceptedLevel()
	if err := n.store.RaiseLevel(level); err != nil {
		return err
	}
	if err := n.raiseLevel(ctx, level); err != nil {
		return err
	}
	return n.adoptLevel()
}

// followLevel adopts the cluster's feature level whenever it rises. The owner of the directory raises it as soon as all nodes
// accept that.
func (n *Node) followLevel(ctx context.Context) {
	changed, stop := n.store.Directory().Watch(featuresCollection)
	defer stop()
	ticker := time.NewTicker(levelEvery)
	defer ticker.Stop()
	for {
		err := n.adoptLevel()
		switch {
		case errors.Is(err, errTooNew):
			n.fail(err)
			return
		case err == nil && n.ownsDirectory():
			board := n.links.board.Snapshot()
			err = n.raiseLevel(ctx, commonLevel(&board, n.shards.Count()+1))
		}
		if err != nil && ctx.Err() == nil {
			n.log.Warn("the feature level is not raised yet", slog.Any("err", err))
		}
		again := ticker.C
		if n.features.On(feature.Newest) {
			again = nil // nothing is left to raise
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-again:
		}
	}
}

// adoptLevel switches this node to the recorded level. The data directory is marked first, so that a release that is too old does
// not open it.
func (n *Node) adoptLevel() error {
	record, _, err := n.levelRecord()
	if err != nil {
		return err
	}
	level := feature.Level(record.GetLevel())
	if level < n.features.Level() {
		return nil
	}
	if level > feature.Newest {
		return tooNew(record.GetLevel(), "the cluster")
	}
	if err := n.store.RaiseLevel(record.GetLevel()); err != nil || level == n.features.Level() {
		return err
	}
	n.features.Raise(level)
	if n.links != nil {
		n.links.peers.SetIdentity(n.hello(n.links.origin))
	}
	n.log.Info("feature level of the cluster", slog.Uint64("level", uint64(level)))
	return nil
}

// levelRecord returns the record of the cluster's feature level and its version; 0 = there is none.
func (n *Node) levelRecord() (record *nodepb.FeatureLevel, version uint64, err error) {
	record = &nodepb.FeatureLevel{}
	stored, found := n.store.Directory().Get(featuresCollection, featuresKey)
	if !found {
		return record, 0, nil
	}
	if err := proto.Unmarshal(stored.Value, record); err != nil {
		return nil, 0, fmt.Errorf("record of the feature level: %w", err)
	}
	return record, stored.Version, nil
}

// raiseLevel records a level if it is higher than the recorded one. Only the owner of the directory can.
func (n *Node) raiseLevel(ctx context.Context, level uint32) error {
	record, version, err := n.levelRecord()
	if err != nil || level <= record.GetLevel() {
		return err
	}
	record.Level = level
	value, err := proto.Marshal(record)
	if err != nil {
		return fmt.Errorf("record of the feature level: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, levelTimeout)
	defer cancel()
	if _, err = n.store.Directory().Put(ctx, featuresCollection, featuresKey, version, value); err != nil {
		return fmt.Errorf("raise the feature level: %w", err)
	}
	return nil
}

// commonLevel is the level that every node accepts, the live ones and those that are away but members of a shard. The release
// with which the latter come back is unknown, so they count as the lowest level.
func commonLevel(board *cluster.View, shards int) uint32 {
	accepted := make(map[uint64]uint32) // by node
	lowest := uint32(feature.Newest)
	for i := range board.Nodes {
		if v := &board.Nodes[i]; !v.Gone {
			accepted[v.Node] = v.Report.GetLevel() // without a report it is 0
			lowest = min(lowest, v.Report.GetLevel())
		}
	}
	led := make(map[uint32]bool, shards)
	for i := range board.Nodes {
		for _, r := range board.Nodes[i].Report.GetReplicas() {
			if board.Nodes[i].Gone || !r.GetLeading() {
				continue
			}
			led[r.GetShard()] = true
			for _, members := range [][]uint64{r.GetVoters(), r.GetLearners()} {
				for _, node := range members {
					lowest = min(lowest, accepted[node])
				}
			}
		}
	}
	if len(led) < shards {
		return uint32(feature.Base)
	}
	return lowest
}
